package kernel

import "math"

// U32 and U64 are the unit roundoffs of float32 and float64.
const (
	U32 = 1.0 / (1 << 24)
	U64 = 1.0 / (1 << 53)
)

// Gamma returns nu/(1 − nu), a bound on the relative error of n roundings with unit roundoff u
// (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
func Gamma(n int, u float64) float64 {
	nu := float64(n) * u
	return nu / (1 - nu)
}

// PanelError is Comparison.PanelError for the panels of b. Panels of codes need no such bound:
// their sums are exact up to the conversion to float32.
func (b *Backend) PanelError(c Comparison, k int) (relative, absolute float64) {
	return c.PanelError(k, rootErrors[b.Tier])
}

// RoundUp32 returns the smallest float32 ≥ x.
func RoundUp32(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// RoundDown32 returns the largest float32 ≤ x.
func RoundDown32(x float64) float32 { return -RoundUp32(-x) }
