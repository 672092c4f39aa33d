package model

import (
	"testing"

	"github.com/mquine/mquine/internal/exactly"
)

// In every coordinate, the roundings of both directions' ψ lower the score by half a unit in the last
// place, while their sum is so small that rankings allow for a much smaller rounding.
func TestSlackOfBothDirections(t *testing.T) {
	const d = 64
	ones, zeros := vector(d, 1, 1), make([]float32, d)
	anchor := vector(d, 1+0x1p-12, 1+0x1p-12)
	direct, inverse := vector(d, 1+0x1p-12, 1+0x1p-12), vector(d, -1-0x3p-12, -1-0x3p-12)
	c := Config{Model: "distmult", Dim: d, Reciprocal: true, InverseWeight: 0.5}
	m := rows(t, c, [][]float32{zeros, anchor, ones}, [][]float32{append(direct, inverse...)})
	var ratio exactly.Ratio
	scoreError(t, m, 0, &ratio)
	ratio.Check(t, 0.99)
}
