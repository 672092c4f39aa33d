package kernel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mquine/mquine/internal/exactly"
	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// The tests in this file compare bounds with exact errors computed with math/big. The inputs bring
// the errors close to the bounds, so a test fails if a term of a bound is halved or missing
// (docs/numerics.md, "Tests of the bounds").

// lossy returns vectors of k coordinates. In arithmetic with the given unit roundoff, their score loses
// half a unit in the last place in every addition to a nonzero sum. The first term is 1 or,
// with Expressive, 4 or 2.25. The terms at the given positions cause ties that round to this even
// number. Computing the first term loses half a unit too, unless its product is exact. BoxE is an
// exception: it has no ties, and its first term is only close to 1.
func lossy(c Comparison, k int, unit float64, at []int) (x, y []float32) {
	psi, phi := c.Words()
	x, y = make([]float32, k*psi), make([]float32, k*phi)
	switch c {
	case Expressive: // with z = a
		first, other := 2.0, 0x1p-11
		if unit == U64 {
			first, other = 1.5, 0x1p-26
		}
		for _, t := range at {
			x[psi*t] = float32(other)
			if unit == U32 { // float64 adds the two terms of a coordinate first
				x[psi*t+6] = float32(other)
			}
		}
		for t := range k {
			x[psi*t+2], x[psi*t+8] = 1, 1
		}
		x[0] = float32(first)
		return x, y
	case BoxE: // v·2 in both boxes; the reciprocal may be inexact, so there are no ties
		set := func(t int, d float64) { x[psi*t+2], x[psi*t+7] = float32(d/2), float32(d/2) }
		for _, t := range at {
			set(t, math.Sqrt(unit)*(1-0x1p-12))
		}
		set(0, 1+0x1p-10)
		return x, y
	}
	_, exponent := math.Frexp(unit)
	half := float32(math.Ldexp(1, exponent/2))
	if c.Distance() && !c.Products() {
		for _, t := range at {
			x[t] = float32(unit)
		}
		x[0], y[0] = 1, float32(-unit)
		return x, y
	}
	for _, t := range at {
		x[psi*t], y[phi*t] = half, float32(unit)/half
	}
	x[0], y[0] = 1, 1
	if unit == U32 { // (1 + z)(1 − z + z²) = 1 + z³
		x[0], y[0] = 1+0x1p-8, 1-0x1p-8+0x1p-16
	}
	if c == Phase || c == Hake { // the second half of the first term
		x[1], y[1] = half, float32(unit)/half
	}
	return x, y
}

// panelError records in ratio the error of a panel's score of x and y, and the bound on it.
func panelError(t testing.TB, b *Backend, c Comparison, x, y []float32, ratio *exactly.Ratio) {
	psi, _ := c.Words()
	k := len(x) / psi
	p := newComparisonCase(t, rand.New(rand.NewPCG(1, 1)), b, c, k, 1, 1, func(int) float32 { return 0 })
	p.q[0], p.e[0] = Words(x), Words(y)
	p.pack()
	got, _ := p.run(nil)
	relative, absolute := b.PanelError(c, k)
	want, measure, _ := kerneltest.ExactScore(c, x, y)
	ratio.See(exactly.Sub(exactly.Of(float64(got.Scores[0])), want), relative*measure+absolute)
}

// TestPanelErrorIsReached checks that the error is within the bound if every rounding in a chain and
// in the sum of chains loses as much as it can. It also checks that the error reaches a large part of
// the bound, unless an approximate root or reciprocal dominates the bound.
func TestPanelErrorIsReached(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		u, chunk := c.Group(), ChunkOf(c)
		var ratio exactly.Ratio
		for _, k := range []int{u, 2 * u, 40, Chunk, Chunk + u, 3 * Chunk, 1482, 40 * Chunk} {
			k = max(wholeGroups(c, k), u)
			var at []int
			for t := u; t < k; t += u {
				if t < chunk || t%chunk == 0 {
					at = append(at, t)
				}
			}
			x, y := lossy(c, k, U32, at)
			for t := 1; t < u && c.Kind() == KindGroupNormOf; t++ { // squares that the rounded sum of the group loses
				x[t] = 0x1p-12
			}
			panelError(t, b, c, x, y, &ratio)
		}
		least := map[Kind]float64{
			KindDot: 0.999, KindL1: 0.99, KindGroupNorm: 0.95, KindPhase: 0.98, KindGroupNormOf: 0.95, KindHake: 0.49,
			KindExpressive: 0.9, KindBoxE: 0.42, // for BoxE, the root halves the errors of sums
		}[c.Kind()]
		if !kerneltest.HasTwin(c) && b.Tier != Generic {
			least = 0 // the error of the root exceeds all other errors: see TestRootError
		}
		ratio.Check(t, least)
	})
}

