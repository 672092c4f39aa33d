package initial

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Normal variates pass a Kolmogorov-Smirnov test, and consecutive variates are uncorrelated.
func TestNormals(t *testing.T) {
	const n = 200_000
	draws := NewSource(1, 2)
	x := make([]float64, n)
	var mean, variance, product float64
	for i := range x {
		x[i] = draws.Normal()
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

// draw returns n rows drawn from a distribution.
func draw(t *testing.T, d Distribution, n int, row ...int) []float32 {
	for _, extent := range row {
		n *= extent
	}
	values := make([]float32, n)
	require.NoError(t, d(context.Background(), NewSource(3, 0), row, values))
	return values
}

func TestDistributions(t *testing.T) {
	assert.Equal(t, []float32{1, 0, 0, 1, 1, 0, 0, 1}, draw(t, Identity, 2, 2, 2))
	assert.Equal(t, []float32{3, 3, 3, 3}, draw(t, Constant(3), 2, 2))

	const n = 100_000
	var squares float64
	for _, v := range draw(t, Normal(0.25), n, 1) {
		squares += float64(v) * float64(v)
	}
	assert.InEpsilon(t, 0.25, math.Sqrt(squares/n), 0.01)

	uniform := draw(t, Uniform(0.5), n, 1)
	assert.InDelta(t, -0.5, slices.Min(uniform), 1e-3)
	assert.InDelta(t, 0.5, slices.Max(uniform), 1e-3)
	slices.Sort(uniform)
	assert.InDelta(t, 0, uniform[n/2], 0.01)
}

func TestDistributionsStop(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, d := range []Distribution{Normal(1), Uniform(1), Constant(1), Identity} {
		assert.ErrorIs(t, d(ctx, NewSource(1, 0), []int{1, 1}, make([]float32, 4)), context.Canceled)
	}
}
