package linalg

import (
	"fmt"
	"math"
)

// The kernels in this file round every operation separately, so all tiers agree bit for bit. They
// share one float32 exponential whose error is below 2 units in the last place, even for subnormal
// results (TestExp). It is 2ⁿ times a polynomial in r = x − n·ln 2, where n is the integer nearest
// to x/ln 2. exp(−∞) is 0, exp(+∞) and results beyond float32 are +∞, and exp(NaN) is NaN.

// softmaxKernels are the kernels for n scores. n is a multiple of sumLanes; the portable kernels
// accept any n > 0. The terms of a sum are assigned to lanes as in Dot.
type softmaxKernels struct {
	// maximum sets each lane to the maximum of itself and its entries of x.
	maximum func(x *float32, n int, lanes *[sumLanes]float32)
	// exp replaces x with exp(a·x − shift) and sets lanes to the sums of the results.
	exp func(x *float32, n int, a, shift float32, lanes *[sumLanes]float32)
	// logistic does the work of Backend.Logistic.
	logistic func(x, w *float32, n int, shift, target float32, lanes *[sumLanes]float32)
}

// softmaxFor returns the kernels for a chunk of n entries: the portable kernels if n is not a
// multiple of sumLanes, and b's otherwise.
func (b *Backend) softmaxFor(n int) *softmaxKernels {
	if n%sumLanes != 0 {
		return &softmaxGeneric
	}
	return &b.softmax
}

// Max returns the largest entry of x, ignoring NaN, or −Inf if there is none.
func (b *Backend) Max(x []float32) float32 {
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	for i := range t.lanes {
		t.lanes[i] = float32(math.Inf(-1))
	}
	for i, n := 0, 0; i < len(x); i += n {
		n = chunk(len(x)-i, sumLanes)
		b.softmaxFor(n).maximum(&x[i], n, &t.lanes)
	}
	most := t.lanes[0]
	for _, v := range t.lanes[1:] {
		most = max(most, v)
	}
	return most
}

// Exp replaces x with exp(a·x − shift) and returns the sum of the results, added in the order of
// Dot.
func (b *Backend) Exp(x []float32, a, shift float32) float64 {
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	var sum float64
	for i, n := 0, 0; i < len(x); i += n {
		n = chunk(len(x)-i, sumLanes)
		b.softmaxFor(n).exp(&x[i], n, a, shift, &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	return sum
}

// Softmax replaces the scores x_j with the weights weight·exp(a·x_j)/Σ_k exp(a·x_k), a ≥ 0. A score
// of −Inf gets the weight 0, but at least one score must be greater than −Inf. If a score is NaN or
// +Inf, all weights are NaN.
func (b *Backend) Softmax(x []float32, a, weight float32) {
	sum := b.Exp(x, a, a*b.Max(x))
	b.Scale(x, float32(float64(weight)/sum))
}

// Logistic computes the logistic loss of the scores x and its derivatives. With z_j = x_j + shift
// it returns
//
//	Σ_j w_j·(softplus(z_j) − target·z_j),   softplus(z) = log(1 + eᶻ) = −log σ(−z),
//
// adding in the order of Dot, and replaces x_j with the derivative w_j·(σ(z_j) − target). The target
// is 1 for positives and 0 for negatives. A negative with score −Inf adds nothing and has the
// derivative 0.
func (b *Backend) Logistic(x, w []float32, shift, target float32) float64 {
	if len(w) != len(x) {
		panic(fmt.Sprintf("linalg: Logistic: %d scores, %d weights", len(x), len(w)))
	}
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	var sum float64
	for i, n := 0, 0; i < len(x); i += n {
		n = chunk(len(x)-i, sumLanes)
		b.softmaxFor(n).logistic(&x[i], &w[i], n, shift, target, &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	return sum
}
