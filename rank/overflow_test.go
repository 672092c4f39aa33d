package rank

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// Scores that overflow, to infinities or to NaN, are errors. As ranks, they would be perfect, because
// no score is better than NaN.
func TestOverflow(t *testing.T) { CheckOverflow(t, Options{Threads: 2}) }

// CheckOverflow checks that scores that overflow are errors of all functions that use the options.
// Tests of other engines use it.
func CheckOverflow(t *testing.T, o Options) {
	g := ranktest.Graph(rand.New(rand.NewPCG(9, 9)), 30, 3, 60, 5, 20)
	house := model.Config{
		Model: "house", Dim: 1, Entities: g.Entities.Len(), Relations: g.Relations.Len(),
		Hyper: map[string]float64{"group": 1, "projections": 8, "projection_limit": math.MaxFloat64},
	}
	single := filled(t, house, 3e38)
	distmult := model.Config{Model: "distmult", Dim: 4, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
	half := model.Member{Model: filled(t, distmult, 1e3), Weight: 1e300}
	sum, err := model.NewEnsemble([]model.Member{half, half})
	require.NoError(t, err)

	models := map[string]model.Model{"parameters": single}
	if o.Engine == nil { // engines do not rank ensembles
		models["weights"] = sum
	}
	x, triples := kgtest.Index(t, g), g.Splits[kg.Test]
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			message := `^the score of the triple with head \d+, relation \d+ and tail \d+ .* is (NaN|[+-]Inf): `
			q, _ := triples[0].Query(kg.Tail)
			_, err := Run(t.Context(), m, x, triples, o)
			assert.Regexp(t, message, err)
			_, err = Relations(t.Context(), m, x, triples, o)
			assert.Regexp(t, message, err)
			_, err = Scores(t.Context(), m, triples, BothSides, o)
			assert.Regexp(t, message, err)
			_, err = Predict(t.Context(), m, x, []kg.Query{q}, Top{K: 3}, o)
			assert.Regexp(t, message, err)
			_, err = PredictRelations(t.Context(), m, x, triples, Top{K: 2}, o)
			assert.Regexp(t, message, err)
			err = Discover(t.Context(), m, x, Discovery{Relations: []int32{0}, K: 3}, o,
				func(Discovered) error { return nil })
			assert.Regexp(t, message, err)
		})
	}
}

func TestOverflowErrorNamesLabels(t *testing.T) {
	entities, relations := kg.NewVocabulary("ann", "bob"), kg.NewVocabulary("knows")
	e := &OverflowError{Triple: kg.Triple{Head: 1}, Score: math.Inf(1)}
	assert.ErrorContains(t, e.Labelled(entities, relations), "the score of the triple (bob, knows, ann) is +Inf: ")
	for _, other := range []kg.Triple{{Head: 2}, {Relation: 1}, {Tail: 2}} {
		e := &OverflowError{Triple: other}
		assert.Equal(t, e, e.Labelled(entities, relations))
	}
}

// filled returns a model whose parameters are between half of the given value and the value.
func filled(t *testing.T, c model.Config, value float32) model.Model {
	t.Helper()
	m, err := model.Random(t.Context(), c, 1)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(9, 10))
	for _, tensor := range m.Tensors() {
		for i := range tensor {
			tensor[i] = value * (0.5 + rng.Float32()/2)
		}
	}
	return m
}
