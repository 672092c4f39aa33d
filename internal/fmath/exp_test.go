package fmath

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		y := -math.Ldexp(rng.Float64(), rng.IntN(20)-10)
		if want := math.Exp(y); want > 1e-300 {
			assert.InEpsilon(t, want, Exp(y), 2e-15, "exp %g", y)
		}
	}
	assert.Zero(t, Exp(-1e9))
	assert.Zero(t, Exp(math.Inf(-1)))
	assert.Equal(t, 1.0, Exp(0))
}
