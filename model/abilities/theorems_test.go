package abilities

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// matrix is a small matrix of integers, for which the scores of MQuinE are exact.
type matrix [][]float64

// square returns the d × d matrix with the entries f(i, j).
func square(d int, f func(i, j int) float64) matrix {
	m := make(matrix, d)
	for i := range m {
		m[i] = make([]float64, d)
		for j := range m[i] {
			m[i][j] = f(i, j)
		}
	}
	return m
}

func (a matrix) times(b matrix) matrix {
	return square(len(a), func(i, j int) (sum float64) {
		for k := range a {
			sum += a[i][k] * b[k][j]
		}
		return sum
	})
}

func (a matrix) plus(s float64, b matrix) matrix {
	return square(len(a), func(i, j int) float64 { return a[i][j] + s*b[i][j] })
}

func (a matrix) transposed(s float64) matrix {
	return square(len(a), func(i, j int) float64 { return s * a[j][i] })
}

// random returns a d × d matrix with entries from −3 to 3.
func random(r *rand.Rand, d int) matrix {
	return square(d, func(int, int) float64 { return float64(r.IntN(7) - 3) })
}

// symmetric returns a symmetric matrix with even diagonal entries.
func symmetric(r *rand.Rand, d int) matrix { a := random(r, d); return a.plus(1, a.transposed(1)) }

// outer returns u vᵀ.
func outer(u, v []float64) matrix {
	return square(len(u), func(i, j int) float64 { return u[i] * v[j] })
}

// cross returns the vector product.
func cross(u, v []float64) []float64 {
	return []float64{u[1]*v[2] - u[2]*v[1], u[2]*v[0] - u[0]*v[2], u[0]*v[1] - u[1]*v[0]}
}

// relation holds the matrices of a relation.
type relation struct{ head, tail, cross matrix }

// s returns s(h, r, t) of MQuinE, as package model computes it.
func (r relation) s(t *testing.T, h, tail matrix) float64 {
	t.Helper()
	spec, err := model.Lookup("mquine")
	require.NoError(t, err)
	tensors := make([][]float32, 4)
	for _, e := range []matrix{h, tail} {
		for i := range e {
			for j := range i {
				tensors[0] = append(tensors[0], float32(e[i][j]))
			}
			tensors[0] = append(tensors[0], float32(e[i][i]/2))
		}
	}
	for k, m := range []matrix{r.head, r.tail, r.cross} {
		for _, row := range m {
			for _, v := range row {
				tensors[1+k] = append(tensors[1+k], float32(v))
			}
		}
	}
	w := &world{
		subject: subject{spec, distances}, tensors: tensors,
		config: model.Config{Model: "mquine", Dim: len(h), Entities: 2, Relations: 1},
	}
	f, err := w.build()
	require.NoError(t, err)
	return -f.of(triple{0, 0, 1})
}

// Theorem 3.1, symmetry: with Rᵗᵀ = ∓Rʰ and Rᶜᵀ = ±Rᶜ, exchanging head and tail does not change the
// score. For most other relations, a triple and its converse have different scores.
func TestTheoremSymmetry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	asymmetric := 0
	for range 50 {
		h, tail, head, c := symmetric(r, 4), symmetric(r, 4), random(r, 4), random(r, 4)
		for _, sign := range []float64{1, -1} {
			rel := relation{head, head.transposed(-sign), c.plus(sign, c.transposed(1))}
			assert.Equal(t, rel.s(t, h, tail), rel.s(t, tail, h))
		}
		other := relation{head, random(r, 4), c}
		if other.s(t, h, tail) != other.s(t, tail, h) {
			asymmetric++
		}
	}
	assert.Greater(t, asymmetric, 40)
}

// Theorem 3.1, inversion: Rʰ₁ = Rᵗ₂ᵀ, Rᵗ₁ = Rʰ₂ᵀ and Rᶜ₁ = −Rᶜ₂ᵀ give s(h, r₁, t) = s(t, r₂, h).
func TestTheoremInversion(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 50 {
		h, tail := symmetric(r, 4), symmetric(r, 4)
		first := relation{random(r, 4), random(r, 4), random(r, 4)}
		second := relation{first.tail.transposed(1), first.head.transposed(1), first.cross.transposed(-1)}
		assert.Equal(t, first.s(t, h, tail), second.s(t, tail, h))
	}
}

