package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

var comparisons = []kernel.Comparison{kernel.Dot, kernel.L1, kernel.GroupNorm, kernel.Phase}

// flops counts the floating-point operations of a term of a score: additions, multiplications and
// roots, but no change of a sign.
func flops(c kernel.Comparison) float64 {
	switch c {
	case kernel.GroupNorm:
		return 3.5 // two differences, two squares, their sum, its root, the sum over pairs: 7 for two terms
	default:
		return 2 // Phase: two products, their sum, the sum over pairs: 4 for two terms
	}
}

// outOfCache is the memory of tables and panels that no cache should hold.
const outOfCache = 64 << 20

// panels scores a block of queries against panel after panel, as a ranking does: features beyond
// the caches, two truths a query. pct-peak is the share of the rate at which the same operations run
// on registers alone. The bytes are those of the panel: the queries stay in the L2 cache.
func panels(s *suite) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		compared := comparisons
		if backend.FastInt8() {
			compared = append(slices.Clone(compared), kernel.Int8)
		}
		if backend.FastInt16() {
			compared = append(slices.Clone(compared), kernel.Int16)
		}
		for _, c := range compared {
			for _, k := range []int{200, 342, 1000, 1482, 2000} {
				list = append(list, Benchmark{
					Name:  name("Panel", "tier", backend.Tier, "compare", c, "k", k),
					Quick: k == 1000 && s.best(backend),
					run: func(_ context.Context, b *testing.B) error {
						panel(backend, c, k).measure(b)
						return nil
					},
				})
			}
		}
	}
	return list
}

// panel is a call of Panel over k dimensions.
func panel(backend *kernel.Backend, c kernel.Comparison, k int) operation {
	dimensions, vectors := k, randoms
	switch c {
	case kernel.Int8:
		k = (k + kernel.WordBytes - 1) / kernel.WordBytes
		dimensions, vectors = k*kernel.WordBytes, randomBytes
	case kernel.Int16: // two codes of a byte each
		k = (2*k/kernel.WordBytes + c.Unit() - 1) / c.Unit() * c.Unit()
		dimensions, vectors = k*kernel.WordBytes/2, randomBytes
	}
	mr := backend.MR(c)
	block := backend.QueryBlock(c, k)
	size := k * backend.NR
	panels := max(2, outOfCache/(4*size))
	queries, candidates := vectors(block*k), vectors(panels*size)
	tile := backend.NewTile(block, 2*block)
	rows := make([]int32, block+1)
	for i := range rows {
		rows[i] = int32(2 * i)
	}
	ends, better := make([]float32, 4*block), make([]int32, 2*block)
	for i := range ends {
		ends[i] = 1e30
	}
	p := 0
	terms := float64(block/mr*mr) * float64(backend.NR) * float64(dimensions)
	o := operation{
		call: func() {
			next := (p + 1) % panels
			backend.Panel(c, tile, queries, candidates[p*size:(p+1)*size], k, rows, ends, better, 1<<backend.NR-1, candidates[next*size:(next+1)*size])
			p = next
		},
		bytes: float64(4 * size),
	}
	switch c {
	case kernel.Int8:
		o.others = map[string]float64{"GOP/s": 2 * terms / 1e9}
		o.limits = []share{{"pct-peak", 2 * terms, newLimit(ceiling.Int8(backend))}}
	case kernel.Int16:
		const products = 3 // of coarse and fine codes
		o.others = map[string]float64{"GOP/s": products * 2 * terms / 1e9}
		o.limits = []share{{"pct-peak", products * 2 * terms, newLimit(ceiling.Int8Tiles(backend))}}
	default:
		o.flops = terms * flops(c)
		o.limits = []share{{"pct-peak", terms, newLimit(ceiling.Terms(backend, c))}}
	}
	return o
}

// randomBytes returns words of random bytes, a few thousand again and again.
func randomBytes(n int) []float32 {
	rng := rand.New(rand.NewPCG(1, 8))
	x := kernel.AlignedFloat32(n)
	for i := range x[:min(n, 9973)] {
		x[i] = math.Float32frombits(rng.Uint32())
	}
	for done := 9973; done < n; done *= 2 {
		copy(x[done:], x[:done])
	}
	return x
}

// randoms returns numbers from 0 to 1, a few thousand again and again.
func randoms(n int) []float32 {
	rng := rand.New(rand.NewPCG(1, 1))
	x := kernel.AlignedFloat32(n)
	for i := range x[:min(n, 9973)] { // a prime, so that rows and lanes differ
		x[i] = float32(rng.Float64())
	}
	for done := 9973; done < n; done *= 2 {
		copy(x[done:], x[:done])
	}
	return x
}
