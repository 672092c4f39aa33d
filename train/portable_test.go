package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExponential(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		y := -math.Ldexp(rng.Float64(), rng.IntN(20)-10)
		if want := math.Exp(y); want > 1e-300 {
			assert.InEpsilon(t, want, exp(y), 2e-15, "exp %g", y)
		}
	}
	assert.Zero(t, exp(-1e9))
	assert.Zero(t, exp(math.Inf(-1)))
	assert.Equal(t, 1.0, exp(0))
}

func TestSineAndCosine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		x := math.Ldexp(2*rng.Float64()-1, rng.IntN(20)-8)
		sin, cos := sinCos(x)
		assert.InDelta(t, math.Sin(x), sin, 1e-12, "sin %g", x)
		assert.InDelta(t, math.Cos(x), cos, 1e-12, "cos %g", x)
	}
}
