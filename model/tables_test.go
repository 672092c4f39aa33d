package model

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
)

func doubles(row []float32) (out []float64) {
	for _, v := range row {
		out = append(out, float64(v))
	}
	return out
}

// rows returns a model whose parameters are the given rows.
func rows(t *testing.T, c Config, entities, relations [][]float32) Model {
	c.Entities, c.Relations = len(entities), len(relations)
	var tensors [2][]float32
	for i, table := range [2][][]float32{entities, relations} {
		for _, row := range table {
			tensors[i] = append(tensors[i], row...)
		}
	}
	m, err := New(c, tensors[:])
	require.NoError(t, err)
	return m
}

// The printed scores equal scores computed by hand.
func TestScoresByHand(t *testing.T) {
	backend := kerneltest.Best(t)
	type table = [][]float32
	for _, c := range []struct {
		config              Config
		entities, relations table
		want                float64
	}{
		// h = (1, 2), r = (0.5, −1), t = (0, 4): h + r − t = (1.5, −3).
		{Config{Model: "transe-l1", Dim: 2, Hyper: map[string]float64{Gamma: 6}}, table{{1, 2}, {0, 4}},
			table{{0.5, -1}}, 6 - 4.5},
		{Config{Model: "transe-l2", Dim: 2, Hyper: map[string]float64{Gamma: 6}}, table{{1, 2}, {1, 5}}, table{{4, -1}},
			6 - math.Sqrt(16+16)},
		{Config{Model: "distmult", Dim: 2, Hyper: map[string]float64{Gamma: 6}}, table{{1, 2}, {3, 4}},
			table{{0.5, -1}}, 1.5 - 8},
		// (1 + 2i)(3 − i) conj(2 + i) = (5 + 5i)(2 − i) = 15 + 5i.
		{Config{Model: "complex", Dim: 1, Hyper: map[string]float64{Gamma: 6}}, table{{1, 2}, {2, 1}}, table{{3, -1}},
			15},
		// A quarter turn rotates 3 + 4i to −4 + 3i, and half a turn rotates 1 to −1. The distances
		// are 5 and 2.
		{Config{Model: "rotate", Dim: 2, Hyper: map[string]float64{Gamma: 9, EmbeddingRange: 0.5}},
			table{{3, 1, 4, 0}, {-1, 1, 7, 0}}, table{{0.25, 0.5}}, 9 - 5 - 2},
		// The phases are π/4 + π/4 − 0 and π/2 + π/2 − π/2, with embedding range 1.
		{Config{Model: "protate", Dim: 2, Hyper: map[string]float64{EmbeddingRange: 1, Gamma: 3}},
			table{{0.25, 0.5}, {0, 0.5}}, table{{0.25, 0.5}}, -2},
		{Config{Model: "protate", Dim: 2, Hyper: map[string]float64{EmbeddingRange: 1, Gamma: 3, "modulus": 0.5}},
			table{{0.25, 0.5}, {0, 0.5}}, table{{0.25, 0.5}}, 3 - 1},
		// Rᵀh = (7, 10).
		{Config{Model: "rescal", Dim: 2}, table{{1, 2}, {5, 6}}, table{{1, 2, 3, 4}}, 35 + 60},
		{Config{Model: "cp", Dim: 2}, table{{1, 2, 9, 9}, {9, 9, 3, 4}}, table{{0.5, -1}}, 1.5 - 8},
		{Config{Model: "simple", Dim: 1}, table{{1, 2}, {3, 4}}, table{{5, -1}}, (20 - 6) / 2},
		{Config{Model: "simple", Dim: 1, Hyper: map[string]float64{Clamp: 6}}, table{{1, 2}, {3, 4}},
			table{{5, -1}}, 6},
		{Config{Model: "simple", Dim: 1, Hyper: map[string]float64{Clamp: 6}}, table{{1, 2}, {3, 4}},
			table{{-5, 1}}, -6},
		// (1 + 2i + 3j + 4k) i = −2 + i + 4j − 3k.
		{Config{Model: "quate", Dim: 1}, table{{1, 2, 3, 4}, {1, 1, 1, 2}}, table{{0, 3, 0, 0}}, -2 + 1 + 4 - 6},
		// c = 1, κ = 2 and d = 3k, so h ⊗ ρ = 1 + ε(i + 3k).
		{Config{Model: "duale", Dim: 1}, table{{1, 0, 0, 0, 0, 1, 0, 0}, {5, 0, 0, 0, 0, 7, 0, 2}},
			table{{2, 0, 0, 0, 4, 0, 0, 3}}, 5 + 7 + 6},
		// The reflection at 45° exchanges the coordinates.
		{Config{Model: "dihedral", Dim: 1}, table{{1, 2}, {3, 4}}, table{{0, 0, 0, 0, -1, 2, 2, 1}}, 4 + 6},
		{Config{Model: "seek", Dim: 1}, table{{1, 2, 3, 4}, {1, 10, 100, 1000}}, table{{1, 2, 3, 4}},
			4*(1+20+300+4000) + 2*(10+200+3000-4) + 4*(1000-2-30-400)},
		// The half phases add up to π/2. A and B are 0.75, so the moduli become 1.5 and 2.25.
		{
			Config{Model: "hake", Dim: 1, Hyper: map[string]float64{
				EmbeddingRange: 1, Gamma: 9, PhaseWeight: 2, ModulusWeight: 4,
			}},
			table{{0.5, 2}, {0, 3}}, table{{0.5, -0.5, 0.25}}, 9 - 2 - 3,
		},
	} {
		m := rows(t, c.config, c.entities, c.relations)
		q, answer := kg.Triple{Head: 0, Relation: 0, Tail: 1}.Query(kg.Tail)
		assert.InDelta(t, c.want, m.Score(m.NewWorker(backend).Reference(q, answer)), 1e-7, c.config.Model)
	}
}

