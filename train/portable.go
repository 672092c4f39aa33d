package train

import "math"

// The elementary functions of package math differ in their last bits from processor to processor. These
// do not.

// exp returns e to the power of x ≤ 0 to within a few units in the last place, or 0 where that is
// below 10⁻³⁰⁰.
func exp(x float64) float64 {
	k := math.Round(x / math.Ln2)
	if k < -1000 {
		return 0
	}
	// ln 2 in two parts, the first with so few bits that its product with k is exact.
	const ln2High, ln2Low = 0x1.62e42feep-1, 0x1.a39ef35793c76p-33
	r := (x - float64(k*ln2High)) - float64(k*ln2Low)
	var sum float64
	for _, c := range inverseFactorials {
		sum = float64(sum*r) + c
	}
	return math.Ldexp(sum, int(k))
}

// inverseFactorials are 1/13!, …, 1/1!, 1/0!, the coefficients of eʳ, and of the sine and
// the cosine of r.
var inverseFactorials = func() (c [14]float64) {
	c[13] = 1
	factorial := 1.0
	for n := 1; n < len(c); n++ {
		factorial *= float64(n)
		c[13-n] = 1 / factorial
	}
	return c
}()

// sinCos returns the sine and the cosine of an x of up to some thousand turns, to within 10⁻¹².
func sinCos(x float64) (sin, cos float64) {
	k := math.Round(x / (math.Pi / 2))
	// π/2 in two parts, the first with so few bits that its product with k is exact.
	const high, low = 0x1.921fb544p+0, 0x1.0b4611a626331p-34
	r := (x - float64(k*high)) - float64(k*low)
	square := float64(r * r)
	for n := len(inverseFactorials) - 2; n >= 0; n -= 2 {
		sin = inverseFactorials[len(inverseFactorials)-2-n] - float64(sin*square)
		cos = inverseFactorials[len(inverseFactorials)-1-n] - float64(cos*square)
	}
	sin = float64(r * sin)
	switch int64(k) & 3 {
	case 1:
		sin, cos = cos, -sin
	case 2:
		sin, cos = -sin, -cos
	case 3:
		sin, cos = -cos, sin
	}
	return sin, cos
}
