package linalg

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eachDistance runs f for every distance on every tier.
func eachDistance(t *testing.T, f func(t *testing.T, b *Backend, kind DistanceKind)) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		for _, kind := range append(DistanceKinds(), DistanceGroupNormOf(3), DistanceGroupNormOf(20)) {
			t.Run(kind.String(), func(t *testing.T) { f(t, b, kind) })
		}
	})
}

// twinInverse returns y and p such that every tier computes 1/√x as y·p and √x as x·y·p.
func twinInverse(x float32) (y, p float32) {
	y = math.Float32frombits(0x5f3759df - math.Float32bits(x)/2)
	r := fmath.FMA32(-float32(x*y), y, 1)
	p = 0.274069258730864
	for _, c := range []float32{0.31393923552813763, 0.375000587363715, 0.4999983204717482, 1} {
		p = fmath.FMA32(p, r, c)
	}
	return y, p
}

// twinSign returns 1, 0 or −1, or NaN if x is not finite.
func twinSign(x float32) float32 {
	switch {
	case x-x != 0:
		return float32(math.NaN())
	case x == 0:
		return 0
	}
	return float32(math.Copysign(1, float64(x)))
}

// twinChains adds up chains of ProductChunk terms.
func twinChains(n, unit int, next func(sum float32, t int) float32) (sum float32) {
	for from := 0; from < n; from += ProductChunk {
		var chain float32
		for t := from; t < min(from+ProductChunk, n); t += unit {
			chain = next(chain, t)
		}
		if from > 0 {
			chain = sum + chain
		}
		sum = chain
	}
	return sum
}

// twinDistance returns a score, computed as on every tier.
func twinDistance(kind DistanceKind, q, e []float32) float32 {
	if size := kind.groups(); size > 0 {
		return twinGroups(size, q, e, twinDistance)
	}
	sum := twinChains(len(q), kind.Group(), func(sum float32, u int) float32 {
		switch kind {
		case DistanceL1:
			return sum - fmath.Abs32(q[u]-e[u])
		case DistanceL2:
			return fmath.FMA32(q[u]-e[u], q[u]-e[u], sum)
		case DistancePhase:
			return sum - fmath.Abs32(fmath.FMA32(q[u+1], e[u+1], float32(q[u]*e[u])))
		case DistanceProductNorm:
			v := fmath.FMA32(q[u+1], e[u+1], float32(q[u]*e[u]))
			return fmath.FMA32(v, v, sum)
		}
		d0, d1 := q[u]-e[u], q[u+1]-e[u+1]
		square := fmath.FMA32(d1, d1, float32(d0*d0))
		y, p := twinInverse(square)
		return fmath.FMA32(-float32(square*y), p, sum)
	})
	if kind.Root() {
		return -kerneltest.Sqrt32(sum)
	}
	return sum
}

// twinGroups adds the scores of groups, which the function score computes as DistanceL2.
func twinGroups(size int, q, e []float32, score func(DistanceKind, []float32, []float32) float32) (sum float32) {
	for u := 0; u < len(q); u += size {
		sum += score(DistanceL2, q[u:u+size], e[u:u+size])
	}
	return sum
}

// twinGradient returns coordinate u of the gradient with respect to x, computed as on every tier,
// given n vectors y on the other side and the gradients g with respect to their scores.
func twinGradient(
	kind DistanceKind, u int, x []float32, n int, g, scores func(t int) float32, y func(t int) []float32,
) float32 {
	first, second := u, u
	if kind.Group() == 2 {
		first, second = u&^1, u|1
	}
	return twinChains(n, 1, func(sum float32, t int) float32 {
		y := y(t)
		quotient := func() float32 { // quotient for the gradient of a root
			if scores(t) == 0 {
				return 0
			}
			return g(t) / scores(t)
		}
		switch kind {
		case DistanceL1:
			return fmath.FMA32(g(t), twinSign(y[u]-x[u]), sum)
		case DistanceL2:
			return fmath.FMA32(quotient(), x[u]-y[u], sum)
		case DistanceProductNorm:
			v := fmath.FMA32(x[second], y[second], float32(x[first]*y[first]))
			return fmath.FMA32(float32(quotient()*v), y[u], sum)
		case DistancePhase:
			sign := twinSign(fmath.FMA32(x[second], y[second], float32(x[first]*y[first])))
			return fmath.FMA32(-float32(g(t)*sign), y[u], sum)
		}
		d0, d1 := y[first]-x[first], y[second]-x[second]
		r, p := twinInverse(fmath.FMA32(d1, d1, float32(d0*d0)))
		return fmath.FMA32(float32(g(t)*float32(r*p)), y[u]-x[u], sum)
	})
}

