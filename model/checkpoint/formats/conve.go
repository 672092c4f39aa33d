package formats

import (
	"fmt"

	"github.com/mquine/mquine/kg"
)

// conve is the format of TimDettmers/ConvE:
//
//	<dataset>_conve_<dropouts>.model   torch file: the state dictionary
//	entities.dict, relations.dict      lines id<TAB>label, from the tool's vocabulary
//
// The first two rows of the tables of entities and relations belong to tokens without a label. The
// inverse of a relation is the relation whose label ends in _reverse. The file does not contain the
// height of the images; see conveHeight.
var conve = &Format{
	Name: "conve", Tool: "ConvE (TimDettmers/ConvE)", Protocol: "rotate",
	Files:  "*conve*.model, {entities,relations}.dict",
	Is:     func(path string) bool { return isAuthors(path, "conve", ".model") },
	Ending: ".model",
	part:   "conve",
	vocabularies: []vocabularyFiles{
		{dictFiles.entities, dictFiles.relations, kg.VocabularyLayout{Skip: conveTokens}},
	},
	open:    (*Folder).openState,
	convert: convertConvE,
}

// conveTokens is the number of rows without a label at the beginning of the tables: OOV and the
// empty word.
const conveTokens = 2

func convertConvE(f *Folder) (*Converted, error) {
	entity, relation, err := f.tables("emb_e.weight", "emb_rel.weight")
	if err != nil {
		return nil, err
	}
	bias, err := f.tensor("b")
	if err != nil {
		return nil, err
	}
	dense, err := f.tensor("fc.weight")
	if err != nil {
		return nil, err
	}
	filters, err := f.tensor("conv1.weight")
	if err != nil {
		return nil, err
	}
	// Check the rows before conveHeight, whose time is proportional to the width: a table without rows can
	// have any width.
	for _, t := range []struct {
		*Tensor
		labels int
		of     string
	}{{&entity, f.Entities.Len(), "entity"}, {&bias, f.Entities.Len(), "entity"},
		{&relation, f.Relations.Len(), "relation"}} {
		if t.rows() != t.labels+conveTokens {
			return nil, f.wrongRows(*t.Tensor, t.labels, t.of, " besides its first two tokens")
		}
		t.Shape = []int{t.rows(), t.width()}
		*t.Tensor = t.pick(numbers(conveTokens, t.rows()))
	}
	height := conveHeight(entity.width(), dense.width(), filters.rows())
	if height == 0 {
		return nil, fmt.Errorf("%s: no image of %d pixels gives the %d inputs of layer fc with %d filters of 3 × 3",
			dense.Path, entity.width(), dense.width(), filters.rows())
	}
	rows, err := f.pairReversed()
	if err != nil {
		return nil, err
	}
	if entity, err = join(bias, entity); err != nil {
		return nil, err
	}
	c, err := f.convE(height, entity, relation.pick(rows), interleaved, convELayers{
		norm0: "bn0", filters: "conv1", norm1: "bn1", dense: "fc", norm2: "bn2",
	})
	if err == nil {
		c.Notes = append(c.Notes,
			fmt.Sprintf("the image of an embedding is assumed to be %d × %d", height, (entity.width()-1)/height),
			"ConvE's code applies a sigmoid to scores, and its empty word is a candidate; mquine ranks only entities, "+
				"by scores without the sigmoid")
	}
	return c, err
}

// conveHeight returns a height such that 3 × 3 filters give the number of inputs if an embedding
// with d entries is an image of this height. It returns 0 if there is none. Heights a and d/(2a)
// give the same number; conveHeight returns the larger one, as in the authors' 20 × 10.
func conveHeight(d, inputs, channels int) int {
	for height := d; height > 0; height-- {
		if d%height == 0 && channels*(2*height-2)*(d/height-2) == inputs {
			return height
		}
	}
	return 0
}

// numbers returns the numbers first ≤ i < last.
func numbers(first, last int) (list []int) {
	for i := first; i < last; i++ {
		list = append(list, i)
	}
	return list
}
