package formats

import (
	"os"
	"path/filepath"

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
	Is:           func(path string) bool { return isAuthors(path, "tucker", ".pt") },
	Ending:       ".pt",
	part:         "tucker",
	vocabularies: []vocabularyFiles{dictFiles},
	open:         (*Folder).openState,
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

// isAuthors reports whether a folder has a file that has the given ending and contains the model's
// name, or whether path is such a file. It returns false if the folder has the vocabularies of LibKGE.
func isAuthors(path, name, ending string) bool {
	dir := path
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		dir = filepath.Dir(path)
	}
	return len(filesAt(path, name, ending)) > 0 && !exists(dir, delFiles.entities)
}

// openState opens the chosen torch file, which holds a state dictionary.
func (f *Folder) openState() error {
	file, err := f.chosen()
	if err != nil {
		return err
	}
	if err := f.openTorch(file, nil); err != nil {
		return err
	}
	state, _ := f.value.(*pickle.Dict)
	return f.addState(file, state)
}
