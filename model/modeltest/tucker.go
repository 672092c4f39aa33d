package modeltest

import (
	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
)

// TuckER (Balažević et al., 2019), reduced, with reciprocal relations: score Σ_k (Σ_ij a_i r_j
// W_ijk − μ_k) b_k. All triples share the core tensor W and the mean μ of batch normalisation.
//
// Reference, in float64, every product and sum rounded: M_ik is the chain over j from 0 of r_j
// W_ijk; q_k is the chain over i from 0 of a_i M_ik, minus μ_k; the score is the chain over k from
// 0 of q_k b_k. The core is stored as W[j][i][k].
var TuckER = &model.Spec{
	Name: "tucker", Score: "Σ_k (Σ_ij a_i r_j W_ijk − μ_k) b_k", MaxDim: 24,
	Tensors: func(c model.Config) []model.Parameter {
		d, normal := c.Dim, initial.Normal(0.1)
		return []model.Parameter{
			{Name: "entity", Axis: model.PerEntity, Row: []int{d}, Initial: normal},
			{Name: "relation", Axis: model.PerRelation, Row: []int{d}, Initial: normal},
			{Name: "relation.inverse", Axis: model.PerRelation, Row: []int{d}, Initial: normal},
			{Name: "core", Axis: model.Global, Row: []int{d, d, d}, Initial: initial.Uniform(1)},
			{Name: "mean", Axis: model.Global, Row: []int{d}, Frozen: true},
		}
	},
	Build: func(t model.Tables) model.Model { return &tuckER{t} },
	Sided: func(model.Config) bool { return true },
}

// The indexes of TuckER's parameters.
const (
	tuckEntity = iota
	tuckRelation
	tuckInverse
	tuckCore
	tuckMean
)

type tuckER struct{ model.Tables }

func (m *tuckER) Tower(kg.Side) model.Tower {
	d := m.Config().Dim
	return model.Tower{Compare: model.Dot, Psi: d, Phi: d}
}

func (m *tuckER) NewWorker(*kernel.Backend) model.Worker {
	d := m.Config().Dim
	return &tuckERWorker{tuckER: m, projection: make([]float64, d*d), query: make([]float64, d)}
}

// tuckERWorker computes queries in batches, because all queries of a relation share the relation's
// projection M.
type tuckERWorker struct {
	*tuckER
	projection, query []float64 // M and q
}

func (w *tuckERWorker) Features(_ kg.Side, _ int32, entities []int32, phi model.Rows, sizes []float64) {
	for i, e := range entities {
		row := w.Row(tuckEntity, e)
		copy(phi.Row(i), row)
		sizes[i] = fmath.Norm(row)
	}
}

func (w *tuckERWorker) Queries(side kg.Side, relation int32, anchors []int32, psi model.Rows, slacks []model.Slack) {
	w.project(side, relation)
	for i, anchor := range anchors {
		w.ask(anchor)
		for k, v := range w.query {
			psi.Row(i)[k] = float32(v)
		}
		slacks[i] = model.Slack{0, kernel.Gamma(len(w.query)+1, kernel.U64) * fmath.Norm(w.query), 0}
	}
}

func (w *tuckERWorker) Reference(q kg.Query, e int32) float64 {
	w.project(q.Side, q.Relation)
	w.ask(q.Anchor)
	var sum float64
	for k, v := range w.Row(tuckEntity, e) {
		sum += float64(w.query[k] * float64(v))
	}
	return sum
}

// project sets projection to M of a relation.
func (w *tuckERWorker) project(side kg.Side, relation int32) {
	table := tuckRelation
	if side == kg.Head {
		table = tuckInverse
	}
	clear(w.projection)
	core := w.Row(tuckCore, 0)
	n := len(w.projection)
	for j, r := range w.Row(table, relation) {
		for ik, v := range core[j*n:][:n] {
			w.projection[ik] += float64(float64(r) * float64(v))
		}
	}
}

// ask sets query to the q of an anchor, given M.
func (w *tuckERWorker) ask(anchor int32) {
	clear(w.query)
	for i, a := range w.Row(tuckEntity, anchor) {
		for k, v := range w.projection[i*len(w.query):][:len(w.query)] {
			w.query[k] += float64(float64(a) * v)
		}
	}
	for k, v := range w.Row(tuckMean, 0) {
		w.query[k] -= float64(v)
	}
}
