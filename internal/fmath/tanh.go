package fmath

import "math"

// Tanh returns the hyperbolic tangent of x. Its relative error is at most 2⁻⁴⁹.
func Tanh(x float64) float64 {
	a := math.Abs(x)
	var t float64
	if a < 0.25 {
		m := expMinus1(2 * a)
		t = m / (m + 2)
	} else {
		y := Exp(-2 * a)
		t = (1 - y) / (1 + y)
	}
	return math.Copysign(t, x)
}

// expMinus1 returns eˣ − 1 for 0 ≤ x ≤ 1/2, to within a few units in the last place. Its series has
// two terms more than the series of Exp, whose arguments are smaller.
func expMinus1(x float64) float64 {
	const factorial14 = 87178291200
	sum := (x/15 + 1) / factorial14
	for _, c := range inverseFactorials[:len(inverseFactorials)-1] { // without 1/0!
		sum = float64(sum*x) + c
	}
	return float64(sum * x) // Tanh adds to the result, and an inlined product would fuse with the sum
}
