package rank

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// This file estimates how long a ranking takes with each screen. AutoScreen chooses the screen with
// the lowest estimate, so only the ratios of the times below matter.

// costs holds processor times in nanoseconds.
type costs struct {
	screens   [4]screenCosts // dot products, by Screen
	distances [4]screenCosts // L1 distances, by Screen
	groups    [4]screenCosts // group norms, by Screen
	phases    [4]screenCosts // Phase, by Screen
	// These are for a pair of a target and a candidate that the panels leave to the fine codes or
	// to the float64 scores.
	fine, rescored pairCosts
	sampled        pairCosts // a pair of a sampled query and a sampled candidate
	// most is the largest share of the time in float32 that AutoScreen spends on its estimate.
	most float64
}

// screenCosts are the costs of a screen's panels.
type screenCosts struct {
	pack float64   // packing a coordinate of a candidate
	pair pairCosts // comparing a query and a candidate, with the thresholds of two targets
	// root is a part of the cost of comparing a query and a candidate, for each group of coordinates.
	root float64
}

// pairCosts is the cost of a pair: pair plus term for each coordinate.
type pairCosts struct{ pair, term float64 }

func (c pairCosts) of(width int) float64 { return c.pair + c.term*float64(width) }

// halfWidthCosts are the costs on an AMD processor with half-width AVX-512 and VNNI (Zen 4). The
// cost of a pair in float32 comes from the benchmark Panel (docs/performance.md). The others are
// fitted to the benchmark ScreenChoice on FB15k-237 (docs/performance.md): 32 rankings with 156 to
// 930 coordinates, in which int8 leaves 1.3% to 27% of the pairs undecided. The pair cost of int8
// therefore includes the work for each query between the panels and the fine codes. costsOf
// replaces the costs of int16 for dot products. The costs of phases come from the benchmark Panel
// and from a profile of packing.
var halfWidthCosts = costs{
	screens: [4]screenCosts{
		Float32Screen: {pack: 2, pair: pairCosts{0, 0.0178}},
		Int8Screen:    {pack: 12, pair: pairCosts{0.4, 0.0077}},
	},
	distances: [4]screenCosts{
		Float32Screen: {pack: 2, pair: pairCosts{0, 0.034}},
		Int8Screen:    {pack: 8, pair: pairCosts{0.4, 0.0048}},
	},
	groups: [4]screenCosts{
		Float32Screen: {pack: 2, pair: pairCosts{0, 0.0169}, root: 0.034},
		Int16Screen:   {pack: 8, pair: pairCosts{0, 0.0094}, root: 0.032},
	},
	phases: [4]screenCosts{
		Float32Screen: {pack: 2, pair: pairCosts{0, 0.0222}},
		Int8Screen:    {pack: 14, pair: pairCosts{0.4, 0.0073}},
	},
	fine:     pairCosts{35, 0.009},
	rescored: pairCosts{60, 0.2},
	sampled:  pairCosts{60, 0.2},
	most:     0.03,
}

// fullWidthCosts are the costs on an AMD processor with full-width AVX-512 and VNNI (Zen 5), fitted to
// the same rankings. The kernels in float32 are twice as fast there, and the work for each query and for
// each pair that the panels leave undecided is not. The costs of group norms come from the benchmark
// Panel, and int16 has 0.0016 more for the work for each query, as RotatE needs.
var fullWidthCosts = costs{
	screens: [4]screenCosts{
		Float32Screen: {pack: 2, pair: pairCosts{0, 0.0083}},
		Int8Screen:    {pack: 12, pair: pairCosts{0.25, 0.004}},
		Int16Screen:   {pack: 6, pair: pairCosts{0.15, 0.0053}},
	},
	distances: [4]screenCosts{
		Float32Screen: {pack: 2, pair: pairCosts{0, 0.0163}},
		Int8Screen:    {pack: 8, pair: pairCosts{0.2, 0.0043}},
	},
	groups: [4]screenCosts{
		Float32Screen: {pack: 2, pair: pairCosts{0, 0.0085}, root: 0.0095},
		Int16Screen:   {pack: 8, pair: pairCosts{0, 0.006}, root: 0.0178},
	},
	phases: [4]screenCosts{
		Float32Screen: {pack: 2, pair: pairCosts{0, 0.0102}},
		Int8Screen:    {pack: 14, pair: pairCosts{0.2, 0.0034}},
	},
	fine:     pairCosts{32, 0.002},
	rescored: pairCosts{65, 0.058},
	sampled:  pairCosts{60, 0.1},
	most:     0.03,
}

// costsOf returns the costs for a machine. The costs of int16 in one product are fitted to the processor
// times of eight rankings of FB15k-237 on Zen 4 (docs/performance.md), with and without VNNI, and to the
// rates of the benchmark Panel. AVX2 and AVX-512 without VNNI have the same rates. Int16 has other kernels
// with AMX, which these processors lack. On a Xeon, where the costs of float32 and int8 have the same ratio
// as on Zen 4, a pair in int16 costs a fifth as much as a pair in float32. Zen 5 without VNNI was not measured
// and has the costs of Zen 4.
func costsOf(b *kernel.Backend) costs {
	if b.Features.Has(kernel.FeatureVNNI) && !b.Features.Has(kernel.FeatureAMX) && kernel.FullWidthAVX512() {
		return fullWidthCosts
	}
	c := halfWidthCosts
	x := &c.screens[Int16Screen]
	switch {
	case b.Features.Has(kernel.FeatureAMX):
		*x = screenCosts{pack: 12, pair: pairCosts{0, 0.0039}}
	case b.HasVNNI():
		*x = screenCosts{pack: 6, pair: pairCosts{0.4, 0.0102}}
	default:
		*x = screenCosts{pack: 6, pair: pairCosts{0.4, 0.0136}}
	}
	return c
}

// leftovers are the shares of all pairs of a target and a candidate that reach the stages after the
// panels.
type leftovers struct {
	fine     float64 // the fine codes
	rescored float64 // the float64 scores
}

// of returns the costs of a screen for a tower.
func (c *costs) of(s Screen, t model.Tower) screenCosts {
	switch {
	case t.Compare == kernel.L1:
		return c.distances[s]
	case t.Compare == kernel.Phase:
		return c.phases[s]
	case isGroupNorm(t.Compare):
		x := c.groups[s]
		x.pair.term += x.root / float64(t.Compare.Group())
		return x
	}
	return c.screens[s]
}

// packing returns the cost of packing n candidates.
func (c *costs) packing(s Screen, n int, t model.Tower) float64 {
	return c.of(s, t).pack * float64(n) * float64(t.Phi)
}

// counting returns the cost of comparing n candidates with the targets of queries.
func (c *costs) counting(s Screen, queries, targets, n int, t model.Tower, l leftovers) float64 {
	inPanels := float64(queries) * c.of(s, t).pair.of(t.Phi)
	later := float64(targets) * (l.fine*c.fine.of(t.Phi) + l.rescored*c.rescored.of(t.Phi))
	return float64(n) * (inPanels + later)
}

// sampling returns the cost of estimating leftovers from a sample of targets and candidates. All threads
// compute the scores. One thread computes the codes, and the others wait.
func (c *costs) sampling(targets, candidates int, t model.Tower, threads int) float64 {
	pairs := float64(targets) * float64(candidates) / everyCompared
	packing := 0.0
	for s := range Screen(len(c.screens)) {
		packing = max(packing, c.packing(s, targets+candidates, t))
	}
	return pairs*c.sampled.of(t.Phi) + float64(max(threads, 1))*packing
}
