package linalg

import (
	"math"
	"unsafe"

	"github.com/mquine/mquine/internal/fmath"
)

var regionsGeneric = [numRegions]regionKernels{
	RegionBoxes:         genericRegion(boxScoresGeneric, boxPsiGeneric, boxPhiGeneric),
	RegionParallelogram: genericRegion(parallelogramScoresGeneric, parallelogramPsiGeneric, parallelogramPhiGeneric),
}

// genericRegion returns the kernels and loops that run them on memory in the L1 cache, because Go
// cannot express loops on registers alone.
func genericRegion(
	scores func(q *float32, n int, table *float32, stride int, ids *int32, count int, sums, most *float32),
	psi func(
		dq, q *float32, n int, table *float32, stride int, ids *int32, weights *float32, inside *int32, count int,
	),
	phi func(dx, x *float32, n int, table *float32, stride int, weights *float32, inside *int32, count int),
) regionKernels {
	const n, count = 64, 8
	loop := func(run func(q, table, weights, out *float32, inside *int32)) func(rounds int, operands *float32) {
		return func(rounds int, x *float32) {
			operands, values := unsafe.Slice(x, peakOperands), make([]float32, count*regionWords*n)
			for i := 0; i < len(values); { // subnormal values would be slow
				i += copy(values[i:], operands)
			}
			out, inside := make([]float32, regionPsi*n), make([]int32, count)
			for range rounds {
				run(&values[0], &values[n], &values[0], &out[0], &inside[0])
			}
		}
	}
	return regionKernels{
		scores, psi, phi,
		Peak{loop(func(q, table, _, out *float32, _ *int32) {
			scores(q, n, table, n, &everyRow[0], count, out, unsafe.SliceData(unsafe.Slice(out, 2*count)[count:]))
		}), count * n},
		bothGradients(loop(func(q, table, weights, out *float32, inside *int32) {
			psi(out, q, n, table, n, &everyRow[0], weights, inside, count)
		}), loop(func(q, table, weights, out *float32, inside *int32) {
			phi(out, table, n, q, regionWords*n, weights, inside, count)
		}), count*n),
	}
}

// lanes16 is a vector of the portable kernels. Slices of a fixed length need no bounds checks.
type lanes16 = [regionLanes]float32

// lanesAt returns the vector that begins at entry i of x.
func lanesAt(x []float32, i int) *lanes16 { return (*lanes16)(x[i:]) }

// vectorOf returns the vector of word w that begins at entry u of a prepared part.
func vectorOf(words []float32, n, w, u int) *lanes16 { return lanesAt(words, w*n+u) }

// slopesOf returns the vectors of 1/V, V and κ.
func slopesOf(words []float32, n, u int) (inverse, v, kappa *lanes16) {
	return vectorOf(words, n, wordInverse, u), vectorOf(words, n, wordV, u), vectorOf(words, n, wordKappa, u)
}

// addSixteen adds up the lanes of a sum.
func addSixteen(sum *lanes16) float32 {
	for half := regionLanes / 2; half > 0; half /= 2 {
		for l := range half {
			sum[l] += sum[l+half]
		}
	}
	return sum[0]
}

// whenever returns all ones if b holds, and 0 otherwise. The compiler needs no branch for it, and
// whether a point is inside a box is hard to predict.
func whenever(b bool) uint32 {
	var one uint32
	if b {
		one = 1
	}
	return -one
}

// choose returns x if mask is all ones, and y if it is 0.
func choose(mask uint32, x, y float32) float32 {
	return math.Float32frombits(math.Float32bits(x)&mask | math.Float32bits(y)&^mask)
}

// signed returns x with its sign changed if y is negative.
func signed(x, y float32) float32 {
	return math.Float32frombits(math.Float32bits(x) ^ math.Float32bits(y)&(1<<31))
}

