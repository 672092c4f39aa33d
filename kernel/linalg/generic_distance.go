package linalg

import (
	"math"
	"unsafe"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
)

var distancesGeneric = distanceKernels{
	scores: [numDistances]distanceKernel{
		DistanceL1:        scoresGeneric(l1Chain, 1),
		DistanceL2:        scoresGeneric(l2Chain, 1),
		DistanceGroupNorm: scoresGeneric(normChain, 2),
		DistancePhase:     scoresGeneric(phaseChain, 2),

		DistanceProductNorm: scoresGeneric(productNormChain, 2),
	},
	gradients: [numDistances]distanceKernel{
		DistanceL1:        gradientsGeneric(l1Gradient),
		DistanceL2:        gradientsGeneric(l2Gradient),
		DistanceGroupNorm: gradientsGeneric(normGradient),
		DistancePhase:     gradientsGeneric(phaseGradient),

		DistanceProductNorm: gradientsGeneric(productNormGradient),
	},
	rows: [numDistances]rowDistance{
		DistanceL1:        {rowScoresGeneric(l1Chain, 1), rowGradientGeneric(l1Gradient)},
		DistanceL2:        {rowScoresGeneric(l2Chain, 1), rowGradientGeneric(l2Gradient)},
		DistanceGroupNorm: {rowScoresGeneric(normChain, 2), rowGradientGeneric(normGradient)},
		DistancePhase:     {rowScoresGeneric(phaseChain, 2), rowGradientGeneric(phaseGradient)},

		DistanceProductNorm: {rowScoresGeneric(productNormChain, 2), rowGradientGeneric(productNormGradient)},
	},
	gradientRound: 1,
	roots:         rootsGeneric,
	quotients:     quotientsGeneric,
}

// rootMagic minus half the bits of x gives the bits of an approximation y of 1/√x: |r| < 0.07 for r
// = 1 − x·y².
const rootMagic = 0x5f3759df

// rootTerms are the coefficients, highest first, of a polynomial in r that approximates 1/√(1 − r)
// for these r with a relative error below 2⁻²⁵. asm/gen/distance.go has the same coefficients.
var rootTerms = [...]float32{0.274069258730864, 0.31393923552813763, 0.375000587363715, 0.4999983204717482, 1}

// inverseRoot returns t, y and p such that √x ≈ t·p and 1/√x ≈ y·p, for x ≥ 0. It uses integer and
// correctly rounded operations only, so every processor computes the same bits. The relative error
// is below 2⁻²² for normal x (TestInverseRoot). For x = 0, t is 0 and y·p is finite; for subnormal
// x, the results are close to these. Both products are infinite for x = +Inf and NaN for NaN.
func inverseRoot(x float32) (t, y, p float32) {
	y = math.Float32frombits(rootMagic - math.Float32bits(x)>>1)
	t = float32(x * y)
	r := fmath.FMA32(-t, y, 1)
	p = rootTerms[0]
	for _, c := range rootTerms[1:] {
		p = fmath.FMA32(p, r, c)
	}
	return t, y, p
}

// sign returns 1, −1 or ±0, or NaN if x is not finite.
func sign(x float32) float32 {
	s := x * 0
	switch {
	case x > 0:
		s++
	case x < 0:
		s--
	}
	return s
}

// scoreChain adds up the terms of a score, starting from 0. The terms belong to entries 0, stride,
// 2·stride, … of q and e. The second entry of a pair is at offset next from the first.
type scoreChain func(q, e []float32, stride, next int) float32

func l1Chain(q, e []float32, stride, _ int) (sum float32) {
	for t := 0; t < len(q); t += stride {
		sum -= fmath.Abs32(q[t] - e[t])
	}
	return sum
}

func l2Chain(q, e []float32, stride, _ int) (sum float32) {
	for t := 0; t < len(q); t += stride {
		d := q[t] - e[t]
		sum = fmath.FMA32(d, d, sum)
	}
	return sum
}

func normChain(q, e []float32, stride, next int) (sum float32) {
	for t := 0; t < len(q); t += stride {
		x, y := q[t]-e[t], q[t+next]-e[t+next]
		root, _, p := inverseRoot(fmath.FMA32(y, y, float32(x*x)))
		sum = fmath.FMA32(-root, p, sum)
	}
	return sum
}

