package formats

import (
	"path/filepath"
	"strings"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/pickle"
	"github.com/mquine/mquine/model/checkpoint/torch"
)

// simplE is the format of the authors of SimplE (baharefatemi/SimplE):
//
//	*.chkpnt                        torch file: the whole model object
//	entities.dict, relations.dict   lines id<TAB>label
//
// The object is read as a record, as in the format pykeen. The authors' code saves no vocabulary.
// It numbers labels in the order in which they first occur in train, valid and test; the head of a
// triple precedes its tail.
var simplE = &Format{
	Name: "simple", Tool: "SimplE (baharefatemi/SimplE)", Protocol: "kbc",
	Files:        "*.chkpnt, entities.dict, relations.dict",
	Is:           func(path string) bool { return len(filesAt(path, "", simplEEnding)) > 0 },
	Ending:       simplEEnding,
	vocabularies: []vocabularyFiles{dictFiles, tsvFiles},
	open: func(f *Folder) error {
		file, err := f.chosen()
		if err != nil {
			return err
		}
		if err := f.openTorch(file, simplEName); err != nil {
			return err
		}
		root, _ := f.value.(*pickle.Object)
		for _, name := range simplETables {
			if t, ok := attribute(module(root, name), "_parameters", "weight").(*torch.Tensor); ok {
				f.addTorch(filepath.Join(f.Path, file), name, t)
			}
		}
		f.Metadata["model"] = "SimplE"
		return nil
	},
	convert: func(f *Folder) (*Converted, error) {
		entity, err := f.joined(simplETables[0], simplETables[1])
		if err != nil {
			return nil, err
		}
		relation, err := f.joined(simplETables[2], simplETables[3])
		if err != nil {
			return nil, err
		}
		return f.vectorModel("simple", 2, 2, entity, relation, noInverses, map[string]float64{model.Clamp: simplEClamp})
	},
}

// simplEEnding ends the names of the files.
const simplEEnding = ".chkpnt"

// simplEClamp is the largest absolute score of the authors' code and of DGL-KE.
const simplEClamp = 20

// simplETables holds the names of the embeddings of entities as heads, entities as tails,
// relations, and inverse relations.
var simplETables = []string{"ent_h_embs", "ent_t_embs", "rel_embs", "rel_inv_embs"}

// simplEName reports whether the file may contain objects of a class, which become records.
func simplEName(g pickle.Global) bool {
	return g.Module == "SimplE" || g.Module == "torch" || strings.HasPrefix(g.Module, "torch.")
}