// twinGroupGradient is twinGradient for DistanceGroupNormOf. score computes the scores of groups.
func twinGroupGradient(
	size, u int, x []float32, n int, g func(t int) float32, y func(t int) []float32,
	score func(DistanceKind, []float32, []float32) float32,
) float32 {
	from := u / size * size
	group := func(x []float32) []float32 { return x[from : from+size] }
	part := func(t int) []float32 { return group(y(t)) }
	scores := func(t int) float32 { return score(DistanceL2, group(x), part(t)) }
	return twinGradient(DistanceL2, u-from, group(x), n, g, scores, part)
}

// distanceBlock holds queries and features between guard pages, with room for scores and gradients.
type distanceBlock struct {
	psi, phi, s, g, dPsi, dPhi Matrix
}

func newDistanceBlock(t testing.TB, rng *rand.Rand, m, n, k int, value func() float32) distanceBlock {
	matrix := func(rows, cols int, value func() float32) Matrix {
		return guardedMatrix(t, rows, cols, cols+rng.IntN(3), value)
	}
	undefined := func() float32 { return float32(math.NaN()) }
	return distanceBlock{
		psi: matrix(m, k, value), phi: matrix(n, k, value),
		s: matrix(m, n, undefined), g: matrix(m, n, func() float32 { return float32(rng.NormFloat64()) }),
		dPsi: matrix(m, k, undefined), dPhi: matrix(n, k, undefined),
	}
}

// compute computes scores and gradients.
func (x *distanceBlock) compute(ctx context.Context, t *testing.T, d *Distance) {
	require.NoError(t, d.Scores(ctx, x.s, x.psi, x.phi))
	require.NoError(t, d.Gradients(ctx, x.dPsi, x.dPhi, x.g, x.s, x.psi, x.phi))
}

// check compares scores and gradients with their twins, bit for bit except for NaN.
func (x *distanceBlock) check(t *testing.T, kind DistanceKind) {
	equal := func(what string, m Matrix, want func(i, j int) float32) {
		for i := range m.Rows {
			for j, got := range m.Row(i) {
				w := want(i, j)
				if math.Float32bits(got) != math.Float32bits(w) && (got == got || w == w) {
					require.Fail(t, fmt.Sprintf(
						"%d queries, %d features, %d coordinates: %s: entry %d,%d: want %g, got %g",
						x.psi.Rows, x.phi.Rows, x.psi.Cols, what, i, j, w, got))
				}
			}
			if between := m.Data[i*m.Stride+m.Cols:]; i < m.Rows-1 && m.Stride > m.Cols {
				require.NotEqual(t, between[0], between[0], "%s: written beyond row %d", what, i)
			}
		}
	}
	equal("scores", x.s, func(i, j int) float32 { return twinDistance(kind, x.psi.Row(i), x.phi.Row(j)) })
	if size := kind.groups(); size > 0 {
		equal("gradients of queries", x.dPsi, func(i, u int) float32 {
			return twinGroupGradient(size, u, x.psi.Row(i), x.phi.Rows,
				func(j int) float32 { return x.g.Row(i)[j] }, x.phi.Row, twinDistance)
		})
		equal("gradients of features", x.dPhi, func(j, u int) float32 {
			return twinGroupGradient(size, u, x.phi.Row(j), x.psi.Rows,
				func(i int) float32 { return x.g.Row(i)[j] }, x.psi.Row, twinDistance)
		})
		return
	}
	equal("gradients of queries", x.dPsi, func(i, u int) float32 {
		return twinGradient(kind, u, x.psi.Row(i), x.phi.Rows,
			func(j int) float32 { return x.g.Row(i)[j] }, func(j int) float32 { return x.s.Row(i)[j] }, x.phi.Row)
	})
	equal("gradients of features", x.dPhi, func(j, u int) float32 {
		return twinGradient(kind, u, x.phi.Row(j), x.psi.Rows,
			func(i int) float32 { return x.g.Row(i)[j] }, func(i int) float32 { return x.s.Row(i)[j] }, x.psi.Row)
	})
}

