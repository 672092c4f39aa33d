package fmath

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		x := math.Ldexp(1-rng.Float64(), -rng.IntN(100))
		assert.InEpsilon(t, math.Log(x), Ln(x), 1e-15, "ln %g", x)
	}
	assert.Zero(t, Ln(1))
}
