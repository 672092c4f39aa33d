package model

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
)

// matrices holds a model as plain d × d matrices. The matrices of entities are symmetric.
type matrices struct {
	entities          [][][]float64
	head, tail, cross [][][]float64
}

// build packs matrices into a model.
func build(t testing.TB, name string, m matrices) Model {
	d := len(m.entities[0])
	var entity []float32
	for _, e := range m.entities {
		for i := range d {
			for j := range i + 1 {
				v := e[i][j]
				require.Equal(t, v, e[j][i], "entities are symmetric")
				if i == j {
					v /= 2
				}
				entity = append(entity, float32(v))
			}
		}
	}
	tensors := [][]float32{entity, flat(m.head), flat(m.tail)}
	if name == "mquine" {
		tensors = append(tensors, flat(m.cross))
	}
	made, err := New(Config{Model: name, Dim: d, Entities: len(m.entities), Relations: len(m.head)}, tensors)
	require.NoError(t, err)
	return made
}

func flat(ms [][][]float64) []float32 {
	var out []float32
	for _, m := range ms {
		for _, row := range m {
			for _, v := range row {
				out = append(out, float32(v))
			}
		}
	}
	return out
}

func diag(values ...float64) [][]float64 {
	m := make([][]float64, len(values))
	for i, v := range values {
		m[i] = make([]float64, len(values))
		m[i][i] = v
	}
	return m
}

func mul(a, b [][]float64) [][]float64 {
	c := make([][]float64, len(a))
	for i := range a {
		c[i] = make([]float64, len(b[0]))
		for k := range b {
			for j := range c[i] {
				c[i][j] += a[i][k] * b[k][j]
			}
		}
	}
	return c
}

func add(a, b [][]float64) [][]float64 {
	c := make([][]float64, len(a))
	for i := range a {
		for j := range a[i] {
			c[i] = append(c[i], a[i][j]+b[i][j])
		}
	}
	return c
}

func transpose(a [][]float64) [][]float64 {
	c := diag(make([]float64, len(a))...)
	for i := range a {
		for j := range a[i] {
			c[j][i] = a[i][j]
		}
	}
	return c
}

func scale(x float64, a [][]float64) [][]float64 {
	c := diag(make([]float64, len(a))...)
	for i := range a {
		for j := range a[i] {
			c[i][j] = x * a[i][j]
		}
	}
	return c
}

func score(b *kernel.Backend, m Model, h, r, t int32) float64 {
	return m.NewWorker(b).Reference(kg.Query{Side: kg.Tail, Relation: r, Anchor: h}, t)
}

// In the example of the paper's theorem 3.3, the three true triples of a Z-pattern score 0, but the
// fourth triple may score less.
func TestNoZParadox(t *testing.T) {
	rel := func(m [][]float64) [][][]float64 { return [][][]float64{m} }
	m := matrices{
		entities: [][][]float64{diag(1, 1), diag(1, 0), diag(0, 1), {{1, 1}, {1, 0}}, diag(1, -1)},
		head:     rel(diag(1, 0)), tail: rel(diag(0, -1)), cross: rel(diag(-1, -1)),
	}
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		made := build(t, "mquine", m)
		assert.Zero(t, score(b, made, 0, 0, 1))
		assert.Zero(t, score(b, made, 2, 0, 1))
		assert.Zero(t, score(b, made, 2, 0, 3))
		assert.Equal(t, -1.0, score(b, made, 0, 0, 3), "(e1, e4) of E4 = [[1,1],[1,0]]")
		assert.Zero(t, score(b, made, 0, 0, 4), "(e1, e4) of E4 = diag(1, −1)")
	})
}

// integers returns a matrix of small random integers, for which float64 is exact.
func integers(rng *rand.Rand, d int, symmetric bool) [][]float64 {
	m := diag(make([]float64, d)...)
	for i := range d {
		for j := range d {
			m[i][j] = float64(rng.IntN(7) - 3)
			if symmetric && j < i {
				m[i][j] = m[j][i]
			}
		}
	}
	return m
}

// The definition, and the paper's identities for inverse and symmetric relations, hold exactly for
// small integers.
func TestIdentities(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, d := range []int{1, 2, 3, 7, 8, 9, 18} {
			es := [][][]float64{integers(rng, d, true), integers(rng, d, true)}
			rh, rt, rc := integers(rng, d, false), integers(rng, d, false), integers(rng, d, false)
			skew := add(rc, scale(-1, transpose(rc)))
			m := build(t, "mquine", matrices{es,
				[][][]float64{rh, transpose(rt), rh},
				[][][]float64{rt, transpose(rh), transpose(rh)},
				[][][]float64{rc, scale(-1, transpose(rc)), skew}})
			want := 0.0
			M := add(add(mul(es[0], rh), scale(-1, mul(rt, es[1]))), mul(mul(es[0], rc), es[1]))
			for _, row := range M {
				for _, v := range row {
					want -= v * v
				}
			}
			assert.Equal(t, want, score(b, m, 0, 0, 1), "definition, d = %d", d)
			assert.Equal(t, want, score(b, m, 1, 1, 0), "inverse relation, d = %d", d)
			assert.Equal(t, score(b, m, 0, 2, 1), score(b, m, 1, 2, 0), "symmetric relation, d = %d", d)
		}
	})
}

// In this example, the scores of (h, r1, m), (m, r2, t) and (h, r1∘r2, t) are exactly 0.
func TestComposition(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		h, mid := diag(1, 2, 4, 8), diag(2, 1, 4, 2)
		tail := diag(1, 1, 2, 4)
		zero := diag(0, 0, 0, 0)
		// For diagonal matrices, H Rʰ − Rᵗ M + H Rᶜ M = 0 if Rʰ = M² and Rᵗ = H M + H Rᶜ, for any
		// Rᶜ.
		rc1, rc2 := diag(1, -1, 2, 3), diag(2, 1, 1, -1)
		rh1, rt1 := mul(mid, mid), add(mul(h, mid), mul(h, rc1))
		rh2, rt2 := mul(tail, tail), add(mul(mid, tail), mul(mid, rc2))
		rh3, rt3 := mul(rh1, rh2), mul(rt1, rt2)
		rc3 := add(mul(rh1, rc2), mul(rc1, rt2))
		m := build(t, "mquine", matrices{[][][]float64{h, mid, tail, zero},
			[][][]float64{rh1, rh2, rh3}, [][][]float64{rt1, rt2, rt3}, [][][]float64{rc1, rc2, rc3}})
		require.Zero(t, score(b, m, 0, 0, 1))
		require.Zero(t, score(b, m, 1, 1, 2))
		assert.Zero(t, score(b, m, 0, 2, 2))
		assert.NotZero(t, score(b, m, 1, 2, 2), "the composed relation does not hold for all pairs")
	})
}
