package formats

import (
	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// kbc is the format of facebookresearch/ssl-relation-prediction, the successor of kbc:
//
//	best_valid.model  torch file: the state dictionary of the best validated epoch
//	ent_id, rel_id    lines label<TAB>id, from the folder of the data set
//
// The file does not name the model, but its tensors identify it. Relation tables have 2R rows, and
// the inverse of r is r + R, or R rows if the model was trained without inverse relations.
var kbc = &Format{
	Name: "kbc", Tool: "kbc (facebookresearch/ssl-relation-prediction)", Protocol: "kbc",
	Files:        "best_valid.model, ent_id, rel_id",
	Is:           func(dir string) bool { return exists(dir, "best_valid.model") },
	vocabularies: []vocabularyFiles{kbcFiles},
	open: func(f *Folder) error {
		if err := f.openTorch("best_valid.model", nil); err != nil {
			return err
		}
		state, _ := f.value.(*pickle.Dict)
		return f.addState("best_valid.model", state)
	},
	convert: convertKBC,
}

func convertKBC(f *Folder) (*Converted, error) {
	switch {
	case f.has("embeddings.0.weight", "embeddings.1.weight"):
		return f.kbcComplEx("embeddings.0.weight", "embeddings.1.weight", f.kbcInverses("embeddings.1.weight"))
	case f.has("core"):
		return convertKBCTuckER(f)
	case f.has("lhs.weight", "rel.weight", "rhs.weight"):
		return f.cpModel("lhs.weight", "rhs.weight", "rel.weight", f.kbcInverses("rel.weight"))
	case f.has("entity.weight", "relation.weight"):
		entity, relation, err := f.tables("entity.weight", "relation.weight")
		if err == nil && relation.width() == entity.width() {
			c, err := f.vectorModel("transe-l2", 1, 1, entity, relation, f.kbcInverses("relation.weight"), nil)
			if err == nil {
				c.ToolScore = squared
				c.Notes = append(c.Notes, "kbc's TransE scores are −‖h + r − t‖²; mquine prints γ − ‖h + r − t‖, "+
					"which gives the same ranks")
			}
			return c, err
		}
		return f.rescalModel("entity.weight", "relation.weight", f.kbcInverses("relation.weight"))
	}
	return nil, f.unsupported("", "")
}

// convertKBCTuckER converts TuckER without batch normalisation. Its core has the axes head, relation
// and tail.
func convertKBCTuckER(f *Folder) (*Converted, error) {
	entity, relation, err := f.tables("entity.weight", "relation.weight")
	if err != nil {
		return nil, err
	}
	core, err := f.tensor("core")
	if err != nil {
		return nil, err
	}
	return f.tuckER(entity, relation, f.kbcInverses("relation.weight"), core.swapAxes())
}

// kbcInverses says where a table of relations keeps inverse relations. The file has no options, so
// the number of rows decides.
func (f *Folder) kbcInverses(relationName string) numbering {
	if t, err := f.tensor(relationName); err == nil && t.rows() == 2*f.Relations.Len() {
		return offset
	}
	return noInverses
}

// kbcComplEx converts ComplEx, whose tables have the real parts first.
func (f *Folder) kbcComplEx(entityName, relationName string, inverses numbering) (*Converted, error) {
	entity, relation, err := f.tables(entityName, relationName)
	if err != nil {
		return nil, err
	}
	return f.vectorModel("complex", 2, 2, entity, relation, inverses, nil)
}
