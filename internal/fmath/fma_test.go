package fmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	check := func(x, y, z float32) {
		got := FMA32(x, y, z)
		sum := new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		sum.Add(sum, big.NewFloat(float64(z)))
		want, _ := sum.Float32()
		if want == 0 && got == 0 {
			return
		}
		require.Equal(t, want, got, "fma(%g, %g, %g)", x, y, z)
	}
	for range 200_000 {
		bits := func() float32 { return float32(rng.NormFloat64()) * float32(math.Ldexp(1, rng.IntN(80)-40)) }
		x, y := bits(), bits()
		check(x, y, bits())
		check(x, y, -x*y) // cancellation
		check(x, y, x*y*0x1p24)
		check(x*0x1p-80, y*0x1p-60, bits()*0x1p-110) // subnormal results
	}
	// Near a tie, rounding twice would round these sums down, up and up.
	check(1+0x1p-12, 1+0x1p-12, 0x1p-60)
	check(1+0x1p-12, 1+3*0x1p-12, -0x1p-60)
	check(0x1p-75*(1+0x1p-23), 0x1p-75*(1-0x1p-23), 0x1p-127+0x1p-149) // subnormal
}
