package fmath

import "math"

// Exp returns eˣ for x ≤ 0 to within a few units in the last place. If eˣ is below about 10⁻³⁰¹,
// Exp returns 0.
func Exp(x float64) float64 {
	k := math.Round(x / math.Ln2)
	if k < -1000 {
		return 0
	}
	// The constants are ln 2 in two parts. The first part has so few bits that its product with k
	// is exact.
	const ln2High, ln2Low = 0x1.62e42feep-1, 0x1.a39ef35793c76p-33
	r := (x - float64(k*ln2High)) - float64(k*ln2Low)
	var sum float64
	for _, c := range inverseFactorials {
		sum = float64(sum*r) + c
	}
	return math.Ldexp(sum, int(k))
}

// inverseFactorials holds 1/13!, …, 1/1!, 1/0!: the Taylor coefficients of eʳ, highest power first.
var inverseFactorials = func() (c [14]float64) {
	c[13] = 1
	factorial := 1.0
	for n := 1; n < len(c); n++ {
		factorial *= float64(n)
		c[13-n] = 1 / factorial
	}
	return c
}()
