package rank

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// FuzzExact compares small rankings and predictions with brute force on every tier. The fuzzer
// chooses the graph, the model, the sizes, the kind of parameters, the threads and the slices.
func FuzzExact(f *testing.F) {
	kinds := append(append([]ranktest.Kind{}, ranktest.VectorKinds...), ranktest.MatrixKinds...)
	for i := range model.Names() {
		for kind := range kinds {
			f.Add(uint8(i), uint8(kind), uint8(3*i+kind), uint8(20*i+5*kind), uint8(i+kind), uint8(i),
				uint8(10*kind), uint64(kind))
		}
	}
	backends, err := kernel.Available()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, name, kind, dim, entities, triples, threads, slice uint8, seed uint64) {
		models := model.Names()
		c := model.Config{Model: models[int(name)%len(models)], Dim: int(dim)%40 + 1}
		how := kinds[int(kind)%len(kinds)]
		matrices := c.Model == "mquine" || c.Model == "mquade"
		if matrices {
			c.Dim = c.Dim%9 + 1
		} else {
			how = ranktest.VectorKinds[int(kind)%len(ranktest.VectorKinds)]
		}
		rng := rand.New(rand.NewPCG(seed, 17))
		n := int(entities)%120 + 6
		g := ranktest.Graph(rng, n, 3, int(triples)*2, int(triples)%30, int(triples)%13+1)
		m := ranktest.Model(t, c.Model, c.Dim, g, seed, how)
		score := m.NewWorker(backends[len(backends)-1]).Reference
		if matrices {
			score = newBruteScorer(m)
		}
		index := kgtest.Index(t, g)
		test := g.Splits[kg.Test]
		want := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head}, score)
		var queries []kg.Query
		for i, tr := range test {
			q, _ := tr.Query(kg.Side(i % 2))
			queries = append(queries, q)
		}
		lists := brutePredictions(g, queries, score)
		for _, b := range backends {
			o := Options{Backend: b, Threads: int(threads)%3 + 1,
				FeatureMemory: int64(slice) * featureBytes(engine.WidestTower(m)), Screen: Screen(seed % 4)}
			if !o.Screen.Fits(m.Tower(kg.Tail).Compare) {
				o.Screen = AutoScreen
			}
			got, err := Run(context.Background(), m, index, test, o)
			require.NoError(t, err)
			require.Equal(t, want, got.Ranks, "%s, %s", how.Name, b.Tier)
			checkPredictions(t, m, index, queries, lists, int(triples)%25+1, seed%2 == 0, o, how.Name)
		}
	})
}
