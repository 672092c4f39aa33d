package modeltest

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
)

// CP (Hitchcock, 1927): score Σ a_i r_i b_i. An entity has a row a as a head and a row b as a tail, so
// φ depends on the side. With reciprocal relations, φ is b for both sides.
//
// Reference, in float64: the chain over i from 0 of (a_i r_i) b_i. The first product is exact; the
// second and the sum are rounded.
var CP = &model.Spec{
	Name: "cp", Score: "Σ a_i r_i b_i", MaxDim: 1 << 10,
	Tensors: func(c model.Config) []model.Parameter {
		row, normal := []int{c.Dim}, initial.Normal(0.1)
		return []model.Parameter{
			{Name: "entity.head", Axis: model.PerEntity, Row: row, Initial: normal},
			{Name: "entity.tail", Axis: model.PerEntity, Row: row, Initial: normal},
			{Name: "relation", Axis: model.PerRelation, Row: row, Initial: normal},
		}
	},
	Build: func(t model.Tables) model.Model { return &cp{t} },
}

// The indexes of CP's parameters.
const (
	cpHead = iota
	cpTail
	cpRelation
)

type cp struct{ model.Tables }

func (m *cp) Tower(kg.Side) model.Tower {
	d := m.Config().Dim
	return model.Tower{Compare: model.Dot, Psi: d, Phi: d, Features: model.OnSide}
}

func (m *cp) NewWorker(*kernel.Backend) model.Worker { return model.OneByOne(m) }

// tables returns the indexes of the parameters of anchor and candidate.
func (m *cp) tables(side kg.Side) (anchor, candidate int) {
	if side == kg.Tail {
		return cpHead, cpTail
	}
	return cpTail, cpHead
}

func (m *cp) Feature(side kg.Side, _, e int32, phi []float32) (size float64) {
	_, candidate := m.tables(side)
	row := m.Row(candidate, e)
	copy(phi, row)
	return fmath.Norm(row)
}

func (m *cp) Query(q kg.Query, psi []float32) model.Slack {
	anchor, _ := m.tables(q.Side)
	r := m.Row(cpRelation, q.Relation)
	var squares float64
	for i, a := range m.Row(anchor, q.Anchor) {
		v := float64(a) * float64(r[i])
		psi[i] = float32(v)
		squares += v * v
	}
	return model.Slack{0, kernel.Gamma(len(r)+1, kernel.U64) * math.Sqrt(squares) * fmath.NormSlack, 0}
}

func (m *cp) Reference(q kg.Query, e int32) float64 {
	anchor, candidate := m.tables(q.Side)
	a, b := m.Row(anchor, q.Anchor), m.Row(candidate, e)
	var sum float64
	for i, r := range m.Row(cpRelation, q.Relation) {
		sum += float64(float64(a[i]) * float64(r) * float64(b[i]))
	}
	return sum
}
