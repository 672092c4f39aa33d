package formats

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// openke is the format of thunlp/OpenKE:
//
//	*.ckpt                              torch file: a state dictionary
//	entity2id.txt, relation2id.txt      the number of labels, then lines label<TAB>id
//
// TransE, DistMult and HolE have the same tensors, so the name of the file must contain the name of
// the model, as in OpenKE's examples. The file contains neither the norm nor the switch for
// normalised rows of TransE, so OpenKE's defaults apply: L1, and rows divided by their Euclidean
// norm. A file with a margin was trained with options other than the defaults.
var openke = &Format{
	Name: "openke", Tool: "OpenKE (thunlp/OpenKE)", Protocol: "openke",
	Files:        "*.ckpt, entity2id.txt, relation2id.txt",
	Ending:       ".ckpt",
	vocabularies: []vocabularyFiles{openkeFiles},
	open: func(f *Folder) error {
		file, err := f.chosen()
		if err != nil {
			return err
		}
		if err := f.openTorch(file, nil); err != nil {
			return err
		}
		state, _ := f.value.(*pickle.Dict)
		err = f.addState(file, state)
		for i := range f.Tensors { // a strategy object adds this prefix
			f.Tensors[i].Name = strings.TrimPrefix(f.Tensors[i].Name, "model.")
		}
		return err
	},
	convert: func(f *Folder) (*Converted, error) {
		c, err := convertOpenKE(f)
		if err == nil && c.Config.Model != "rescal" { // RESCAL's method predict returns hᵀRt
			c.ToolScore = negated
		}
		return c, err
	},
}

func convertOpenKE(f *Folder) (*Converted, error) {
	if f.has("ent_re_embeddings.weight", "ent_embeddings.weight") {
		return nil, f.unsupported("Analogy", "")
	}
	if f.has("ent_re_embeddings.weight", "ent_im_embeddings.weight") {
		var tables [2]Tensor
		for i, prefix := range []string{"ent", "rel"} {
			var err error
			tables[i], err = f.joined(prefix+"_re_embeddings.weight", prefix+"_im_embeddings.weight")
			if err != nil {
				return nil, err
			}
		}
		return f.vectorModel("complex", 2, 2, tables[0], tables[1], noInverses, nil)
	}
	if f.has("emb_s_a.weight") {
		return f.quatE()
	}
	if f.has("ent_embeddings.weight", "rel_matrices.weight") {
		return f.rescalModel("ent_embeddings.weight", "rel_matrices.weight", noInverses)
	}
	switch {
	case f.has("norm_vector.weight"), f.has("transfer_matrix.weight"), f.has("ent_transfer.weight"):
		return convertOpenKEProjection(f)
	case f.has("rel_embedding_range"):
		return nil, f.unsupported("RotatE", "")
	}
	entity, relation, err := f.tables("ent_embeddings.weight", "rel_embeddings.weight")
	if err != nil {
		return nil, err
	}
	if f.has("rel_inv_embeddings.weight") {
		c, err := f.vectorModel("distmult", 1, 1, entity, relation, noInverses, nil)
		if err == nil {
			c.Notes = append(c.Notes, "OpenKE's SimplE has one vector for each entity and predicts with Σ h r t, "+
				"so mquine reads it as DistMult")
		}
		return c, err
	}
	file := strings.ToLower(filepath.Base(entity.Path))
	switch {
	case strings.Contains(file, "distmult"):
		return f.vectorModel("distmult", 1, 1, entity, relation, noInverses, nil)
	case !strings.Contains(file, "transe"):
		return nil, fmt.Errorf("%s may be TransE, DistMult or HolE: include the model in the name of the file, "+
			"or describe the tables with mquine import --from tensors", entity.Path)
	case f.has("margin"):
		return nil, fmt.Errorf("%s was trained with a margin, but does not name the norm: "+
			"describe the tables with mquine import --from tensors", entity.Path)
	}
	c, err := f.vectorModel("transe-l1", 1, 1, entity.mapRows(normalise), relation.mapRows(normalise), noInverses, nil)
	if err == nil {
		c.Notes = append(c.Notes, fmt.Sprintf("%s does not name its norm: OpenKE's defaults apply "+
			"(L1 norm, rows divided by their Euclidean norms)", filepath.Base(entity.Path)))
	}
	return c, err
}

// quatE converts a file of the authors of QuatE, whose code derives from OpenKE. The file's tables
// of relations have a row for each entity, but only the first R rows are used.
func (f *Folder) quatE() (*Converted, error) {
	var tables [2]Tensor
	for i, pattern := range []string{"emb_%c_a.weight", "rel_%c_b.weight"} {
		var names []string
		for _, part := range "sxyz" {
			names = append(names, fmt.Sprintf(pattern, part))
		}
		var err error
		if tables[i], err = f.joined(names[0], names[1:]...); err != nil {
			return nil, err
		}
	}
	relation := tables[1].first(f.Relations.Len())
	return f.vectorModel("quate", 4, 4, tables[0], relation, noInverses, nil)
}

// convertOpenKEProjection converts TransH, TransR and TransD. Like OpenKE's files of TransE, their
// files contain neither the norm nor the switch for normalised vectors, so OpenKE's defaults apply:
// L1, and images and translations divided by their Euclidean norms.
func convertOpenKEProjection(f *Folder) (*Converted, error) {
	entity, relation, err := f.tables("ent_embeddings.weight", "rel_embeddings.weight")
	if err != nil {
		return nil, err
	}
	if f.has("margin") {
		return nil, fmt.Errorf("%s was trained with a margin, but does not name the norm", entity.Path)
	}
	config := model.Config{Dim: entity.width(), Hyper: map[string]float64{model.UnitProjections: 1}}
	var second Tensor
	switch {
	case f.has("norm_vector.weight"): // the normals are also divided by their norms
		config.Model = "transh-l1"
		second, err = f.tensor("norm_vector.weight")
		second = second.mapRows(normalise)
	case f.has("transfer_matrix.weight"):
		config.Model, config.Hyper[model.RelationDim] = "transr-l1", float64(relation.width())
		second, err = f.tensor("transfer_matrix.weight")
	default:
		config.Model, config.Hyper[model.RelationDim] = "transd-l1", float64(relation.width())
		var vectors Tensor
		if vectors, err = f.tensor("ent_transfer.weight"); err == nil {
			if entity, err = join(entity, vectors); err == nil {
				second, err = f.tensor("rel_transfer.weight")
			}
		}
	}
	if err != nil {
		return nil, err
	}
	c, err := f.tableModel(config, noInverses, entity, relation.mapRows(normalise), second)
	if err == nil {
		c.Notes = append(c.Notes, fmt.Sprintf("%s does not name its norm: OpenKE's defaults apply "+
			"(L1 norm, images of entities and translations divided by their Euclidean norms)",
			filepath.Base(entity.Path)))
	}
	return c, err
}
