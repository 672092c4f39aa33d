package rank

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// The tests in this file and in codes_exact_test.go compare bands with exact errors, which math/big
// computes. The inputs make one term of a band dominate and bring the error close to this term, so
// a test fails if the term is halved or missing (docs/numerics.md, "Tests of the bounds").
// Arithmetic with the same bits on all tiers is tested on one tier.

// testBlock is a block of queries with the memory of the stages that process the block.
type testBlock struct {
	*sweeper
	*engine.Block
}

// oneQuery returns a block with one query and one target, and features with one panel group, for
// tests of bands.
func oneQuery(b *kernel.Backend, tower model.Tower) testBlock {
	f := &features{nr: b.NR, groupNorms: make([]float64, 1), groupSizes: make([]float64, 1)}
	f.Tower = tower
	f.use(&float32Screen{f, b})
	return testBlock{
		&sweeper{
			f: f, queries: packedQueries{codedQueries: codedQueries{coded: make([]codedQuery, 1)}},
			thresholds: thresholds{make([]float32, 2), make([]float32, 1), make([]float64, 1)},
		},
		&engine.Block{
			Job: &engine.Job{Backend: b}, Queries: make([]engine.Query, 1), TargetStart: []int32{0, 1},
			Vectors: engine.Vectors{Tower: tower, Norms: make([]float64, 1), Slacks: make([]model.Slack, 1)},
			Low:     make([]float64, 1), High: make([]float64, 1),
		},
	}
}

// oneCodedQuery is like oneQuery but adds a screen of codes for dot products.
func oneCodedQuery(b *kernel.Backend, width int, format *codeFormat) (testBlock, *codes) {
	s := oneQuery(b, model.Tower{Compare: kernel.Dot, Psi: width, Phi: width})
	s.f.use(format.new(codes{
		f: s.f, backend: b, kernels: format.panels(b, kernel.Dot), layout: format.layout(s.f.Tower),
		coordinates: &coordinates{}, groups: make([]codeGroup, 1),
	}))
	return s, codesOf(s.f.screen)
}

// codesOf returns the common part of a screen of codes.
func codesOf(x screen) *codes {
	return x.(interface{ common() *codes }).common()
}

// product returns the exact product of numbers.
func product(x ...float64) *big.Float { return exactly.Mul(exactly.All(x)...) }

// contain records in ratio the required distances of a score from the ends of an interval, relative
// to the actual distances.
func contain(ratio *exactly.Ratio, score float64, below, above *big.Float, low, high float64) {
	for _, end := range []struct{ needed, room *big.Float }{
		{below, exactly.Sub(exactly.Of(score), exactly.Of(low))},
		{above, exactly.Sub(exactly.Of(high), exactly.Of(score))},
	} {
		if end.room.Sign() > 0 {
			ratio.See(exactly.Quo(end.needed, end.room), 1)
		} else {
			ratio.See(end.needed, 0)
		}
	}
}

// exactBand returns the half-width of the interval around a score, without the slack
// (docs/numerics.md, "From ψ and φ to the reference score").
func exactBand(s testBlock, score, relative, absolute, norm float64) *big.Float {
	tower, u, psi := s.f.Tower, kernel.U32, s.Norms[0]
	band := exactly.Of(absolute)
	if tower.Compare.Products() {
		band = exactly.Add(product(relative, psi, norm), band)
	}
	if tower.Compare.Distance() {
		largest := exactly.Quo(exactly.Add(exactly.Of(math.Abs(score)), band), exactly.Sum(1, -relative))
		return exactly.Add(exactly.Mul(exactly.Of(relative), largest), band)
	}
	if tower.Compare == kernel.Dot {
		root := exactly.Of(float64(tower.Phi))
		root.Sqrt(root)
		tiny := exactly.Mul(exactly.Of(0x1p-149), root, exactly.Sum(psi, norm, 1))
		band = exactly.Add(band, product(2*u, psi, norm), product(u, u, psi, norm), tiny)
	}
	return band
}

