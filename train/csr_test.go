package train

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numbering agrees with sorting, and one call leaves nothing behind for the next.
func TestNumbering(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 63, 64, 65, 4096, 4097, 100_000} {
		x := newNumbering(n)
		for range 20 {
			keys := []int32{0, int32(n - 1)}
			for range rng.IntN(300) {
				keys = append(keys, rng.Int32N(int32(n)))
			}
			want := slices.Clone(keys)
			slices.Sort(want)
			want = slices.Compact(want)
			numbers := slices.Clone(keys)
			got := x.distinct([]int32{-1}, numbers)
			require.Equal(t, append([]int32{-1}, want...), got)
			for i, k := range keys {
				require.Equal(t, k, want[numbers[i]])
			}
		}
		assert.Empty(t, x.distinct(nil, nil))
	}
}

// BenchmarkNumbering finds the entities of a step with shared negatives.
func BenchmarkNumbering(b *testing.B) {
	for _, entities := range []int{15_000, 2_500_000, 100_000_000} {
		b.Run(fmt.Sprintf("entities=%d", entities), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			drawn := make([]int32, 2000)
			for i := range drawn {
				drawn[i] = rng.Int32N(int32(entities))
			}
			x, groups := newNumbering(entities), csr{}
			keys, used := slices.Clone(drawn), make([]int32, 0, len(drawn))
			b.ReportAllocs()
			for b.Loop() {
				copy(keys, drawn)
				used = x.distinct(used[:0], keys)
				groups.build(len(used), keys)
			}
		})
	}
}
