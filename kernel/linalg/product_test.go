package linalg

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// guardedMatrix returns a random matrix that ends at a guard page; entries between its rows are
// NaN.
func guardedMatrix(t testing.TB, rows, cols, stride int, value func() float32) Matrix {
	m := Matrix{Rows: rows, Cols: cols, Stride: stride}
	if rows == 0 {
		return m
	}
	m.Data = kerneltest.Guarded[float32](t, (rows-1)*stride+cols)
	kerneltest.Poison(m.Data)
	for i := range rows {
		row := m.Row(i)
		for j := range row {
			row[j] = value()
		}
	}
	return m
}

// forms lists the forms of a product: how to compute it, which entries of the factors are term t of
// vectors i and j, and whether the vectors are columns.
var forms = []struct {
	name    string
	compute func(p *Product, ctx context.Context, c, x, y Matrix, add bool) error
	left    func(x Matrix, i, t int) float32
	right   func(y Matrix, j, t int) float32
	columns [2]bool
}{
	{"NT", (*Product).NT, byRow, byRow, [2]bool{false, false}},
	{"NN", (*Product).NN, byRow, byCol, [2]bool{false, true}},
	{"TN", (*Product).TN, byCol, byCol, [2]bool{true, true}},
}

func byRow(m Matrix, i, t int) float32 { return m.Data[i*m.Stride+t] }
func byCol(m Matrix, i, t int) float32 { return m.Data[t*m.Stride+i] }

// twinProduct returns an entry of a product, computed as on the given tier.
func twinProduct(tier kernel.Tier, k int, x, y func(t int) float32) (sum float32, add func(c float32) float32) {
	var chunks []float32
	for from := 0; from < k; from += ProductChunk {
		var chain float32
		for t := from; t < min(from+ProductChunk, k); t++ {
			if tier == kernel.Generic {
				chain += float32(x(t) * y(t))
			} else {
				chain = fmath.FMA32(x(t), y(t), chain)
			}
		}
		chunks = append(chunks, chain)
	}
	return sumOfChunks(chunks)
}

// sumOfChunks returns the sum of the chunks of an entry, and a function that adds them to an earlier
// value one by one.
func sumOfChunks(chunks []float32) (sum float32, add func(c float32) float32) {
	add = func(c float32) float32 {
		for _, v := range chunks {
			c += v
		}
		return c
	}
	if len(chunks) == 0 {
		return 0, add
	}
	sum = chunks[0]
	for _, v := range chunks[1:] {
		sum += v
	}
	return sum, add
}

// TestProduct requires that products equal their twin's bit for bit, for sizes with every remainder
// modulo the microtile, for several strides, and on one and on three threads. Operands are between
// guard pages.
func TestProduct(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		conformProduct(t, &b.gemm, uint64(b.Tier), func(k int, x, y func(t int) float32) (float32,
			func(float32) float32) {
			return twinProduct(b.Tier, k, x, y)
		})
	})
}

// TestProductUnit checks that terms are padded with zeros to a multiple of gemm.multiple.
func TestProductUnit(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		g := b.gemm
		g.multiple = 32
		conformProduct(t, &g, uint64(b.Tier), func(k int, x, y func(t int) float32) (float32, func(float32) float32) {
			within := func(f func(t int) float32) func(t int) float32 {
				return func(t int) float32 {
					if t < k {
						return f(t)
					}
					return 0
				}
			}
			return twinProduct(b.Tier, roundUp(k, g.multiple), within(x), within(y))
		})
	})
}