func phaseChain(q, e []float32, stride, next int) (sum float32) {
	for t := 0; t < len(q); t += stride {
		sum -= fmath.Abs32(fmath.FMA32(q[t+next], e[t+next], float32(q[t]*e[t])))
	}
	return sum
}

func productNormChain(q, e []float32, stride, next int) (sum float32) {
	for t := 0; t < len(q); t += stride {
		v := fmath.FMA32(q[t+next], e[t+next], float32(q[t]*e[t]))
		sum = fmath.FMA32(v, v, sum)
	}
	return sum
}

// scoresGeneric returns the kernel that computes scores with the given chain. group is the number
// of coordinates in a group. In a strip and in a panel, the entries of a vector are genericSide
// apart.
func scoresGeneric(chain scoreChain, group int) distanceKernel {
	const n = genericSide
	g := gemmGeneric
	g.microkernels = []gemmKernel{func(
		a, b *float32, k, strips int, c *float32, cStride int, add int, _ uintptr, _ int,
	) {
		as, bs := unsafe.Slice(a, strips*k*n), unsafe.Slice(b, k*n)
		cs := unsafe.Slice(c, (strips*n-1)*cStride+n)
		for i := range strips * n {
			q := as[i/n*k*n:][i%n : (k-1)*n+i%n+1]
			out := cs[i*cStride:][:n]
			for j := range out {
				v := chain(q, bs[j:(k-1)*n+j+1], group*n, n)
				if add != 0 {
					v = out[j] + v
				}
				out[j] = v
			}
		}
	}}
	return distanceKernel{g, peakGeneric(g)}
}

// gradientChain adds the terms of the gradient with respect to two coordinates x of a vector to sum,
// and returns the result. g is part of a strip: every fourth entry is the gradient with respect to a
// score. y is part of a panel: for every fourth t, entries t and t+1 are coordinates of a vector on the
// other side.
type gradientChain func(sum [2]float32, g, y []float32, x [2]float32) [2]float32

func l1Gradient(sum [2]float32, g, y []float32, x [2]float32) [2]float32 {
	for t := 0; t < len(g); t += genericSide {
		for u := range sum {
			sum[u] += float32(g[t] * sign(y[t+u]-x[u]))
		}
	}
	return sum
}

func l2Gradient(sum [2]float32, g, y []float32, x [2]float32) [2]float32 {
	for t := 0; t < len(g); t += genericSide {
		for u := range sum {
			sum[u] = fmath.FMA32(g[t], x[u]-y[t+u], sum[u])
		}
	}
	return sum
}

func normGradient(sum [2]float32, g, y []float32, x [2]float32) [2]float32 {
	for t := 0; t < len(g); t += genericSide {
		d0, d1 := y[t]-x[0], y[t+1]-x[1]
		_, r, p := inverseRoot(fmath.FMA32(d1, d1, float32(d0*d0)))
		w := float32(g[t] * float32(r*p))
		sum[0], sum[1] = fmath.FMA32(w, d0, sum[0]), fmath.FMA32(w, d1, sum[1])
	}
	return sum
}

func phaseGradient(sum [2]float32, g, y []float32, x [2]float32) [2]float32 {
	for t := 0; t < len(g); t += genericSide {
		w := float32(g[t] * sign(fmath.FMA32(x[1], y[t+1], float32(x[0]*y[t]))))
		sum[0], sum[1] = fmath.FMA32(-w, y[t], sum[0]), fmath.FMA32(-w, y[t+1], sum[1])
	}
	return sum
}

func productNormGradient(sum [2]float32, g, y []float32, x [2]float32) [2]float32 {
	for t := 0; t < len(g); t += genericSide {
		w := float32(g[t] * fmath.FMA32(x[1], y[t+1], float32(x[0]*y[t])))
		sum[0], sum[1] = fmath.FMA32(w, y[t], sum[0]), fmath.FMA32(w, y[t+1], sum[1])
	}
	return sum
}