// TestDistance requires that scores and gradients equal their twins' bit for bit on every tier, for
// sizes with every remainder modulo the microtile, for several strides, and on one and on three
// threads. Operands are between guard pages.
func TestDistance(t *testing.T) {
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		rng := rand.New(rand.NewPCG(1, uint64(kind)))
		distances := []*Distance{b.NewDistance(kind, 1), b.NewDistance(kind, 3)}
		unit := kind.Group()
		check := func(m, n, k int, value func() float32) {
			x := newDistanceBlock(t, rng, m, n, k, value)
			x.compute(t.Context(), t, distances[rng.IntN(len(distances))])
			x.check(t, kind)
		}
		// Some coordinates are equal.
		value := func() float32 {
			if rng.IntN(8) == 0 {
				return float32(rng.IntN(3) - 1)
			}
			return float32(rng.NormFloat64())
		}
		kernels := kind
		if unit > 2 {
			kernels = DistanceL2
		}
		scores, gradients := b.distances.scores[kernels].gemm, b.distances.gradients[kernels].gemm
		mr, nr := max(scores.mr, gradients.mr), max(scores.nr, gradients.nr)
		for m := 1; m <= 2*mr+1; m++ {
			check(m, 1+rng.IntN(2*nr), unit*(1+rng.IntN(20)), value)
		}
		for n := 1; n <= 2*nr+1; n++ {
			check(1+rng.IntN(2*mr), n, unit*(1+rng.IntN(20)), value)
		}
		for k := 0; k <= 2*nr+2; k += unit {
			check(1+rng.IntN(2*mr), 1+rng.IntN(20), k, value)
		}
		whole := func(k int) int { return k / unit * unit } // a multiple of the group
		for _, k := range []int{254, 256, 258, 510, 512, 514} {
			check(mr+2, nr+3, whole(k), value)
			check(mr+2, k-1, whole(nr+2), value)
			check(k+1, mr+2, whole(nr+2), value)
		}
		check(scores.strips*mr+1, nr, 2*unit, value)
		check(2, itemColumns+nr+1, 2*unit, value)
		check(2, 3, whole(itemColumns+nr+2), value)
		check(productBlock+1, 2, max(2, unit), value)
		check(2, productBlock+1, max(2, unit), value)
		check(2, 3, whole(productBlock+2), value)
		for range 30 {
			check(mr, nr, unit*(1+rng.IntN(10)), func() float32 {
				if rng.IntN(10) == 0 {
					return kerneltest.Special[rng.IntN(len(kerneltest.Special))]
				}
				return value()
			})
		}
	})
}

func TestDistanceOfNothing(t *testing.T) {
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		k := 4 * kind.Group()
		d, none := b.NewDistance(kind, 2), Matrix{Cols: k, Stride: k}
		x := newDistanceBlock(t, rand.New(rand.NewPCG(1, 1)), 3, 0, k, func() float32 { return 1 })
		x.phi, x.dPhi, x.s, x.g = none, none, Matrix{Rows: 3}, Matrix{Rows: 3}
		x.compute(t.Context(), t, d)
		for i := range x.dPsi.Rows {
			assert.Equal(t, make([]float32, k), x.dPsi.Row(i), "no features, no gradient")
		}
	})
}

// float64Distance returns a distance in float64.
func float64Distance(kind DistanceKind, q, e []float64) (sum float64) {
	for u := 0; u < len(q); u += kind.Group() {
		d := q[u] - e[u]
		switch kind {
		case DistanceL1:
			sum += math.Abs(d)
		case DistanceL2:
			sum += d * d
		case DistancePhase:
			sum += math.Abs(q[u]*e[u] + q[u+1]*e[u+1])
		case DistanceProductNorm:
			v := q[u]*e[u] + q[u+1]*e[u+1]
			sum += v * v
		default: // the norms of groups
			norm := 0.0
			for v := u; v < u+kind.Group(); v++ {
				norm = math.Hypot(norm, q[v]-e[v])
			}
			sum += norm
		}
	}
	if kind.Root() {
		sum = math.Sqrt(sum)
	}
	return -sum
}

