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

// Overflow is the product of norms from which a panel of Dot or Phase may overflow on the way.
const Overflow = 0x1p124

// PanelError bounds the error of Panel's scores over k terms, against the exact comparison of the
// same float32 entries (docs/numerics.md, section 2): relative·M + absolute, where M is ‖ψ‖‖φ‖
// for Dot and Phase and the exact distance for L1 and GroupNorm. It holds below Overflow, and above
// for scores that are finite, since an overflow on the way stays infinite or becomes NaN. There is
// none for Int8 and Int16, whose sums are exact except for the last roundings.
func (b *Backend) PanelError(c Comparison, k int) (relative, absolute float64) {
	n := min(k, Chunk)/c.Unit() + (k+Chunk-1)/Chunk - 1 // roundings that a term meets in sums
	switch c {
	case L1:
		return Gamma(n+1, U32), 0
	case GroupNorm:
		return Gamma(n+4, U32) + b.rootError*(1+Gamma(n+4, U32)), float64(k) * 0x1p-63
	case Phase:
		return Gamma(n+3, U32), float64(k) * 0x1p-149
	}
	return Gamma(n, U32), float64(k) * 0x1p-149
}

// PairError bounds the error of Pair over n terms in the same way; it neither overflows nor
// underflows.
func PairError(c Comparison, n int) (relative float64) {
	roundings := [...]int{Dot: 0, L1: 1, GroupNorm: 4, Phase: 2}
	return Gamma(n/PairWidth+6+roundings[c], U64)
}

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
