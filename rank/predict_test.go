package rank

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// TestPredict checks that every list equals the beginning of the list of all candidates, sorted by
// brute force.
func TestPredict(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(3, 1))
	g := ranktest.Graph(rng, 130, 3, 400, 20, 20)
	index := kgtest.Index(t, g)
	var queries []kg.Query
	for i := range 37 {
		queries = append(queries, kg.Query{Side: kg.Side(i % 2), Relation: int32(rng.IntN(3)),
			Anchor: int32(rng.IntN(130))})
	}
	for _, kind := range ranktest.MatrixKinds {
		m := ranktest.Model(t, "mquine", 7, g, 11, kind)
		all := brutePredictions(g, queries, newBruteScorer(m))
		for _, k := range []int{1, 10, 200} {
			for _, filter := range []bool{false, true} {
				for _, b := range backends {
					for _, o := range []Options{
						{Threads: 1}, {Threads: 3, FeatureMemory: 50 * featureBytes(56), Screen: Int8Screen},
						{Threads: 2, Screen: Int16Screen},
					} {
						o.Backend = b
						checkPredictions(t, m, index, queries, all, k, filter, o, kind.Name)
					}
				}
			}
		}
	}
}

// TestPredictMany checks the lists of hundreds of queries among thousands of candidates, with every
// model. Many candidates have the score of the k-th best, with the same parameters or with
// different ones.
func TestPredictMany(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	const entities = 1_900
	rng := rand.New(rand.NewPCG(3, 2))
	g := ranktest.Graph(rng, entities, 3, 30_000, 20, 20)
	index := kgtest.Index(t, g)
	queries := make([]kg.Query, 220)
	for i := range queries {
		queries[i] = kg.Query{Side: kg.Side(i % 2), Relation: int32(rng.IntN(3)), Anchor: int32(rng.IntN(i + 1))}
	}
	tied := []string{"one ulp apart", "few distinct rows", "small integers", "huge and tiny norms"}
	for _, kind := range ranktest.VectorKinds {
		n := slices.Index(tied, kind.Name)
		if n < 0 || testing.Short() && n != 1 {
			continue
		}
		for i, name := range model.Names() {
			if (i+n)%2 == 1 {
				continue // every model is tested with two of the kinds
			}
			d := 6
			if name == "mquine" || name == "mquade" {
				d = 3
			}
			m := ranktest.Model(t, name, d, g, 12, kind)
			all := brutePredictions(g, queries, m.NewWorker(backends[0]).Reference)
			for j, ask := range []struct {
				k       int
				filter  bool
				threads int
				memory  int // candidates
			}{{1, false, 2, 0}, {15, true, 3, 700}, {400, false, 1, 700}, {entities + 1, true, 2, 0}} {
				o := Options{Backend: backends[(i+j)%len(backends)], Threads: ask.threads,
					Screen:        []Screen{AutoScreen, Float32Screen, Int8Screen, Int16Screen}[(i/2+j)%4],
					FeatureMemory: int64(ask.memory) * featureBytes(engine.WidestTower(m))}
				checkPredictions(t, m, index, queries, all, ask.k, ask.filter, o, kind.Name)
			}
		}
	}
}

// brutePredictions sorts all candidates for each query.
func brutePredictions(g *kg.Graph, queries []kg.Query, score func(kg.Query, int32) float64) [][]Prediction {
	known := map[kg.Triple]bool{}
	for _, split := range g.Splits {
		for _, t := range split {
			known[t] = true
		}
	}
	var all [][]Prediction
	for _, q := range queries {
		list := make([]Prediction, g.Entities.Len())
		for e := range list {
			tr := kg.Triple{Head: q.Anchor, Relation: q.Relation, Tail: int32(e)}
			if q.Side == kg.Head {
				tr.Head, tr.Tail = tr.Tail, tr.Head
			}
			list[e] = Prediction{int32(e), score(q, int32(e)), known[tr]}
		}
		slices.SortStableFunc(list, func(a, b Prediction) int { return cmp.Compare(b.Score, a.Score) })
		all = append(all, list)
	}
	return all
}

// checkPredictions compares Predict's lists with the first candidates of the sorted lists.
func checkPredictions(t *testing.T, m model.Model, x *kg.Index, queries []kg.Query, all [][]Prediction, k int,
	filter bool, o Options, kind string) {
	t.Helper()
	if !o.Screen.Fits(m.Tower(kg.Tail).Compare) {
		o.Screen = AutoScreen
	}
	got, err := Predict(context.Background(), m, x, queries, Top{K: k, FilterKnown: filter}, o)
	require.NoError(t, err)
	for i, want := range all {
		if filter {
			want = slices.DeleteFunc(slices.Clone(want), func(p Prediction) bool { return p.Known })
		}
		want = want[:min(k, len(want))]
		if !slices.Equal(want, got[i]) {
			require.Equal(t, want, got[i], "%s, %s, query %v, k = %d, filter %v, %s, %d threads", m.Config().Model,
				kind, queries[i], k, filter, o.Backend.Tier, o.Threads)
		}
	}
}

func TestPredictRefusesQueries(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(4, 5)), 30, 3, 10, 0, 0)
	m := ranktest.Model(t, "distmult", 4, g, 4, ranktest.VectorKinds[0])
	for q, want := range map[kg.Query]string{
		{Side: kg.Relation}: "not on the relation side: call PredictRelations for relations",
		{Anchor: 30}:        "is outside the model's 30 entities and 3 relations",
		{Relation: 3}:       "is outside the model's 30 entities and 3 relations",
	} {
		_, err := Predict(t.Context(), m, kgtest.Index(t, g), []kg.Query{{}, q}, Top{K: 1}, Options{})
		require.ErrorContains(t, err, want)
	}
}
