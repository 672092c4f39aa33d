package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
)

// splitTwin returns the two bfloat16 parts of x as float32.
func splitTwin(x float32) (high, low float32) {
	round := func(x float32) float32 {
		return math.Float32frombits((math.Float32bits(x) + 0x8000) &^ 0xffff)
	}
	high = round(x)
	return high, round(x - high)
}

// flushed returns x, or 0 if x is subnormal.
func flushed(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

// twinSplitProduct returns c plus an entry of a split product.
func twinSplitProduct(k int, x, y func(t int) float32, c float32) float32 {
	const block = 32
	c = flushed(c)
	for from := 0; from < k; from += block {
		var parts [2][2][block]float32 // high and low parts of x and y
		for t := from; t < min(from+block, k); t++ {
			parts[0][0][t-from], parts[0][1][t-from] = splitTwin(x(t))
			parts[1][0][t-from], parts[1][1][t-from] = splitTwin(y(t))
		}
		for _, which := range [][2]int{{1, 0}, {0, 0}, {0, 1}} {
			var chains [2]float32
			for t := range block {
				a, b := flushed(parts[0][which[0]][t]), flushed(parts[1][which[1]][t])
				chains[t%2] = flushed(fmath.FMA32(a, b, chains[t%2]))
			}
			c = flushed(c + flushed(chains[0]+chains[1]))
		}
	}
	return c
}

// TestSplitProduct requires that split products equal their twin's bit for bit.
func TestSplitProduct(t *testing.T) {
	eachBackendWith(t, kernel.FeatureAMXBF16, func(t *testing.T, b *Backend) {
		conformProduct(t, &b.split, 1, func(k int, x, y func(t int) float32) (float32, func(float32) float32) {
			return twinSplitProduct(k, x, y, 0), func(c float32) float32 { return twinSplitProduct(k, x, y, c) }
		})
	})
}

// TestSplitProductAgainstFloat64 checks the bound in the comment of NewSplitProduct. Some values lose
// as many bits as possible: their low part is half a unit of the high part, and their remainder is half
// a unit of the low part.
func TestSplitProductAgainstFloat64(t *testing.T) {
	eachBackendWith(t, kernel.FeatureAMXBF16, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 1))
		for name, value := range map[string]func() float32{
			"normal": func() float32 { return float32(rng.NormFloat64()) },
			"worst":  func() float32 { return 1 + 0x1p-8 - 0x1p-16 + 0x1p-23 },
			"wide":   func() float32 { return float32(rng.NormFloat64() * math.Exp(10*rng.NormFloat64())) },
		} {
			for _, k := range []int{1482, 123182} {
				t.Run(fmt.Sprintf("%s/k=%d", name, k), func(t *testing.T) {
					m, n := 2+60000/k, 3+60000/k
					x, y, c := guardedMatrix(t, m, k, k, value), guardedMatrix(t, n, k, k, value), NewMatrix(m, n)
					require.NoError(t, b.NewSplitProduct(2).NT(t.Context(), c, x, y, false))
					worst := relativeError(x, y, c)
					t.Logf("largest error: %.2g of Σ|x·y|", worst)
					require.LessOrEqual(t, worst, 0x1p-14+float64(k)*0x1p-27)
				})
			}
		}
	})
}

// TestSplitProductOfSmallValues checks, on the twin, what the comment of NewSplitProduct says about
// values x whose low parts become 0. The values y are so large that no product or sum is subnormal.
func TestSplitProductOfSmallValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const lost = 1 + 0x1p-10 - 0x1p-17 // at 2⁻¹¹⁶, the low part is the largest subnormal bfloat16
	for _, exponent := range []int{-117, -116, -115, -113, -111, -110, -109} {
		for round := range 200 {
			k := 1 + round%50
			x, y := NewMatrix(1, k), NewMatrix(1, k)
			for i := range k {
				x.Data[i] = float32(math.Ldexp(1+rng.Float64(), exponent) * float64(1-2*rng.IntN(2)))
				y.Data[i] = float32(math.Ldexp(rng.NormFloat64(), 40))
			}
			if round == 0 {
				x.Data[0], y.Data[0] = float32(math.Ldexp(lost, exponent)), 1<<40
			}
			c := NewMatrix(1, 1)
			c.Data[0] = twinSplitProduct(k, func(t int) float32 { return x.Data[t] },
				func(t int) float32 { return y.Data[t] }, 0)
			worst, bound := relativeError(x, y, c), 0x1p-14+float64(k)*0x1p-27
			if exponent < -110 {
				bound += math.Ldexp(1, -126-exponent)
			}
			require.LessOrEqual(t, worst, bound, "2^%d", exponent)
			if round == 0 && exponent == -116 {
				require.Greater(t, worst, 0.99*0x1p-10, "a value of 2^-116 can lose 2^-10")
			}
		}
	}
}

func TestSplitProductPanics(t *testing.T) {
	require.Panics(t, func() { generic(t).NewSplitProduct(1) })
}
