package rank

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// someCandidates returns restrictions of four kinds for a graph: one list for all queries, a list for
// each side, a list for each side and relation, and the observed entities. Some lists of the third
// kind are empty or contain all entities.
func someCandidates(t *testing.T, rng *rand.Rand, g *kg.Graph) map[string]*Candidates {
	n, r := g.Entities.Len(), g.Relations.Len()
	draw := func(share float64) (list []int32) {
		for e := range int32(n) {
			if rng.Float64() < share {
				list = append(list, e)
			}
		}
		rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		return append(list, list[:min(2, len(list))]...) // in any order, some twice
	}
	one, sides, mixed := NewCandidates(r), NewCandidates(r), NewCandidates(r)
	common := draw(0.3)
	one.RestrictAll(kg.Tail, common)
	one.RestrictAll(kg.Head, common)
	sides.RestrictAll(kg.Tail, draw(0.1))
	sides.RestrictAll(kg.Head, draw(0.6))
	mixed.Restrict(kg.Tail, 0, nil)
	mixed.Restrict(kg.Tail, 1, draw(1))
	mixed.Restrict(kg.Tail, 2, common)
	mixed.Restrict(kg.Head, 1, []int32{int32(rng.IntN(n))})
	mixed.Restrict(kg.Head, 2, common)
	observed := NewCandidates(r)
	require.NoError(t, observed.Observe(t.Context(), g, kg.Tail))
	require.NoError(t, observed.Observe(t.Context(), g, kg.Head))
	return map[string]*Candidates{"one list": one, "by side": sides, "by relation": mixed, "observed": observed}
}

// TestCandidates checks that ranks and predictions among restricted candidates equal the results of
// a brute force, for every model, backend, screen and number of threads, in slices and in shards.
func TestCandidates(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	const entities = 150
	rng := rand.New(rand.NewPCG(43, 1))
	g := ranktest.Graph(rng, entities, 3, 300, 30, 25)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	sides := []kg.Side{kg.Tail, kg.Head}
	var queries []kg.Query
	for i := range 12 {
		queries = append(queries, kg.Query{Side: kg.Side(i % 2), Relation: int32(i % 3), Anchor: int32(i)})
	}
	restrictions := someCandidates(t, rng, g)
	models := []model.Model{ranktest.Model(t, "mquine", 3, g, 1, ranktest.MatrixKinds[3])}
	for i, c := range ranktest.VectorConfigs(6, g) {
		models = append(models, ranktest.ModelOf(t, c, 2, ranktest.VectorKinds[i%4]))
	}
	turn := 0
	for _, m := range models {
		score := m.NewWorker(backends[0]).Reference
		predicted := brutePredictions(g, queries, score)
		for name, among := range restrictions {
			want := bruteForceAmong(m, g, test, sides, score, among.Has)
			for _, screen := range []Screen{Float32Screen, Int8Screen, Int16Screen} {
				if screen != Float32Screen && !screen.Fits(m.Tower(kg.Tail).Compare) {
					continue
				}
				turn++
				o := Options{Backend: backends[turn%len(backends)], Threads: 1 + turn%3, Among: among, Screen: screen}
				if turn%2 == 0 {
					o.FeatureMemory = 20 * featureBytes(engine.WidestTower(m))
				}
				r, err := Run(t.Context(), m, index, test, o)
				require.NoError(t, err)
				require.Equal(t, want, r.Ranks, "%s, %s, %+v", m.Config().Model, name, o)

				low, high := o, o
				low.Shard, high.Shard = Range{0, 70}, Range{70, entities}
				sum, err := Run(t.Context(), m, index, test, low)
				require.NoError(t, err)
				rest, err := Run(t.Context(), m, index, test, high)
				require.NoError(t, err)
				require.NoError(t, Add(sum.Ranks, rest.Ranks))
				require.Equal(t, want, sum.Ranks, "%s, %s, shards", m.Config().Model, name)

				k, filter := 1+turn%9, turn%3 == 0
				lists, err := Predict(t.Context(), m, index, queries, Top{K: k, FilterKnown: filter}, o)
				require.NoError(t, err)
				for i, q := range queries {
					best := slices.DeleteFunc(slices.Clone(predicted[i]), func(p Prediction) bool {
						return !among.Has(q, p.Answer) || filter && p.Known
					})
					best = best[:min(k, len(best))]
					if !slices.Equal(best, lists[i]) {
						require.Equal(t, best, lists[i], "%s, %s, query %v", m.Config().Model, name, q)
					}
				}
			}
		}
	}
}

