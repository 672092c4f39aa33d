package fmath

import "math"

// FMA32 returns x·y + z rounded once. The product is exact in float64. Rounding twice matters only
// if the sum is halfway between two float32 values or becomes subnormal; fma32Odd handles these
// cases.
func FMA32(x, y, z float32) float32 {
	s := float64(x)*float64(y) + float64(z)
	const rest, half = 1<<29 - 1, 1 << 28 // the bits that float32 lacks
	if math.Float64bits(s)&rest != half && (math.Abs(s) >= 0x1p-126 || s == 0) {
		return float32(s)
	}
	return fma32Odd(x, y, z)
}

// fma32Odd is FMA32 with the sum rounded to odd in float64, so the conversion to float32 rounds
// correctly.
func fma32Odd(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return float32(s)
	}
	// Knuth's TwoSum computes the error of the sum.
	pp := s - c
	err := (p - pp) + (c - (s - pp))
	if err != 0 {
		b := math.Float64bits(s)
		if b&1 == 0 {
			if (err > 0) == (s > 0) {
				b++
			} else {
				b--
			}
		}
		s = math.Float64frombits(b)
	}
	return float32(s)
}
