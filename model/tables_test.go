package model

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// definitions has the reference score of each model of tables, written out from the stored numbers of
// a head, a relation and a tail in the order of operations that its file states.
var definitions = map[string]func(c Config, h, r, t []float64) float64{
	"transe-l1": func(c Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			hr := h[i] + r[i]
			score = score + math.Abs(hr-t[i])
		}
		return -score
	},
	"transe-l2": func(c Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			hr := h[i] + r[i]
			v := hr - t[i]
			square := float64(v * v)
			score = score + square
		}
		return -score
	},
	"distmult": func(c Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			hr := float64(h[i] * r[i])
			hrt := float64(hr * t[i])
			score = score + hrt
		}
		return score
	},
	"complex": func(c Config, h, r, t []float64) float64 {
		score, k := 0.0, c.Dim
		for i := range k {
			p1, p2 := float64(h[i]*r[i]), float64(h[k+i]*r[k+i])
			p3, p4 := float64(h[i]*r[k+i]), float64(h[k+i]*r[i])
			re, im := p1-p2, p3+p4
			x, y := float64(re*t[i]), float64(im*t[k+i])
			term := x + y
			score = score + term
		}
		return score
	},
	"rotate": func(c Config, h, r, t []float64) float64 {
		score, k := 0.0, c.Dim
		for i := range k {
			factor := math.Pi / c.EmbeddingRange
			sin, cos := sinCos(float64(r[i] * factor))
			p1, p2 := float64(h[i]*cos), float64(h[k+i]*sin)
			p3, p4 := float64(h[i]*sin), float64(h[k+i]*cos)
			re, im := p1-p2, p3+p4
			re, im = re-t[i], im-t[k+i]
			x, y := float64(re*re), float64(im*im)
			modulus := math.Sqrt(x + y)
			score = score + modulus
		}
		return -score
	},
	"protate": func(c Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			factor := 3.14159262358979323846 / c.EmbeddingRange
			sh, ch := sinCos(float64(h[i] * factor))
			sr, cr := sinCos(float64(r[i] * factor))
			st, ct := sinCos(float64(t[i] * factor))
			p1, p2 := float64(sh*cr), float64(ch*sr)
			p3, p4 := float64(ch*cr), float64(sh*sr)
			x, y := p1+p2, p3-p4
			q1, q2 := float64(x*ct), float64(y*st)
			v := q1 - q2
			score = score + math.Abs(v)
		}
		return -score
	},
}

func doubles(row []float32) (out []float64) {
	for _, v := range row {
		out = append(out, float64(v))
	}
	return out
}

// relation returns the stored numbers of relation r of a model of tables.
func relation(m Model, r int32) []float32 {
	all := m.Tensors()[1]
	width := len(all) / m.Config().Relations
	return all[int(r)*width : (int(r)+1)*width]
}

func TestTableReferenceBits(t *testing.T) {
	assert.Len(t, definitions, len(Names())-2, "all but the models of matrices")
	backends, err := kernel.Available()
	require.NoError(t, err)
	b := backends[0] // these models use no kernels
	for name, definition := range definitions {
		for _, d := range []int{1, 2, 5, 32, 101} {
			for _, scale := range []float64{1, 1e-20, 1e12} {
				m := random(t, name, d, 4, 2, scale, uint64(d))
				w := m.NewWorker(b)
				for i := range 32 {
					triple := kg.Triple{Head: int32(i % 4), Relation: int32(i / 4 % 2), Tail: int32(i / 3 % 4)}
					want := definition(m.Config(), doubles(m.EntityRow(triple.Head)), doubles(relation(m, triple.Relation)), doubles(m.EntityRow(triple.Tail)))
					for _, side := range []kg.Side{kg.Tail, kg.Head} {
						q, answer := triple.Query(side)
						require.Equal(t, math.Float64bits(want), math.Float64bits(w.Reference(q, answer)), "%s d = %d, %v query", name, d, side)
					}
				}
			}
		}
	}
}