// errorScale returns the number to which the error of a score is relative: the distance with
// absolute values in place of products that may cancel.
func errorScale(kind DistanceKind, q, e []float64) float64 {
	sum, squares := 0.0, 0.0
	for u, v := range q {
		p := math.Abs(v * e[u])
		sum, squares = sum+p, squares+p*p
	}
	size := -float64Distance(kind, q, e)
	switch kind {
	case DistancePhase:
		size += sum
	case DistanceProductNorm: // (|p| + |p'|)² ≤ 2(p² + p'²)
		size += math.Sqrt(2 * squares)
	}
	return size
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// TestDistanceAgainstFloat64 compares scores with float64 scores, within the error bound for their
// chains, and gradients with central differences. Coordinates are far enough apart that no kink is
// near.
func TestDistanceAgainstFloat64(t *testing.T) {
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		rng := rand.New(rand.NewPCG(3, uint64(kind)))
		const m, n, k = 7, 61, 600
		x := newDistanceBlock(t, rng, m, n, k, func() float32 { return float32(rng.NormFloat64()) })
		apart(x)
		x.compute(t.Context(), t, b.NewDistance(kind, 2))
		psi, phi := make([][]float64, m), make([][]float64, n)
		for i := range psi {
			psi[i] = widen(x.psi.Row(i))
		}
		for j := range phi {
			phi[j] = widen(x.phi.Row(j))
		}
		// The bound covers the roundings in a chain and in a term. It is relative to a sum without
		// cancellation.
		for i := range psi {
			for j := range phi {
				want, size := float64Distance(kind, psi[i], phi[j]), errorScale(kind, psi[i], phi[j])
				require.InDelta(t, want, x.s.Row(i)[j], size*kernel.Gamma(ProductChunk+k/ProductChunk+16, kernel.U32),
					"score %d,%d", i, j)
			}
		}
		const h = 1e-4
		loss := func(i, j int) float64 { return float64(x.g.Row(i)[j]) * float64Distance(kind, psi[i], phi[j]) }
		slope := func(at *float64, loss func() float64) float64 {
			saved := *at
			defer func() { *at = saved }()
			*at = saved + h
			above := loss()
			*at = saved - h
			return (above - loss()) / (2 * h)
		}
		for _, u := range []int{0, 1, 47, 48, 255, 256, 599} {
			for i := range psi {
				want := slope(&psi[i][u], func() (sum float64) {
					for j := range phi {
						sum += loss(i, j)
					}
					return sum
				})
				require.InDelta(t, want, x.dPsi.Row(i)[u], 1e-4, "query %d, coordinate %d", i, u)
			}
			for j := range phi {
				want := slope(&phi[j][u], func() (sum float64) {
					for i := range psi {
						sum += loss(i, j)
					}
					return sum
				})
				require.InDelta(t, want, x.dPhi.Row(j)[u], 1e-4, "feature %d, coordinate %d", j, u)
			}
		}
	})
}

// apart changes the coordinates of queries until every coordinate differs from each feature's by at
// least 0.01, and every sum of the two products of a pair is at least 0.01 away from 0.
func apart(x distanceBlock) {
	near := func(a, b []float32, u int) bool {
		v := u ^ 1
		return math.Abs(float64(a[u]-b[u])) < 0.01 || math.Abs(float64(a[u]*b[u]+a[v]*b[v])) < 0.01
	}
	for i := range x.psi.Rows {
		q := x.psi.Row(i)
		for u := 0; u < len(q); u++ {
			for j := 0; j < x.phi.Rows; j++ {
				if near(q, x.phi.Row(j), u) {
					q[u] += 0.011
					u, j = u&^1, -1
				}
			}
		}
	}
}

// TestDistanceKinks checks that gradients are 0 at kinks.
func TestDistanceKinks(t *testing.T) {
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		x := newDistanceBlock(t, rand.New(rand.NewPCG(1, 1)), 3, 5, 60, func() float32 { return 0.75 })
		if kind == DistancePhase || kind == DistanceProductNorm {
			for i := range x.psi.Rows {
				for u := 0; u < x.psi.Cols; u += 2 {
					x.psi.Row(i)[u] *= -1 // at a right angle
				}
			}
		}
		x.compute(t.Context(), t, b.NewDistance(kind, 1))
		for _, m := range []Matrix{x.s, x.dPsi, x.dPhi} {
			for i := range m.Rows {
				for _, v := range m.Row(i) {
					require.Zero(t, v)
				}
			}
		}
	})
}

