package rank

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// plainDot returns a screen of two-byte codes in one product with a center but without weights, and with
// one panel group.
func plainDot(b *kernel.Backend, center []float64) (testBlock, *int16DotScreen) {
	s, _ := oneCodedQuery(b, len(center), &int16DotFormat)
	x := s.f.screen.(*int16DotScreen)
	x.coordinates = &coordinates{center: center}
	for range center {
		x.coordinates.forward = append(x.coordinates.forward, 1.0/rootSpread)
		x.coordinates.inverse = append(x.coordinates.inverse, 1.0/rootSpread)
	}
	return s, x
}

// TestDotCodeBands checks that the bands of two-byte codes in one product cover the errors of scores. In
// each case, one term of a band dominates.
func TestDotCodeBands(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 26))
	constant := func(v float64) func() float64 { return func() float64 { return v } }
	for _, c := range []struct {
		name     string
		a, b     func() float64
		n, draws int
		least    float64
	}{
		{"residuals of queries", constant(100.25), constant(127), 512, 1, 0.999},
		{"residuals of candidates", constant(127), constant(100.25), 512, 1, 0.999},
		{"sums", constant(1024), func() float64 { // slightly more than 2³⁰
			return 1024 + float64(rng.IntN(16)/15)
		}, 1032, 60, 0.95},
	} {
		t.Run(c.name, func(t *testing.T) {
			backend := kerneltest.Best(t)
			var r exactly.Ratio
			for range c.draws {
				s, x := plainDot(backend, make([]float64, c.n))
				a, b := make([]float64, c.n), make([]float64, c.n)
				for i := range a {
					a[i], b[i] = c.a(), c.b()
				}
				if c.draws > 1 { // an odd sum
					a[0], b[0] = 1, float64(1+2*rng.IntN(64))
				}
				query, candidate := make([]uint32, x.layout.terms), make([]uint32, x.layout.terms)
				q, g := &s.queries.coded[0], &x.groups[0]
				code := kernel.CodeInt16(kernel.Int16Codes(query), a, 1)
				*q = codedQuery{step: 1, norm: code.Norm, residual: code.Residual}
				*g = codeGroup{step: 1, norm: norm64(b)}
				g.include(candidate, b, 0)
				score := panelScore(backend, x.kernels, query, candidate)
				r.See(exactly.Sub(exactly.Dot(a, b), exactly.Of(float64(score))), x.band(q, g))
			}
			r.Check(t, c.least)
		})
	}
}

// TestDotCodeResiduals checks that residuals cover the roundings of a difference from the center and of a
// code's value, even if a residual consists of nothing else.
func TestDotCodeResiduals(t *testing.T) {
	const n = 8
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(2, 26))
	var r exactly.Ratio
	for range 2000 {
		c := float64(1 + rng.IntN(10000))
		step := (1 + rng.Float64()/64) / c
		value := c * step // at least 1, or slightly less
		exact := exactly.Mul(exactly.Of(c), exactly.Of(step))
		phi := float32(value)
		// φ − μ is half a unit in the last place beyond value, on the other side than c·step.
		beyond := 0.499 * 0x1p-52
		if exact.Cmp(exactly.Of(value)) > 0 {
			beyond = -beyond
		}
		mu := float64(phi) - value - beyond
		center, row := make([]float64, n), make([]float32, n)
		for i := range center {
			center[i], row[i] = mu, phi
		}
		_, x := plainDot(b, center)
		v := x.buffers(&engine.Job{Threads: 1})[0]
		x.coordinates.balancedCandidate(v, row)
		g, words := &codeGroup{step: step}, make([]uint32, x.layout.terms)
		g.include(words, v, norm64(v))
		rest := exactly.Sub(exactly.Sum(float64(phi), -mu), exact)
		for i, w := range kernel.Int16Codes(words) {
			require.Equal(t, c, float64(int16(w)), i)
		}
		r.See(exactly.Mul(rest, exactly.Of(math.Sqrt(n))), g.residual)
	}
	r.Check(t, 0.95)
}

