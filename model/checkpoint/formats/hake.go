package formats

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// hake is the format of MIRALab-USTC/KGE-HAKE, a fork of the RotatE repository:
//
//	config.json                     the training options
//	checkpoint                      torch file: "model_state_dict" holds the state dictionary
//	entities.dict, relations.dict   lines id<TAB>label
//
// The folder also holds the two tables as .npy files, but the weights of the two distances are only
// in checkpoint.
var hake = &Format{
	Name: "hake", Tool: "KGE-HAKE (MIRALab-USTC/KGE-HAKE)",
	Files:        "config.json with the model HAKE, checkpoint, *.dict",
	Is:           isHAKE,
	vocabularies: []vocabularyFiles{dictFiles, tsvFiles},
	open: func(f *Folder) error {
		if _, err := f.readOptions(hakeConfig); err != nil {
			return err
		}
		if !exists(f.Path, hakeCheckpoint) {
			return fmt.Errorf("%s is missing: only that file holds the weights of HAKE's distances",
				filepath.Join(f.Path, hakeCheckpoint))
		}
		if err := f.openTorch(hakeCheckpoint, nil); err != nil {
			return err
		}
		checkpoint, _ := f.value.(*pickle.Dict)
		saved, _ := checkpoint.Get("model_state_dict")
		state, _ := saved.(*pickle.Dict)
		return f.addState(hakeCheckpoint, state)
	},
	convert: convertHAKE,
}

const (
	hakeConfig     = "config.json"
	hakeCheckpoint = "checkpoint"
)

// isHAKE reports whether dir has the tables of the RotatE repository, with a model of the fork in
// config.json.
func isHAKE(dir string) bool {
	if !exists(dir, hakeConfig, "entity_embedding.npy") {
		return false
	}
	f := Folder{Path: dir, Metadata: map[string]string{}}
	_, err := f.readOptions(hakeConfig)
	return err == nil && slices.Contains([]string{"HAKE", "ModE"}, f.Metadata["model"])
}

func convertHAKE(f *Folder) (*Converted, error) {
	if name := f.Metadata["model"]; name != "HAKE" {
		return nil, f.unsupported(name, "")
	}
	entity, relation, err := f.tables("entity_embedding", "relation_embedding")
	if err != nil {
		return nil, err
	}
	hyper := map[string]float64{}
	for _, key := range []string{model.Gamma, model.EmbeddingRange, model.PhaseWeight, model.ModulusWeight} {
		t, err := f.tensor(key)
		if err != nil {
			return nil, err
		}
		values := t.Values()
		if len(values) != 1 {
			return nil, fmt.Errorf("%s: tensor %q has shape %v: it must hold one number", t.Path, key, t.Shape)
		}
		hyper[key] = float64(values[0])
	}
	return f.vectorModel("hake", 2, 3, entity, relation, offset, hyper)
}
