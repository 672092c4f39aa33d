package linalg

import (
	"fmt"

	"github.com/mquine/mquine/kernel"
)

// Matrix is a float32 matrix in row-major order: entry (i, j) is Data[i*Stride+j]. The zero value
// is an empty matrix.
type Matrix struct {
	Data               []float32
	Rows, Cols, Stride int
}

// NewMatrix returns a zero matrix whose rows begin at multiples of 64 bytes.
func NewMatrix(rows, cols int) Matrix {
	stride := roundUp(cols, 16)
	return Matrix{Data: kernel.AlignedFloat32(rows * stride), Rows: rows, Cols: cols, Stride: stride}
}

// LineStride returns a distance between rows of the given length, in entries. It is an odd number of cache
// lines, so a column uses all sets of a cache even if a row fills a page.
func LineStride(cols int) int { return (roundUp(cols, rowLanes)/rowLanes | 1) * rowLanes }

// Resize makes m a matrix whose rows are LineStride(cols) entries apart. It keeps the memory of m if that
// suffices. The entries are undefined.
func (m *Matrix) Resize(rows, cols int) {
	stride := LineStride(cols)
	*m = Matrix{Data: room(m.Data, rows*stride), Rows: rows, Cols: cols, Stride: stride}
}

// Row returns row i.
func (m Matrix) Row(i int) []float32 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }

// Slice returns the rows from ≤ i < to, which share the memory of m.
func (m Matrix) Slice(from, to int) Matrix {
	if from == to {
		return Matrix{Cols: m.Cols, Stride: m.Stride}
	}
	data := m.Data[from*m.Stride : (to-1)*m.Stride+m.Cols]
	return Matrix{Data: data, Rows: to - from, Cols: m.Cols, Stride: m.Stride}
}

func (m Matrix) check(name string) {
	if m.Rows < 0 || m.Cols < 0 || m.Stride < m.Cols || m.Rows > 0 && len(m.Data) < (m.Rows-1)*m.Stride+m.Cols {
		panic(fmt.Sprintf("linalg: matrix %s: %d × %d with stride %d in %d entries",
			name, m.Rows, m.Cols, m.Stride, len(m.Data)))
	}
}

// Columns returns the columns from ≤ j < to, which share the memory of m.
func (m Matrix) Columns(from, to int) Matrix {
	m.Data, m.Cols = m.Data[min(from, len(m.Data)):], to-from // a matrix without rows may have no data
	return m
}
