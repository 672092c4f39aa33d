package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/mquine/mquine/kernel"
)

// BenchmarkProductAndCount counts, for a query block, the candidates whose dot product exceeds a
// threshold. It compares the panel kernel, which counts in the microtile, gonum's sgemm, which
// needs a separate pass over its result, and a plain loop. All three have the same operands and use
// all threads. Rivals outside Go are in bench/rivals.
func BenchmarkProductAndCount(b *testing.B) {
	backend, err := kernel.New()
	require.NoError(b, err)
	for _, k := range []int{342, 1000, 1482} {
		c := newCounting(backend, k)
		want := make([]int32, c.m)
		c.plain(want)
		for _, rival := range []struct {
			name  string
			count func(better []int32)
		}{{"panel", c.panel}, {"gonum", c.gonum}, {"plain", c.plain}} {
			b.Run(fmt.Sprintf("rival=%s/k=%d", rival.name, k), func(b *testing.B) {
				better := make([]int32, c.m)
				for b.Loop() {
					clear(better)
					rival.count(better)
				}
				require.Equal(b, want, better)
				flop := 2 * float64(c.m) * float64(c.n) * float64(k)
				b.ReportMetric(flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// counting holds m queries and n candidates of k small integers. Float32 sums of their products are
// exact, so every order of summation gives the same counts.
type counting struct {
	backend            *kernel.Backend
	m, n, k            int
	threads            int
	queries, candidate []float32 // by rows
	thresholds         []float32
	strips, panels     []uint32 // packed
	scores             []float32
	targetStart        []int32
	intervals          []float32
	kernels            kernel.Panels
	scratch            []*kernel.PanelScratch
	terms, ids         []int32 // 0, 1, 2, …
}

func newCounting(backend *kernel.Backend, k int) *counting {
	c := &counting{backend: backend, k: k, threads: runtime.GOMAXPROCS(0)}
	c.kernels = backend.Panels(kernel.Dot)
	c.m = c.kernels.QueryBlock(k)
	c.n = 4096 / backend.NR * backend.NR
	rng := rand.New(rand.NewPCG(1, 1))
	fill := func(n int) []float32 {
		x := kernel.AlignedFloat32(n)
		for i := range x {
			x[i] = float32(rng.IntN(17) - 8)
		}
		return x
	}
	c.queries, c.candidate, c.thresholds = fill(c.m*k), fill(c.n*k), fill(c.m)
	c.scores = kernel.AlignedFloat32(c.m * c.n)
	c.terms, c.ids = ascending(k), ascending(backend.NR)
	c.strips, c.panels = kernel.AlignedWords(c.m*k), kernel.AlignedWords(c.n*k)
	for at := 0; at < c.n; at += backend.NR {
		kernel.PackRows(c.panels[at*k:], kernel.Words(c.candidate[at*k:]), k, c.ids, c.terms, backend.NR)
	}
	c.targetStart, c.intervals = make([]int32, c.m+1), make([]float32, 2*c.m)
	for i := range c.targetStart {
		c.targetStart[i] = int32(i)
	}
	for i, t := range c.thresholds {
		c.intervals[2*i], c.intervals[2*i+1] = t, t
	}
	for range c.threads {
		c.scratch = append(c.scratch, backend.NewPanelScratch(c.m, c.m))
	}
	return c
}

func ascending(n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(i)
	}
	return x
}

// each calls work for every one of n items, on all threads.
func (c *counting) each(n int, work func(worker, item int)) {
	if err := kernel.Parallel(context.Background(), c.threads, n, work); err != nil {
		panic(err) // the context is never cancelled
	}
}

// panel packs the queries and distributes the panels among the threads.
func (c *counting) panel(better []int32) {
	mr := c.kernels.MR
	for s := range c.m / mr {
		c.kernels.PackStrip(c.strips, s, c.m/mr, kernel.Words(c.queries[s*mr*c.k:]), c.k, c.ids[:mr], c.terms)
	}
	counts := make([][]int32, c.threads)
	for i := range counts {
		counts[i] = make([]int32, c.m)
	}
	size := c.backend.NR * c.k
	c.each(c.n/c.backend.NR, func(w, p int) {
		c.kernels.Score(c.scratch[w], &kernel.PanelCall{
			K: c.k, Strips: c.strips, Panel: c.panels[p*size : (p+1)*size], ValidLanes: 1<<c.backend.NR - 1,
			TargetStart: c.targetStart, Thresholds: c.intervals, Counts: counts[w],
		})
	})
	for _, part := range counts {
		for i, n := range part {
			better[i] += n
		}
	}
}

func (c *counting) gonum(better []int32) {
	gonum.Implementation{}.Sgemm(blas.NoTrans, blas.Trans, c.m, c.n, c.k, 1, c.queries, c.k, c.candidate, c.k,
		0, c.scores, c.n)
	c.each(c.m, func(_, i int) {
		for _, s := range c.scores[i*c.n : (i+1)*c.n] {
			if s > c.thresholds[i] {
				better[i]++
			}
		}
	})
}

func (c *counting) plain(better []int32) {
	c.each(c.m, func(_, i int) {
		q := c.queries[i*c.k : (i+1)*c.k]
		for e := range c.n {
			var sum float32
			for t, v := range c.candidate[e*c.k : (e+1)*c.k] {
				sum += q[t] * v
			}
			if sum > c.thresholds[i] {
				better[i]++
			}
		}
	})
}
