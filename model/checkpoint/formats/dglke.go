package formats

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
)

// dglke is the format of awslabs/dgl-ke:
//
//	config.json                       the training options
//	<dataset>_<model>_entity.npy      float32 [N, width]
//	<dataset>_<model>_relation.npy    float32 [R, width]
//	<dataset>_TransRprojection.npy    float32 [R, hidden_dim · hidden_dim], for TransR
//	entities.tsv, relations.tsv       lines id<TAB>label
//
// The tables of ComplEx and the entity table of RotatE store all real parts first. The phase of a
// value in RotatE is value·π/((γ + 2)/hidden_dim).
var dglke = &Format{
	Name: "dglke", Tool: "DGL-KE (awslabs/dgl-ke)", Protocol: "dglke",
	Files:        "config.json, *_{entity,relation}.npy, {entities,relations}.tsv",
	Is:           func(dir string) bool { return exists(dir, "config.json") && len(endingIn(dir, "_entity.npy")) > 0 },
	vocabularies: []vocabularyFiles{tsvFiles, dictFiles},
	open: func(f *Folder) error {
		if _, err := f.readOptions("config.json"); err != nil {
			return err
		}
		for _, name := range []string{"entity", "relation"} {
			files := endingIn(f.Path, "_"+name+".npy")
			if len(files) != 1 {
				return fmt.Errorf("%s has %s *_%s.npy, but a folder of DGL-KE must have exactly one: leave only "+
					"the tables of one model in it", f.Path, text.Plural(len(files), "file"), name)
			}
			if err := f.openNpy(files[0], name); err != nil {
				return err
			}
		}
		if files := endingIn(f.Path, dglkeProjection); len(files) == 1 {
			return f.openNpy(files[0], "projection")
		}
		return nil
	},
	convert: func(f *Folder) (*Converted, error) {
		c, err := convertDGLKE(f)
		if err == nil {
			c.Dataset = f.Metadata["dataset"]
		}
		return c, err
	},
}

const dglkeProjection = "_TransRprojection.npy"

func convertDGLKE(f *Folder) (*Converted, error) {
	entity, relation, err := f.tables("entity", "relation")
	if err != nil {
		return nil, err
	}
	o, err := f.neededOptions("config.json")
	if err != nil {
		return nil, err
	}
	// The releases 0.1.0 and 0.1.1 call these options model and emb_size.
	name := cmp.Or(f.Metadata["model_name"], f.Metadata["model"])
	if name == "" {
		return nil, fmt.Errorf(`%s lacks model_name: add it, as in "model_name": "RotatE"`,
			filepath.Join(f.Path, "config.json"))
	}
	hyper := map[string]float64{}
	if name == "RotatE" || o.values["gamma"] != nil && name != "SimplE" {
		hyper[model.Gamma] = o.number("gamma")
	}
	if o.err != nil {
		return nil, o.err
	}
	tables := func(name string, perEntity, perRelation int) (*Converted, error) {
		return f.vectorModel(name, perEntity, perRelation, entity, relation, noInverses, hyper)
	}
	switch name {
	case "TransE_l1":
		return tables("transe-l1", 1, 1)
	case "TransE_l2", "TransE":
		return tables("transe-l2", 1, 1)
	case "TransR":
		projection, err := f.tensor("projection")
		if err != nil {
			return nil, err
		}
		hyper[model.RelationDim] = float64(relation.width())
		return f.tableModel(model.Config{Model: "transr-l1", Dim: entity.width(), Hyper: hyper}, noInverses,
			entity, relation, projection)
	case "DistMult":
		return tables("distmult", 1, 1)
	case "ComplEx":
		return tables("complex", 2, 2)
	case "SimplE":
		hyper[model.Clamp] = simplEClamp
		return tables("simple", 2, 2)
	case "RESCAL":
		return f.rescalModel("entity", "relation", noInverses)
	case "RotatE":
		size := "hidden_dim"
		if _, early := o.values["emb_size"]; early && o.values[size] == nil {
			size = "emb_size"
		}
		hidden := o.integer(size)
		if hidden != relation.width() {
			o.fail("option %q is %d, but the relations of RotatE in %s have rows of %d numbers: "+
				"restore the options of the training", size, hidden, relation.Path, relation.width())
		}
		if o.err != nil {
			return nil, o.err
		}
		hyper[model.EmbeddingRange] = model.DefaultRange(hyper[model.Gamma], hidden)
		return tables("rotate", 2, 1)
	default:
		return nil, f.unsupported(name, "")
	}
}