// towerOf returns a tower for the given number of coordinates.
func towerOf(c kernel.Comparison, terms int) model.Tower {
	psi, phi := c.Words()
	return model.Tower{Compare: c, Psi: psi * terms, Phi: phi * terms}
}

// exactSlack returns the slack for candidates of the given size.
func exactSlack(slack model.Slack, n float64) *big.Float {
	return exactly.Add(exactly.Of(slack[0]), product(slack[1], n), product(slack[2], n, n))
}

// drawBands draws norms, sizes and a slack, so any part of the bands may dominate. It returns a
// score.
func drawBands(rng *rand.Rand, s testBlock) (score float64) {
	size := func() float64 { return (1 + rng.Float64()) * math.Ldexp(1, rng.IntN(20)-10) }
	s.Norms[0], s.f.groupNorms[0], s.f.groupSizes[0] = size(), size(), size()
	score, s.Slacks[0] = rng.NormFloat64()*s.Norms[0]*s.f.groupNorms[0], model.Slack{}
	switch rng.IntN(4) {
	case 0:
		score = 0
	case 1: // a large score but small norms, such as a large target among small candidates
		score *= math.Ldexp(1, rng.IntN(80))
		s.Norms[0] *= 0x1p-20
		s.f.groupNorms[0] *= 0x1p-20
	case 2: // below the normal range of float32
		s.Norms[0], s.f.groupNorms[0] = 0x1p-140*s.Norms[0], 0x1p-140*s.f.groupNorms[0]
		score = 0
	}
	if at := rng.IntN(6); at < 3 {
		s.Slacks[0][at] = math.Ldexp(size(), rng.IntN(60)-50)
	}
	return score
}

// TestIntervals checks that the intervals of the float64 stage and of the panels' scores contain
// all scores that the bounds allow.
func TestIntervals(t *testing.T) {
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(1, 9))
	for _, c := range kernel.Comparisons() {
		t.Run(c.String(), func(t *testing.T) {
			s := oneQuery(b, towerOf(c, 96))
			var ratio exactly.Ratio
			for range 5000 {
				score := drawBands(rng, s)
				norm, size := s.f.groupNorms[0], s.f.groupSizes[0]
				slack := exactSlack(s.Slacks[0], size)
				low, high := s.Interval(0, score, norm, size)
				half := exactly.Add(exactBand(s, score, c.PairError(96), 0, norm), slack)
				contain(&ratio, score, half, half, low, high)
				score = float64(float32(score))
				relative, absolute := b.PanelError(c, 96)
				if low, high = s.f.panelInterval(s.Block, &s.queries, 0, 0, float32(score)); !math.IsInf(high, 1) {
					half = exactly.Add(exactBand(s, score, relative, absolute, norm), slack)
					contain(&ratio, score, half, half, low, high)
				}
			}
			ratio.Check(t, 1-2e-9)
		})
	}
}

// TestEnds checks that the thresholds of a target cover all errors that the bounds allow.
func TestEnds(t *testing.T) {
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(2, 9))
	for _, c := range kernel.Comparisons() {
		t.Run(c.String(), func(t *testing.T) {
			s := oneQuery(b, towerOf(c, 96))
			relative, absolute := b.PanelError(c, 96)
			var ratio exactly.Ratio
			for i := range 5000 {
				score := drawBands(rng, s)
				if i%2 == 0 {
					score = float64(float32(score)) // rounding to float32 leaves no margin
				}
				if c.Distance() {
					score = -math.Abs(score)
				}
				s.Low[0], s.High[0] = score, score
				s.thresholds.setRow(s.f, s.Block, &s.queries, 0, 0)
				if math.IsInf(float64(s.thresholds.ends[1]), 0) {
					continue
				}
				slack := exactSlack(s.Slacks[0], s.f.groupSizes[0])
				lo, hi := exactly.Sub(exactly.Of(score), slack), exactly.Add(exactly.Of(score), slack)
				if c.Distance() {
					band := exactly.Of(absolute)
					if c.Products() {
						band = exactly.Add(product(relative, s.Norms[0], s.f.groupNorms[0]), band)
					}
					lo = exactly.Sub(exactly.Mul(lo, exactly.Sum(1, relative)), band)
					hi = exactly.Add(exactly.Mul(hi, exactly.Sum(1, -relative)), band)
				} else {
					band := exactBand(s, score, relative, absolute, s.f.groupNorms[0])
					lo, hi = exactly.Sub(lo, band), exactly.Add(hi, band)
				}
				below, above := exactly.Sub(exactly.Of(score), lo), exactly.Sub(hi, exactly.Of(score))
				contain(&ratio, score, below, above, float64(s.thresholds.ends[0]), float64(s.thresholds.ends[1]))
			}
			ratio.Check(t, 1-1e-6)
		})
	}
}