// TestDotCodesOfRandomVectors checks the norms of codes, which must not exceed the limit of the kernels,
// and the bands, for vectors of many sizes, with large entries and with centers.
func TestDotCodesOfRandomVectors(t *testing.T) {
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(3, 26))
	largestNorm := 0.0
	for i := range 600 {
		n := 1 + rng.IntN(300)
		psi, phi, center := make([]float32, n), make([]float32, n), make([]float64, n)
		for _, v := range [][]float32{psi, phi} {
			ranktest.Normal(rng, v, math.Exp(20*rng.NormFloat64()))
			switch rng.IntN(4) {
			case 0:
				v[rng.IntN(n)] *= 1e6
			case 1:
				v[rng.IntN(n)] *= float32(math.Sqrt(float64(n)))
			case 2:
				clear(v[rng.IntN(n):])
			}
		}
		for t := range center {
			center[t] = rng.NormFloat64() * float64(rng.IntN(2))
		}
		s, x := plainDot(b, center)
		x.coordinates.norm = norm64(append(center[:n:n], 0, 0, 0)) * 2
		query, candidate := make([]uint32, x.layout.terms), make([]uint32, x.layout.terms)
		q, g := &s.queries.coded[0], &x.groups[0]
		s.Psi, s.Norms[0] = psi, kerneltest.PlainNorm(psi)
		buffer := x.buffers(&engine.Job{Threads: 1})[0]
		clear(buffer)
		x.coordinates.balancedQuery(buffer, psi)
		q.size = norm64(buffer)
		q.step = orOne(dotStep(buffer, q.size))
		code := kernel.CodeInt16(kernel.Int16Codes(query), buffer[:2*len(query)], q.step)
		q.norm, q.residual = code.Norm, code.Residual
		x.setCenter(q, psi, s.Norms[0])
		x.coordinates.balancedCandidate(buffer, phi)
		g.norm = norm64(buffer)
		g.step = orOne(dotStep(buffer, g.norm))
		g.include(candidate, buffer, g.norm)
		for _, words := range [][]uint32{query, candidate} {
			squares := 0
			for _, c := range kernel.Int16Codes(words) {
				squares += int(int16(c)) * int(int16(c))
			}
			require.LessOrEqual(t, squares, kernel.MaxInt16Dot*kernel.MaxInt16Dot, i)
			largestNorm = max(largestNorm, math.Sqrt(float64(squares)))
		}
		score := exactSum(q.center, q.step, g.step, float64(panelScore(b, x.kernels, query, candidate)))
		miss, _ := score.Sub(score, exactDot(psi, phi)).Float64()
		require.LessOrEqual(t, math.Abs(miss), x.band(q, g), i)
	}
	require.Greater(t, largestNorm, 0.999*kernel.MaxInt16Dot)
}

// TestDotRanks compares ranks with a brute-force ranking by reference scores, for vectors that are hard to
// code, widths with every tail, tiers, and numbers of threads.
func TestDotRanks(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(4, 26))
	g := ranktest.Graph(rng, 150, 3, 300, 20, 20)
	index, test, sides := kgtest.Index(t, g), g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head}
	fill := func(entities, relations func(row []float32)) ranktest.Kind {
		return ranktest.Kind{Fill: func(_ *rand.Rand, c model.Config, ts [][]float32) {
			for i, change := range []func([]float32){entities, relations} {
				for row := ts[i]; len(row) >= c.Dim; row = row[c.Dim:] {
					ranktest.Normal(rng, row[:c.Dim], 0.3)
					change(row[:c.Dim])
				}
			}
		}}
	}
	scaled := func(by func() float64) func([]float32) {
		return func(row []float32) {
			factor := by()
			for i, v := range row {
				row[i] = float32(float64(v) * factor)
			}
		}
	}
	constant := func(v float64) func() float64 { return func() float64 { return v } }
	same := scaled(constant(1))
	screens := map[Screen]int{}
	for name, kind := range map[string]ranktest.Kind{
		"random":          fill(same, same),
		"zeros":           fill(scaled(func() float64 { return float64(rng.IntN(2)) }), same),
		"all zeros":       fill(scaled(constant(0)), same),
		"zero queries":    fill(same, scaled(constant(0))),
		"denormal":        fill(scaled(constant(1e-43)), same),
		"tiny":            fill(scaled(constant(1e-36)), scaled(constant(1e-4))),
		"large":           fill(scaled(constant(1e14)), scaled(constant(1e3))),
		"huge":            fill(scaled(constant(1e18)), scaled(constant(1e3))),
		"all sizes":       fill(scaled(func() float64 { return math.Exp(12 * rng.NormFloat64()) }), same),
		"large entries":   fill(func(row []float32) { row[rng.IntN(len(row))] *= 1e6 }, same),
		"one large entry": fill(func(row []float32) { row[0] *= float32(math.Exp(10 * rng.NormFloat64())) }, same),
		"few values": fill(func(row []float32) {
			for i := range row {
				row[i] = float32(rng.IntN(3) - 1)
			}
		}, same),
		"close": fill(func(row []float32) {
			for i := range row {
				row[i] = float32(float64(i%7) - 3 + 1e-6*float64(row[i]))
			}
		}, same),
	} {
		for _, d := range []int{1, 2, 3, 7, 8, 9, 33, 260} {
			m := ranktest.Model(t, "distmult", d, g, uint64(d), kind)
			want := bruteForce(m, g, test, sides, m.NewWorker(backends[len(backends)-1]).Reference)
			for _, b := range backends {
				for _, o := range []Options{
					{Threads: 1}, {Threads: 3, FeatureMemory: 40 * featureBytes(d)},
				} {
					o.Backend, o.Screen = b, int16OneProduct
					got, err := Run(t.Context(), m, index, test, o)
					require.NoError(t, err)
					require.Equal(t, want, got.Ranks, "%s, d = %d, %s, %d threads", name, d, b.Tier, o.Threads)
					screens[got.Stats.Screen]++
				}
			}
		}
	}
	require.Greater(t, screens[Int16Screen], 8*screens[Float32Screen], "only huge norms are compared in float32")
}