// TestPanelErrorOfReciprocals checks that the errors of random terms of BoxE are within the bound,
// and that the largest error is at least 8% of the bound.
func TestPanelErrorOfReciprocals(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(8, 9))
		var ratio exactly.Ratio
		for range 300 { // w |c − 1/(ab + ½)| in both boxes
			term := []float32{rng.Float32(), rng.Float32() / 2, 0, 1 + rng.Float32(), 0}
			factor := rng.Float32()
			panelError(t, b, BoxE, slices.Concat(term, term), []float32{factor, factor}, &ratio)
		}
		ratio.Check(t, 0.08)
	})
}

// TestPanelErrorOfTinyTerms checks the absolute terms of the bounds: products, squares and roots
// below the normal range.
func TestPanelErrorOfTinyTerms(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		var ratio exactly.Ratio
		for _, k := range []int{2, 256, 1482} {
			k = max(wholeGroups(c, k), c.Group())
			psi, phi := c.Words()
			x, y := make([]float32, k*psi), make([]float32, k*phi)
			for t := range k {
				switch c.Kind() {
				case KindDot, KindPhase: // products that are ties and round to 0
					x[t], y[t] = 0x1p-75, 0x1p-75
				case KindGroupNorm, KindGroupNormOf: // the root of the value that the kernel adds to the squares
					x[t], y[t] = 1, 1
					if b.Tier == Generic { // squares that vanish
						x[t], y[t] = 0x1p-75, 0
					}
				case KindHake: // squares that are ties and round to 0
					x[4*t+2] = 0x1p-75
				case KindL1: // differences are exact
					x[t], y[t] = math.SmallestNonzeroFloat32, 0
				case KindExpressive: // squares that are ties and round to 0
					x[12*t], x[12*t+2], x[12*t+6], x[12*t+8] = 2, 0x1p-76, 2, 0x1p-76
				case KindBoxE: // squares that are ties and round to 0, at a distance of 2
					x[10*t+3], x[10*t+8] = 0x1p-76, 0x1p-76
				}
			}
			panelError(t, b, c, x, y, &ratio)
		}
		least := 0.49
		switch size := float64(c.Group()); {
		case c == L1:
			least = 0
		case c == Hake:
		case c == BoxE, c == Expressive:
			least = 0.24
		case c.Distance() && b.Tier == Generic:
			least = 0x1p-13 / math.Sqrt(size)
		case c.Distance(): // a root for each group
			least = 0.98 / size
		}
		ratio.Check(t, least)
	})
}

// TestPairErrorIsReached checks that the error is within the bound if every rounding in a lane of
// Pair, and in the five additions that join the lane to the others, loses as much as it can. It
// also checks that the error reaches a large part of the bound.
func TestPairErrorIsReached(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		var ratio exactly.Ratio
		for _, n := range []int{PairWidth, 2 * PairWidth, 1504, 1 << 14} {
			at := []int{1, 2, 4, 8, 16} // lanes that are added to the first lane
			for t := PairWidth; t < n; t += PairWidth {
				at = append(at, t)
			}
			if c.Group() == 2 {
				at = at[1:] // the first two lanes are equal
			}
			groups := c.Kind() == KindGroupNormOf
			if groups { // one chain over the groups
				n = max(n, (c.Group()+PairWidth-1)/PairWidth*PairWidth)
				at = nil
				for t := c.Group(); t+c.Group() <= n; t += c.Group() {
					at = append(at, t)
				}
			}
			x, y := lossy(c, n, U64, at)
			// Rounding the sum of a lane, or of the lanes, loses these squares.
			for t := 1; t < c.Group() && groups; t++ {
				if t < 8 && t&(t-1) == 0 || t%8 == 0 {
					x[t] = 0x1.6a09e6p-27
				}
			}
			out := make([]float64, 1)
			b.Pair(c, out, x, y, len(y), []int32{0})
			psi, phi := c.Words()
			whole := wholeGroups(c, n)
			want, measure, _ := kerneltest.ExactScore(c, x[:whole*psi], y[:whole*phi])
			ratio.See(exactly.Sub(exactly.Of(out[0]), want), c.PairError(n)*measure)
		}
		least := 0.98
		switch c.Kind() {
		case KindGroupNormOf:
			least = 0.9
		case KindHake: // the measure contains ‖ψ‖‖φ‖ and the distance, which are equal here
			least = 0.49
		case KindExpressive:
			least = 0.8
		case KindBoxE: // the root halves the errors of sums
			least = 0.48
		}
		ratio.Check(t, least)
	})
}