// TestAllCandidates checks that a list of all entities gives the ranks of an unrestricted ranking, in
// a single pass.
func TestAllCandidates(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(43, 2)), 60, 3, 200, 10, 30)
	m := ranktest.Model(t, "complex", 4, g, 1, ranktest.VectorKinds[2])
	all := NewCandidates(3)
	every := make([]int32, 60)
	for e := range every {
		every[e] = int32(e)
	}
	all.RestrictAll(kg.Tail, every)
	all.Restrict(kg.Head, 1, every)
	want, err := Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test], Options{})
	require.NoError(t, err)
	got, err := Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test], Options{Among: all})
	require.NoError(t, err)
	assert.Equal(t, want.Ranks, got.Ranks)
	o, err := Options{Among: all}.Resolve(t.Context(), m)
	require.NoError(t, err)
	assert.Len(t, newPlan(m, o.sets(m), got.Ranks, len(got.Ranks), nil).Passes, 1)
}

func TestCandidatesErrors(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(43, 3)), 20, 2, 60, 10, 10)
	m := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0])
	c := NewCandidates(2)
	c.Restrict(kg.Tail, 1, []int32{3, 20})
	_, err := Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test], Options{Among: c})
	assert.ErrorContains(t, err, "candidates 3 to 20 are not among the 20 entities")
	_, err = Predict(t.Context(), m, kgtest.Index(t, g), []kg.Query{{}}, Top{K: 1}, Options{Among: NewCandidates(3)})
	assert.ErrorContains(t, err, "the candidates are for 3 relations, but the model has 2")

	// Replaced lists do not matter.
	c.Restrict(kg.Tail, 1, []int32{3, 19})
	_, err = Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test], Options{Among: c})
	assert.NoError(t, err)

	for _, relations := range []int{1, 3} {
		assert.ErrorContains(t, NewCandidates(relations).Observe(t.Context(), g, kg.Tail),
			"relations, but the graph has 2: make them with NewCandidates(2)")
	}
	assert.Panics(t, func() { c.Restrict(kg.Tail, 2, nil) })
	assert.Panics(t, func() { c.RestrictAll(kg.Relation, nil) })
}

// TestDistinctLists checks that equal lists are stored once, that a list keeps its entities even
// if another list has the same hash, and that Observe stops if the context has ended.
func TestDistinctLists(t *testing.T) {
	c := NewCandidates(4)
	c.Restrict(kg.Tail, 0, []int32{3, 1})
	c.numbers[hashOf([]int32{2})] = []int32{1}
	c.Restrict(kg.Tail, 1, []int32{2})
	c.Restrict(kg.Tail, 2, []int32{1, 3, 3})
	c.Restrict(kg.Tail, 3, []int32{2, 2})
	assert.Equal(t, [][]int32{{1, 3}, {2}}, c.lists)
	for relation, want := range [][]int32{{1, 3}, {2}, {1, 3}, {2}} {
		list, all := c.Of(kg.Query{Relation: int32(relation)})
		assert.False(t, all)
		assert.Equal(t, want, list)
	}

	g := ranktest.Graph(rand.New(rand.NewPCG(43, 4)), 20, 4, 60, 10, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := len(c.lists)
	assert.ErrorIs(t, c.Observe(ctx, g, kg.Head), context.Canceled)
	assert.Len(t, c.lists, before)
}