// rows returns a model with the given rows.
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

// Scores that can be computed by hand, as the authors' code prints them.
func TestScoresByHand(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	type table = [][]float32
	for _, c := range []struct {
		config              Config
		entities, relations table
		want                float64
	}{
		// h = (1, 2), r = (0.5, −1), t = (0, 4): h + r − t = (1.5, −3).
		{Config{Model: "transe-l1", Dim: 2, Gamma: 6}, table{{1, 2}, {0, 4}}, table{{0.5, -1}}, 6 - 4.5},
		{Config{Model: "transe-l2", Dim: 2, Gamma: 6}, table{{1, 2}, {1, 5}}, table{{4, -1}}, 6 - math.Sqrt(16+16)},
		{Config{Model: "distmult", Dim: 2, Gamma: 6}, table{{1, 2}, {3, 4}}, table{{0.5, -1}}, 1.5 - 8},
		// (1 + 2i)(3 − i) conj(2 + i) = (5 + 5i)(2 − i) = 15 + 5i.
		{Config{Model: "complex", Dim: 1, Gamma: 6}, table{{1, 2}, {2, 1}}, table{{3, -1}}, 15},
		// A quarter turn takes 3 + 4i to −4 + 3i, half a turn 1 to −1; the distances are 5 and 2.
		{Config{Model: "rotate", Dim: 2, Gamma: 9, EmbeddingRange: 0.5}, table{{3, 1, 4, 0}, {-1, 1, 7, 0}}, table{{0.25, 0.5}}, 9 - 5 - 2},
		// Phases π/4 + π/4 − 0 and π/2 + π/2 − π/2, of an embedding range of 1.
		{Config{Model: "protate", Dim: 2, EmbeddingRange: 1, Gamma: 3}, table{{0.25, 0.5}, {0, 0.5}}, table{{0.25, 0.5}}, -2},
		{Config{Model: "protate", Dim: 2, EmbeddingRange: 1, Gamma: 3, Modulus: 0.5}, table{{0.25, 0.5}, {0, 0.5}}, table{{0.25, 0.5}}, 3 - 1},
	} {
		m := rows(t, c.config, c.entities, c.relations)
		q, answer := kg.Triple{Head: 0, Relation: 0, Tail: 1}.Query(kg.Tail)
		assert.InDelta(t, c.want, m.Score(m.NewWorker(backends[0]).Reference(q, answer)), 1e-7, c.config.Model)
	}
}

// The balance of transe-l2 keeps the bound of a dot product near the score, whatever the scale.
func TestBalance(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, scale := range []float64{1e-18, 1e-3, 1, 1e3, 1e17} {
		m := random(t, "transe-l2", 64, 1000, 1, scale, 1)
		w := m.NewWorker(backends[0])
		psi, phi := make([]float32, 65), make([]float32, 65)
		w.Query(kg.Query{}, psi)
		w.Features(kg.Tail, 0, 1, phi)
		assert.Less(t, norm2(psi)*norm2(phi), 10*64*scale*scale, "scale %g", scale)
	}
	assert.NotPanics(t, func() { random(t, "transe-l2", 4, 0, 1, 1, 1) }, "no entities")
	assert.NotPanics(t, func() { random(t, "transe-l2", 4, 3, 1, 0, 1) }, "all zero")
}

func BenchmarkReference(b *testing.B) {
	backends, err := kernel.Available()
	require.NoError(b, err)
	for _, name := range Names()[2:] {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			b.Run(fmt.Sprintf("%s/%v", name, side), func(b *testing.B) {
				m := random(b, name, 500, 100, 1, 1, 1)
				w := m.NewWorker(backends[0])
				e := int32(0)
				for b.Loop() {
					e = (e + 1) % 100
					w.Reference(kg.Query{Side: side, Anchor: 7}, e)
				}
			})
		}
	}
}
