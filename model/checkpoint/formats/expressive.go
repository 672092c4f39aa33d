package formats

import (
	"path/filepath"

	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// expressive is the format of a state dictionary of ExpressivE (AleksVap/ExpressivE), which PyKEEN
// trains and the authors' program saves:
//
//	state_dict.pt                    torch file: the state dictionary
//	entities.dict, relations.dict    lines id<TAB>label
//
// Relation rows of 6d entries belong to ExpressivE, and rows of 4d entries to its functional
// variant. The file does not contain min_denom, so the authors' value applies.
var expressive = &Format{
	Name: "expressive", Tool: "ExpressivE (AleksVap/ExpressivE)", Protocol: "pykeen",
	Files:        expressiveModel + ", entities.dict, relations.dict",
	Is:           func(dir string) bool { return exists(dir, expressiveModel) },
	vocabularies: []vocabularyFiles{dictFiles},
	open: func(f *Folder) error {
		if err := f.openTorch(expressiveModel, nil); err != nil {
			return err
		}
		state, _ := f.value.(*pickle.Dict)
		return f.addState(expressiveModel, state)
	},
	convert: convertExpressivE,
}

const expressiveModel = "state_dict.pt"

func convertExpressivE(f *Folder) (*Converted, error) {
	const entityName = "entity_representations.0._embeddings.weight"
	const relationName = "relation_representations.0._embeddings.weight"
	if !f.has(entityName, relationName) {
		return nil, f.unsupported("", "")
	}
	entity, relation, err := f.tables(entityName, relationName)
	if err != nil {
		return nil, err
	}
	if relation.width() == 4*entity.width() {
		return f.vectorModel("expressive-functional", 1, 4, entity, relation, noInverses, nil)
	}
	c, err := f.vectorModel("expressive", 1, 6, entity, relation, noInverses, nil)
	if err == nil {
		c.Notes = append(c.Notes,
			filepath.Base(entity.Path)+" does not contain min_denom: the authors' value 0.5 applies")
	}
	return c, err
}
