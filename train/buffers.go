package train

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
)

// stride returns the distance between rows of the given length, in entries. It is an odd number of
// cache lines, so a column uses all sets of a cache even if a row fills a page.
func stride(cols int) int {
	const line = 16 // entries
	return ((cols+line-1)/line | 1) * line
}

// size sets the shape of m and aligns its rows with cache lines. The entries are undefined.
func size(m *linalg.Matrix, rows, cols int) {
	stride := stride(cols)
	if len(m.Data) < rows*stride {
		m.Data = kernel.AlignedFloat32(rows * stride)
	}
	m.Rows, m.Cols, m.Stride = rows, cols, stride
}

// resize returns a slice of n elements, which reuses the memory of x if it is large enough. The
// elements are undefined.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
