package modeltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Conform finds faults in printed scores.
func TestScoreFaults(t *testing.T) {
	margin := 12.0
	for _, c := range []struct {
		name   string
		score  func(reference float64) float64
		margin *float64
		want   string // part of the error, or empty
	}{
		{"a distance", func(r float64) float64 { return 12 + r }, &margin, ""},
		{"a squared distance", func(r float64) float64 { return 12 - math.Sqrt(-r) }, &margin, ""},
		{"no margin", func(r float64) float64 { return r }, nil, ""},
		{"a clamp", func(r float64) float64 { return max(-1, r) }, nil, ""},
		{"a lost margin", func(r float64) float64 { return r }, &margin, "instead of the margin 12"},
		{"a distance without its sign", func(r float64) float64 { return 12 - r }, &margin, "but a lower one has"},
		{"a NaN", func(r float64) float64 { return math.Sqrt(r) }, nil, "which is not finite"},
		{"an infinity", func(r float64) float64 { return -1 / r }, nil, "which is not finite"},
	} {
		err := checkScore(c.score, []float64{0, -9, -0.5, -9, -4}, c.margin)
		if c.want == "" {
			assert.NoError(t, err, c.name)
		} else {
			assert.ErrorContains(t, err, c.want, c.name)
		}
	}
}

// Conform finds constraints that a row does not satisfy after one call.
func TestConstrainFaults(t *testing.T) {
	scale := func(factor float32) func(row []float32) {
		return func(row []float32) {
			for i := range row {
				row[i] *= factor
			}
		}
	}
	for name, constrain := range map[string]func(row []float32){
		"half of the row": scale(0.5), "twice the row": scale(2), "NaN": scale(float32(math.NaN())),
		"a small step": scale(1 - 1e-5),
	} {
		assert.ErrorContains(t, checkConstrain(constrain, []float32{0, 3, -4}), "a second call to Constrain", name)
	}
	unit := []float32{0, 3, -4}
	require.NoError(t, checkConstrain(func(row []float32) {
		norm := math.Hypot(float64(row[1]), float64(row[2]))
		for i, v := range row {
			row[i] = float32(float64(v) / norm)
		}
	}, unit))
	assert.InDeltaSlice(t, []float32{0, 0.6, -0.8}, unit, 1e-6)
	assert.NoError(t, checkConstrain(nil, unit))
}
