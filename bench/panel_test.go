package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
)

// BenchmarkPanel scores a block of queries against panel after panel, as a ranking does: features
// beyond the caches, two truths a query. pct-peak is the share of the rate at which the same operations run on
// registers alone, measured between the rounds on the same thread.
func BenchmarkPanel(b *testing.B) {
	backends, err := kernel.Available()
	require.NoError(b, err)
	for _, backend := range backends {
		for _, c := range []kernel.Comparison{kernel.Dot, kernel.L1, kernel.GroupNorm, kernel.Phase} {
			for _, k := range []int{200, 342, 1000, 1482, 2000} {
				b.Run(fmt.Sprintf("tier=%s/compare=%s/k=%d", backend.Tier, c, k), func(b *testing.B) {
					benchmarkPanel(b, backend, c, k)
				})
			}
		}
	}
}

func benchmarkPanel(b *testing.B, backend *kernel.Backend, c kernel.Comparison, k int) {
	mr := backend.MR(c)
	block := backend.QueryBlock(c, k)
	panels := max(2, (64<<20)/(4*k*backend.NR))
	rng := rand.New(rand.NewPCG(1, 1))
	fill := func(n int) []float32 {
		x := kernel.AlignedFloat32(n)
		for i := range x {
			x[i] = float32(rng.Float64())
		}
		return x
	}
	queries, candidates := fill(block*k), fill(panels*k*backend.NR)
	tile := backend.NewTile(block, 2*block)
	rows := make([]int32, block+1)
	for i := range rows {
		rows[i] = int32(2 * i)
	}
	ends, better := make([]float32, 4*block), make([]int32, 2*block)
	for i := range ends {
		ends[i] = 1e30
	}
	size := k * backend.NR
	var busy time.Duration
	var ceiling float64
	rounds, p := 0, 0
	for b.Loop() {
		start := time.Now()
		next := (p + 1) % panels
		backend.Panel(c, tile, queries, candidates[p*size:(p+1)*size], k, rows, ends, better, 1<<backend.NR-1, candidates[next*size:(next+1)*size])
		busy += time.Since(start)
		p = next
		if rounds++; rounds%64 == 1 {
			b.StopTimer()
			ceiling += backend.PeakTerms(c, 1, 2*time.Millisecond)
			b.StartTimer()
		}
	}
	ceiling /= float64((rounds + 63) / 64)
	terms := float64(rounds) * float64(block/mr*mr) * float64(backend.NR) * float64(k)
	b.ReportMetric(terms/busy.Seconds()/1e9, "Gterms/s")
	b.ReportMetric(100*terms/busy.Seconds()/ceiling, "pct-peak")
}
