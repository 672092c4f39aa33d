package formats

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/mquine/mquine/model"
)

// ote is the format of JD-AI-Research-Silicon-Valley/KGEmbedding-OTE, a fork of the RotatE
// repository, with the model OTE:
//
//	entity_embedding.npy    float32 [N, D]
//	relation_embedding.npy  float32 [R, D·(s + 1)], or [R, D·s] without scales: for each group, s rows
//	                        of s entries and a scale
//	best/                   the same files for the best validated step
//
// The option add_dummy appends a row without a label to both tables. The format rotate reads the
// repository's other models.
var ote = &Format{
	Name: "ote", Tool: "KGEmbedding-OTE (JD-AI-Research-Silicon-Valley/KGEmbedding-OTE)", Protocol: "rotate",
	Files:        "config.json, {entity,relation}_embedding.npy, best/, *.dict",
	Is:           func(dir string) bool { return isRotateFork(dir, "OTE") },
	vocabularies: []vocabularyFiles{dictFiles, tsvFiles},
	elsewhere:    rotateDataPath,
	open: func(f *Folder) error {
		best := bestOf(f, "best", rotateEntities, rotateRelations)
		for _, t := range [][2]string{{rotateEntities, "entity"}, {rotateRelations, "relation"}} {
			if err := f.openNpy(filepath.Join(best, t[0]), t[1]); err != nil {
				return err
			}
		}
		_, err := f.readOptions(rotateConfig)
		return err
	},
	convert: convertOTE,
}

// bestOf returns the name of the subfolder of f with the best validated step. It returns "" if the
// subfolder lacks the files.
func bestOf(f *Folder, name string, files ...string) string {
	if exists(filepath.Join(f.Path, name), files...) {
		return name
	}
	return ""
}

func convertOTE(f *Folder) (*Converted, error) {
	o, err := f.neededOptions(rotateConfig)
	if err != nil {
		return nil, err
	}
	size, scale, gamma := o.integer("ote_size"), o.number("ote_scale"), o.number("gamma")
	dummy, dataset := o.boolean("add_dummy"), o.string("data_path")
	if o.err != nil {
		return nil, o.err
	}
	entity, relation, err := f.tables("entity", "relation")
	if err != nil {
		return nil, err
	}
	if dummy {
		entity, relation = entity.withoutLast(), relation.withoutLast()
	}
	if n := f.Entities.Len(); entity.rows() != n {
		return nil, f.wrongRows(entity, n, "entity", "")
	}
	if n := f.Relations.Len(); relation.rows() != n {
		return nil, f.wrongRows(relation, n, "relation", "")
	}
	d, columns := entity.width(), size
	if scale != model.NoScale {
		columns++
	}
	if d%size != 0 || relation.width() != d*columns {
		return nil, fmt.Errorf("%s: tensors of shape %v and %v do not fit ote_size %d and ote_scale %v of %s",
			entity.Path, entity.Shape, relation.Shape, size, scale, rotateConfig)
	}
	entity.Shape = []int{entity.rows(), d}
	relation.Shape = []int{relation.rows(), d / size, size, columns}
	return &Converted{
		Config: model.Config{Model: "ote", Dim: d, Hyper: map[string]float64{
			model.Gamma: gamma, model.Group: float64(size), model.Scale: scale,
		}},
		Parameters: []Tensor{entity, relation}, Notes: bestNote(entity),
		Dataset: filepath.Base(cmp.Or(dataset, f.VocabularyDir)),
	}, nil
}

// bestNote returns a note for a tensor that was read from a folder named best or best_model, and
// nil for any other.
func bestNote(t Tensor) []string {
	switch dir := filepath.Base(filepath.Dir(t.Path)); dir {
	case "best", "best_model":
		return []string{fmt.Sprintf("the parameters come from %s, the best validated step", dir)}
	}
	return nil
}

// withoutLast returns the tensor without its last row.
func (t Tensor) withoutLast() Tensor {
	rows := t.rows() - 1
	if rows < 0 {
		return t
	}
	values, width := t.Values, t.width()
	t.Shape = append([]int{rows}, t.Shape[1:]...)
	t.Values = func() []float32 { return values()[:rows*width] }
	return t
}
