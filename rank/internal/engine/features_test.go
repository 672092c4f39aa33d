package engine

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSortBy compares SortBy with a stable sort by comparisons.
func TestSortBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	special := []float64{
		0, math.SmallestNonzeroFloat64, 0x1p-1022, 1, math.Nextafter(1, 2), math.MaxFloat64, math.Inf(1),
	}
	for name, draw := range map[string]func() float64{
		"equal":   func() float64 { return 2.5 },
		"special": func() float64 { return special[rng.IntN(len(special))] },
		"float32": func() float64 { return float64(float32(1 + 0.1*rng.Float64())) },
		"bits":    func() float64 { return math.Float64frombits(rng.Uint64N(0x7ff0000000000000)) },
	} {
		for _, n := range []int{0, 1, 2, 255, 1000} {
			f := NewFeatures(8, n, false)
			f.N = n
			keys, want := make([]float64, n), make([]int32, n)
			for i := range keys {
				keys[i], want[i] = draw(), int32(i)
			}
			slices.SortStableFunc(want, func(x, y int32) int { return cmp.Compare(keys[x], keys[y]) })
			f.SortBy(keys)
			require.Equal(t, want, f.RowAt, "%s, %d", name, n)
			for at, row := range want {
				require.EqualValues(t, at, f.PositionOf[row], "%s, %d", name, n)
			}
		}
	}
}
