package kg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// Types holds the types of entities. An entity may have several.
type Types struct {
	path    string
	members map[string][]int32 // by type
	named   map[string]string  // by readable name: the type, or "" if several types share the name
	skipped int
}

// ReadTypes reads the types of the entities of v. Each line is an entity and its type, separated by
// a tab, and optionally a readable name of the type. An entity has a line for each of its types.
// ReadTypes skips entities that v lacks, because a file of types often covers more than a graph.
// The file may be compressed (.gz, .zst). An error names the file and the line.
func ReadTypes(ctx context.Context, path string, v *Vocabulary) (*Types, error) {
	types := &Types{path: path, members: map[string][]int32{}, named: map[string]string{}}
	skipped := map[string]bool{}
	err := ReadRecords(ctx, path, func(_ int, line string) error {
		fields := strings.Split(line, "\t")
		if len(fields) < 2 || len(fields) > 3 {
			return fmt.Errorf("%s: write an entity and its type, separated by a tab", text.Plural(len(fields), "field"))
		}
		if fields[0] == "" || fields[1] == "" {
			return errors.New("empty field: write an entity and its type, separated by a tab")
		}
		kind := fields[1]
		if len(fields) == 3 && fields[2] != "" {
			types.name(kind, fields[2])
		}
		members := types.members[kind]
		if e, ok := v.ID(fields[0]); ok {
			members = append(members, e)
		} else {
			skipped[fields[0]] = true
		}
		types.members[kind] = members
		return nil
	})
	if err == nil && len(types.members) == 0 {
		err = fmt.Errorf("%s is empty: write an entity and its type in each line, separated by a tab", path)
	}
	types.skipped = len(skipped)
	return types, err
}

// Skipped returns the number of entities that ReadTypes skipped.
func (t *Types) Skipped() int { return t.skipped }

// name adds the readable name of a type.
func (t *Types) name(kind, readable string) {
	if other, ok := t.named[readable]; ok && other != kind {
		kind = ""
	}
	t.named[readable] = kind
}

// Members returns the entities of a type, given its identifier or its readable name. Entities may
// repeat. A type without entities is an error. The list belongs to t; do not modify it.
func (t *Types) Members(name string) ([]int32, error) {
	members, ok := t.members[name]
	if !ok {
		id, named := t.named[name]
		if named && id == "" {
			return nil, fmt.Errorf("%s has several types with the name %q: give the identifier of one", t.path, name)
		}
		if members, ok = t.members[id]; !ok {
			return nil, t.unknown(name)
		}
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("no entity of the checkpoint has type %q in %s: choose another type", name, t.path)
	}
	return members, nil
}

// unknown returns an error that suggests similar types.
func (t *Types) unknown(name string) error {
	var all []string
	for kind := range t.members {
		all = append(all, kind)
	}
	for readable := range t.named {
		all = append(all, readable)
	}
	slices.Sort(all)
	all = slices.Compact(all) // an identifier may also be a readable name
	advice := text.Suggestion(name, all)
	if advice == "" {
		const few = 10
		advice = ": choose one of the types in the file"
		if kinds := slices.Sorted(maps.Keys(t.members)); len(kinds) <= few {
			advice = ": choose from " + text.Join(kinds, "and")
		}
	}
	return fmt.Errorf("%s has no type %q%s", t.path, name, advice)
}