// TestPairInterval checks that the interval of the float64 stage, without a slack, contains the
// exact comparison of vectors whose sums lose half a unit in the last place at every step of the
// first lane.
func TestPairInterval(t *testing.T) {
	b := kerneltest.Best(t)
	const lane = 100
	for _, c := range []kernel.Comparison{kernel.L1, kernel.GroupNorm, kernel.Phase} {
		t.Run(c.String(), func(t *testing.T) {
			const width = lane * kernel.PairWidth
			s := oneQuery(b, model.Tower{Compare: c, Psi: width, Phi: width})
			x, y, out := make([]float32, width), make([]float32, width), make([]float64, 1)
			for t := 0; t < width; t += kernel.PairWidth {
				if x[t] = kernel.U64; c == kernel.Phase {
					x[t], y[t] = 0x1p-26, 0x1p-27
				}
			}
			if x[0] = 1; c == kernel.Phase {
				y[0] = 1
			}
			b.Pair(c, out, x, y, width, []int32{0})
			s.Norms[0] = fmath.Norm(x)
			low, high := s.Interval(0, out[0], fmath.Norm(y), 0)
			want := exactly.Sub(exactly.Of(-1), product(lane-1, kernel.U64))
			var ratio exactly.Ratio
			ratio.See(exactly.Sub(want, exactly.Of(out[0])), min(out[0]-low, high-out[0]))
			ratio.Check(t, 0.85)
		})
	}
}

// TestIntervalOfSquares checks that an interval contains the reference score, and that the score
// comes close to one end. It uses MQuinE and MQuadE of one dimension without Rʰ, whose score is
// −(RᵗT)². The squares of Rᵗ and T lose nearly half a unit in the last place when they are rounded
// to float32 entries of ψ and φ.
func TestIntervalOfSquares(t *testing.T) {
	// root returns a number whose square loses the most when it is rounded.
	root := func(from float64) (x float32) {
		var worst float64
		for v, i := float32(from), 0; i < 1<<12; v, i = math.Nextafter32(v, math.MaxFloat32), i+1 {
			square := float64(v) * float64(v)
			if lost := square/float64(float32(square)) - 1; lost > worst {
				x, worst = v, lost
			}
		}
		return x
	}
	for _, name := range []string{"mquine", "mquade"} {
		g := ranktest.Graph(rand.New(rand.NewPCG(1, 1)), 2, 1, 0, 0, 0)
		m := ranktest.Model(t, name, 1, g, 1, ranktest.Kind{Fill: func(_ *rand.Rand, _ model.Config, ts [][]float32) {
			ts[0][1] = root(math.Sqrt2*0x1p20) / 2 // half of T; its square is most of φ
			ts[2][0] = root(math.Sqrt2)
		}})
		ranks := []Rank{{Triple: kg.Triple{Head: 0, Tail: 1}, Side: kg.Tail}}
		s := begin(t, loadAll(t, m, kerneltest.Best(t), Float32Screen, ranks, 2), 0, 1)
		score := s.Worker.Reference(s.Queries[0].Query, 1)
		middle := s.Low[0]/2 + s.High[0]/2
		var ratio exactly.Ratio
		ratio.See(exactly.Sub(exactly.Of(score), exactly.Of(middle)), s.High[0]-middle)
		ratio.Check(t, 0.99)
	}
}

