package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

const tileFeatures = kernel.FeatureAMXBF16 | kernel.FeatureAVX512BF16

// twinTileProduct returns c plus an entry of a product in bfloat16 with AMX.
func twinTileProduct(k int, x, y func(t int) float32, c float32) float32 {
	const block = 32
	c = flushed(c)
	for from := 0; from < k; from += block {
		var chains [2]float32
		for t := range block {
			var a, b float32
			if from+t < k {
				a, b = bfloat16Twin(x(from+t)), bfloat16Twin(y(from+t))
			}
			chains[t%2] = flushed(fmath.FMA32(a, b, chains[t%2]))
		}
		c = flushed(c + flushed(chains[0]+chains[1]))
	}
	return c
}

// TestTileProduct requires that products in bfloat16 with AMX equal their twin's bit for bit.
func TestTileProduct(t *testing.T) {
	eachBackendWith(t, tileFeatures, func(t *testing.T, b *Backend) {
		conformProduct(t, &b.tiles, 1, func(k int, x, y func(t int) float32) (float32, func(float32) float32) {
			return twinTileProduct(k, x, y, 0), func(c float32) float32 { return twinTileProduct(k, x, y, c) }
		})
	})
}

// TestTileProductAgainstFloat64 checks the bound in the comment of NewTileProduct. The values "worst"
// are halfway between two bfloat16 values, and all of their errors have the same sign. The most terms
// need two blocks.
func TestTileProductAgainstFloat64(t *testing.T) {
	eachBackendWith(t, tileFeatures, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 1))
		for name, value := range map[string]func() float32{
			"normal": func() float32 { return float32(rng.NormFloat64()) },
			"worst":  func() float32 { return 1 + 0x1p-8 },
			"wide":   func() float32 { return float32(rng.NormFloat64() * math.Exp(10*rng.NormFloat64())) },
		} {
			for _, k := range []int{1, 1482, tileBlockEntries/32 + 1} {
				t.Run(fmt.Sprintf("%s/k=%d", name, k), func(t *testing.T) {
					m, n := min(50, 2+60000/k), min(60, 3+60000/k)
					x, y, c := guardedMatrix(t, m, k, k, value), guardedMatrix(t, n, k, k, value), NewMatrix(m, n)
					require.NoError(t, b.NewTileProduct(2).NT(t.Context(), c, x, y, false))
					worst := relativeError(x, y, c)
					t.Logf("largest error: %.2g of Σ|x·y|", worst)
					require.LessOrEqual(t, worst, 0x1p-7+0x1p-14+float64(k)*0x1p-28)
				})
			}
		}
	})
}

func TestTileProductPanics(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		newProduct := func() { New(b).NewTileProduct(1) }
		if b.Features.Has(tileFeatures) {
			require.NotPanics(t, newProduct)
		} else {
			require.Panics(t, newProduct)
		}
	})
}
