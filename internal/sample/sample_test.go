package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All sets of n numbers are equally frequent, within five standard deviations, and the scratch memory
// is as before.
func TestAppendDistinct(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for limit := range 6 {
		for n := range limit + 1 {
			sets := 1
			for i := range n {
				sets = sets * (limit - i) / (i + 1)
			}
			draws, drawn, counts := 2000*sets, make([]bool, limit), map[[5]int32]int{}
			for range draws {
				list := AppendDistinct([]int32{7}, rng, limit, n, drawn)
				require.Len(t, list, n+1)
				require.Equal(t, int32(7), list[0])
				require.True(t, slices.IsSorted(list[1:]))
				require.NotContains(t, drawn, true)
				var set [5]int32
				copy(set[:], list[1:])
				counts[set]++
			}
			require.Len(t, counts, sets)
			share := 1 / float64(sets)
			for _, count := range counts {
				assert.InDelta(t, 2000, count, 5*math.Sqrt(float64(draws)*share*(1-share)))
			}
		}
	}
}