// TestCodeInt8Bounds checks that the norms and residuals of CodeInt8 are upper bounds, even if a
// residual consists only of the rounding error in a code's value.
func TestCodeInt8Bounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	const n = 8
	type ratios struct{ norm, fineNorm, residual, fineResidual exactly.Ratio }
	var plain, coarse, fine ratios
	code := func(see *ratios, step float64, v func() float64) {
		x := make([]float64, n)
		for i := range x {
			x[i] = v()
		}
		coarse, fine := make([]uint8, n), make([]uint8, n)
		got := CodeInt8(coarse, fine, x, step, 0)
		back, fineBack, rest, fineRest := exactly.All(x), exactly.All(x), exactly.All(x), exactly.All(x)
		fineStep := exactly.Quo(exactly.Of(step), exactly.Of(Fine))
		for i := range x {
			back[i] = exactly.Mul(exactly.Of(float64(int8(coarse[i]))), exactly.Of(step))
			fineBack[i] = exactly.Mul(exactly.Of(float64(int8(fine[i]))), fineStep)
			rest[i] = exactly.Sub(rest[i], back[i])
			fineRest[i] = exactly.Sub(rest[i], fineBack[i])
		}
		see.norm.See(exactly.Norm(back), got.Norm)
		see.fineNorm.See(exactly.Norm(fineBack), got.FineNorm)
		see.residual.See(exactly.Norm(rest), got.Residual)
		see.fineResidual.See(exactly.Norm(fineRest), got.FineResidual)
	}
	for range 2000 {
		step := 1 + rng.Float64()
		fineStep := step / Fine
		c := float64(1 + rng.IntN(127))
		// Some values exceed the range of the codes.
		code(&plain, step, func() float64 { return 40 * step * rng.NormFloat64() })
		code(&coarse, step, func() float64 { return c * step })
		code(&fine, step, func() float64 { return c * fineStep })
	}
	plain.norm.Check(t, 1-1.1e-9)
	plain.fineNorm.Check(t, 1-1.1e-9)
	plain.residual.Check(t, 1-1.1e-9)
	plain.fineResidual.Check(t, 1-1.1e-9)
	coarse.residual.Check(t, 0.95)
	coarse.fineResidual.Check(t, 0.95)
	fine.fineResidual.Check(t, 0.55)
}

// TestRoundOutward checks that RoundUp32 and RoundDown32 return the nearest float32 values in their
// direction, including at the ends of the range.
func TestRoundOutward(t *testing.T) {
	infinity := float32(math.Inf(1))
	numbers := []float32{0, math.SmallestNonzeroFloat32, 0x1p-126, 1, 1 + 0x1p-23, 3, math.MaxFloat32}
	for _, f := range slices.Clone(numbers) {
		numbers = append(numbers, -f)
	}
	for _, f := range numbers {
		for _, toward := range []float64{math.Inf(-1), math.Inf(1)} {
			x := math.Nextafter(float64(f), toward)
			up, down := RoundUp32(x), RoundDown32(x)
			if !(float64(down) < x && x < float64(up) && math.Nextafter32(down, infinity) == up) {
				t.Errorf("%g, next to %g, is rounded to %g and %g, which are not neighbours", x, f, down, up)
			}
		}
	}
}
