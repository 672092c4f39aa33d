package bench

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

// outOfCache is the size in bytes of a table that is far larger than most last-level caches. With
// 64 MiB, the caches of some servers would hold half of the table, and times would vary from
// process to process.
const outOfCache = 256 << 20

// panels scores a query block against panel after panel, as a ranking does, with features that
// exceed the caches and two targets per query. pct-peak is a share of the rate of the same
// operations on registers alone. GB/s counts only the panels, not the queries, which stay in
// the L2 or L3 cache.
func panels(s *suite) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		add := func(compare string, call func(k int) operation) {
			for _, k := range []int{200, 342, 1000, 1482, 2000} {
				list = append(list, Benchmark{
					Name:  name("Panel", "tier", backend.Tier, "compare", compare, "k", k),
					Quick: k == 1000 && s.best(backend),
					run: func(_ context.Context, b *testing.B) error {
						call(k).measure(b)
						return nil
					},
				})
			}
		}
		for _, c := range append(kernel.Comparisons(), kernel.GroupNormOf(20)) {
			add(c.String(), func(k int) operation { return float32Panel(backend, c, k/c.Group()*c.Group()) })
		}
		add("int16-dot", func(k int) operation { return int16DotPanel(backend, k) })
		add("int8-l1", func(k int) operation { return int8L1Panel(backend, k) })
		for _, c := range []kernel.Comparison{kernel.GroupNorm, kernel.GroupNormOf(4), kernel.GroupNormOf(20)} {
			add("int16-"+c.String(), func(k int) operation { return int16NormPanel(backend, c, k/c.Group()) })
		}
		if backend.HasVNNI() {
			add("int8", func(k int) operation { return int8Panel(backend, k) })
		}
		if backend.HasInt8Phase() {
			add("int8-phase", func(k int) operation { return int8PhasePanel(backend, k) })
		}
		if backend.Features.Has(kernel.FeatureAMX) {
			add("int16", func(k int) operation { return int16Panel(backend, k) })
		}
	}
	return list
}

func float32Panel(b *kernel.Backend, c kernel.Comparison, k int) operation {
	p := b.Panels(c)
	o := panel(b, p, k, func(n int) []uint32 { return kernel.Words(randoms(n)) })
	terms := comparedBy(p, k) * float64(k)
	o.flops = terms * c.Flops()
	o.limits = []share{{"pct-peak", terms, newLimit(ceiling.Terms(b, c))}}
	return o
}

func int8Panel(b *kernel.Backend, k int) operation {
	p, words := b.Int8Panels(), roundUp(k, kernel.WordBytes)/kernel.WordBytes
	o := panel(b, p, words, randomWords)
	ops := 2 * comparedBy(p, words) * float64(words*kernel.WordBytes)
	o.others = map[string]float64{"GOP/s": ops / 1e9}
	o.limits = []share{{"pct-peak", ops, newLimit(ceiling.Int8(b))}}
	return o
}

func int16DotPanel(b *kernel.Backend, k int) operation {
	p, words := b.Int16DotPanels(), roundUp(k, kernel.WordCodes)/kernel.WordCodes
	o := panel(b, p, words, randomCodes)
	ops := 2 * comparedBy(p, words) * float64(words*kernel.WordCodes)
	o.others = map[string]float64{"GOP/s": ops / 1e9}
	o.limits = []share{{"pct-peak", ops, newLimit(ceiling.Int16Dot(b))}}
	return o
}

func int8L1Panel(b *kernel.Backend, k int) operation {
	const codes = kernel.UnitWords * kernel.WordBytes
	p, units := b.Int8L1Panels(), roundUp(k, codes)/codes
	o := panel(b, p, units, randomWords)
	ops := 2 * comparedBy(p, units) * float64(units*codes)
	o.others = map[string]float64{"GOP/s": ops / 1e9}
	o.limits = []share{{"pct-peak", ops, newLimit(ceiling.Int8L1(b))}}
	return o
}