// conformProduct compares products with their twin. The twin returns an entry and a function that
// adds the entry to an earlier value.
func conformProduct(t *testing.T, g *gemm, seed uint64, twin func(k int, x, y func(t int) float32) (float32,
	func(float32) float32)) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, seed))
			products := []*Product{newProduct(g, 1), newProduct(g, 3)}
			check := func(m, n, k int, value func() float32) {
				shape := func(vectors int, columns bool) (int, int) {
					if columns {
						return k, vectors
					}
					return vectors, k
				}
				rows, cols := shape(m, form.columns[0])
				x := guardedMatrix(t, rows, cols, cols+rng.IntN(3), value)
				rows, cols = shape(n, form.columns[1])
				y := guardedMatrix(t, rows, cols, cols+rng.IntN(3), value)
				before := guardedMatrix(t, m, n, n+rng.IntN(3), value)
				wants := [2][]float32{slices.Clone(before.Data), slices.Clone(before.Data)} // set, added
				for i := range m {
					for j := range n {
						sum, plus := twin(k, func(t int) float32 { return form.left(x, i, t) },
							func(t int) float32 { return form.right(y, j, t) })
						at := i*before.Stride + j
						wants[0][at], wants[1][at] = sum, plus(before.Data[at])
					}
				}
				c := before
				c.Data = kerneltest.Guarded[float32](t, len(before.Data))
				for round := range 4 {
					add, p := round%2, products[round/2]
					copy(c.Data, before.Data)
					require.NoError(t, form.compute(p, t.Context(), c, x, y, add == 1))
					for at, want := range wants[add] {
						got := c.Data[at]
						if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
							require.Fail(t, fmt.Sprintf("%d × %d × %d, add %d: entry %d,%d: want %g, got %g", m,
								n, k, add, at/c.Stride, at%c.Stride, want, got))
						}
					}
				}
			}
			normal := func() float32 { return float32(rng.NormFloat64()) }
			for m := 1; m <= 2*g.mr+1; m++ {
				check(m, 1+rng.IntN(2*g.nr), 1+rng.IntN(40), normal)
			}
			for n := 1; n <= 2*g.nr+1; n++ {
				check(1+rng.IntN(2*g.mr), n, 1+rng.IntN(40), normal)
			}
			for k := 0; k <= 40; k++ {
				check(g.mr, g.nr, k, normal)
				check(g.mr+1, g.nr+1, k, normal)
			}
			for _, k := range []int{255, 256, 257, 511, 512, 513} {
				check(g.mr+2, g.nr+3, k, normal)
			}
			check(g.strips*g.mr+1, g.nr, 3, normal)
			check(2, itemColumns+g.nr+1, 3, normal)
			check(productBlock+1, 2, 2, normal)
			check(2, productBlock+1, 2, normal)
			check(g.strips*g.mr+1, g.nr+1, 2*g.chunkTerms()+3, normal)
			terms := products[1].blockTerms(productBlock) + 3 // two blocks of rows and of terms
			check(productBlock+1, 1, terms, normal)
			check(1, productBlock+1, terms, normal)
			for range 20 {
				check(g.mr, g.nr, 1+rng.IntN(20), func() float32 {
					if rng.IntN(10) == 0 {
						return kerneltest.Special[rng.IntN(len(kerneltest.Special))]
					}
					return normal()
				})
			}
		})
	}
}

// TestProductAgainstFloat64 checks that the error of a float32 product is within the bound for
// chains of ProductChunk terms.
func TestProductAgainstFloat64(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 1))
		normal := func() float32 { return float32(rng.NormFloat64()) }
		const m, n, k = 37, 61, 1482
		x, y, c := guardedMatrix(t, m, k, k, normal), guardedMatrix(t, n, k, k, normal), NewMatrix(m, n)
		require.NoError(t, b.NewProduct(2).NT(t.Context(), c, x, y, false))
		require.LessOrEqual(t, relativeError(x, y, c), kernel.Gamma(ProductChunk+k/ProductChunk, kernel.U32))
	})
}

// relativeError returns the largest error of an entry of c = x·yᵀ, as a share of Σ|x·y|.
func relativeError(x, y, c Matrix) (worst float64) {
	for i := range c.Rows {
		for j := range c.Cols {
			var sum, size float64
			for q, v := range x.Row(i) {
				p := float64(v) * float64(y.Row(j)[q])
				sum, size = sum+p, size+math.Abs(p)
			}
			worst = max(worst, math.Abs(sum-float64(c.Row(i)[j]))/size)
		}
	}
	return worst
}

func TestProductCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := NewMatrix(3, 5)
	require.ErrorIs(t, generic(t).NewProduct(2).NT(ctx, NewMatrix(3, 3), x, x, false), context.Canceled)
	require.ErrorIs(t, generic(t).NewProduct(2).NT(ctx, NewMatrix(0, 0), Matrix{}, Matrix{}, false), context.Canceled,
		"an empty product")
	require.ErrorIs(t, generic(t).NewProduct(2).NT(ctx, NewMatrix(3, 3), NewMatrix(3, 0), NewMatrix(3, 0), false),
		context.Canceled, "a product without terms")
}

func TestProductPanics(t *testing.T) {
	p, x := generic(t).NewProduct(1), NewMatrix(3, 5)
	require.Panics(t, func() { _ = p.NT(t.Context(), NewMatrix(3, 4), x, x, false) }, "a wrong size of c")
	require.Panics(t, func() { _ = p.NN(t.Context(), NewMatrix(3, 5), x, x, false) }, "factors that do not fit")
	x.Data = x.Data[:14]
	require.Panics(t, func() { _ = p.NT(t.Context(), NewMatrix(3, 3), x, x, false) }, "too little memory")
}

func TestProductDoesNotAllocate(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		x, y, c := NewMatrix(50, 300), NewMatrix(70, 300), NewMatrix(50, 70)
		for _, threads := range []int{1, 4} {
			p := b.NewProduct(threads)
			ctx := t.Context()
			require.Zero(t, testing.AllocsPerRun(20, func() {
				require.NoError(t, p.NT(ctx, c, x, y, true))
			}))
		}
	})
}
