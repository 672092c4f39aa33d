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

// bfloat16Twin returns x rounded to the nearest bfloat16, with ties to even, or 0 if x is subnormal.
func bfloat16Twin(x float32) float32 {
	if x != x {
		return x
	}
	bits := math.Float32bits(flushed(x))
	bits += 0x7fff + bits>>16&1
	return math.Float32frombits(bits &^ 0xffff)
}

// twinBFloat16Product returns an entry of a product in bfloat16, and a function that adds the entry to
// an earlier value.
func twinBFloat16Product(k int, x, y func(t int) float32) (sum float32, add func(c float32) float32) {
	term := func(t int, chain float32) float32 {
		if t >= k {
			return flushed(fmath.FMA32(0, 0, chain))
		}
		return flushed(fmath.FMA32(bfloat16Twin(x(t)), bfloat16Twin(y(t)), chain))
	}
	var chunks []float32
	for from := 0; from < k; from += ProductChunk {
		var chain float32
		for t := from; t < min(from+ProductChunk, k); t += 2 {
			chain = term(t, term(t+1, chain))
		}
		chunks = append(chunks, chain)
	}
	return sumOfChunks(chunks)
}

// TestBFloat16Product requires that products in bfloat16 equal their twin's bit for bit.
func TestBFloat16Product(t *testing.T) {
	eachBackendWith(t, kernel.FeatureAVX512BF16, func(t *testing.T, b *Backend) {
		conformProduct(t, &b.bfloat16, 1, twinBFloat16Product)
	})
}

// TestBFloat16ProductAgainstFloat64 checks the bound in the comment of NewBFloat16Product. The values
// "worst" are halfway between two bfloat16 values, and all of their errors have the same sign.
func TestBFloat16ProductAgainstFloat64(t *testing.T) {
	eachBackendWith(t, kernel.FeatureAVX512BF16, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 1))
		for name, value := range map[string]func() float32{
			"normal": func() float32 { return float32(rng.NormFloat64()) },
			"worst":  func() float32 { return 1 + 0x1p-8 },
			"wide":   func() float32 { return float32(rng.NormFloat64() * math.Exp(10*rng.NormFloat64())) },
		} {
			for _, k := range []int{1, 1482, 123182} {
				t.Run(fmt.Sprintf("%s/k=%d", name, k), func(t *testing.T) {
					m, n := 2+60000/k, 3+60000/k
					if k == 1 {
						m, n = 50, 60
					}
					x, y, c := guardedMatrix(t, m, k, k, value), guardedMatrix(t, n, k, k, value), NewMatrix(m, n)
					require.NoError(t, b.NewBFloat16Product(2).NT(t.Context(), c, x, y, false))
					worst := relativeError(x, y, c)
					t.Logf("largest error: %.2g of Σ|x·y|", worst)
					require.LessOrEqual(t, worst, 0x1p-7+0x1p-14+float64(k)*0x1p-31)
				})
			}
		}
	})
}

func TestBFloat16ProductPanics(t *testing.T) {
	require.Panics(t, func() { generic(t).NewBFloat16Product(1) })
}
