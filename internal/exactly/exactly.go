// Package exactly supports tests of error bounds. It computes sums and products without rounding,
// and quotients and norms to 1,000 bits. It also tracks the largest ratio of an error to its bound.
package exactly

import (
	"math"
	"math/big"
	"testing"
)

// precision is the number of mantissa bits. It is enough for exact sums of products if the factors
// are float32 values or, in most cases, float64 values. Quotients and square roots are rounded to
// this precision.
const precision = 1000

// Of returns x as a big.Float.
func Of(x float64) *big.Float { return number().SetFloat64(x) }

func number() *big.Float { return new(big.Float).SetPrec(precision) }

// Add returns the sum of its arguments.
func Add(x ...*big.Float) *big.Float {
	sum := number()
	for _, v := range x {
		sum.Add(sum, v)
	}
	return sum
}

// Sum returns the sum of its arguments.
func Sum(x ...float64) *big.Float { return Add(All(x)...) }

// Sub returns x − y.
func Sub(x, y *big.Float) *big.Float { return number().Sub(x, y) }

// Mul returns the product of its arguments.
func Mul(x ...*big.Float) *big.Float {
	product := Of(1)
	for _, v := range x {
		product.Mul(product, v)
	}
	return product
}

// Quo returns x / y.
func Quo(x, y *big.Float) *big.Float { return number().Quo(x, y) }

// Dot returns x·y.
func Dot[X, Y float32 | float64](x []X, y []Y) *big.Float {
	sum, product := number(), number()
	for i, v := range x {
		sum.Add(sum, product.Mul(Of(float64(v)), Of(float64(y[i]))))
	}
	return sum
}

// Norm returns ‖x‖₂.
func Norm(x []*big.Float) *big.Float {
	sum, square := number(), number()
	for _, v := range x {
		sum.Add(sum, square.Mul(v, v))
	}
	return sum.Sqrt(sum)
}

// All returns the elements of x as big.Floats.
func All[X float32 | float64](x []X) []*big.Float {
	all := make([]*big.Float, len(x))
	for i, v := range x {
		all[i] = Of(float64(v))
	}
	return all
}

// Ratio tracks the largest ratio of an error to its bound. The zero value is ready to use.
type Ratio struct{ worst float64 }

// See records an error of either sign and its bound. It returns |err| / bound.
func (r *Ratio) See(err *big.Float, bound float64) float64 {
	size, ratio := number().Abs(err), math.Inf(1)
	switch {
	case math.IsInf(bound, 1) || size.Sign() == 0:
		ratio = 0
	case bound > 0:
		ratio, _ = Quo(size, Of(bound)).Float64()
		if size.Cmp(Of(bound)) > 0 {
			ratio = max(ratio, math.Nextafter(1, 2))
		}
	}
	r.worst = max(r.worst, ratio)
	return ratio
}

// Check fails the test if an error exceeded its bound, or if the largest ratio is below least.
// Together, the conditions detect any change of the bound by a factor below least or above 1/least.
func (r *Ratio) Check(t testing.TB, least float64) {
	t.Helper()
	t.Logf("largest ratio of an error to its bound: %.4f", r.worst)
	if !(r.worst <= 1) {
		t.Errorf("an error is %.4f times its bound", r.worst)
	}
	if !(r.worst >= least) {
		t.Errorf("the largest error is %.4f times its bound, below %.4f: "+
			"the bound grew, or the inputs no longer reach it", r.worst, least)
	}
}
