package rank

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// TestShards checks that the ranks of ranges of the candidates add up to the ranks of all
// candidates, and that the triples can be ranked in two halves. The ranges are counted on different
// backends.
func TestShards(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	const entities = 150
	rng := rand.New(rand.NewPCG(7, 15))
	g := ranktest.Graph(rng, entities, 3, 600, 60, 40)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	for i, name := range []string{"mquine", "distmult", "complex", "transe-l1", "rotate", "protate"} {
		kinds := ranktest.VectorKinds
		if name == "mquine" {
			kinds = ranktest.MatrixKinds
		}
		for _, kind := range []ranktest.Kind{kinds[0], kinds[1], kinds[2]} {
			m := ranktest.Model(t, name, 6, g, uint64(i), kind)
			whole := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head}, m.NewWorker(backends[0]).Reference)
			cuts := []int{0, 1 + rng.IntN(40), 41 + rng.IntN(60), entities}
			var sum []Rank
			for k := range len(cuts) - 1 {
				o := Options{
					Backend: backends[k%len(backends)], Threads: 1 + k, Shard: Range{cuts[k], cuts[k+1]},
					Screen: []Screen{Float32Screen, Int8Screen, Int16Screen}[k],
				}
				if !o.Screen.Fits(m.Tower(kg.Tail).Compare) {
					o.Screen = AutoScreen
				}
				if k == 2 { // in slices
					o.FeatureMemory = 20 * featureBytes(engine.WidestTower(m))
				}
				half := len(test) / 2
				first, err := Run(t.Context(), m, index, test[:half], o)
				require.NoError(t, err)
				second, err := Run(t.Context(), m, index, test[half:], o)
				require.NoError(t, err)
				part := slices.Concat(first.Ranks[:half], second.Ranks[:len(test)-half], first.Ranks[half:],
					second.Ranks[len(test)-half:])
				if k == 0 {
					sum = part
				} else {
					require.NoError(t, Add(sum, part))
				}
			}
			assert.Equal(t, whole, sum, "%s, %s", name, kind.Name)
		}
	}
}

func TestShardErrors(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 16)), 20, 2, 60, 10, 10)
	m := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0])
	for _, r := range []Range{{-1, 5}, {5, 5}, {7, 3}, {0, 21}} {
		_, err := Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test], Options{Shard: r})
		assert.ErrorContains(t, err, "is not a range of the model's 20 entities")
	}
	ranks := []Rank{{Triple: kg.Triple{Head: 1}}}
	assert.ErrorContains(t, Add(ranks, nil), "cannot add a shard of 0 queries to 1")
	assert.ErrorContains(t, Add(ranks, []Rank{{Triple: kg.Triple{Head: 2}}}), "query 0 of a shard is")
	assert.ErrorContains(t, Add(ranks, []Rank{{Triple: kg.Triple{Head: 1}, Side: kg.Head}}),
		"rank the same triples and sides")
	for _, scales := range [][2]float64{{2, 0}, {0, 2}, {2, 2}} {
		ranks, shard := []Rank{{Scale: scales[0]}}, []Rank{{Scale: scales[1]}}
		assert.ErrorContains(t, Add(ranks, shard), "query 0 was ranked among a sample, and estimates do not add up")
	}

	// Predictions consider only the range.
	all, err := Predict(t.Context(), m, kgtest.Index(t, g), []kg.Query{{Anchor: 3}}, Top{K: 20}, Options{})
	require.NoError(t, err)
	some, err := Predict(t.Context(), m, kgtest.Index(t, g), []kg.Query{{Anchor: 3}}, Top{K: 20},
		Options{Shard: Range{4, 11}})
	require.NoError(t, err)
	want := slices.DeleteFunc(all[0], func(p Prediction) bool { return p.Answer < 4 || p.Answer >= 11 })
	assert.Equal(t, want, some[0])
}
