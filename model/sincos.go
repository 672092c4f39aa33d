package model

import (
	"math"
	"math/bits"
)

// sinCos returns the sine and the cosine of x, each to within one unit in the last place, for all
// finite x. Unlike math.Sincos, it returns the same bits on every build and processor. It reduces
// angles with integer arithmetic and uses only float64 operations that IEEE 754 defines, with
// explicit conversions where a compiler could fuse two operations.
func sinCos(x float64) (sin, cos float64) {
	a := math.Abs(x)
	r, low, quadrant := a, 0.0, uint64(0)
	if a > math.Pi/4 {
		r, low, quadrant = reduce(a)
	}
	sin, cos = sinCosOctant(r, low)
	switch quadrant {
	case 1:
		sin, cos = cos, -sin
	case 2:
		sin, cos = -sin, -cos
	case 3:
		sin, cos = -cos, sin
	}
	return math.Copysign(1, x) * sin, cos
}

// sinCosOctant returns the sine and the cosine of r + low for |r| ≤ π/4, where low is at most one
// unit in the last place of r.
func sinCosOctant(r, low float64) (sin, cos float64) {
	z := float64(r * r)
	// s and c are sums of Taylor series. The next term of either would change the sine or cosine by
	// less than 2⁻⁶² of its value.
	s := 1.0 / 355687428096000 // 17!
	s = float64(s*z) - 1.0/1307674368000
	s = float64(s*z) + 1.0/6227020800
	s = float64(s*z) - 1.0/39916800
	s = float64(s*z) + 1.0/362880
	s = float64(s*z) - 1.0/5040
	s = float64(s*z) + 1.0/120
	s = float64(s*z) - 1.0/6
	c := -1.0 / 6402373705728000 // 18!
	c = float64(c*z) + 1.0/20922789888000
	c = float64(c*z) - 1.0/87178291200
	c = float64(c*z) + 1.0/479001600
	c = float64(c*z) - 1.0/3628800
	c = float64(c*z) + 1.0/40320
	c = float64(c*z) - 1.0/720
	c = float64(c*z) + 1.0/24
	// sin(r + low) = r + (r³ s + low cos r), with 1 − z/2 in place of cos r.
	half := float64(z / 2)
	sin = r + (float64(float64(r*z)*s) + float64(low*(1-half)))
	// cos(r + low) = 1 − z/2 + (z² c − low r), plus the rounding error of 1 − z/2.
	w := 1 - half
	cos = w + (((1 - w) - half) + (float64(float64(z*z)*c) - float64(low*r)))
	return sin, cos
}

// reduce returns r, low and quadrant with x = r + low + quadrant·π/2 modulo 2π and |r + low| ≤ π/4,
// for x > 2⁻¹⁰. It implements the algorithm of Payne and Hanek. In units of π/2, the angle is
// x·2/π. Only the two bits before the binary point of this product and some bits after the point
// matter. These bits depend on the 53 bits of x and on a window of the bits of 2/π.
func reduce(x float64) (r, low float64, quadrant uint64) {
	b := math.Float64bits(x)
	mantissa := b&(1<<52-1) | 1<<52
	exponent := int(b>>52) - 1075 // x = mantissa · 2^exponent

	// The window has 192 bits. The first bit has weight 2^(1−exponent), so its product with x is
	// 2·mantissa. Bits before the window contribute multiples of 4 quarter turns.
	first := 64 + exponent - 2
	word, shift := first/64, uint(first%64)
	var window [3]uint64
	for i := range window {
		window[i] = twoOverPi[word+i]<<shift | twoOverPi[word+i+1]>>(64-shift)
	}

	// turn is the product modulo 4, with two bits before the binary point. The bits after the
	// window contribute less than 2⁻¹³⁷.
	var turn [3]uint64
	var carry uint64
	high2, low2 := bits.Mul64(mantissa, window[2])
	high1, low1 := bits.Mul64(mantissa, window[1])
	turn[2] = low2
	turn[1], carry = bits.Add64(low1, high2, 0)
	turn[0], _ = bits.Add64(mantissa*window[0], high1, carry)

	// quadrant becomes the nearest quarter turn, and f1:f0 the absolute value of the remainder, in
	// units of 2⁻¹²⁸ quarter turns.
	quadrant = turn[0] >> 62
	f1, f0 := turn[0]<<2|turn[1]>>62, turn[1]<<2|turn[2]>>62
	negative := f1>>63 == 1
	if negative {
		quadrant = (quadrant + 1) % 4
		f0, carry = bits.Sub64(0, f0, 0)
		f1, _ = bits.Sub64(0, f1, carry)
	}

	// The result is the remainder times π/2, computed from the 64 bits that follow the leading
	// zeros of the remainder. No float64 is so close to a multiple of π/2 that the remainder has
	// more than 64 leading zeros.
	zeros := bits.LeadingZeros64(f1)
	if zeros == 64 {
		zeros += bits.LeadingZeros64(f0)
		f1 = f0 << (zeros - 64)
	} else {
		f1 = f1<<zeros | f0>>(64-zeros)
	}
	angle, _ := bits.Mul64(f1, halfPi)
	unit := math.Float64frombits(uint64(1023-63-zeros) << 52)
	const last = 1<<11 - 1 // the bits beyond the 53 of r
	r, low = float64(angle&^last)*unit, float64(angle&last)*unit
	if negative {
		r, low = -r, -low
	}
	return r, low, quadrant
}

// halfPi is π/2 in units of 2⁻⁶³.
const halfPi = 0xc90fdaa22168c235

// twoOverPi is 2/π in words of 64 bits. The binary point follows the first word.
var twoOverPi = [...]uint64{
	0,
	0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
	0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
	0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
	0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
	0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
}
