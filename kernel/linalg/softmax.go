package linalg

import (
	"fmt"
	"math"
)

// The kernels of this file round every operation separately, so that all tiers agree bit for bit. They share one float32
// exponential, whose error is below 2 units in the last place, subnormal results included (TestExp): with n the integer
// next to x/ln 2 and r = x − n·ln 2, a polynomial in r times 2ⁿ. exp(−∞) is 0, exp(+∞) and results beyond float32 are
// +∞, exp(NaN) is NaN.

// weightKernels are the kernels for n scores, a multiple of sumLanes; sums go to lanes as in Dot.
type weightKernels struct {
	// maximum raises lanes to the entries.
	maximum func(x *float32, n int, lanes *[sumLanes]float32)
	// exp replaces x by exp(a·x − shift).
	exp func(x *float32, n int, a, shift float32, lanes *[sumLanes]float32)
	// logistic: see Backend.Logistic.
	logistic func(x, w *float32, n int, shift, target float32, lanes *[sumLanes]float32)
}

// Max returns the largest entry of x other than NaN, −Inf if there is none.
func (b *Backend) Max(x []float32) float32 {
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	for i := range t.lanes {
		t.lanes[i] = float32(math.Inf(-1))
	}
	whole := len(x) / sumLanes * sumLanes
	for i := 0; i < whole; i += rowChunk {
		b.weights.maximum(&x[i], min(rowChunk, whole-i), &t.lanes)
	}
	if whole < len(x) {
		maximumGeneric(&x[whole], len(x)-whole, &t.lanes)
	}
	most := t.lanes[0]
	for _, v := range t.lanes[1:] {
		most = max(most, v)
	}
	return most
}

// Exp replaces x by exp(a·x − shift) and returns the sum, added up as in Dot.
func (b *Backend) Exp(x []float32, a, shift float32) float64 {
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	var sum float64
	whole := len(x) / sumLanes * sumLanes
	for i := 0; i < whole; i += rowChunk {
		b.weights.exp(&x[i], min(rowChunk, whole-i), a, shift, &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	if whole < len(x) {
		expGeneric(&x[whole], len(x)-whole, a, shift, &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	return sum
}

// Softmax replaces scores x by weights: weight·exp(a·x_j)/Σ_k exp(a·x_k), a ≥ 0, and returns the
// logarithm of the sum, log Σ_k exp(a·x_k). Scores may be −Inf (weight 0), but not all of them; a
// NaN or +Inf among them makes the logarithm NaN.
func (b *Backend) Softmax(x []float32, a, weight float32) (logSum float64) {
	shift := a * b.Max(x)
	sum := b.Exp(x, a, shift)
	b.Scale(x, float32(float64(weight)/sum))
	return float64(shift) + math.Log(sum)
}

// Logistic takes the logistic loss of scores and its derivative. With z_j = x_j + shift it returns
//
//	Σ_j w_j·(softplus(z_j) − target·z_j),   softplus(z) = log(1 + eᶻ) = −log σ(−z),
//
// added up as in Dot, and replaces x_j by its derivative w_j·(σ(z_j) − target). w may be nil: every
// weight is 1. With target 0 this is the loss of negatives, with 1 that of positives. Where the
// target is 0, a score of −Inf counts nothing and has derivative 0.
func (b *Backend) Logistic(x, w []float32, shift, target float32) float64 {
	if w != nil && len(w) != len(x) {
		panic(fmt.Sprintf("linalg: Logistic: %d scores, %d weights", len(x), len(w)))
	}
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	var sum float64
	whole := len(x) / sumLanes * sumLanes
	for i := 0; i < len(x); {
		n := min(rowChunk, whole-i)
		f := b.weights.logistic
		if i == whole {
			n, f = len(x)-whole, logisticGeneric
		}
		weights := &ones[0]
		if w != nil {
			weights = &w[i]
		}
		f(&x[i], weights, n, shift, target, &t.lanes)
		sum = addLanes(sum, &t.lanes)
		i += n
	}
	return sum
}

var ones = func() (x [rowChunk]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()
