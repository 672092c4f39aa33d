package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Special lists values for which kernels must follow the rules of float32 arithmetic.
var Special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, math.MaxFloat32, -math.MaxFloat32, 1 + 0x1p-23,
}

// Poison fills x with NaN, to mark memory that a kernel must overwrite or must not read.
func Poison(x []float32) {
	for i := range x {
		x[i] = float32(math.NaN())
	}
}

// SameBits requires that got begins with want, bit for bit. All NaN values are equal. what is a
// format for args; it describes the computation in messages.
func SameBits(t testing.TB, want, got []float32, what string, args ...any) {
	t.Helper()
	require.GreaterOrEqual(t, len(got), len(want), "%s: too few entries", what)
	for i := range want {
		w, g := math.Float32bits(want[i]), math.Float32bits(got[i])
		if w != g && !(want[i] != want[i] && got[i] != got[i]) {
			require.Failf(t, "bits differ", "entry %d: want %g (%#x), got %g (%#x): "+what,
				append([]any{i, want[i], w, got[i], g}, args...)...)
		}
	}
}
