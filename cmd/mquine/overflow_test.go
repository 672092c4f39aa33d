package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
)

// If the score of a triple overflows, the error of every command names the triple by its labels.
func TestOverflowNamesLabels(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	m, err := model.Random(t.Context(), model.Config{
		Model: "house", Dim: 1, Entities: g.Entities.Len(), Relations: g.Relations.Len(),
		Hyper: map[string]float64{"group": 1, "projections": 8, "projection_limit": math.MaxFloat64},
	}, 1)
	require.NoError(t, err)
	for _, tensor := range m.Tensors() {
		for i := range tensor {
			tensor[i] = 3e38 * (float32(1+i%7) / 7)
		}
	}
	path := w.path("large")
	require.NoError(t, checkpoint.Save(t.Context(), path, m, g.Entities, g.Relations,
		map[string]string{"dataset": g.Name}))
	first := g.Splits[kg.Test][0]
	head, relation := g.Entities.Label(first.Head), g.Relations.Label(first.Relation)
	for _, args := range [][]string{
		{"eval", path},
		{"eval", path, "--side", "relation"},
		{"predict", path, "--head", head, "--relation", relation},
		{"discover", path, "--relation", relation},
		{"score", path, "--head", head, "--relation", relation, "--tail", g.Entities.Label(first.Tail)},
		{"classify", path},
		{"compare", path, path},
	} {
		o := mquine(t, append(args, "--data", w.data)...)
		assert.Equal(t, exitFailed, o.status, args)
		assert.Regexp(t, `mquine `+args[0]+`: the score of the triple \([a-z_0-9]+, [a-z_]+, [a-z_0-9]+\) is (NaN|[+-]Inf): `+
			`the parameters`, o.stderr)
	}
}