func boxScoresGeneric(
	q *float32, n int, table *float32, stride int, ids *int32, count int, sums, _ *float32,
) {
	words, out := unsafe.Slice(q, regionWords*n), unsafe.Slice(sums, count)
	for i, row := range unsafe.Slice(ids, count) {
		phi := rowAt(table, stride, row, n)
		var sum lanes16
		for u := 0; u < n; u += regionLanes {
			a, c, b := vectorOf(words, n, wordFactor, u), vectorOf(words, n, wordOffset, u), lanesAt(phi, u)
			inverse, v, kappa := slopesOf(words, n, u)
			for l := range sum {
				x := fmath.Abs32(c[l] - 1/(float32(a[l]*b[l])+0.5))
				inside, outside := float32(x*inverse[l]), float32(x*v[l])-kappa[l]
				d := choose(whenever(inside > outside), inside, outside)
				sum[l] += float32(d * d)
			}
		}
		out[i] = addSixteen(&sum)
	}
}

func parallelogramScoresGeneric(
	q *float32, n int, table *float32, stride int, ids *int32, count int, sums, most *float32,
) {
	words, out, largest := unsafe.Slice(q, regionWords*n), unsafe.Slice(sums, count), unsafe.Slice(most, count)
	for i, row := range unsafe.Slice(ids, count) {
		phi := rowAt(table, stride, row, n)
		var sum, beyond lanes16
		for l := range beyond {
			beyond[l] = -math.MaxFloat32
		}
		for u := 0; u < n; u += regionLanes {
			s, a, b := vectorOf(words, n, wordFactor, u), vectorOf(words, n, wordOffset, u), lanesAt(phi, u)
			_, v, kappa := slopesOf(words, n, u)
			half := vectorOf(words, n, wordHalf, u)
			for l := range sum {
				x := fmath.Abs32(a[l] - float32(s[l]*b[l]))
				d := float32(x*v[l]) - kappa[l]
				sum[l] += float32(d * d)
				y := x - half[l]
				beyond[l] = choose(whenever(y > beyond[l]), y, beyond[l])
			}
		}
		out[i], largest[i] = addSixteen(&sum), beyond[0]
		for _, y := range beyond {
			largest[i] = max(largest[i], y)
		}
	}
}

// insideSum returns Σ(x/V)² for a pair inside its parallelogram. Such pairs are few, so all tiers
// use this function.
func insideSum(words, phi []float32) float32 {
	n := len(phi)
	var sum lanes16
	for u := 0; u < n; u += regionLanes {
		s, a, b := vectorOf(words, n, wordFactor, u), vectorOf(words, n, wordOffset, u), lanesAt(phi, u)
		inverse := vectorOf(words, n, wordInverse, u)
		for l := range sum {
			d := float32(fmath.Abs32(a[l]-float32(s[l]*b[l])) * inverse[l])
			sum[l] += float32(d * d)
		}
	}
	return addSixteen(&sum)
}

func boxPsiGeneric(
	dq, q *float32, n int, table *float32, stride int, ids *int32, weights *float32, _ *int32, count int,
) {
	words, out := unsafe.Slice(q, regionWords*n), unsafe.Slice(dq, regionPsi*n)
	for u := 0; u < n; u += regionLanes {
		a, c := vectorOf(words, n, wordFactor, u), vectorOf(words, n, wordOffset, u)
		inverse, v, kappa := slopesOf(words, n, u)
		within, beyond := vectorOf(words, n, wordInside, u), vectorOf(words, n, wordOutside, u)
		dA, dM, dW := lanesAt(out, u), lanesAt(out, n+u), lanesAt(out, 2*n+u)
		gs := unsafe.Slice(weights, count)
		for i, row := range unsafe.Slice(ids, count) {
			b, g := lanesAt(rowAt(table, stride, row, n), u), gs[i]
			for l := range b {
				r := 1 / (float32(a[l]*b[l]) + 0.5)
				y := c[l] - r
				x := fmath.Abs32(y)
				inside, outside := float32(x*inverse[l]), float32(x*v[l])-kappa[l]
				mask := whenever(inside > outside)
				d := float32(g * choose(mask, inside, outside))
				e := signed(float32(d*choose(mask, inverse[l], v[l])), y)
				dA[l] += float32(e * float32(r*(2-r)))
				dM[l] -= e
				dW[l] += float32(d * choose(mask, float32(x*within[l]), x-beyond[l]))
			}
		}
	}
}