// TestKindsOfInt16 checks which kind of int16 screen a machine uses for dot products.
func TestKindsOfInt16(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	tower := model.Tower{Compare: kernel.Dot, Psi: 8, Phi: 8}
	for _, b := range backends {
		want := &int16DotFormat
		if b.Features.Has(kernel.FeatureAMX) {
			want = &int16Format
		}
		require.Equal(t, []*codeFormat{want}, Int16Screen.formatsFor(tower, b))
		require.Equal(t, []*codeFormat{&int16Format}, int16Tiles.formatsFor(tower, b))
		require.Equal(t, []*codeFormat{&int16DotFormat}, int16OneProduct.formatsFor(tower, b))
		require.Equal(t, b.Tier != kernel.Generic, len(AutoScreen.formatsFor(tower, b)) > 0)
		require.Len(t, Int8Screen.formatsFor(tower, b), 1)
	}
}

// TestDotSteps checks that the codes of any vector stay within the limit of their norm, even if all of them
// are rounded up, and that no code is clipped.
func TestDotSteps(t *testing.T) {
	check := func(x []float64) {
		step := orOne(dotStep(x, norm64(x)))
		codes := make([]uint16, len(x))
		code := kernel.CodeInt16(codes, x, step)
		squares := 0
		for _, c := range codes {
			squares += int(int16(c)) * int(int16(c))
		}
		require.LessOrEqual(t, squares, kernel.MaxInt16Dot*kernel.MaxInt16Dot, len(x))
		require.LessOrEqual(t, code.Residual, step*math.Sqrt(float64(len(x)))*0.501, "%d: clipped", len(x))
	}
	for n := 4; n < 4000; n += 12 {
		x := make([]float64, n)
		check(x)
		x[0] = 1
		check(x) // larger than all codes if only the norm determined the step
		for i := range x {
			x[i] = 0.3
		}
		check(x)
	}
}

// TestDotGroups checks that the bounds of a panel group hold for all its candidates.
func TestDotGroups(t *testing.T) {
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(5, 26))
	g := ranktest.Graph(rng, 1600, 1, 0, 0, 20)
	kind := ranktest.Kind{Fill: func(rng *rand.Rand, _ model.Config, ts [][]float32) {
		for row := ts[0]; len(row) >= 40; row = row[40:] {
			ranktest.Normal(rng, row[:40], math.Exp(rng.NormFloat64()))
			row[rng.IntN(40)] *= float32(math.Exp(3 * rng.NormFloat64()))
		}
		ranktest.Normal(rng, ts[1], 1)
	}}
	m := ranktest.Model(t, "distmult", 40, g, 1, kind)
	ranks, err := newRanks(m, g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head}, 1)
	require.NoError(t, err)
	e := loadAll(t, m, b, int16OneProduct, ranks, 1600)
	f, x := e.features, e.features.screen.(*int16DotScreen)
	buffer, words := x.buffers(e.job)[0], make([]uint32, x.layout.terms)
	for at, i := range f.RowAt[:f.N] {
		size, step := x.candidate(buffer, i)
		bounds := x.groups[at/f.nr/groupPanels]
		got := codeGroup{step: bounds.step}
		got.include(words, buffer, size)
		require.LessOrEqual(t, step, bounds.step)
		require.LessOrEqual(t, size, bounds.norm)
		require.LessOrEqual(t, got.residual, bounds.residual)
	}
}
