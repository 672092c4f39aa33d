package train

import (
	"context"

	"github.com/mquine/mquine/kernel"
)

// table is a float32 matrix as kernel.Backend.Pair reads it: rows padded with zeros to a stride.
type table struct {
	rows, cols, stride int
	data               []float32
}

func newTable(rows, cols int) *table {
	stride := padded(cols)
	return &table{rows, cols, stride, kernel.AlignedFloat32(rows * stride)}
}

// padded returns the stride of rows of n entries.
func padded(n int) int { return (n + kernel.PairWidth - 1) / kernel.PairWidth * kernel.PairWidth }

// resize makes t a table of rows × cols, for which its memory must be large enough. Its entries
// are then arbitrary.
func (t *table) resize(rows, cols int) {
	t.rows, t.cols, t.stride = rows, cols, padded(cols)
	t.data = t.data[:rows*t.stride]
	for i := range rows {
		clear(t.data[i*t.stride+cols : (i+1)*t.stride])
	}
}

func (t *table) row(i int) []float32 { return t.data[i*t.stride : i*t.stride+t.cols] }

// transposeOf makes t the transpose of u.
func (t *table) transposeOf(ctx context.Context, threads int, u *table) error {
	t.resize(u.cols, u.rows)
	const block = 32
	return kernel.Parallel(ctx, threads, (t.rows+block-1)/block, func(_, b int) {
		for first := 0; first < t.cols; first += block {
			for i := b * block; i < min((b+1)*block, t.rows); i++ {
				for j := first; j < min(first+block, t.cols); j++ {
					t.data[i*t.stride+j] = u.data[j*u.stride+i]
				}
			}
		}
	})
}
