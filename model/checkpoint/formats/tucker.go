package formats

import (
	"slices"
	"strings"

	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// tucker is the format of ibalazevic/TuckER. The authors' code saves nothing itself; a user saves the
// state dictionary of the model under a name that contains "tucker":
//
//	*tucker*.pt                       torch file: the state dictionary
//	entities.dict, relations.dict     lines id<TAB>label
//
// The inverse of a relation is the relation whose label ends in _reverse.
var tucker = &Format{
	Name: "tucker", Tool: "TuckER (ibalazevic/TuckER)", Protocol: "rotate",
	Files:        "*tucker*.pt, {entities,relations}.dict",
	Is:           func(dir string) bool { return authorsFile(dir, "tucker", ".pt") != "" },
	vocabularies: []vocabularyFiles{dictFiles},
	open:         func(f *Folder) error { return f.openState(authorsFile(f.Path, "tucker", ".pt")) },
	convert: func(f *Folder) (*Converted, error) {
		entity, relation, err := f.tables("E.weight", "R.weight")
		if err != nil {
			return nil, err
		}
		core, err := f.tensor("W")
		if err != nil {
			return nil, err
		}
		if relation.rows() != f.Relations.Len() {
			return nil, f.wrongRows(relation, f.Relations.Len(), "relation", "")
		}
		rows, err := f.pairReversed()
		if err != nil {
			return nil, err
		}
		c, err := f.tuckER(entity, relation.pick(rows), interleaved, core, "bn0", "bn1")
		if err == nil {
			c.Notes = append(c.Notes,
				"TuckER's code applies a sigmoid to scores; mquine ranks and prints them without it")
		}
		return c, err
	},
}

// authorsFile returns the name of the only file in dir that has the given ending and contains the
// model's name. Otherwise, and in a folder with the vocabularies of LibKGE, it returns "".
func authorsFile(dir, name, ending string) string {
	names := slices.DeleteFunc(endingIn(dir, ending), func(file string) bool {
		return !strings.Contains(strings.ToLower(file), name)
	})
	if len(names) != 1 || exists(dir, delFiles.entities) {
		return ""
	}
	return names[0]
}

// openState opens a torch file that holds a state dictionary.
func (f *Folder) openState(file string) error {
	if err := f.openTorch(file, nil); err != nil {
		return err
	}
	state, _ := f.value.(*pickle.Dict)
	return f.addState(file, state)
}
