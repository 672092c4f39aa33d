package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// eachLength calls f with lengths that have every remainder modulo the number of lanes, and with
// lengths of more than one chunk.
func eachLength(f func(n int)) {
	for n := range 2*sumLanes + 2 {
		f(n)
	}
	for _, n := range []int{741, rowChunk - 1, rowChunk, rowChunk + 1, 2*rowChunk + 37} {
		f(n)
	}
}

// randomRow returns a row that ends at a guard page, sometimes with special values.
func randomRow(t testing.TB, rng *rand.Rand, n int) []float32 {
	x := kerneltest.Guarded[float32](t, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		if n%5 == 4 && rng.IntN(16) == 0 {
			x[i] = kerneltest.Special[rng.IntN(len(kerneltest.Special))]
		}
	}
	return x
}

func clone(t testing.TB, x []float32) []float32 {
	c := kerneltest.Guarded[float32](t, len(x))
	copy(c, x)
	return c
}

// TestRows compares the row kernels of every tier with plain loops that follow the definitions, bit
// for bit.
func TestRows(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 9))
		eachLength(func(n int) {
			w, m, g := randomRow(t, rng, n), randomRow(t, rng, n), randomRow(t, rng, n)
			v := randomRow(t, rng, n)
			for i := range v {
				v[i] = fmath.Abs32(v[i])
			}
			want, got := clone(t, w), clone(t, w)
			for i := range want {
				p := float32(0.3 * g[i])
				want[i] += p
			}
			b.Axpy(got, 0.3, g)
			kerneltest.SameBits(t, want, got, "axpy, n = %d", n)

			for i := range want {
				want[i] *= -0.7
			}
			b.Scale(got, -0.7)
			kerneltest.SameBits(t, want, got, "scale, n = %d", n)

			step := NewAdamStep(1e-2, 0.9, 0.999, 1e-8, 3, 2)
			wants := [3][]float32{clone(t, w), clone(t, m), clone(t, v)}
			gots := [3][]float32{clone(t, w), clone(t, m), clone(t, v)}
			for i := range g {
				x := g[i]
				first, second := float32(step.Keep1*m[i]), float32(step.Keep2*v[i])
				first += float32(step.New1 * x)
				x = float32(x * x)
				second += float32(step.New2 * x)
				root := kerneltest.Sqrt32(float32(step.Spread*second)) + step.Epsilon
				wants[0][i], wants[1][i], wants[2][i] = w[i]-float32(step.Rate*first)/root, first, second
			}
			b.Adam(gots[0], gots[1], gots[2], g, step, n)
			for i := range wants {
				kerneltest.SameBits(t, wants[i], gots[i], "adam %d, n = %d", i, n)
			}

			wants = [3][]float32{clone(t, w), m, v}
			gots = [3][]float32{clone(t, w), clone(t, m), clone(t, v)}
			for i := range w {
				wants[0][i] -= float32(0.3*m[i]) / (kerneltest.Sqrt32(v[i]) + 1e-9)
			}
			b.AdamCatchUp(gots[0], gots[1], gots[2], 0.3, 1e-9, -n)
			for i := range wants {
				kerneltest.SameBits(t, wants[i], gots[i], "catchUp %d, n = %d", i, n)
			}

			wants, gots = [3][]float32{clone(t, w), clone(t, v)}, [3][]float32{clone(t, w), clone(t, v)}
			for i := range g {
				x := g[i]
				square := float32(x * x)
				sum := v[i] + square
				wants[0][i], wants[1][i] = w[i]-float32(0.05*x)/(kerneltest.Sqrt32(sum)+1e-10), sum
			}
			b.Adagrad(gots[0], gots[1], g, AdagradStep{0.05, 1e-10})
			for i := range wants[:2] {
				kerneltest.SameBits(t, wants[i], gots[i], "adagrad %d, n = %d", i, n)
			}
		})
	})
}

