// Package fmath provides elementary functions, a fused multiply-add in float32 and norm bounds that
// give the same bits on every processor. The results of functions in package math differ between
// architectures in the last bits.
package fmath

import "math"

// Ln returns the natural logarithm of x to within a few units in the last place. x must be positive
// and normal.
func Ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	// ln m = 2 artanh z = 2 (z + z³/3 + z⁵/5 + …) with |z| < 0.172.
	z := (m - 1) / (m + 1)
	square := float64(z * z)
	var sum float64
	for k := 23; k > 0; k -= 2 {
		sum = float64(sum*square) + 1/float64(k)
	}
	return float64(float64(e)*math.Ln2) + float64(2*z*sum)
}
