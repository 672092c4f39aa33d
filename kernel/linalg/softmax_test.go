package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/kerneltest"
)

// ulps returns the distance between got and want in units in the last place of a float32 value near
// want, which may be subnormal.
func ulps(want float64, got float32) float64 {
	_, exponent := math.Frexp(want)
	unit := math.Ldexp(1, max(exponent-24, -149))
	return math.Abs(float64(got)-want) / unit
}

// TestExp checks that the exponential is within 2 units in the last place over its whole range, on
// every tier.
func TestExp(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 10))
		var x []float32
		for i := range 400_000 {
			x = append(x, -105+float32(i)*0.0005, float32(rng.NormFloat64()), float32(rng.NormFloat64()*1e-4))
		}
		// Test values around the limits, and values where n changes.
		for _, at := range []float64{-104, -103.97208, -103.27893, -87.33655, -87.33654, 88.72283, 88.72284, 89,
			0x1p-126, 1e-20} {
			for i := -20; i < 20; i++ {
				bits := uint32(int(math.Float32bits(float32(at)))+i) &^ (1 << 31)
				x = append(x, math.Float32frombits(bits)*float32(math.Copysign(1, at)))
			}
		}
		for n := -150; n < 129; n++ {
			x = append(x, float32((float64(n)+0.5)*math.Ln2), float32(float64(n)*math.Ln2))
		}
		y := append([]float32{}, x...)
		b.Exp(y, 1, 0)
		worst := 0.0
		for i, v := range x {
			want := math.Exp(float64(v))
			if want >= 0x1.ffffffp127 {
				require.True(t, math.IsInf(float64(y[i]), 1), "exp(%g) = %g", v, y[i])
				continue
			}
			worst = max(worst, ulps(want, y[i]))
		}
		t.Logf("worst error: %.3f units in the last place", worst)
		require.LessOrEqual(t, worst, 2.0)
	})
}

func TestExpSpecial(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		x := kerneltest.Guarded[float32](t, 40)
		copy(x, []float32{-inf, inf, nan, 0, float32(math.Copysign(0, -1)), -math.MaxFloat32, math.MaxFloat32,
			math.SmallestNonzeroFloat32})
		copy(x[32:], x[:8]) // the same values in the portable remainder
		b.Exp(x, 1, 0)
		for _, y := range [][]float32{x[:8], x[32:]} {
			assert.Equal(t, []float32{0, inf}, append([]float32{}, y[:2]...))
			assert.True(t, y[2] != y[2], "NaN")
			assert.Equal(t, []float32{1, 1, 0, inf, 1}, append([]float32{}, y[3:]...))
		}
	})
}

// TestWeightsAgree requires that all tiers return the same bits as the portable kernels.
func TestWeightsAgree(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 10))
		eachLength(func(n int) {
			x, w := randomRow(t, rng, n), randomRow(t, rng, n)
			for i := range x {
				x[i] *= float32(math.Ldexp(1, rng.IntN(8)))
			}
			pairs := [][2]float64{}
			equal := func(what string, f func(b *Backend, x []float32) float64) {
				want, got := clone(t, x), clone(t, x)
				pairs = append(pairs, [2]float64{f(generic(t), want), f(b, got)})
				kerneltest.SameBits(t, want, got, "%s, n = %d", what, n)
				p := pairs[len(pairs)-1]
				require.True(t, p[0] == p[1] || p[0] != p[0] && p[1] != p[1], "%s, n = %d: sums %v", what, n, p)
			}
			equal("max", func(b *Backend, x []float32) float64 { return float64(b.Max(x)) })
			equal("exp", func(b *Backend, x []float32) float64 { return b.Exp(x, 1.5, 0.25) })
			equal("softmax", func(b *Backend, x []float32) float64 { b.Softmax(x, 0.5, 2); return 0 })
			equal("logistic", func(b *Backend, x []float32) float64 { return b.Logistic(x, w, 0.5, 0.1) })
			equal("logistic of answers", func(b *Backend, x []float32) float64 { return b.Logistic(x, w, 0.5, 1) })
		})
	})
}

func TestSoftmax(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(3, 10))
		for _, n := range []int{1, 2, 31, 32, 33, 1024, 14541} {
			for _, scale := range []float64{1, 30, 1e4} {
				x, want := make([]float32, n), make([]float64, n)
				most, sum := math.Inf(-1), 0.0
				for i := range x {
					x[i] = float32(rng.NormFloat64() * scale)
					if i > 0 && rng.IntN(9) == 0 {
						x[i] = float32(math.Inf(-1)) // not a candidate
					}
					most = max(most, 0.5*float64(x[i]))
				}
				for i, v := range x {
					want[i] = math.Exp(0.5*float64(v) - most)
					sum += want[i]
				}
				b.Softmax(x, 0.5, 3)
				var total float64
				for i, v := range x {
					total += float64(v)
					require.InDelta(t, 3*want[i]/sum, v,
						1e-6*3*want[i]/sum*(1+math.Abs(math.Log(want[i]+1e-300)))+1e-37, "n = %d: %d", n, i)
				}
				require.InEpsilon(t, 3, total, 1e-6)
			}
		}
		for _, blown := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			x := []float32{1, blown, 2}
			b.Softmax(x, 1, 1)
			for _, v := range x {
				require.True(t, v != v, "%v", x)
			}
		}
	})
}

// TestLogisticExcluded checks that excluded scores add nothing and that the result is NaN if a
// score is NaN.
func TestLogisticExcluded(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		x, w := kerneltest.Guarded[float32](t, 33), kerneltest.Guarded[float32](t, 33)
		for i := range x {
			x[i], w[i] = float32(math.Inf(-1)), 1
		}
		require.Zero(t, b.Logistic(x, w, 5, 0))
		require.Equal(t, make([]float32, 33), append([]float32{}, x...))
		x[7] = float32(math.NaN())
		require.True(t, math.IsNaN(b.Logistic(x, w, 5, 0)))
	})
}

// TestLogistic compares the loss and its derivative with float64.
func TestLogistic(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		var x []float32
		for i := -4000; i <= 4000; i++ {
			x = append(x, float32(i)*0.03, float32(i)*1e-5, float32(i)*1e30)
		}
		for _, target := range []float32{0, 1, 0.1} {
			const shift = 0.5
			for _, v := range x {
				z := float64(v + shift)
				loss := max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) - float64(target)*z
				derivative := 1/(1+math.Exp(-z)) - float64(target)
				y := make([]float32, 33) // in a vector register and in the remainder
				y[0], y[32] = v, v
				w := make([]float32, 33)
				w[0], w[32] = 2, 2
				got := b.Logistic(y, w, shift, target)
				// Cancellation with target·z loses precision.
				require.InDelta(t, 4*loss, got, 4*(4*math.Abs(loss)+2*float64(target)*math.Abs(z))*0x1p-24*2+1e-40,
					"z = %g", z)
				for _, i := range []int{0, 32} {
					require.InDelta(t, 2*derivative, y[i], 2*0x1p-23*(math.Abs(derivative)+float64(target))*2+1e-40,
						"z = %g", z)
				}
			}
		}
	})
}