// Theorem 3.1, 1-N, N-1 and N-N: if rank Rᵗ + rank Rᶜ < d, every tail T shares its score with other
// tails, T + vvᵀ. If rank Rʰ + rank Rᶜ < d, every head shares its score in the same way.
func TestTheoremManyToMany(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	vector := func() []float64 { return random(r, 3)[0] }
	for range 50 {
		h, tail := symmetric(r, 3), symmetric(r, 3)
		headSpace, crossLeft, crossRight, tailSpace := vector(), vector(), vector(), vector()
		rel := relation{outer(headSpace, vector()), outer(vector(), tailSpace), outer(crossLeft, crossRight)}
		v, w := cross(headSpace, crossLeft), cross(tailSpace, crossRight)
		otherHead, otherTail := h.plus(1, outer(v, v)), tail.plus(1, outer(w, w))
		score := rel.s(t, h, tail)
		assert.Equal(t, score, rel.s(t, h, otherTail))
		assert.Equal(t, score, rel.s(t, otherHead, tail))
		assert.Equal(t, score, rel.s(t, otherHead, otherTail))
	}
}

// Theorem 3.2: if s(e₁, r₁, e₂) = s(e₂, r₂, e₃) = 0, then s(e₁, r₃, e₃) = 0 for r₃ = r₁ ⊕ r₂. It is
// not 0 for r₂ ⊕ r₁ in general. Diagonal matrices without Rᶜ have r₁ ⊕ r₂ = r₂ ⊕ r₁.
func TestTheoremComposition(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	compose := func(a, b relation) relation {
		return relation{
			a.head.times(b.head), a.tail.times(b.tail), a.head.times(b.cross).plus(1, a.cross.times(b.tail)),
		}
	}
	const d = 3
	zero := func(int, int) float64 { return 0 }
	diagonal := func(m matrix) matrix {
		return square(d, func(i, j int) float64 {
			if i == j {
				return m[i][j]
			}
			return 0
		})
	}
	one := diagonal(square(d, func(int, int) float64 { return 1 }))
	different := 0
	for range 50 {
		// e₁ = e₃ = 1, Rʰ₁ = (Rᵗ₁ − Rᶜ₁) E₂ and Rᵗ₂ = E₂ (Rʰ₂ + Rᶜ₂) give scores of 0.
		middle := symmetric(r, d)
		first := relation{tail: random(r, d), cross: random(r, d)}
		second := relation{head: random(r, d), cross: random(r, d)}
		first.head = first.tail.plus(-1, first.cross).times(middle)
		second.tail = middle.times(second.head.plus(1, second.cross))
		require.Zero(t, first.s(t, one, middle))
		require.Zero(t, second.s(t, middle, one))
		assert.Zero(t, compose(first, second).s(t, one, one))
		if compose(second, first).s(t, one, one) != 0 {
			different++
		}
		for _, x := range []*relation{&first, &second} {
			x.head, x.tail, x.cross = diagonal(x.head), diagonal(x.tail), square(d, zero)
		}
		assert.Equal(t, compose(first, second), compose(second, first))
	}
	assert.Greater(t, different, 40)
}

// Both examples in the proof of theorem 3.3 have the scores that the proof claims.
func TestTheoremNoZParadox(t *testing.T) {
	rel := relation{matrix{{1, 0}, {0, 0}}, matrix{{0, 0}, {0, -1}}, matrix{{-1, 0}, {0, -1}}}
	e1, e2, e3 := matrix{{1, 0}, {0, 1}}, matrix{{1, 0}, {0, 0}}, matrix{{0, 0}, {0, 1}}
	for _, example := range []struct {
		e4    matrix
		score float64
	}{
		{matrix{{1, 1}, {1, 0}}, 1},
		{matrix{{1, 0}, {0, -1}}, 0},
	} {
		assert.Zero(t, rel.s(t, e1, e2))
		assert.Zero(t, rel.s(t, e3, e2))
		assert.Zero(t, rel.s(t, e3, example.e4))
		assert.Equal(t, example.score, rel.s(t, e1, example.e4))
	}
}
