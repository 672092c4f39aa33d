package kernel_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/mquine/mquine/kernel"
)

// TestAlignedZeros checks that reused memory is zero again. Each round reuses the memory that the
// round before it freed.
func TestAlignedZeros(t *testing.T) {
	for range 4 {
		x := AlignedFloat32(8 << 20 / 4)
		for i := range x {
			if x[i] != 0 {
				require.Zero(t, x[i], "x[%d]", i)
			}
			x[i] = 1
		}
		runtime.GC()
	}
}

// BenchmarkPackRows packs a strip of queries (6 or 9 rows) or a panel of candidates (16 or 48).
func BenchmarkPackRows(b *testing.B) {
	for _, width := range []int{6, 9, 16, 48} {
		for _, k := range []int{342, 1482} {
			b.Run(fmt.Sprintf("width=%d/k=%d", width, k), func(b *testing.B) {
				stride := (k + PairWidth - 1) / PairWidth * PairWidth
				rows, dst := AlignedWords(width*stride), AlignedWords(width*k)
				ids, terms := make([]int32, width), make([]int32, k)
				for i := range ids {
					ids[i] = int32(i)
				}
				for i := range terms {
					terms[i] = int32(i)
				}
				b.SetBytes(int64(4 * width * k))
				for b.Loop() {
					PackRows(dst, rows, stride, ids, terms, width)
				}
			})
		}
	}
}
