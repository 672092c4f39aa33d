package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/kerneltest"
)

var smallDims = []int{1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 18, 20, 24, 25, 31, 32, 33, 38, 40, 47, 48, 49, 65}

// small returns a matrix between guard pages, with zeros up to multiples of 8 rows and columns.
func small(t testing.TB, rows, cols int, value func() float32) Matrix {
	m := NewSmall(rows, cols)
	m.Data = kerneltest.Guarded[float32](t, len(m.Data))
	for i := range rows {
		for j := range m.Row(i) {
			m.Row(i)[j] = value()
		}
	}
	return m
}

func constant(x float32) func() float32 { return func() float32 { return x } }

// TestMatMul32 requires that products of small matrices equal their twin's bit for bit, both alone
// and as the last columns of larger matrices. It also requires that the padding of a product is zero
// if the padding of the factors is zero.
func TestMatMul32(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 7))
		normal := func() float32 { return float32(rng.NormFloat64()) }
		for _, d := range smallDims {
			for round := range 6 {
				value := normal
				if round == 3 {
					value = func() float32 {
						if rng.IntN(30) == 0 {
							return kerneltest.Special[rng.IntN(len(kerneltest.Special))]
						}
						return normal()
					}
				}
				rows, terms, cols := d, d, d
				oblong := round >= 4
				if oblong {
					rows, terms, cols = 1+rng.IntN(d), 1+rng.IntN(d), d+rng.IntN(2*d)
				}
				offset := []int{0, 0, 0, 0, 0, rng.IntN(d + 9)}[round]
				within := func(rows int, value func() float32) Matrix {
					m := small(t, rows, offset+(cols+7)&^7, constant(0))
					for i := range rows {
						for j := range offset + cols {
							m.Row(i)[j] = value()
						}
					}
					return m.Columns(offset, offset+cols)
				}
				for _, form := range []struct {
					multiply          func(c, x, y, plus Matrix)
					transposed, lower bool
				}{{b.MatMul32, false, false}, {b.MatMulT32, true, false}, {b.MatMulLower32, false, true},
					{b.MatMulTLower32, true, true}} {
					if form.lower && oblong {
						continue
					}
					x, y := small(t, rows, terms, value), within(terms, value)
					if form.transposed {
						x = small(t, terms, rows, value)
					}
					before := within(rows, value)
					products, sums := NewSmall(rows, cols), NewSmall(rows, cols)
					for i := range rows {
						for j := range cols {
							want, add := twinProduct(b.Tier, terms, func(k int) float32 {
								if form.transposed {
									return x.Row(k)[i]
								}
								return x.Row(i)[k]
							}, func(k int) float32 { return y.Row(k)[j] })
							products.Row(i)[j], sums.Row(i)[j] = want, add(before.Row(i)[j])
						}
					}
					for _, plus := range []string{"nothing", "another", "itself"} {
						c, added, want := within(rows, constant(0)), Matrix{}, products
						switch plus {
						case "another":
							added, want = before, sums
						case "itself":
							copy(c.Data, before.Data)
							added, want = c, sums
						}
						form.multiply(c, x, y, added)
						for i := range (rows + 7) &^ 7 {
							row, defined := c.Data[i*c.Stride:][:c.Stride-offset], 0
							if i < rows {
								defined = cols
								expected := want.Row(i)
								if form.lower {
									expected = expected[:i+1]
								}
								kerneltest.SameBits(t, expected, row[:len(expected)],
									"d = %d: row %d of %+v plus %s", d, i, form, plus)
							}
							for j := defined; j < len(row) && round != 3; j++ { // 0·∞ is NaN
								if row[j] != 0 {
									require.Zero(t, row[j], "d = %d: %d,%d", d, i, j)
								}
							}
						}
					}
				}
			}
		}
	})
}

