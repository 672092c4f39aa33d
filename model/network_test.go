package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/internal/unrounded"
)

// networkOf returns a model with two entities and one relation. All tensors except the given ones
// are zero.
func networkOf(t *testing.T, c Config, values map[string][]float32) Model {
	c.Entities, c.Relations = 2, 1
	parameters, err := Parameters(c)
	require.NoError(t, err)
	var tensors [][]float32
	for _, p := range parameters {
		tensors = append(tensors, make([]float32, p.Len()))
		copy(tensors[len(tensors)-1], values[p.Name])
	}
	m, err := New(c, tensors)
	require.NoError(t, err)
	return m
}

// networkError compares the slack with the error of a score: the score of (0, 0, 1) for its query
// on the given side. float32 must hold ψ and φ exactly, and c must be 0.
func networkError(t *testing.T, m Model, side kg.Side, least float64) {
	w := single(m, kerneltest.Best(t))
	q, answer := kg.Triple{Tail: 1}.Query(side)
	tower := m.Tower(side)
	psi, phi := make([]float32, tower.Psi), make([]float32, tower.Phi)
	slack, size := w.Query(q, psi), w.Feature(side, 0, answer, phi)
	compared, _ := unrounded.Compare(tower.Compare, psi, phi)
	var ratio exactly.Ratio
	ratio.See(exactly.Sub(exactly.Of(w.Reference(q, answer)), compared), slack.At(size))
	ratio.Check(t, least)
}

// The reference loses half a unit in the last place in every sum of the score: the first term is 1,
// and adding any other term is a tie that rounds to even, which is 1. With the scale 0, the last
// normalisation returns its shift, so the other layers do not matter.
func TestSlackOfNetworks(t *testing.T) {
	const d = 512
	x, tail := vector(d, 1, 0x1p-26), vector(d, 1, 0x1p-27)
	t.Run("tucker", func(t *testing.T) {
		m := networkOf(t, Config{Model: "tucker", Dim: d}, map[string][]float32{
			"entity": append(make([]float32, d), tail...), "norm1.shift": x,
		})
		networkError(t, m, kg.Tail, 0.99)
	})
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		t.Run("conve, "+side.String(), func(t *testing.T) {
			c := Config{Model: "conve", Dim: d, Hyper: map[string]float64{ImageHeight: 256, Channels: 1}}
			m := networkOf(t, c, map[string][]float32{
				"entity":      append(make([]float32, d+1), vector(d+1, 1, 0x1p-27)...),
				"norm2.shift": vector(d, 0x1p-26, 0x1p-26),
			})
			networkError(t, m, side, 0.99)
		})
	}
}

// In head queries of TuckER, both chains of the reference lose half a unit in every sum, and ψ is
// exact.
func TestSlackOfTuckERHeads(t *testing.T) {
	const d = 512
	matrix := make([]float32, d*d) // M
	matrix[0] = 1
	for i := 1; i < d; i++ {
		matrix[i*d], matrix[i*d+i] = 0x1p-26, 0x1p-13
	}
	c := Config{Model: "tucker", Dim: d, Hyper: map[string]float64{BatchNorm: 0, RelationDim: 1}}
	m := networkOf(t, c, map[string][]float32{
		"entity":   append(vector(d, 1, 0x1p-27), vector(d, 1, 0x1p-13)...),
		"relation": {1}, "core": matrix,
	})
	networkError(t, m, kg.Head, 0.65)
}

// A variance must not be negative.
func TestNegativeVariance(t *testing.T) {
	c := Config{Model: "tucker", Dim: 2, Entities: 1, Relations: 1}
	parameters, err := Parameters(c)
	require.NoError(t, err)
	var tensors [][]float32
	for _, p := range parameters {
		tensors = append(tensors, make([]float32, p.Len()))
	}
	tensors[len(tensors)-1][1] = -1
	_, err = New(c, tensors)
	require.EqualError(t, err, `model tucker: tensor "norm1.variance" has -1 in row 0, column 1 (counted from 0), `+
		"but it must not have negative entries")
}

// By default, the image of an embedding has the least height that is at least twice its width. In
// dimension 1, where there is none, the height is 1.
func TestImageHeight(t *testing.T) {
	for d, want := range map[int]int{200: 20, 32: 8, 128: 16, 24: 8, 18: 6, 7: 7, 2: 2, 1: 1} {
		require.Equal(t, want, defaultHeight(d), "dimension %d", d)
	}
	c := Config{Model: "conve", Dim: 12, Hyper: map[string]float64{ImageHeight: 5}}
	require.EqualError(t, convE.Check(c), "model conve: image_height is 5: it must be a divisor of the dimension 12")
}
