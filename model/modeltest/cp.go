package modeltest

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
)

// CP (Hitchcock, 1927; with reciprocal relations, Lacroix et al., 2018): score Σ a_i r_i b_i. An
// entity has a row a as a head and a row b as a tail, so φ depends on the side. With reciprocal
// relations, a query (?, r, t) becomes (t, r⁻¹, ?), where r⁻¹ has its own row. Then φ is b on both
// sides, and the two sides score a triple differently.
//
// Reference, in float64: the chain over i from 0 of (a_i r_i) b_i. The first product is exact; the
// second and the sum are rounded.
var CP = &model.Spec{
	Name: "cp", Score: "Σ a_i r_i b_i", MaxDim: 1 << 10,
	Hyper: []*model.HyperParameter{reciprocal},
	Tensors: func(c model.Config) []model.Parameter {
		row, normal := []int{c.Dim}, initial.Normal(0.1)
		list := []model.Parameter{
			{Name: "entity.head", Axis: model.PerEntity, Row: row, Initial: normal},
			{Name: "entity.tail", Axis: model.PerEntity, Row: row, Initial: normal},
			{Name: "relation", Axis: model.PerRelation, Row: row, Initial: normal},
		}
		if reciprocal.Of(c) == 1 {
			list = append(list, model.Parameter{
				Name: "relation.inverse", Axis: model.PerRelation, Row: row, Initial: normal,
			})
		}
		return list
	},
	Build: func(t model.Tables) model.Model {
		return &cp{t, reciprocal.Of(t.Config()) == 1}
	},
	Sided: func(c model.Config) bool { return reciprocal.Of(c) == 1 },
}

var reciprocal = &model.HyperParameter{
	Key: "reciprocal", Help: "switch: 1 for reciprocal relations, 0 for none", Least: 0, Most: 1,
}

// The indexes of CP's parameters.
const (
	cpHead = iota
	cpTail
	cpRelation
	cpInverse
)

type cp struct {
	model.Tables
	reciprocal bool
}

func (m *cp) Tower(kg.Side) model.Tower {
	d := m.Config().Dim
	t := model.Tower{Compare: model.Dot, Psi: d, Phi: d, Features: model.OnSide}
	if m.reciprocal {
		t.Features = model.OnEntity
	}
	return t
}

func (m *cp) NewWorker(*kernel.Backend) model.Worker { return model.OneByOne(m) }

// tables returns the indexes of the parameters of anchor, relation and candidate.
func (m *cp) tables(side kg.Side) (anchor, relation, candidate int) {
	switch {
	case side == kg.Tail:
		return cpHead, cpRelation, cpTail
	case m.reciprocal:
		return cpHead, cpInverse, cpTail
	}
	return cpTail, cpRelation, cpHead
}

func (m *cp) Feature(side kg.Side, _, e int32, phi []float32) (size float64) {
	_, _, candidate := m.tables(side)
	row := m.Row(candidate, e)
	copy(phi, row)
	return fmath.Norm(row)
}

func (m *cp) Query(q kg.Query, psi []float32) model.Slack {
	anchor, relation, _ := m.tables(q.Side)
	r := m.Row(relation, q.Relation)
	var squares float64
	for i, a := range m.Row(anchor, q.Anchor) {
		v := float64(a) * float64(r[i])
		psi[i] = float32(v)
		squares += v * v
	}
	return model.Slack{0, kernel.Gamma(len(r)+1, kernel.U64) * math.Sqrt(squares) * fmath.NormSlack, 0}
}

func (m *cp) Reference(q kg.Query, e int32) float64 {
	anchor, relation, candidate := m.tables(q.Side)
	a, b := m.Row(anchor, q.Anchor), m.Row(candidate, e)
	var sum float64
	for i, r := range m.Row(relation, q.Relation) {
		sum += float64(float64(a[i]) * float64(r) * float64(b[i]))
	}
	return sum
}
