package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLogarithmAndExponential(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		x := math.Ldexp(rng.Float64(), -rng.IntN(100))
		if x == 0 {
			continue
		}
		assert.InEpsilon(t, math.Log(x), ln(x), 1e-15, "ln %g", x)
		y := -math.Ldexp(rng.Float64(), rng.IntN(20)-10)
		if want := math.Exp(y); want > 1e-300 {
			assert.InEpsilon(t, want, exp(y), 2e-15, "exp %g", y)
		}
	}
	assert.Zero(t, exp(-1e9))
	assert.Zero(t, exp(math.Inf(-1)))
	assert.Equal(t, 1.0, exp(0))
}

// The distance of the variates' distribution from the normal one, and the correlation of
// neighbours, stay within what chance allows.
func TestNormals(t *testing.T) {
	const n = 200_000
	draws := newNormals(1, 2)
	x := make([]float64, n)
	var mean, variance, product float64
	for i := range x {
		x[i] = draws.next()
		mean += x[i] / n
		variance += x[i] * x[i] / n
		if i > 0 {
			product += x[i] * x[i-1] / n
		}
	}
	assert.InDelta(t, 0, mean, 4/math.Sqrt(n))
	assert.InDelta(t, 1, variance, 4*math.Sqrt(2.0/n))
	assert.InDelta(t, 0, product, 4/math.Sqrt(n))

	slices.Sort(x)
	var distance float64
	for i, v := range x {
		below := math.Erfc(-v/math.Sqrt2) / 2
		distance = max(distance, math.Abs(below-float64(i)/n), math.Abs(below-float64(i+1)/n))
	}
	assert.Less(t, distance*math.Sqrt(n), 1.63, "Kolmogorov-Smirnov statistic, 1% level")
}

func TestSineAndCosine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		x := math.Ldexp(uniform(rng), rng.IntN(20)-8)
		sin, cos := sinCos(x)
		assert.InDelta(t, math.Sin(x), sin, 1e-12, "sin %g", x)
		assert.InDelta(t, math.Cos(x), cos, 1e-12, "cos %g", x)
	}
}
