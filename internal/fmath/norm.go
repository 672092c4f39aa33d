package fmath

import "math"

// NormSlack is a factor that turns a computed norm into an upper bound. It covers the rounding
// errors of any sum of fewer than 10⁶ terms of the same sign.
const NormSlack = 1 + 1e-9

// Norm returns an upper bound on ‖x‖₂.
func Norm[T float32 | float64](x []T) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a += square(x[0])
		b += square(x[1])
		c += square(x[2])
		d += square(x[3])
	}
	for _, v := range x {
		a += square(v)
	}
	return math.Sqrt(a+b+c+d) * NormSlack
}

// square returns x², rounded. The conversion of the product forbids a fused multiply-add.
func square[T float32 | float64](x T) float64 {
	v := float64(x)
	return float64(v * v)
}

// Norm1 returns an upper bound on Σ|x_i|.
func Norm1(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += math.Abs(float64(v))
	}
	return sum * NormSlack
}

// PairNorm returns an upper bound on Σ√(re_i² + im_i²). im must be as long as re.
func PairNorm(re, im []float32) float64 {
	var sum float64
	for i, v := range re {
		sum += math.Sqrt(square(v) + square(im[i]))
	}
	return sum * NormSlack
}
