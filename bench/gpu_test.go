//go:build linux && (amd64 || arm64) && !nocuda

package bench_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/rank/gpu"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/clustered"
)

// BenchmarkGPURanking measures the ranking of the test split of FB15k-237 with an open GPU that has
// loaded the kernels. It reports how long the ranking takes in all, loads features (pack) and counts
// (rank).
func BenchmarkGPURanking(b *testing.B) {
	if os.Getenv("MQUINE_GPU") == "" {
		b.Skip("MQUINE_GPU=1 runs this on a GPU")
	}
	if os.Getenv("MQUINE_DATA") == "" {
		b.Skip("set MQUINE_DATA to the folder of the benchmark data sets to run this benchmark")
	}
	g, err := kg.Open(b.Context(), "fb15k-237")
	require.NoError(b, err)
	index, test := kgtest.Index(b, g), g.Splits[kg.Test]
	backend, err := kernel.New()
	require.NoError(b, err)
	for _, c := range []model.Config{
		{Model: "mquine", Dim: 38}, {Model: "complex", Dim: 200}, {Model: "transe-l1", Dim: 200},
		{Model: "rotate", Dim: 200},
	} {
		b.Run("model="+c.Model, func(b *testing.B) {
			c.Entities, c.Relations = g.Entities.Len(), g.Relations.Len()
			m, err := clustered.New(b.Context(), c, g, 1, train.Machine{Backend: backend, Threads: runtime.NumCPU()})
			require.NoError(b, err)
			e, err := gpu.Open(0)
			require.NoError(b, err)
			defer e.Close()
			run := func() *rank.Ranking {
				ranking, err := rank.Run(b.Context(), m, index, test, rank.Options{Backend: backend, Engine: e})
				require.NoError(b, err)
				return ranking
			}
			run() // tests the GPU and loads the kernels
			var pack, count, all time.Duration
			for b.Loop() {
				start := time.Now()
				ranking := run()
				all += time.Since(start)
				pack, count = pack+ranking.Stats.Pack, count+ranking.Stats.Rank
			}
			b.ReportMetric(0, "ns/op")
			for name, d := range map[string]time.Duration{"pack": pack, "rank": count, "all": all} {
				b.ReportMetric(1e3*d.Seconds()/float64(b.N), name+"-ms")
			}
		})
	}
}