// gradientsGeneric returns the kernel that computes gradients with the given chain.
func gradientsGeneric(chain gradientChain) distanceKernel {
	const n = genericSide
	g := gemmGeneric
	g.microkernels = nil
	g.microkernelsAt = []gemmKernelAt{func(
		a, b *float32, k, strips int, c *float32, cStride int, at *float32, atStride, add int,
	) {
		as, bs := unsafe.Slice(a, strips*k*n), unsafe.Slice(b, k*n)
		cs, xs := unsafe.Slice(c, (strips*n-1)*cStride+n), unsafe.Slice(at, (strips*n-1)*atStride+n)
		for i := range strips * n {
			weights := as[i/n*k*n:][i%n : (k-1)*n+i%n+1]
			for j := 0; j < n; j += 2 {
				sum := chain([2]float32{}, weights, bs[j:(k-1)*n+j+2], [2]float32(xs[i*atStride+j:]))
				out := cs[i*cStride+j:][:2]
				for u, v := range sum {
					if add != 0 {
						v = out[u] + v
					}
					out[u] = v
				}
			}
		}
	}}
	return distanceKernel{g, peakGeneric(g)}
}

// rowScoresGeneric returns the kernel that computes row scores with the given chain. group is the
// number of coordinates in a group.
func rowScoresGeneric(chain scoreChain, group int) func(
	x *float32, n int, table *float32, stride int, ids *int32, count int, out *float32, masks *int32,
) {
	return func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float32, _ *int32) {
		q, scores := unsafe.Slice(x, n), unsafe.Slice(out, count)
		for i, row := range unsafe.Slice(ids, count) {
			e := rowAt(table, stride, row, n)
			var lanes [sumLanes]float32
			for l := 0; l < min(sumLanes, n/group); l++ {
				lanes[l] = chain(q[l*group:], e[l*group:], sumLanes*group, 1)
			}
			for half := sumLanes / 2; half > 0; half /= 2 {
				for l := range half {
					lanes[l] += lanes[l+half]
				}
			}
			scores[i] = lanes[0]
		}
	}
}

func rowAt(table *float32, stride int, row int32, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(table), 4*int(row)*stride)), n)
}

// rowGradientGeneric returns the kernel that computes row gradients with the given chain. It
// applies the chain to a strip of one vector and a panel of two coordinates.
func rowGradientGeneric(chain gradientChain) func(
	dx, x *float32, n int, table *float32, stride int, ids *int32, weights *float32, count int, masks *int32,
) {
	return func(dx, x *float32, n int, table *float32, stride int, ids *int32, weights *float32, count int, _ *int32) {
		t := scratches.Get().(*scratch)
		defer scratches.Put(t)
		strip, panel := t.pairs.strip[:(count-1)*genericSide+1], &t.pairs.panel
		for i, w := range unsafe.Slice(weights, count) {
			strip[i*genericSide] = w
		}
		rows, xs, out := unsafe.Slice(ids, count), unsafe.Slice(x, n), unsafe.Slice(dx, n)
		for u := 0; u < n; u += 2 {
			var two, sum [2]float32
			width := copy(two[:], xs[u:])
			copy(sum[:], out[u:])
			for i, row := range rows {
				copy(panel[i*genericSide:][:width], rowAt(table, stride, row, n)[u:])
			}
			sum = chain(sum, strip, panel[:], two)
			copy(out[u:], sum[:width])
		}
	}
}

// peakGeneric returns a loop that runs the microkernel on memory in the L1 cache, because Go cannot
// express a loop on registers alone.
func peakGeneric(g gemm) Peak {
	return Peak{func(n int, x *float32) {
		operands := unsafe.Slice(x, peakOperands)
		a, b := make([]float32, kernel.Chunk*g.mr), make([]float32, kernel.Chunk*g.nr)
		c, at := make([]float32, g.mr*g.nr), make([]float32, g.mr*g.nr)
		for i := range b { // subnormal values would be slow
			b[i] = operands[i%peakOperands]
		}
		for range n {
			g.run(0, &a[0], &b[0], kernel.Chunk, 1, &c[0], g.nr, &at[0], g.nr, 0, 0, 0)
		}
	}, kernel.Chunk * g.mr * g.nr}
}

func rootsGeneric(x *float32, n int) {
	xs := unsafe.Slice(x, n)
	for i, v := range xs {
		xs[i] = -float32(math.Sqrt(float64(v)))
	}
}

func quotientsGeneric(q, g, s *float32, n int) {
	qs, gs, ss := unsafe.Slice(q, n), unsafe.Slice(g, n), unsafe.Slice(s, n)
	for i, v := range ss {
		qs[i] = 0
		if v != 0 {
			qs[i] = gs[i] / v
		}
	}
}