// TestOverflowGuards checks that MayOverflow reports every overflow in a panel, except L1 distances
// that overflow, and reports none for small vectors.
func TestOverflowGuards(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, b := range backends {
		for _, c := range kernel.Comparisons() {
			terms := max(c.Group(), 2)
			if psi, _ := c.Words(); psi > 1 {
				terms = 1
			}
			psi, phi := c.Words()
			s := oneQuery(b, towerOf(c, terms))
			overflows := 0
			for at := range 260 { // to infinity
				x := float32(math.Ldexp(1, at/2))
				y := float32(math.Ldexp(1, at-at/2))
				query, candidate := []float32{x, -x}, []float32{y, y} // products cancel
				small := at < 110
				switch {
				case c == kernel.Hake: // the square of a product
					query, candidate, small = []float32{0, 0, 0, x}, []float32{0, 0, y}, at < 55
				case c == kernel.Expressive: // the square of a product
					query, candidate, small = make([]float32, 12), []float32{y}, at < 40
					query[0], query[1], query[2] = -2, 1, x // |a − s φ| exceeds 1
				case c == kernel.BoxE: // a square
					query, candidate = make([]float32, 10), []float32{0, 0}
					query[3] = x
				case c.Distance():
					query, candidate = []float32{x, 0}, []float32{-x, 0}
				}
				query = append(query, make([]float32, terms*psi-len(query))...)
				candidate = append(candidate, make([]float32, terms*phi-len(candidate))...)
				s.Norms[0], s.f.groupNorms[0] = c.PsiNorm(query), c.PhiNorm(candidate)
				score := panelScore(b, b.Panels(c), kernel.Words(query), kernel.Words(candidate))
				if c == kernel.L1 && math.IsInf(float64(score), -1) && !math.IsInf(float64(x), 0) {
					continue // correctly below every finite threshold
				}
				if math.IsInf(float64(score), 0) || math.IsNaN(float64(score)) {
					overflows++
					assert.True(t, c.MayOverflow(s.Norms[0], s.f.groupNorms[0]), "%s, %s: %v, %v", b.Tier, c, query,
						candidate)
				}
				if small {
					assert.False(t, c.MayOverflow(s.Norms[0], s.f.groupNorms[0]), "%s, %s: %v, %v", b.Tier, c,
						query, candidate)
				}
			}
			assert.Positive(t, overflows, "%s, %s", b.Tier, c)
		}
	}
}

// panelScore returns the score of a panel for one query and one candidate.
func panelScore(b *kernel.Backend, p kernel.Panels, query, candidate []uint32) float32 {
	psi, _ := p.Words()
	k, one := len(query)/psi, []int32{0}
	strip, panel := make([]uint32, p.MR*len(query)), make([]uint32, b.NR*len(candidate))
	p.PackStrip(strip, 0, 1, query, len(query), one, ascending(len(query)))
	kernel.PackRows(panel, candidate, len(candidate), one, ascending(len(candidate)), b.NR)
	scratch := b.NewPanelScratch(p.MR, 0)
	p.Score(scratch, &kernel.PanelCall{K: k, Strips: strip, Panel: panel, TargetStart: make([]int32, p.MR+1)})
	return scratch.Scores[0]
}

// TestNormsAreUpperBounds checks that computed norms are upper bounds, even if a sum loses all
// terms except the first.
func TestNormsAreUpperBounds(t *testing.T) {
	x := make([]float32, 1<<10)
	doubles := make([]float64, len(x))
	for i := range x {
		x[i] = 0x1p-27
	}
	x[0] = 1
	for i, v := range x {
		doubles[i] = float64(v)
	}
	want := exactly.Norm(exactly.All(x))
	for _, c := range []struct {
		name string
		got  float64
	}{
		{"rows", fmath.Norm(x)},
		{"coordinates", norm64(doubles)},
		{"center", newCoordinates([][]float32{x}, [][]float32{x}, len(x)).norm},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ratio exactly.Ratio
			ratio.See(want, c.got)
			ratio.Check(t, 1-1.1e-9)
		})
	}
}