func boxPhiGeneric(dx, x *float32, n int, table *float32, stride int, weights *float32, _ *int32, count int) {
	phi, out := unsafe.Slice(x, n), unsafe.Slice(dx, n)
	for i, g := range unsafe.Slice(weights, count) {
		words := rowAt(table, stride, int32(i), regionWords*n)
		for u := 0; u < n; u += regionLanes {
			a, c, b := vectorOf(words, n, wordFactor, u), vectorOf(words, n, wordOffset, u), lanesAt(phi, u)
			inverse, v, kappa := slopesOf(words, n, u)
			dB := lanesAt(out, u)
			for l := range b {
				r := 1 / (float32(a[l]*b[l]) + 0.5)
				y := c[l] - r
				x := fmath.Abs32(y)
				inside, outside := float32(x*inverse[l]), float32(x*v[l])-kappa[l]
				mask := whenever(inside > outside)
				d := float32(g * choose(mask, inside, outside))
				e := signed(float32(d*choose(mask, inverse[l], v[l])), y)
				dB[l] += float32(e * float32(r*(2-r)))
			}
		}
	}
}

func parallelogramPsiGeneric(
	dq, q *float32, n int, table *float32, stride int, ids *int32, weights *float32, inside *int32, count int,
) {
	words, out := unsafe.Slice(q, regionWords*n), unsafe.Slice(dq, regionPsi*n)
	for u := 0; u < n; u += regionLanes {
		s, a := vectorOf(words, n, wordFactor, u), vectorOf(words, n, wordOffset, u)
		inverse, v, kappa := slopesOf(words, n, u)
		within, beyond := vectorOf(words, n, wordInside, u), vectorOf(words, n, wordOutside, u)
		dA, dS, dW := lanesAt(out, u), lanesAt(out, n+u), lanesAt(out, 2*n+u)
		gs, masks := unsafe.Slice(weights, count), unsafe.Slice(inside, count)
		for i, row := range unsafe.Slice(ids, count) {
			b, g, mask := lanesAt(rowAt(table, stride, row, n), u), gs[i], uint32(masks[i])
			for l := range b {
				y := a[l] - float32(s[l]*b[l])
				x := fmath.Abs32(y)
				slope := choose(mask, inverse[l], v[l])
				d := float32(g * (float32(x*slope) - choose(mask, 0, kappa[l])))
				e := signed(float32(d*slope), y)
				dA[l] += e
				dS[l] -= float32(e * b[l])
				dW[l] += float32(d * choose(mask, float32(x*within[l]), x-beyond[l]))
			}
		}
	}
}

func parallelogramPhiGeneric(
	dx, x *float32, n int, table *float32, stride int, weights *float32, inside *int32, count int,
) {
	phi, out, masks := unsafe.Slice(x, n), unsafe.Slice(dx, n), unsafe.Slice(inside, count)
	for i, g := range unsafe.Slice(weights, count) {
		words, mask := rowAt(table, stride, int32(i), regionWords*n), uint32(masks[i])
		for u := 0; u < n; u += regionLanes {
			s, a, b := vectorOf(words, n, wordFactor, u), vectorOf(words, n, wordOffset, u), lanesAt(phi, u)
			inverse, v, kappa := slopesOf(words, n, u)
			dB := lanesAt(out, u)
			for l := range b {
				y := a[l] - float32(s[l]*b[l])
				slope := choose(mask, inverse[l], v[l])
				d := float32(g * (float32(fmath.Abs32(y)*slope) - choose(mask, 0, kappa[l])))
				dB[l] -= float32(signed(float32(d*slope), y) * s[l])
			}
		}
	}
}
