package rank

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// projected is a model whose candidates depend on the relation and, unless u is v, on the side, as
// in TransR or HousE: f(h, r, t) = −|h∘u_r − t∘v_r|₁, on small integers, for which float32 is
// exact.
type projected struct {
	d, n    int
	depends model.Dependence
	entity  []float32
	u, v    []float32
	visited *[][2]int32 // the relations and sides for which features were computed
}

func (m projected) Config() model.Config {
	return model.Config{Model: "projected", Dim: m.d, Entities: m.n, Relations: len(m.u) / m.d}
}
func (m projected) Tower(kg.Side) model.Tower {
	return model.Tower{Compare: model.L1, Psi: m.d, Phi: m.d, Features: m.depends}
}
func (m projected) Tensors() [][]float32                   { return [][]float32{m.entity, m.u, m.v} }
func (m projected) row(e int32) []float32                  { return m.entity[int(e)*m.d:][:m.d] }
func (m projected) SameEntity(a, b int32) bool             { return slices.Equal(m.row(a), m.row(b)) }
func (m projected) HashEntity(e int32) uint64              { return uint64(math.Float32bits(m.row(e)[0])) }
func (m projected) Score(reference float64) float64        { return reference }
func (m projected) NewWorker(*kernel.Backend) model.Worker { return model.OneByOne(m) }

func (m projected) project(side kg.Side, r, e int32, out []float32) {
	by := m.u // vectors for heads
	if side == kg.Tail {
		by = m.v
	}
	for i, x := range m.row(e) {
		out[i] = x * by[int(r)*m.d+i]
	}
}

func (m projected) Feature(side kg.Side, r, e int32, phi []float32) float64 {
	if e == 0 {
		*m.visited = append(*m.visited, [2]int32{int32(side), r})
	}
	m.project(side, r, e, phi)
	return 0
}

func (m projected) Query(q kg.Query, psi []float32) model.Slack {
	m.project(1-q.Side, q.Relation, q.Anchor, psi)
	return model.Slack{}
}

func (m projected) Reference(q kg.Query, e int32) float64 {
	x, y := make([]float32, m.d), make([]float32, m.d)
	m.project(1-q.Side, q.Relation, q.Anchor, x)
	m.project(q.Side, q.Relation, e, y)
	var sum float64
	for i := range x {
		sum -= max(float64(x[i]-y[i]), float64(y[i]-x[i]))
	}
	return sum
}

// TestRelationalTower checks that candidates whose features depend on the relation are prepared
// once for each relation, or for each relation and side, and that their ranks and predictions are
// exact.
func TestRelationalTower(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(21, 1))
	g := ranktest.Graph(rng, 130, 4, 300, 20, 40)
	index := kgtest.Index(t, g)
	small := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.IntN(9) - 4)
		}
		return x
	}
	const d = 6
	var visited [][2]int32
	both := projected{d, 130, model.OnRelationSide, small(130 * d), small(4 * d), small(4 * d), &visited}
	one := both
	one.depends, one.v = model.OnRelation, one.u
	for _, c := range []struct {
		model projected
		want  [][2]int32 // tail queries come first
	}{
		{both, [][2]int32{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}}},
		{one, [][2]int32{{0, 0}, {0, 1}, {0, 2}, {0, 3}}},
	} {
		m := c.model
		want := bruteForce(m, g, g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head}, m.Reference)
		for _, b := range backends {
			visited = nil
			got, err := Run(context.Background(), m, index, g.Splits[kg.Test], Options{Backend: b, Threads: 1})
			require.NoError(t, err)
			assert.Equal(t, want, got.Ranks, b.Tier)
			assert.Equal(t, c.want, visited, "features are computed once")

			queries := []kg.Query{
				{Side: kg.Tail, Relation: 2, Anchor: 5}, {Side: kg.Head, Relation: 0, Anchor: 9},
				{Side: kg.Head, Relation: 2, Anchor: 9},
			}
			lists, err := Predict(context.Background(), m, index, queries, Top{K: 3}, Options{Backend: b, Threads: 1})
			require.NoError(t, err)
			for i, q := range queries {
				for e := range int32(m.n) {
					assert.LessOrEqual(t, m.Reference(q, e), lists[i][0].Score)
				}
				assert.Equal(t, m.Reference(q, lists[i][2].Answer), lists[i][2].Score)
			}
		}
	}
}

// narrow is a model with a ψ that is shorter than its φ.
type narrow struct{ projected }

func (m narrow) Tower(side kg.Side) model.Tower {
	t := m.projected.Tower(side)
	t.Psi--
	return t
}

// TestTowerWidths checks that Run returns an error instead of wrong ranks if ψ and φ differ in
// their numbers of coordinates.
func TestTowerWidths(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(21, 1)), 3, 1, 3, 1, 1)
	m := narrow{projected{d: 2, n: 3, entity: make([]float32, 6), u: make([]float32, 2), v: make([]float32, 2)}}
	o := Options{Backend: kerneltest.Best(t), Threads: 1}
	_, err := Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test], o)
	assert.ErrorContains(t, err, "ψ of 1 entries and φ of 2 on the tail side")
	_, err = Predict(t.Context(), m, kgtest.Index(t, g), []kg.Query{{}}, Top{K: 1}, o)
	assert.ErrorContains(t, err, "ψ of 1 entries and φ of 2")
}
