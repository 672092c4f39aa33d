package train

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
)

// stride is the distance of rows: an odd number of cache lines, so that columns lie in all sets of a cache, also
// where a row is a page long.
func stride(cols int) int {
	const line = 16
	return ((cols+line-1)/line | 1) * line
}

// size makes m a matrix of undefined entries whose rows begin at cache lines.
func size(m *linalg.Matrix, rows, cols int) {
	stride := stride(cols)
	if len(m.Data) < rows*stride {
		m.Data = kernel.AlignedFloat32(rows * stride)
	}
	m.Rows, m.Cols, m.Stride = rows, cols, stride
}

// resize returns a slice of n elements, with undefined values.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