// TestMultiply compares entry-wise products with plain loops, bit for bit, with a separate result and in
// place of each factor.
func TestMultiply(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(4, 9))
		check := func(multiply func(z, x, y []float32), x, y, want []float32, name string) {
			z := clone(t, x)
			multiply(z, x, y)
			kerneltest.SameBits(t, want, z, "%s, n = %d", name, len(x))
			z = clone(t, x)
			multiply(z, z, y)
			kerneltest.SameBits(t, want, z, "%s in place of x, n = %d", name, len(x))
			z = clone(t, y)
			multiply(z, x, z)
			kerneltest.SameBits(t, want, z, "%s in place of y, n = %d", name, len(x))
		}
		eachLength(func(n int) {
			x, y := randomRow(t, rng, n), randomRow(t, rng, n)
			want := clone(t, x)
			for i := range want {
				want[i] *= y[i]
			}
			check(b.Multiply, x, y, want, "multiply")

			x, y, want = randomRow(t, rng, 2*n), randomRow(t, rng, 2*n), make([]float32, 2*n)
			for i := range n {
				want[i] = float32(x[i]*y[i]) - float32(x[n+i]*y[n+i])
				want[n+i] = float32(x[i]*y[n+i]) + float32(x[n+i]*y[i])
			}
			check(func(z, x, y []float32) { b.MultiplyComplex(z, x, y, false) }, x, y, want, "complex")
			for i := range n {
				want[i] = float32(x[i]*y[i]) + float32(x[n+i]*y[n+i])
				want[n+i] = float32(x[i]*y[n+i]) - float32(x[n+i]*y[i])
			}
			check(func(z, x, y []float32) { b.MultiplyComplex(z, x, y, true) }, x, y, want, "conjugate")
		})
	})
}

func TestDot(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 9))
		eachLength(func(n int) {
			if n%5 == 4 {
				n++ // no special values
			}
			x, y := randomRow(t, rng, n), randomRow(t, rng, n)
			var want, size, sum, sumSize float64
			for i := range x {
				p := float64(x[i]) * float64(y[i])
				want, size = want+p, size+math.Abs(p)
				sum, sumSize = sum+float64(x[i]), sumSize+math.Abs(float64(x[i]))
			}
			require.InDelta(t, sum, b.Sum(x), kernel.Gamma(rowChunk/sumLanes, kernel.U32)*sumSize)
			require.Equal(t, generic(t).Sum(x), b.Sum(x), "n = %d: tiers agree", n)
			got := b.Dot(x, y)
			require.InDelta(t, want, got, kernel.Gamma(rowChunk/sumLanes+1, kernel.U32)*size)
			require.Equal(t, generic(t).Dot(x, y), got, "n = %d: tiers agree", n)
		})
	})
}

// TestManyRows compares Dots and AddRows with calls of Dot and Axpy, bit for bit, for selected rows and for
// all rows.
func TestManyRows(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(3, 9))
		eachLength(func(n int) {
			const rows = 2*manyRows + 1
			m := Matrix{Data: randomRow(t, rng, rows*(n+3)-3), Rows: rows, Cols: n, Stride: n + 3}
			x, numbers := randomRow(t, rng, n), randomRow(t, rng, rows)
			for _, count := range []int{0, 1, manyRows - 1, manyRows, rows} {
				picked := make([]int32, count)
				for k := range picked {
					picked[k] = rng.Int32N(rows)
				}
				for _, list := range [][]int32{picked, nil} {
					dots, want := clone(t, numbers[:count]), clone(t, numbers[:count])
					sum, wantSum := clone(t, x), clone(t, x)
					for k := range want {
						row := k
						if list != nil {
							row = int(list[k])
						}
						want[k] = float32(b.Dot(x, m.Row(row)))
						b.Axpy(wantSum, numbers[k], m.Row(row))
					}
					b.Dots(dots, x, m, list)
					kerneltest.SameBits(t, want, dots, "dots, n = %d, %d rows", n, count)
					b.AddRows(sum, numbers[:count], m, list)
					kerneltest.SameBits(t, wantSum, sum, "addRows, n = %d, %d rows", n, count)
				}
			}
		})
	})
}

