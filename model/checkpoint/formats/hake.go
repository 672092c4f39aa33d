package formats

import (
	"fmt"

	"github.com/mquine/mquine/model"
)

// hake is the format of MIRALab-USTC/KGE-HAKE, a fork of the RotatE repository:
//
//	config.json                     the training options
//	checkpoint                      torch file: "model_state_dict" holds the state dictionary
//	entities.dict, relations.dict   lines id<TAB>label
//
// The folder also holds the two tables as .npy files, but the weights of the two distances of HAKE
// are only in checkpoint. ModE has one distance and no weights.
var hake = &Format{
	Name: "hake", Tool: "KGE-HAKE (MIRALab-USTC/KGE-HAKE)", Protocol: "rotate",
	Files:        "config.json with the model HAKE or ModE, checkpoint, *.dict",
	Is:           func(dir string) bool { return isRotateFork(dir, "HAKE") || isRotateFork(dir, "ModE") },
	vocabularies: []vocabularyFiles{dictFiles, tsvFiles},
	elsewhere:    rotateDataPath,
	open: func(f *Folder) error {
		if _, err := f.readOptions(rotateConfig); err != nil {
			return err
		}
		return f.openForkState(forkCheckpoint)
	},
	convert: convertHAKE,
}

func convertHAKE(f *Folder) (*Converted, error) {
	entity, relation, err := f.tables("entity_embedding", "relation_embedding")
	if err != nil {
		return nil, err
	}
	keys := []string{model.Gamma, model.EmbeddingRange, model.PhaseWeight, model.ModulusWeight}
	isModE := !f.has(model.PhaseWeight)
	if isModE {
		keys = []string{model.Gamma}
	}
	hyper := map[string]float64{}
	for _, key := range keys {
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
	if isModE {
		return f.vectorModel("mode", 1, 1, entity, relation, noInverses, hyper)
	}
	return f.vectorModel("hake", 2, 3, entity, relation, noInverses, hyper)
}
