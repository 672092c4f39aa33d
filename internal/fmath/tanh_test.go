package fmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exactTanh returns tanh x for |x| < 16, from the Taylor series of e²ˣ in 400 bits.
func exactTanh(x float64) float64 {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
	sum, term, two := number(0), number(1), number(2*x)
	for n := 1; n < 250; n++ { // e²ˣ − 1
		term.Mul(term, two)
		term.Quo(term, number(float64(n)))
		sum.Add(sum, term)
	}
	tanh, _ := sum.Quo(sum, number(0).Add(sum, number(2))).Float64()
	return tanh
}

// rounded computes in float64, one rounding for each operation, with big numbers. The compiler cannot
// fuse its operations.
type rounded struct{ x *big.Float }

func round(x float64) rounded { return rounded{new(big.Float).SetPrec(53).SetFloat64(x)} }

func (a rounded) plus(b rounded) rounded  { return rounded{new(big.Float).SetPrec(53).Add(a.x, b.x)} }
func (a rounded) times(b rounded) rounded { return rounded{new(big.Float).SetPrec(53).Mul(a.x, b.x)} }
func (a rounded) over(b rounded) rounded  { return rounded{new(big.Float).SetPrec(53).Quo(a.x, b.x)} }

// TestTanhRoundsEachOperation compares the bits of Tanh near 0 with its series, each operation of which
// is rounded separately. The bits must not depend on whether the processor can fuse operations.
func TestTanhRoundsEachOperation(t *testing.T) {
	factorial, coefficients := round(1), []rounded{}
	for n := 1.0; n <= 13; n++ {
		factorial = factorial.times(round(n))
		coefficients = append(coefficients, round(1).over(factorial))
	}
	rng := rand.New(rand.NewPCG(2, 1))
	for range 5000 {
		x := 0.25 * rng.Float64()
		y := round(2 * x)
		sum := y.over(round(15)).plus(round(1)).over(round(87178291200))
		for n := len(coefficients) - 1; n >= 0; n-- {
			sum = sum.times(y).plus(coefficients[n])
		}
		m := sum.times(y)
		want, _ := m.over(m.plus(round(2))).x.Float64()
		require.Equal(t, math.Float64bits(want), math.Float64bits(Tanh(x)), "tanh %g", x)
	}
}

func TestTanh(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	check := func(x float64) {
		want := exactTanh(x)
		require.LessOrEqual(t, math.Abs(Tanh(x)-want), 0x1p-50*math.Abs(want), "tanh %g", x)
		require.Equal(t, -Tanh(x), Tanh(-x))
	}
	for range 5000 {
		check(math.Ldexp(2*rng.Float64()-1, rng.IntN(30)-26))
		check(0.25 * (1 + 0x1p-10*rng.NormFloat64()))
	}
	check(1e-300)
	assert.Equal(t, 1.0, Tanh(40))
	assert.Equal(t, -1.0, Tanh(-1e30))
	assert.Equal(t, 1.0, Tanh(math.Inf(1)))
	assert.True(t, math.Signbit(Tanh(math.Copysign(0, -1))))
}