// int8PhasePanel compares k/2 phases, which are k coordinates of the comparison Phase.
func int8PhasePanel(b *kernel.Backend, k int) operation {
	p, words := b.Int8PhasePanels(), roundUp(k/2, kernel.WordBytes)/kernel.WordBytes
	o := panel(b, p, words, randomWords)
	phases := comparedBy(p, words) * float64(words*kernel.WordBytes)
	o.others = map[string]float64{"GOP/s": 2 * phases * kernel.Phase.Flops() / 1e9}
	o.limits = []share{{"pct-peak", phases, newLimit(ceiling.Int8Phase(b))}}
	return o
}

func int16NormPanel(b *kernel.Backend, c kernel.Comparison, groups int) operation {
	p, words := b.Int16NormPanels(c.Group()), groups*kernel.Int16NormWords(c.Group())
	o := panel(b, p, words, randomCodes)
	terms := comparedBy(p, words) * float64(groups*c.Group())
	o.others = map[string]float64{"GOP/s": terms * c.Flops() / 1e9}
	o.limits = []share{{"pct-peak", terms, newLimit(ceiling.Int16Norm(b, c.Group()))}}
	return o
}

func int16Panel(b *kernel.Backend, k int) operation {
	p := b.Int16Panels()
	words := roundUp(2*k/kernel.WordBytes, p.Multiple) // two one-byte codes per coordinate
	o := panel(b, p, words, randomWords)
	const products = 3 // products of coarse and fine codes per coordinate
	ops := products * 2 * comparedBy(p, words) * float64(words*kernel.WordBytes/2)
	o.others = map[string]float64{"GOP/s": ops / 1e9}
	o.limits = []share{{"pct-peak", ops, newLimit(ceiling.Int8Tiles(b))}}
	return o
}

// comparedBy returns the number of pairs that p scores in one call, with k coordinates per
// candidate.
func comparedBy(p kernel.Panels, k int) float64 {
	psi, _ := p.Words()
	return float64(p.QueryBlock(k*psi) * p.NR)
}

// panel returns an operation that calls p with k coordinates per candidate. vectors returns the
// values of queries and candidates.
func panel(b *kernel.Backend, p kernel.Panels, k int, vectors func(n int) []uint32) operation {
	psi, phi := p.Words()
	block, size := p.QueryBlock(k*psi), k*phi*p.NR
	panels := max(2, outOfCache/(4*size))
	candidates := vectors(panels * size)
	scratch := b.NewPanelScratch(block, 2*block)
	call := kernel.PanelCall{
		K: k, Strips: vectors(block * k * psi), ValidLanes: 1<<p.NR - 1,
		TargetStart: make([]int32, block+1), Thresholds: make([]float32, 4*block), Counts: make([]int32, 2*block),
	}
	for i := range call.TargetStart {
		call.TargetStart[i] = int32(2 * i)
	}
	for i := range call.Thresholds {
		call.Thresholds[i] = 1e30
	}
	at := 0
	return operation{
		call: func() {
			next := (at + 1) % panels
			call.Panel, call.Ahead = candidates[at*size:(at+1)*size], candidates[next*size:(next+1)*size]
			p.Score(scratch, &call)
			at = next
		},
		bytes: float64(4 * size),
	}
}

// randomWords returns n words of random bytes.
func randomWords(n int) []uint32 {
	rng := rand.New(rand.NewPCG(1, 8))
	return fill(kernel.AlignedWords(n), rng.Uint32)
}

// randomCodes returns n words of two small codes.
func randomCodes(n int) []uint32 {
	rng := rand.New(rand.NewPCG(1, 16))
	return fill(kernel.AlignedWords(n), func() uint32 { return rng.Uint32() & 0x0fff0fff })
}

// randoms returns n values in [0, 1).
func randoms(n int) []float32 {
	rng := rand.New(rand.NewPCG(1, 1))
	return fill(kernel.AlignedFloat32(n), func() float32 { return float32(rng.Float64()) })
}

// fill fills x by repeating a few thousand drawn values. Drawing every value would take longer than
// a benchmark.
func fill[T any](x []T, draw func() T) []T {
	const drawn = 9973 // a prime, so rows and lanes differ
	for i := range x[:min(len(x), drawn)] {
		x[i] = draw()
	}
	for done := drawn; done < len(x); done *= 2 {
		copy(x[done:], x[:done])
	}
	return x
}
