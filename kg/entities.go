package kg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// ReadList reads distinct labels of v, one in each line, and returns their identifiers. kind is
// "entity" or "relation". The file may be compressed (.gz, .zst). An error names the file and the
// line. If v lacks a label, the error says that owner, such as "the checkpoint", has no such label.
func ReadList(ctx context.Context, path, owner, kind string, v *Vocabulary) (ids []int32, err error) {
	seen := map[int32]int{} // the line of each label
	err = newOpening().readFile(ctx, path, func(l *lines) error {
		for {
			line, err := l.record()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			id, err := v.Find(owner, kind, string(line))
			if err != nil {
				return l.errorf("%w", err)
			}
			if first := seen[id]; first > 0 {
				return l.errorf("%s %.200q is also on line %d: list it once", kind, line, first)
			}
			seen[id] = l.n
			ids = append(ids, id)
		}
	})
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%s is empty: write one %s in each line", path, kind)
	}
	return ids, err
}

// ReadCandidates reads the candidates of queries. Each line lists the candidates of one query, as
// labels of v separated by tabs. Labels may repeat, but line i must not list answers[i], the target
// of query i. For each query, the result holds a list of identifiers in ascending order. The file
// may be compressed (.gz, .zst). An error names the file and the line. If v lacks a label, the
// error says that owner has no such label.
func ReadCandidates(ctx context.Context, path, owner string, v *Vocabulary, answers []int32) ([][]int32, error) {
	lists := make([][]int32, 0, len(answers))
	err := newOpening().readFile(ctx, path, func(l *lines) error {
		for {
			line, err := l.next()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			switch {
			case len(lists) == len(answers):
				return l.errorf("there are only %s to rank: write one line for each, in the order of the split",
					text.Plural(len(answers), "triple"))
			case len(line) == 0:
				return l.errorf("no candidates: list at least one")
			}
			list := make([]int32, 0, 1+bytes.Count(line, []byte{'\t'}))
			for label := range bytes.SplitSeq(line, []byte{'\t'}) {
				id, ok := v.lookup(label)
				if !ok {
					_, err := v.Find(owner, "entity", string(label))
					return l.errorf("%w", err)
				}
				if id == answers[len(lists)] {
					return l.errorf("%.200q is the true answer to this query: list only its competitors", label)
				}
				list = append(list, id)
			}
			slices.Sort(list)
			lists = append(lists, list)
		}
	})
	if err == nil && len(lists) < len(answers) {
		err = fmt.Errorf("%s has %s, but there are %s to rank: write one line for each, in the order of the split",
			path, text.Plural(len(lists), "line"), text.Plural(len(answers), "triple"))
	}
	if err != nil {
		return nil, err
	}
	return lists, nil
}

// Find returns the identifier of a label. If v lacks the label, the error says that owner does not
// contain it, and suggests similar labels. kind is "entity" or "relation".
func (v *Vocabulary) Find(owner, kind, label string) (int32, error) {
	const suggestions = 3
	if id, ok := v.ID(label); ok {
		return id, nil
	}
	err := fmt.Errorf("%s has no %s %.200q", owner, kind, label)
	if similar := text.Similar(label, v.Labels(), suggestions); len(similar) > 0 {
		err = fmt.Errorf("%w; did you mean %s", err, strings.Join(similar, ", "))
	}
	return 0, err
}

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
	err := newOpening().readFile(ctx, path, func(l *lines) error {
		for {
			line, err := l.record()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			fields := strings.Split(string(line), "\t")
			if len(fields) < 2 || len(fields) > 3 {
				return l.errorf("%s: write an entity and its type, separated by a tab",
					text.Plural(len(fields), "field"))
			}
			if fields[0] == "" || fields[1] == "" {
				return l.errorf("empty field: write an entity and its type, separated by a tab")
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
		}
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
// repeat. A type without entities is an error.
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
	message := fmt.Sprintf("%s has no type %q", t.path, name)
	if similar := text.Similar(name, all, 3); len(similar) > 0 {
		message += "; did you mean " + strings.Join(similar, ", ")
	}
	return errors.New(message)
}
