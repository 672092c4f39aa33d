package rank

import (
	"context"
	"fmt"
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

// BenchmarkHub ranks 20,000 answers to one query among 200,000 entities, of which a share is known to
// answer it, too.
func BenchmarkHub(b *testing.B) {
	const entities, targets = 200_000, 20_000
	o := Options{Backend: kerneltest.Best(b), Threads: 1, Sides: []kg.Side{kg.Head}}
	for _, known := range []int{0, 10, 50} {
		b.Run(fmt.Sprintf("known=%d%%", known), func(b *testing.B) {
			g := ranktest.Graph(rand.New(rand.NewPCG(31, 2)), entities, 1, 0, 0, 0)
			for i, e := range rand.New(rand.NewPCG(31, 3)).Perm(entities)[:targets+entities*known/100] {
				split := kg.Train
				if i < targets {
					split = kg.Test
				}
				g.Splits[split] = append(g.Splits[split], kg.Triple{Head: int32(e), Tail: 7})
			}
			m, index := ranktest.Model(b, "distmult", 32, g, 1, ranktest.VectorKinds[0]), kgtest.Index(b, g)
			for b.Loop() {
				_, err := Run(context.Background(), m, index, g.Splits[kg.Test], o)
				require.NoError(b, err)
			}
		})
	}
}
