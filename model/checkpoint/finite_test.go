package checkpoint

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAllFinite(t *testing.T) {
	largest := float32(math.MaxFloat32)
	for _, v := range []float32{0, float32(math.Copysign(0, -1)), 1, -1, largest, -largest,
		math.SmallestNonzeroFloat32} {
		assert.True(t, allFinite([]float32{1, v, 1}), v)
		assert.True(t, finite(v), v)
	}
	for _, bits := range []uint32{0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fc00000, 0x7fffffff, 0xffffffff} {
		v := math.Float32frombits(bits)
		assert.False(t, allFinite([]float32{1, v, 1}), "%x", bits)
		assert.False(t, finite(v), "%x", bits)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		want := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
		require.Equal(t, want, finite(v))
		require.Equal(t, want, allFinite([]float32{v, 0}))
	})
}

func TestFirstNonFinite(t *testing.T) {
	values := make([]float32, 1<<20+5) // several chunks and a remainder
	at, err := firstNonFinite(t.Context(), values)
	require.NoError(t, err)
	assert.Equal(t, -1, at)
	for _, want := range []int{len(values) - 1, 1 << 20, 1 << 18, 1<<18 - 1, 0} {
		values[want] = float32(math.Inf(1))
		at, err := firstNonFinite(t.Context(), values)
		require.NoError(t, err)
		assert.Equal(t, want, at, "the first value, no matter which thread finds it")
	}
}

func BenchmarkFirstNonFinite(b *testing.B) {
	values := make([]float32, 25_000_000)
	for i := range values {
		values[i] = 0.5
	}
	b.SetBytes(int64(4 * len(values)))
	for b.Loop() {
		_, _ = firstNonFinite(b.Context(), values)
	}
}