// TestDistanceNotFinite checks the effect of a coordinate that is not finite: the scores of its
// vector are NaN or −Inf, the gradients with respect to it are NaN or infinite, and other queries
// are not affected.
func TestDistanceNotFinite(t *testing.T) {
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		rng := rand.New(rand.NewPCG(4, uint64(kind)))
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			x := newDistanceBlock(t, rng, 9, 20, 60, func() float32 { return float32(rng.NormFloat64()) })
			x.psi.Row(4)[31] = bad
			x.compute(t.Context(), t, b.NewDistance(kind, 1))
			for i := range x.s.Rows {
				for _, v := range x.s.Row(i) {
					require.Equal(t, i == 4, v-v != 0, "scores of query %d: %g", i, v)
					require.False(t, math.IsInf(float64(v), 1), "an infinite coordinate is not near")
				}
				d := x.dPsi.Row(i)[31]
				require.Equal(t, i == 4, d-d != 0, "gradient of query %d: %g", i, d)
			}
			for j := range x.dPhi.Rows {
				d := x.dPhi.Row(j)[31]
				require.NotZero(t, d-d, "gradient of feature %d: %g", j, d)
			}
		}
	})
}

// TestInverseRoot checks the error bound of inverseRoot for all float32 values of two binades. All
// other binades give the same relative errors.
func TestInverseRoot(t *testing.T) {
	step := uint32(1)
	if testing.Short() {
		step = 61
	}
	worst := 0.0
	for bits := math.Float32bits(1); bits < math.Float32bits(4); bits += step {
		x := math.Float32frombits(bits)
		root, y, p := inverseRoot(x)
		exact := math.Sqrt(float64(x))
		worst = max(worst, math.Abs(float64(float32(root*p))/exact-1), math.Abs(float64(float32(y*p))*exact-1))
	}
	t.Logf("largest relative error 2^%.2f", math.Log2(worst))
	assert.Less(t, worst, 0x1p-22)
	for _, x := range []float32{0x1p-126, 0x1.fffffep-126, 0x1p-125, 1e-30, 1e30, math.MaxFloat32} {
		root, y, p := inverseRoot(x)
		exact := math.Sqrt(float64(x))
		assert.InEpsilon(t, exact, root*p, 0x1p-22)
		assert.InEpsilon(t, 1/exact, y*p, 0x1p-22)
	}
	root, y, p := inverseRoot(0)
	assert.Zero(t, root*p)
	assert.Less(t, y*p, float32(0x1p66))
	root, y, p = inverseRoot(float32(math.Inf(1)))
	assert.True(t, math.IsInf(float64(root*p), 1) && math.IsInf(float64(y*p), 1))
	root, y, p = inverseRoot(float32(math.NaN()))
	assert.True(t, root*p != root*p && y*p != y*p)
}

func TestDistanceCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := newDistanceBlock(t, rand.New(rand.NewPCG(1, 1)), 3, 5, 4, func() float32 { return 1 })
	for _, kind := range append(DistanceKinds(), DistanceGroupNormOf(4)) {
		d := generic(t).NewDistance(kind, 2)
		require.ErrorIs(t, d.Scores(ctx, x.s, x.psi, x.phi), context.Canceled)
		require.ErrorIs(t, d.Gradients(ctx, x.dPsi, x.dPhi, x.g, x.s, x.psi, x.phi), context.Canceled)
	}
}

func TestDistancePanics(t *testing.T) {
	x := newDistanceBlock(t, rand.New(rand.NewPCG(1, 1)), 3, 5, 5, func() float32 { return 1 })
	odd := generic(t).NewDistance(DistancePhase, 1)
	require.Panics(t, func() { _ = odd.Scores(t.Context(), x.s, x.psi, x.phi) }, "half a pair")
	d := generic(t).NewDistance(DistanceL2, 1)
	require.Panics(t, func() { _ = d.Scores(t.Context(), x.s, x.psi, NewMatrix(5, 4)) }, "vectors that do not fit")
	gradients := func(dPsi, dPhi, s Matrix) { _ = d.Gradients(t.Context(), dPsi, dPhi, x.g, s, x.psi, x.phi) }
	require.Panics(t, func() { gradients(x.dPsi, x.dPhi, NewMatrix(3, 4)) }, "scores that do not fit")
	require.Panics(t, func() { gradients(x.dPhi, x.dPsi, x.s) }, "results that do not fit")
}

func TestDistanceDoesNotAllocate(t *testing.T) {
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		x := newDistanceBlock(t, rand.New(rand.NewPCG(1, 1)), 50, 70, 300, func() float32 { return 1 })
		for _, threads := range []int{1, 4} {
			d := b.NewDistance(kind, threads)
			ctx := t.Context()
			require.Zero(t, testing.AllocsPerRun(5, func() {
				if d.Scores(ctx, x.s, x.psi, x.phi) != nil || d.Gradients(ctx, x.dPsi, x.dPhi, x.g, x.s, x.psi,
					x.phi) != nil {
					panic("failed")
				}
			}))
		}
	})
}