// TestDotsAddLanesInOrder compares the float64 sums of the kernels, before they are rounded, with lanes
// that are added one after the other. The sums start from other values than 0.
func TestDotsAddLanesInOrder(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(4, 9))
		wide := func() float32 { return float32(math.Ldexp(rng.NormFloat64(), rng.IntN(40)-20)) }
		for _, n := range []int{1, 5, 16, 31, 32, 64, 96, rowChunk} {
			x := make([]float32, n)
			var rows [manyRows][]float32
			var pointers [manyRows]*float32
			var got, want [manyRows]float64
			for k := range rows {
				rows[k] = make([]float32, n)
				for i := range x {
					x[i], rows[k][i] = wide(), wide()
				}
				pointers[k] = &rows[k][0]
				got[k] = float64(wide()) / 3
			}
			want = got
			for k, row := range rows {
				var lanes [sumLanes]float32
				for i, v := range x {
					lanes[i%sumLanes] += float32(v * row[i])
				}
				for _, v := range lanes {
					want[k] += float64(v)
				}
			}
			b.rowsFor(n, sumLanes).dots(&x[0], &pointers, n, &got)
			require.Equal(t, want, got, "n = %d", n)
		}
	})
}

// TestNewAdamStep compares NewAdamStep with Adam as published. Skipping k steps has the same effect
// on the moments as k steps without a gradient.
func TestNewAdamStep(t *testing.T) {
	const rate, beta1, beta2, epsilon = 0.01, 0.9, 0.99, 1e-8
	w, m, v := []float32{1}, []float32{0}, []float32{0}
	wide, first, second := 1.0, 0.0, 0.0
	skipped := 0
	for step := 1; step <= 40; step++ {
		gradient := math.Sin(float64(step))
		first, second = beta1*first, beta2*second
		if step%5 == 0 {
			skipped++ // the moments decay; the weight does not change
			continue
		}
		first, second = first+(1-beta1)*gradient, second+(1-beta2)*gradient*gradient
		wide -= rate * first / (1 - math.Pow(beta1,
			float64(step))) / (math.Sqrt(second/(1-math.Pow(beta2, float64(step)))) + epsilon)
		generic(t).Adam(w, m, v, []float32{float32(gradient)}, NewAdamStep(rate, beta1, beta2, epsilon, step,
			skipped), 0)
		skipped = 0
		require.InDelta(t, wide, w[0], 1e-5, "step %d", step)
	}
}

func TestRowsDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool deliberately drops values under the race detector")
	}
	eachBackend(t, func(t *testing.T, b *Backend) {
		x, y, z, w := make([]float32, 100), make([]float32, 100), make([]float32, 100), make([]float32, 100)
		step := NewAdamStep(1e-3, 0.9, 0.999, 1e-8, 1, 0)
		m, rows := Matrix{Data: z, Rows: 1, Cols: 100, Stride: 100}, make([]int32, 5)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			b.Axpy(x, 1, y)
			b.Scale(x, 2)
			b.Dot(x, y)
			b.Sum(x)
			b.Dots(x[:1], y, m, nil)
			b.AddRows(x, y[:5], m, rows)
			b.Adam(w, x, y, z, step, 0)
			b.AdamCatchUp(w, x, y, 1, 1, 0)
			b.Adagrad(w, y, z, AdagradStep{1, 1})
			b.Softmax(x, 1, 1)
			b.Logistic(x, y, 0, 1)
		}))
	})
}

// Vectors and lists that do not fit the rows of a matrix are refused, even where the rows have padding.
func TestDotsPanics(t *testing.T) {
	b, m := generic(t), NewMatrix(2, 3)
	require.NotPanics(t, func() { b.Dots(make([]float32, 2), make([]float32, 3), m, nil) })
	require.Panics(t, func() { b.Dots(make([]float32, 2), make([]float32, 2), m, nil) }, "a vector that is too short")
	require.Panics(t, func() { b.Dots(make([]float32, 2), make([]float32, 3), m, []int32{0, 1, 1}) }, "a third row")
}
