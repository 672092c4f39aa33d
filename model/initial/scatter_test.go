package initial

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// symmetric returns A + Aᵀ for the packed lower triangle of A.
func symmetric(packed []float32, d int) []float64 {
	m := make([]float64, d*d)
	at := 0
	for i := range d {
		for j := range i + 1 {
			m[i*d+j] += float64(packed[at])
			m[j*d+i] += float64(packed[at])
			at++
		}
	}
	return m
}

func double(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func distance(x, y []float64) float64 {
	var sum float64
	for i := range x {
		sum += (x[i] - y[i]) * (x[i] - y[i])
	}
	return math.Sqrt(sum)
}

// Points lie at 30% of the centre's norm from the centre, on average equally far along every axis.
// The axes of a matrix are E_ii and (E_ij + E_ji)/√2.
func TestNearby(t *testing.T) {
	const d, n = 4, 20_000
	for _, c := range []struct {
		name    string
		move    Scatter
		vector  func([]float32) []float64
		squares func(i int) float64 // expected squared steps of entry i, in units of an axis
	}{
		{"vector", Nearby, double, func(int) float64 { return 1 }},
		{"matrix", NearbySymmetric, func(x []float32) []float64 { return symmetric(x, d) }, func(i int) float64 {
			if i/d == i%d {
				return 1
			}
			return 0.5
		}},
	} {
		s := NewSource(1, 0)
		centre := []float32{1, -2, 3, 0.5, 0, 1, 2, 2, -1, 0.25}
		from := c.vector(centre)
		norm := distance(from, make([]float64, len(from)))
		var mean, square [d * d]float64
		for range n {
			row := make([]float32, len(centre))
			c.move(s, row, centre)
			to := c.vector(row)
			require.InDelta(t, 0.3, distance(from, to)/norm, 1e-6, c.name)
			for i := range to {
				step := (to[i] - from[i]) / (0.3 * norm)
				mean[i] += step / n
				square[i] += step * step / n
			}
		}
		for i := range from {
			axes := float64(len(centre))
			assert.InDelta(t, 0, mean[i], 4/math.Sqrt(n*axes), "%s, entry %d", c.name, i)
			assert.InEpsilon(t, c.squares(i)/axes, square[i], 0.06, "%s, entry %d", c.name, i)
		}
	}
}

func TestNearbyZero(t *testing.T) {
	row := make([]float32, 6)
	NearbySymmetric(NewSource(1, 0), row, make([]float32, 6))
	assert.Equal(t, make([]float32, 6), row)
}

func TestNearbyPhases(t *testing.T) {
	row, centre := make([]float32, 100_000), make([]float32, 100_000)
	for i := range centre {
		centre[i] = 7
	}
	const half = 0.25
	NearbyPhases(half)(NewSource(1, 0), row, centre)
	var mean, square float64
	n := float64(len(row))
	for _, x := range row {
		turn := (float64(x) - 7) / (2 * half)
		mean += turn / n
		square += turn * turn / n
	}
	assert.InDelta(t, 0, mean, 4*0.05/math.Sqrt(n))
	assert.InEpsilon(t, 0.05, math.Sqrt(square), 0.01)
}
