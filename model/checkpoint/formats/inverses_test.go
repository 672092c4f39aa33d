package formats

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The options of a tool decide whether its tables have inverse relations. A vocabulary with half or
// twice the relations is therefore an error, not a reciprocal model.
func TestInverses(t *testing.T) {
	const d = 4
	pykeenTables := func(rows int) map[string][2]int {
		return map[string][2]int{
			"entity_representations.0": {toolEntities, d}, "relation_representations.0": {rows, d},
		}
	}
	fromLibKGE := func(model attributes, rows int) *Folder {
		const prefix = "_base_model."
		f := toolFolder(map[string][2]int{
			"_entity_embedder._embeddings.weight":            {toolEntities, d},
			"_relation_embedder._embeddings.weight":          {rows, d},
			prefix + "_entity_embedder._embeddings.weight":   {toolEntities, d},
			prefix + "_relation_embedder._embeddings.weight": {rows, d},
		})
		f.value = readPickle(t, encode(attributes{"config": pickled{"torch.Config", attributes{"options": model}}}))
		return f
	}
	rescal := map[string][2]int{
		"ent_embeddings.weight": {toolEntities, d}, "rel_matrices.weight": {2 * toolRelations, d * d},
	}
	complexTables := map[string][2]int{"entity_embedding": {toolEntities, d}, "relation_embedding": {toolRelations, d}}
	for name, c := range map[string]struct {
		folder *Folder
		format *Format
		rows   int // relations and their inverses
		wrong  string
	}{
		"pykeen without inverses": {pykeenModelOf{
			name: "DistMult", model: attributes{"use_inverse_triples": false}, shapes: pykeenTables(toolRelations),
		}.folder(t), pykeen, toolRelations, ""},
		"pykeen, half of the relations": {pykeenModelOf{
			name: "DistMult", model: attributes{"use_inverse_triples": false}, shapes: pykeenTables(2 * toolRelations),
		}.folder(t), pykeen, 2 * toolRelations, "relations"},
		"pykeen with inverses": {pykeenModelOf{
			name: "DistMult", model: attributes{"use_inverse_triples": true}, shapes: pykeenTables(2 * toolRelations),
		}.folder(t), pykeen, 2 * toolRelations, ""},
		"pykeen, twice the relations": {pykeenModelOf{
			name: "DistMult", model: attributes{"use_inverse_triples": true}, shapes: pykeenTables(toolRelations),
		}.folder(t), pykeen, toolRelations, "relations, each with an inverse"},
		"libkge, half of the relations": {
			fromLibKGE(attributes{"model": "distmult"}, 2*toolRelations), libkge, 2 * toolRelations, "relations",
		},
		"libkge with inverses": {fromLibKGE(attributes{"model": "reciprocal_relations_model",
			"reciprocal_relations_model": attributes{"base_model": attributes{"type": "distmult"}}}, 2*toolRelations),
			libkge, 2 * toolRelations, ""},
		"libkge, twice the relations": {fromLibKGE(attributes{"model": "reciprocal_relations_model",
			"reciprocal_relations_model": attributes{"base_model": attributes{"type": "distmult"}}}, toolRelations),
			libkge, toolRelations, "relations, each with an inverse"},
		"openke, half of the relations": {toolFolder(rescal), openke, 2 * toolRelations, "relations"},
		"dura, twice the relations": {
			toolFolder(complexTables), dura, toolRelations, "relations, each with an inverse",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.folder.Format = c.format
			if c.folder.Metadata == nil {
				c.folder.Metadata = map[string]string{"model": "ComplEx"}
			}
			c.folder.VocabularyDir = "vocabularies"
			converted, err := c.format.convert(c.folder)
			if c.wrong != "" {
				assert.ErrorContains(t, err, fmt.Sprintf("has %d rows, but the vocabulary in vocabularies has %d %s: ",
					c.rows, toolRelations, c.wrong))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.rows == 2*toolRelations, converted.Config.Reciprocal)
		})
	}
}

// kbc's file has no options, so the number of rows decides. Without inverses, relation r is row r.
func TestKBCInverses(t *testing.T) {
	for _, rows := range []int{toolRelations, 2 * toolRelations, toolRelations + 1} {
		f := toolFolder(map[string][2]int{"embeddings.0.weight": {toolEntities, 4}, "embeddings.1.weight": {rows, 4}})
		c, err := convertKBC(f)
		if rows == toolRelations+1 {
			require.ErrorContains(t, err, fmt.Sprintf("has %d rows", rows))
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, rows == 2*toolRelations, c.Config.Reciprocal)
	}
}
