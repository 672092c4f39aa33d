package rank

import (
	"context"
	"math"
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

// someNegatives returns lists of up to 40 entities, some of them empty or with repeated entities.
func someNegatives(rng *rand.Rand, g *kg.Graph, triples []kg.Triple) *Negatives {
	n := new(Negatives)
	for side := range n {
		for _, t := range triples {
			_, answer := t.Query(kg.Side(side))
			list := []int32{}
			for range rng.IntN(40) {
				if e := int32(rng.IntN(g.Entities.Len())); e != answer {
					list = append(list, e)
				}
			}
			slices.Sort(list)
			n[side] = append(n[side], list)
		}
	}
	return n
}

// bruteForceNegatives ranks among negatives by definition. A candidate within the tolerance of the
// target's printed score ties with it; a negative tolerance stands for exact ranks.
func bruteForceNegatives(
	m model.Model, g *kg.Graph, triples []kg.Triple, n *Negatives, tolerance Tolerance, w model.Worker,
) (ranks []Rank) {
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		for i, t := range triples {
			q, answer := t.Query(side)
			target := w.Reference(q, answer)
			r := Rank{Triple: t, Side: side, Candidates: [NumFilters]int32{1, 1, 1}}
			for _, e := range n[side][i] {
				score := w.Reference(q, e)
				near := math.Abs(m.Score(score)-m.Score(target)) <=
					tolerance.Absolute+float64(tolerance.Relative*math.Abs(m.Score(target)))
				for f := range NumFilters {
					removed := slices.ContainsFunc([]kg.Split{kg.Train, kg.Valid, kg.Test}, func(s kg.Split) bool {
						return f.Splits().Has(s) && slices.Contains(g.Splits[s], q.Triple(e))
					})
					switch {
					case removed:
						continue
					case score == target || near:
						r.Equal[f]++
					case score > target:
						r.Better[f]++
					}
					r.Candidates[f]++
				}
			}
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// TestNegatives checks that ranks among negatives equal the ranks of a brute force, for every
// model, backend and number of threads, with a tolerance, in slices and in shards.
func TestNegatives(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	const entities = 120
	rng := rand.New(rand.NewPCG(49, 1))
	g := ranktest.Graph(rng, entities, 3, 400, 30, 40)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	negatives := someNegatives(rng, g, test)
	type checkpoint struct {
		model.Model
		kind string
	}
	var models []checkpoint
	for _, kind := range ranktest.MatrixKinds {
		models = append(models, checkpoint{ranktest.Model(t, "mquine", 3, g, 1, kind), kind.Name})
	}
	for i, c := range ranktest.VectorConfigs(6, g) {
		for k := range 3 {
			kind := ranktest.VectorKinds[(i+3*k)%len(ranktest.VectorKinds)]
			models = append(models, checkpoint{ranktest.ModelOf(t, c, 2, kind), kind.Name})
		}
	}
	for turn, m := range models {
		o := Options{Backend: backends[turn%len(backends)], Threads: 1 + turn%3, Negatives: negatives}
		if turn%2 == 0 {
			o.FeatureMemory = 20 * rowBytes(engine.WidestTower(m))
		}
		if turn%4 == 0 {
			o.Tolerances = []Tolerance{{Absolute: 0.05, Relative: 0.01}}
		}
		w := m.NewWorker(backends[0])
		want := bruteForceNegatives(m, g, test, negatives, Tolerance{Absolute: -1}, w)
		r, err := Run(t.Context(), m, index, test, o)
		require.NoError(t, err)
		require.Equal(t, want, r.Ranks, "%s, %s", m.Config().Model, m.kind)
		for i, tolerance := range o.Tolerances {
			near := bruteForceNegatives(m, g, test, negatives, tolerance, w)
			require.Equal(t, near, r.Near[i], "%s, %s, near", m.Config().Model, m.kind)
		}

		low, high := o, o
		low.Shard, high.Shard = Range{0, 70}, Range{70, entities}
		sum, err := Run(t.Context(), m, index, test, low)
		require.NoError(t, err)
		rest, err := Run(t.Context(), m, index, test, high)
		require.NoError(t, err)
		require.NoError(t, Add(sum.Ranks, rest.Ranks))
		require.Equal(t, want, sum.Ranks, "%s, %s, shards", m.Config().Model, m.kind)
	}
}

// TestAllNegatives checks that the ranks equal the ranks of a full ranking if every list holds all
// other entities.
func TestAllNegatives(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(49, 2)), 60, 3, 200, 10, 30)
	test := g.Splits[kg.Test]
	m := ranktest.Model(t, "rotate", 4, g, 1, ranktest.VectorKinds[2])
	n := new(Negatives)
	for side := range n {
		for _, triple := range test {
			_, answer := triple.Query(kg.Side(side))
			var others []int32
			for e := range int32(60) {
				if e != answer {
					others = append(others, e)
				}
			}
			n[side] = append(n[side], others)
		}
	}
	want, err := Run(t.Context(), m, kgtest.Index(t, g), test, Options{})
	require.NoError(t, err)
	got, err := Run(t.Context(), m, kgtest.Index(t, g), test, Options{Negatives: n})
	require.NoError(t, err)
	assert.Equal(t, want.Ranks, got.Ranks)
	assert.Equal(t, "float64", got.Stats.Screen.String())
	assert.EqualValues(t, 2*len(test)*59, got.Stats.Pairs)
}

func TestNegativesErrors(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(49, 3)), 20, 2, 60, 10, 2)
	m := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0])
	index, test := kgtest.Index(t, g), []kg.Triple{{Head: 1, Tail: 2}}
	tail := []kg.Side{kg.Tail}
	for want, o := range map[string]Options{
		"0 lists of negatives do not suit 1 triples on the head side": {
			Negatives: &Negatives{{{3}}}},
		"are not in ascending order":            {Sides: tail, Negatives: &Negatives{{{4, 3}}}},
		"negatives 3 to 20 of query {tail 0 1}": {Sides: tail, Negatives: &Negatives{{{3, 20}}}},
		"contain the target 2":                  {Sides: tail, Negatives: &Negatives{{{1, 2}}}},
		"set neither Among nor Engine":          {Negatives: &Negatives{}, Among: NewCandidates(2)},
	} {
		_, err := Run(t.Context(), m, index, test, o)
		assert.ErrorContains(t, err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, m, index, test, Options{Sides: tail, Negatives: &Negatives{{{1, 3}}}})
	assert.ErrorIs(t, err, context.Canceled)
}
