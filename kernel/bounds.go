package kernel

import "math"

// Unit roundoffs of float32 and float64.
const (
	U32 = 1.0 / (1 << 24)
	U64 = 1.0 / (1 << 53)
)

// Gamma bounds the relative error of n roundings with unit roundoff u: nu / (1 − nu).
func Gamma(n int, u float64) float64 {
	nu := float64(n) * u
	return nu / (1 - nu)
}

// DotOverflow is the product of norms from which DotPanel may overflow on the way.
const DotOverflow = 1 << 62 * 1 << 62 // 2^124

// DotError bounds the error of a DotPanel score over k terms: it differs from the exact Σ q·e of
// the same float32 entries by at most relative·‖q‖·‖e‖ + absolute, as long as ‖q‖·‖e‖ <
// DotOverflow (docs/numerics.md, section 2).
func DotError(k int) (relative, absolute float64) {
	chains := (k + Chunk - 1) / Chunk
	return Gamma(min(k, Chunk)+chains-1, U32), float64(k) * 0x1p-149
}

// PairError bounds the error of PairDot over n terms in the same way; it cannot overflow or
// underflow.
func PairError(n int) (relative float64) { return Gamma((n+PairWidth-1)/PairWidth+6, U64) }

// RoundUp32 returns the smallest float32 that is not less than x.
func RoundUp32(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// RoundDown32 returns the largest float32 that is not greater than x.
func RoundDown32(x float64) float32 { return -RoundUp32(-x) }
