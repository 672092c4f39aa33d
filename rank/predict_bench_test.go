package rank

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// BenchmarkPredict predicts the ten best answers to each of 2,000 queries, with random checkpoints
// of the size of FB15k-237.
func BenchmarkPredict(b *testing.B) {
	backend := kerneltest.Best(b)
	rng := rand.New(rand.NewPCG(31, 1))
	g := ranktest.Graph(rng, 14_541, 237, 272_115, 17_535, 0)
	index := kgtest.Index(b, g)
	queries := make([]kg.Query, 2_000)
	for i := range queries {
		queries[i] = kg.Query{Side: kg.Side(i % 2), Relation: int32(rng.IntN(237)), Anchor: int32(rng.IntN(14_541))}
	}
	for _, shape := range []struct {
		model string
		dim   int
	}{{"mquine", 38}, {"complex", 500}, {"transe-l1", 1000}, {"rotate", 500}} {
		b.Run(shape.model, func(b *testing.B) {
			m := ranktest.Model(b, shape.model, shape.dim, g, 1, ranktest.VectorKinds[0])
			o := Options{Backend: backend, Threads: runtime.GOMAXPROCS(0)}
			for b.Loop() {
				_, err := Predict(context.Background(), m, index, queries, Top{K: 10}, o)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.N*len(queries))/b.Elapsed().Seconds(), "queries/s")
		})
	}
}