// TestMatMul32Neighbours computes two products side by side in one matrix. The left product may
// change only the first columns of the right one.
func TestMatMul32Neighbours(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		const d = 38
		rng := rand.New(rand.NewPCG(5, 7))
		normal := func() float32 { return float32(rng.NormFloat64()) }
		x, y, c := small(t, d, d, normal), small(t, d, 2*d, normal), small(t, d, 2*d, normal)
		before := append([]float32{}, c.Data...)
		b.MatMul32(c.Columns(0, d), x, y.Columns(0, d), Matrix{})
		for i := range d {
			kerneltest.SameBits(t, before[i*c.Stride+(d+7)&^7:][:c.Stride-(d+7)&^7],
				c.Data[i*c.Stride+(d+7)&^7:][:c.Stride-(d+7)&^7], "row %d", i)
		}
		require.Panics(t, func() { b.MatMul32(small(t, d, d, normal), x, y.Columns(0, d), Matrix{}) }, "strides differ")
		require.Panics(t, func() { b.MatMul32(c, x, y.Columns(0, d), Matrix{}) }, "sizes differ")
		require.Panics(t, func() { b.MatMul32(c, x, y, c.Columns(0, d)) }, "plus with a different size")
		require.Panics(t, func() { b.MatMulLower32(c, x, y, Matrix{}) }, "no diagonal")
		// The kernels read the padding of plus.
		plus := NewSmall(d, 2*d)
		plus.Data = plus.Data[:(d-1)*plus.Stride+plus.Cols]
		require.PanicsWithValue(t, "linalg: a small matrix of 38 × 76 has too few entries: 3036 with stride 80",
			func() { b.MatMul32(c, x, y, plus) })
	})
}

func TestTranspose32(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		for _, d := range smallDims {
			n := float32(0)
			whole := small(t, d, 2*d, func() float32 { n++; return n })
			for _, x := range []Matrix{small(t, d, d, func() float32 { n++; return n }), whole.Columns(0, d),
				whole.Columns(d, 2*d)} {
				y := small(t, d, d, constant(0))
				b.Transpose32(y, x)
				for i := range (d + 7) &^ 7 {
					for j := range y.Stride {
						want := float32(0)
						switch {
						case i < d && j < d:
							want = x.Row(j)[i]
						}
						require.Equal(t, want, y.Data[i*y.Stride+j], "d = %d: %d,%d", d, i, j)
					}
				}
			}
		}
	})
}

// TestTriangles compares conversions between triangles and matrices with plain loops, bit for bit.
func TestTriangles(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(3, 7))
		for _, d := range smallDims {
			for round := range 3 {
				value := func() float32 {
					if round == 2 && rng.IntN(10) == 0 {
						return []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)),
							math.SmallestNonzeroFloat32}[rng.IntN(4)]
					}
					return float32(rng.NormFloat64())
				}
				packed, m := kerneltest.Guarded[float32](t, d*(d+1)/2), small(t, d, d, constant(0))
				for i := range packed {
					packed[i] = value()
				}
				for range 2 { // the second time on top of the first result
					b.UnpackSymmetric32(m, packed, 3)
				}
				for i := range (d + 7) &^ 7 {
					for j := range m.Stride {
						want := float32(0)
						if i < d && j < d {
							want = packed[max(i, j)*(max(i, j)+1)/2+min(i, j)]
							if i == j {
								want *= 3
							}
						}
						kerneltest.SameBits(t, []float32{want}, m.Data[i*m.Stride+j:][:1], "d = %d: unpacked %d,%d",
							d, i, j)
					}
				}
				// Two matrices are side by side: the second one overwrites the columns that the
				// first one changes.
				two := small(t, d, 2*d, constant(0))
				for range 2 {
					b.UnpackSymmetric32(two.Columns(0, d), packed, 3)
					b.UnpackSymmetric32(two.Columns(d, 2*d), packed, 3)
				}
				for i := range d {
					kerneltest.SameBits(t, m.Row(i), two.Row(i)[:d], "d = %d: left, row %d", d, i)
					kerneltest.SameBits(t, m.Row(i), two.Row(i)[d:], "d = %d: right, row %d", d, i)
				}

				x, again := small(t, d, d, value), kerneltest.Guarded[float32](t, len(packed))
				b.PackLower32(again, x, -2, 0.5)
				sum := x
				sum.Data = append([]float32{}, x.Data...)
				b.AddTranspose32(sum)
				at := 0
				for i := range d {
					for j := range i + 1 {
						factor := float32(-2)
						if i == j {
							factor = 0.5
						}
						kerneltest.SameBits(t, []float32{x.Row(i)[j] * factor}, again[at:at+1],
							"d = %d: packed %d,%d", d, i, j)
						kerneltest.SameBits(t, []float32{x.Row(i)[j] + x.Row(j)[i]}, sum.Row(i)[j:j+1],
							"d = %d: added %d,%d", d, i, j)
						at++
					}
				}
			}
		}
	})
}
