package formats

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/mquine/mquine/model"
)

// house is the format of rui9812/HousE, a fork of the RotatE repository. All parameters are in the
// file "checkpoint", in the state dictionary "model_state_dict":
//
//	entity_embedding             [N, g, s] for g groups of s coordinates
//	relation_embedding           [R, g, s·n]: n vectors of s coordinates
//	relation_weight              [R, g, s]: the translation
//	k_dir_head, k_dir_tail       [R, 1, m]: directions of the coefficients
//	k_scale_head, k_scale_tail   [R, g, m]: scales of the coefficients
//
// Every variant has the translation and the coefficients, even if it does not use them. best_model/
// holds the same files for the best validated step, which the tool evaluates on the test split. The
// .npy files have copies of the parameters; their coefficients may be one step older.
var house = &Format{
	Name: "house", Tool: "HousE (rui9812/HousE)", Protocol: "rotate",
	Files: "config.json, checkpoint, entity_embedding.npy, best_model/, *.dict",
	Is: func(dir string) bool {
		return isRotateFork(dir, "HousE_r", "HousE_r_plus", "HousE", "HousE_plus")
	},
	vocabularies: []vocabularyFiles{dictFiles, tsvFiles},
	elsewhere:    rotateDataPath,
	open: func(f *Folder) error {
		if err := f.openForkState(filepath.Join(bestOf(f, "best_model", forkCheckpoint), forkCheckpoint)); err != nil {
			return err
		}
		_, err := f.readOptions(rotateConfig)
		return err
	},
	convert: convertHousE,
}

func convertHousE(f *Folder) (*Converted, error) {
	o, err := f.neededOptions(rotateConfig)
	if err != nil {
		return nil, err
	}
	name, size, m := o.string("model"), o.integer("house_dim"), 0
	projects, translates := name == "HousE" || name == "HousE_plus", name == "HousE_r_plus" || name == "HousE_plus"
	if projects {
		m = o.integer("housd_num")
	}
	hyper := map[string]float64{
		model.Gamma: o.number("gamma"), model.Group: float64(size), model.Projections: float64(m),
		model.ProjectionLimit: o.number("thred"),
	}
	dataset := o.string("data_path")
	if o.err != nil {
		return nil, o.err
	}
	entity, relation, err := f.tables("entity_embedding", "relation_embedding")
	if err != nil {
		return nil, err
	}
	n, r, d := f.Entities.Len(), f.Relations.Len(), entity.width()
	if entity.rows() != n {
		return nil, f.wrongRows(entity, n, "entity", "")
	}
	if relation.rows() != r {
		return nil, f.wrongRows(relation, r, "relation", "")
	}
	if d == 0 || d%size != 0 || relation.width()%d != 0 || relation.width()/d <= 2*m {
		return nil, fmt.Errorf("%s: tensors of shape %v and %v do not fit house_dim %d and housd_num %d of %s",
			entity.Path, entity.Shape, relation.Shape, size, m, rotateConfig)
	}
	vectors, groups := relation.width()/d, d/size
	hyper[model.Reflections] = float64(vectors - 2*m)
	c := &Converted{
		Config: model.Config{Model: "house", Dim: d, Hyper: hyper}, Notes: bestNote(entity),
		Dataset: filepath.Base(cmp.Or(dataset, f.VocabularyDir)),
	}
	// add adds a tensor under the name that package model gives it.
	add := func(from, to string, shape ...int) error {
		t, err := f.tensor(from)
		if err != nil {
			return err
		}
		width := 1
		for _, extent := range shape[1:] {
			width *= extent
		}
		if t.rows() != shape[0] || t.width() != width {
			return fmt.Errorf("%s: tensor %.60q has shape %v, but %s with the options of %s needs %v",
				t.Path, from, t.Shape, name, rotateConfig, shape)
		}
		t.Name, t.Shape = to, shape
		c.Parameters = append(c.Parameters, t)
		return nil
	}
	type tensor struct {
		from, to string
		shape    []int
	}
	list := []tensor{
		{"entity_embedding", "entity", []int{n, d}},
		{"relation_embedding", "relation", []int{r, groups, size * vectors}},
	}
	if translates {
		hyper[model.Translation] = 1
		list = append(list, tensor{"relation_weight", "translation", []int{r, d}})
	}
	if projects {
		for _, side := range []string{"head", "tail"} {
			list = append(list, tensor{"k_dir_" + side, side + "_direction", []int{r, m}},
				tensor{"k_scale_" + side, side + "_scale", []int{r, groups, m}})
		}
	}
	for _, t := range list {
		if err := add(t.from, t.to, t.shape...); err != nil {
			return nil, err
		}
	}
	return c, nil
}
