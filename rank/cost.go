package rank

// This file estimates how long a ranking takes with each screen. AutoScreen chooses the screen with
// the lowest estimate, so only the ratios of the times below matter.

// costs holds times in nanoseconds of one thread.
type costs struct {
	screens [4]screenCosts // by Screen
	// A pair of a target and a candidate that reaches the fine codes or the float64 scores, and each
	// of its coordinates.
	fine, rescored pairCosts
	// sampling is the largest share of a ranking in float32 that AutoScreen spends on its estimate.
	sampling float64
}

type pairCosts struct{ pair, term float64 }

// screenCosts are the costs of a screen's panels.
type screenCosts struct {
	pack float64   // for each coordinate of a candidate: packing it
	pair pairCosts // for a query and a candidate: scoring and counting it
}

// zen4 holds costs on an AMD processor with half-width AVX-512 and VNNI (Zen 4).
var zen4 = costs{
	screens: [...]screenCosts{
		Float32Screen: {pack: 1, pair: pairCosts{0, 0.0196}},
		Int8Screen:    {pack: 25, pair: pairCosts{0.18, 0.0046}},
		Int16Screen:   {pack: 25, pair: pairCosts{0, 0.0039}},
	},
	fine:     pairCosts{35, 0.03},
	rescored: pairCosts{60, 0.6},
	sampling: 0.03,
}

// leftovers are numbers of pairs of a target and a candidate, divided by the number of pairs of a
// query and a candidate.
type leftovers struct {
	fine     float64 // pairs that reach the fine codes
	rescored float64 // pairs that reach the float64 scores
}

func (c pairCosts) of(width int) float64 { return c.pair + c.term*float64(width) }

// packing returns the cost of packing n candidates.
func (c *costs) packing(s Screen, n, width int) float64 {
	return c.screens[s].pack * float64(n) * float64(width)
}

// counting returns the cost of counting n candidates for each query.
func (c *costs) counting(s Screen, queries, n, width int, l leftovers) float64 {
	pair := c.screens[s].pair.of(width) + l.fine*c.fine.of(width) + l.rescored*c.rescored.of(width)
	return pair * float64(queries) * float64(n)
}

// estimating returns the cost of estimating leftovers from a sample of queries and candidates.
func (c *costs) estimating(queries, candidates, width int) float64 {
	pairs := float64(queries) * float64(candidates)
	return pairs*c.rescored.of(width) + c.packing(Int8Screen, queries+candidates, width)
}
