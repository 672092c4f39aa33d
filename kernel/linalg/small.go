package linalg

import "fmt"

// NewSmall returns a zero matrix for products of small matrices. Its rows begin at multiples of 64
// bytes, and it has room for rows up to the next multiple of 8.
//
// The kernels process multiples of 8 rows and columns. They read the padding of factors and write
// the padding of results. The padding of a result becomes zero if the padding of all factors is zero;
// otherwise its values are unspecified. With Columns, the padding may be part of another matrix.
func NewSmall(rows, cols int) Matrix {
	m := NewMatrix(roundUp(rows, 8), cols)
	m.Rows = rows
	return m
}

// smallKernels are the kernels of small matrices. multiply computes the next rows of a product, as
// many as the field rows says:
//
//	c[i*ld+j] = Σ_t a[i*aRow+t*aTerm]·b[t*ld+j] + plus[i*ld+j],   i < rows, j < 8·eights, t < k
//
// plus may be nil or equal to c.
type smallKernels struct {
	rows         int // rows per call of multiply
	multiply     func(c, a *float32, aRow, aTerm int, b *float32, k, ld, eights int, plus *float32)
	transpose    func(dst, src *float32, dstStride, stride, k int) // of 8 rows
	unpack       func(dst, packed *float32, d, ld int, diagonal float32)
	pack         func(packed, src *float32, d, ld int, factor, diagonal float32)
	addTranspose func(m *float32, d, ld int)
}

// MatMul32 computes c = x·y + plus, or c = x·y if plus is the zero Matrix. x is m × k, y is k × n,
// and c and plus are m × n. Every entry of x·y is one chain of fused multiply-adds that starts at 0
// and adds its terms in ascending order; then the entry of plus is added. The generic tier rounds
// products and sums separately. All matrices come from NewSmall, are Columns of such matrices, or
// have rows and columns in multiples of 8, at any alignment; c, y and plus have the same Stride. c
// must not overlap x or y, but c and plus may be the same matrix.
func (b *Backend) MatMul32(c, x, y, plus Matrix) { b.product32(c, x, y, plus, false, false) }

// MatMulT32 computes c = xᵀ·y, or c = xᵀ·y + plus, as MatMul32 does.
func (b *Backend) MatMulT32(c, x, y, plus Matrix) { b.product32(c, x, y, plus, true, false) }

// MatMulLower32 is MatMul32 for the entries on and below the diagonal of a square c. The entries
// above the diagonal are unspecified.
func (b *Backend) MatMulLower32(c, x, y, plus Matrix) { b.product32(c, x, y, plus, false, true) }

// MatMulTLower32 is MatMulT32 for the entries on and below the diagonal of a square c. The entries
// above the diagonal are unspecified.
func (b *Backend) MatMulTLower32(c, x, y, plus Matrix) { b.product32(c, x, y, plus, true, true) }

func (b *Backend) product32(c, x, y, plus Matrix, transposed, lower bool) {
	rows, terms, aRow, aTerm := x.Rows, x.Cols, x.Stride, 1
	if transposed {
		rows, terms, aRow, aTerm = x.Cols, x.Rows, 1, x.Stride
	}
	added := plus.Data != nil
	if c.Rows != rows || terms != y.Rows || c.Cols != y.Cols || added && (plus.Rows != c.Rows || plus.Cols != c.Cols) {
		panic(fmt.Sprintf("linalg: the shapes of a small product do not match: "+
			"%d × %d times %d × %d, plus %d × %d, into %d × %d",
			rows, terms, y.Rows, y.Cols, plus.Rows, plus.Cols, c.Rows, c.Cols))
	}
	if c.Stride != y.Stride || added && plus.Stride != c.Stride {
		panic(fmt.Sprintf("linalg: the strides of a small product differ: result %d, right factor %d, summand %d",
			c.Stride, y.Stride, plus.Stride))
	}
	if lower {
		checkSquare(c)
	}
	checkSmall(c)
	checkSmall(x)
	checkSmall(y)
	if added {
		checkSmall(plus)
	}
	var from *float32
	s, ld := &b.small, c.Stride
	for i := 0; i < c.Rows; i += s.rows {
		n := (c.Cols + 7) / 8
		if lower {
			n = min(n, (i+s.rows-1)/8+1)
		}
		if added {
			from = &plus.Data[i*ld]
		}
		s.multiply(&c.Data[i*ld], &x.Data[i*aRow], aRow, aTerm, &y.Data[0], terms, ld, n, from)
	}
}

// checkSmall panics if m is empty or lacks the padding of NewSmall.
func checkSmall(m Matrix) {
	if m.Rows < 1 || m.Cols < 1 || len(m.Data) < ((m.Rows+7)&^7-1)*m.Stride+(m.Cols+7)&^7 {
		panic(fmt.Sprintf("linalg: a small matrix of %d × %d has too few entries: %d with stride %d",
			m.Rows, m.Cols, len(m.Data), m.Stride))
	}
}

func checkSquare(m Matrix) {
	checkSmall(m)
	if m.Rows != m.Cols {
		panic(fmt.Sprintf("linalg: %d × %d is not square", m.Rows, m.Cols))
	}
}

// Transpose32 sets dst to the transpose of src. Both come from NewSmall or are Columns of such
// matrices, and they must not overlap.
func (b *Backend) Transpose32(dst, src Matrix) {
	checkSmall(dst)
	checkSmall(src)
	if dst.Rows != src.Cols || dst.Cols != src.Rows {
		panic(fmt.Sprintf("linalg: transpose of %d × %d into %d × %d", src.Rows, src.Cols, dst.Rows, dst.Cols))
	}
	for i := 0; i < src.Rows; i += 8 {
		b.small.transpose(&dst.Data[i], &src.Data[i*src.Stride], dst.Stride, src.Stride, src.Cols)
	}
}

// AddTranspose32 adds the transpose of the square matrix m to m, on and below the diagonal. The
// entries above the diagonal are unspecified afterwards.
func (b *Backend) AddTranspose32(m Matrix) {
	checkSquare(m)
	b.small.addTranspose(&m.Data[0], m.Rows, m.Stride)
}

// UnpackSymmetric32 sets dst to the symmetric d × d matrix with the given lower triangle, which
// packed holds in row-major order. It multiplies the entries on the diagonal by the argument
// diagonal, which is 2 for E = A + Aᵀ from a packed A. The rows of dst from d up to the next
// multiple of 8 must be zero. The columns from d up to the next multiple of 8 may become zero.
func (b *Backend) UnpackSymmetric32(dst Matrix, packed []float32, diagonal float32) {
	checkSquare(dst)
	checkTriangle("UnpackSymmetric32", dst.Rows, packed)
	b.small.unpack(&dst.Data[0], &packed[0], dst.Rows, dst.Stride, diagonal)
}

// PackLower32 packs the lower triangle of the square matrix src in row-major order. It multiplies
// the entries below the diagonal by the argument factor and the entries on the diagonal by the
// argument diagonal.
func (b *Backend) PackLower32(packed []float32, src Matrix, factor, diagonal float32) {
	checkSquare(src)
	checkTriangle("PackLower32", src.Rows, packed)
	b.small.pack(&packed[0], &src.Data[0], src.Rows, src.Stride, factor, diagonal)
}

func checkTriangle(name string, d int, packed []float32) {
	if len(packed) < d*(d+1)/2 {
		panic(fmt.Sprintf("linalg: %s: d = %d needs a triangle of %d entries, not %d",
			name, d, d*(d+1)/2, len(packed)))
	}
}