// SEEK with one segment is DistMult; with two segments, it is ComplEx.
func TestSEEKWithFewSegments(t *testing.T) {
	for segments, name := range map[int]string{1: "distmult", 2: "complex"} {
		other := random(t, name, 7, 5, 2, 1, 3)
		c := Config{
			Model: "seek", Dim: 7, Entities: 5, Relations: 2, Hyper: map[string]float64{Segments: float64(segments)},
		}
		m, err := New(c, other.Tensors())
		require.NoError(t, err)
		seek, want := m.NewWorker(kerneltest.Best(t)), other.NewWorker(kerneltest.Best(t))
		for e := range int32(5) {
			q := kg.Query{Side: kg.Side(e % 2), Relation: e % 2, Anchor: 4 - e}
			assert.InDelta(t, want.Reference(q, e), seek.Reference(q, e), 1e-12)
		}
	}
}

// The balance of transe-l2 keeps ‖ψ‖‖φ‖ below ten times the size of a typical score at every scale
// of the parameters.
func TestBalance(t *testing.T) {
	backend := kerneltest.Best(t)
	for _, scale := range []float64{1e-18, 1e-3, 1, 1e3, 1e17} {
		m := random(t, "transe-l2", 64, 1000, 1, scale, 1)
		w := single(m, backend)
		psi, phi := make([]float32, 65), make([]float32, 65)
		w.Query(kg.Query{}, psi)
		w.Feature(kg.Tail, 0, 1, phi)
		assert.Less(t, fmath.Norm(psi)*fmath.Norm(phi), 10*64*scale*scale, "scale %g", scale)
	}
	assert.NotPanics(t, func() { random(t, "transe-l2", 4, 0, 1, 1, 1) }, "no entities")
	assert.NotPanics(t, func() { random(t, "transe-l2", 4, 3, 1, 0, 1) }, "all zero")
}

func BenchmarkReference(b *testing.B) {
	backend := kerneltest.Best(b)
	for _, name := range Names()[2:] {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			b.Run(fmt.Sprintf("%s/%v", name, side), func(b *testing.B) {
				m := random(b, name, 500, 100, 1, 1, 1)
				w := m.NewWorker(backend)
				e := int32(0)
				for b.Loop() {
					e = (e + 1) % 100
					w.Reference(kg.Query{Side: side, Anchor: 7}, e)
				}
			})
		}
	}
}
