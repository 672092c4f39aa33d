package formats

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// rotate is the format of the RotatE repository, DeepGraphLearning/KnowledgeGraphEmbedding:
//
//	config.json                     the training options
//	entity_embedding.npy            float32 [N, hidden_dim], or twice as wide with double_entity_embedding
//	relation_embedding.npy          float32 [R, hidden_dim], or twice as wide with double_relation_embedding
//	entities.dict, relations.dict   lines id<TAB>label
//
// The vocabularies belong to the data set, so data_path of config.json may name their folder. This
// format does not read the file "checkpoint", a pickle. Only that file contains pRotatE's modulus,
// which does not affect ranks.
//
// Forks of the repository write similar folders for other models. Their formats precede this one in
// All and use isRotateFork and rotateDataPath.
var rotate = &Format{
	Name: "rotate", Tool: "the RotatE repository (DeepGraphLearning/KnowledgeGraphEmbedding)", Protocol: "rotate",
	Files:        "config.json, {entity,relation}_embedding.npy, *.dict",
	Is:           func(dir string) bool { return exists(dir, rotateEntities) },
	vocabularies: []vocabularyFiles{dictFiles, tsvFiles},
	elsewhere:    rotateDataPath,
	open:         openRotate,
	convert:      convertRotate,
}

const (
	rotateConfig    = "config.json"
	rotateEntities  = "entity_embedding.npy"
	rotateRelations = "relation_embedding.npy"

	// oteRange is the embedding range in the fork KGEmbedding-OTE, whose config.json has ote_size.
	oteRange = 0.01
)

// rotateModels maps the repository's models to names in package model and to the widths of the
// rows, as multiples of hidden_dim. Width 0 means that the widths of both tables are 1, or that
// both are 2.
var rotateModels = map[string]struct {
	name             string
	entity, relation int
}{
	"TransE":   {"transe-l1", 0, 0},
	"DistMult": {"distmult", 0, 0},
	"ComplEx":  {"complex", 2, 2},
	"RotatE":   {"rotate", 2, 1},
	"pRotatE":  {"protate", 0, 0},
}

// isRotateFork reports whether dir has the entity table of the RotatE repository, and a config.json
// that names one of the models.
func isRotateFork(dir string, models ...string) bool {
	if !exists(dir, rotateConfig, rotateEntities) {
		return false
	}
	f := Folder{Path: dir, Metadata: map[string]string{}}
	_, err := f.readOptions(rotateConfig)
	return err == nil && slices.Contains(models, f.Metadata["model"])
}

// forkCheckpoint is the torch file in which forks of the repository keep all parameters.
const forkCheckpoint = "checkpoint"

// openForkState opens a torch file that holds a state dictionary under the key "model_state_dict".
func (f *Folder) openForkState(file string) error {
	if !exists(f.Path, file) {
		return fmt.Errorf("%s is missing: only that file holds all parameters", filepath.Join(f.Path, file))
	}
	if err := f.openTorch(file, nil); err != nil {
		return err
	}
	checkpoint, _ := f.value.(*pickle.Dict)
	saved, _ := checkpoint.Get("model_state_dict")
	state, _ := saved.(*pickle.Dict)
	return f.addState(file, state)
}

// openRotate opens the tables "entity" and "relation" and, if possible, reads config.json. An
// unreadable configuration is an error only in convert, because mquine info needs only the tables.
func openRotate(f *Folder) error {
	for _, t := range [][2]string{{rotateEntities, "entity"}, {rotateRelations, "relation"}} {
		err := f.openNpy(t[0], t[1])
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is missing: a checkpoint that the RotatE code wrote consists of %s, %s and %s",
				filepath.Join(f.Path, t[0]), rotateConfig, rotateEntities, rotateRelations)
		}
		if err != nil {
			return err
		}
	}
	_, _ = f.readOptions(rotateConfig)
	return nil
}

// rotateDataPath returns the folder of the data set that the model was trained on, or "".
func rotateDataPath(f *Folder) (where, dir string, err error) {
	o, err := f.neededOptions(rotateConfig)
	if err != nil {
		return "", "", err
	}
	dir = o.string("data_path")
	return "the data_path in its " + rotateConfig, dir, o.err
}

func convertRotate(f *Folder) (*Converted, error) {
	o, err := f.neededOptions(rotateConfig)
	if err != nil {
		return nil, err
	}
	config, widths := rotateModel(o)
	keys := [2]string{"nentity", "nrelation"}
	rows := [2]int{o.integer(keys[0]), o.integer(keys[1])}
	dataset := o.string("data_path")
	if o.err != nil {
		return nil, o.err
	}
	if dataset == "" {
		dataset = f.VocabularyDir
	}
	if dataset, err = filepath.Abs(dataset); err != nil {
		return nil, err
	}
	for i, t := range f.Tensors {
		if want := []int{rows[i], widths[i]}; !slices.Equal(t.Shape, want) {
			return nil, fmt.Errorf("%s: tensor %q has shape %v, but the options in %s "+
				"(%s, hidden_dim, doubled embeddings) need %v", t.Path, t.Name, t.Shape, rotateConfig, keys[i], want)
		}
	}
	return &Converted{Config: config, Parameters: f.Tensors, Dataset: filepath.Base(dataset)}, nil
}

// rotateModel returns the configuration of the model, without the numbers of entities and
// relations, and the widths of the two tables.
func rotateModel(o *options) (config model.Config, widths [2]int) {
	name := o.string("model")
	m, known := rotateModels[name]
	if !known {
		o.fail("model %.40q is unknown: the RotatE repository has TransE, DistMult, ComplEx, RotatE and pRotatE", name)
	}
	hidden, gamma := o.integer("hidden_dim"), o.number("gamma")
	double := [2]string{"double_entity_embedding", "double_relation_embedding"}
	doubled := [2]bool{o.boolean(double[0]), o.boolean(double[1])}
	for i := range widths {
		widths[i] = hidden
		if doubled[i] {
			widths[i] *= 2
		}
	}
	span := model.DefaultRange(gamma, hidden)
	if _, ote := o.values["ote_size"]; ote {
		span = oteRange
	}
	config = model.Config{Model: m.name, Dim: hidden, Hyper: map[string]float64{
		model.Gamma: gamma, model.EmbeddingRange: span,
	}}
	if m.entity == 0 {
		// For these models, doubling only adds dimensions. The embedding range still follows from
		// hidden_dim.
		config.Dim = widths[0]
		if widths[0] != widths[1] {
			o.fail("%s needs %s and %s to be equal", name, double[0], double[1])
		}
		return config, widths
	}
	for i, want := range [2]int{m.entity, m.relation} {
		if doubled[i] != (want == 2) {
			o.fail("%s needs %s to be %t", name, double[i], want == 2)
		}
	}
	return config, widths
}
