package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// SEEK (Xu et al., 2020; docs/models/seek.md) has the score Σ_x Σ_y σ_xy ⟨r_x, h_y, t_w⟩, where
// every vector has S segments of d entries, numbered from 0. For even x, w = y and σ = 1. For odd
// x, w = (x + y) mod S, and σ is −1 if x + y ≥ S, otherwise 1. With one segment it is DistMult,
// with two it is ComplEx.
//
// The reference score is computed in float64. E is the sum of the even segments of r, with x
// ascending. q_w is E∘h_w plus σ_xy r_x∘h_y for the odd x in ascending order, with y = (w − x) mod
// S. The score is the chain of q_w t_w over w and, within a segment, over its entries. Products of
// two stored numbers are exact; everything else is rounded.
//
// Towers: ψ is q for tails. For heads it has the segments E∘t_y + Σ σ_xy r_x∘t_w over the odd x,
// with w = (x + y) mod S. φ is the entity's row.

var seek = &Spec{
	Name: "seek", Title: "SEEK", Score: "Σ_x Σ_y σ_xy ⟨r_x, h_y, t_w⟩", MaxDim: maxVectorDim / maxSegments,
	Hyper: []*HyperParameter{segments, rangeFrom(func(Config) float64 { return 0.01 })},
	Tensors: func(c Config) []Parameter {
		row, uniform := []int{int(segments.Of(c)) * c.Dim}, initial.Uniform(embeddingRange.Of(c))
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: row, Initial: uniform},
			{Name: "relation", Axis: PerRelation, Row: row, Initial: uniform},
		}
	},
	Recipe: productRecipe("64"),
	Build:  func(t Tables) Model { return &seekModel{t, int(segments.Of(t.config))} },
	Start:  rangeStart,
}

// Segments is the key of the number of segments of SEEK.
const Segments = "segments"

const maxSegments = 32

var segments = &HyperParameter{
	Key: Segments, Help: "number of segments of a vector; dim is the size of a segment",
	Default: 4, Least: 1, Most: maxSegments, Whole: true,
}

type seekModel struct {
	Tables
	segments int
}

func (m *seekModel) width() int { return m.segments * m.config.Dim }

func (m *seekModel) Tower(kg.Side) Tower { return Tower{Compare: Dot, Psi: m.width(), Phi: m.width()} }

// segment returns segment i of a row.
func (m *seekModel) segment(row []float32, i int) []float32 {
	return row[i*m.config.Dim:][:m.config.Dim]
}

// meets returns the index of the candidate's segment that the score multiplies by the relation's
// odd segment x and the anchor's segment y, for queries of one side. It also returns the sign of
// this product.
func (m *seekModel) meets(side kg.Side, x, y int) (segment int, sign float64) {
	switch {
	case side == kg.Tail && x+y >= m.segments:
		return x + y - m.segments, -1
	case side == kg.Tail:
		return x + y, 1
	case y < x: // the head's segment z has x + z = y + S
		return y - x + m.segments, -1
	}
	return y - x, 1
}

func (m *seekModel) NewWorker(*kernel.Backend) Worker {
	return OneByOne(&seekWorker{
		seekModel: m, relation: -1, even: make([]float64, m.config.Dim), sizes: make([]float64, m.config.Dim),
		vector: make([]float64, m.width()),
	})
}

type seekWorker struct {
	*seekModel
	// even is E of a relation. sizes holds |E| plus the absolute values of the odd segments.
	relation    int32
	even, sizes []float64
	vector      []float64 // ψ before rounding, or q of a reference score
}

func (w *seekWorker) read(relation int32) {
	if w.relation == relation {
		return
	}
	w.relation = relation
	clear(w.even)
	clear(w.sizes)
	row := w.Row(relationTable, relation)
	for x := range w.segments {
		for i, v := range w.segment(row, x) {
			if x%2 == 0 {
				w.even[i] += float64(v)
			} else {
				w.sizes[i] += math.Abs(float64(v))
			}
		}
	}
	for i, v := range w.even {
		w.sizes[i] += math.Abs(v)
	}
}

// ask sets vector to ψ of an anchor, for the relation of the last call of read.
func (w *seekWorker) ask(side kg.Side, relation int32, anchor []float32) {
	d, r := w.config.Dim, w.Row(relationTable, relation)
	for y := range w.segments {
		for i, v := range w.segment(anchor, y) {
			w.vector[y*d+i] = float64(w.even[i] * float64(v))
		}
	}
	for x := 1; x < w.segments; x += 2 {
		rx := w.segment(r, x)
		for y := range w.segments {
			z, sign := w.meets(side, x, y)
			to := w.vector[z*d:][:d]
			for i, v := range w.segment(anchor, y) {
				to[i] += float64(sign * float64(rx[i]) * float64(v))
			}
		}
	}
}

// Feature copies the entity's row. The size is the norm of the row.
func (w *seekWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := w.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm(row)
}

func (w *seekWorker) Query(q kg.Query, psi []float32) Slack {
	w.read(q.Relation)
	anchor := w.Row(entityTable, q.Anchor)
	w.ask(q.Side, q.Relation, anchor)
	for i, v := range w.vector {
		psi[i] = float32(v)
	}
	var squares float64
	for y := range w.segments {
		for i, v := range w.segment(anchor, y) {
			m := w.sizes[i] * float64(v)
			squares += m * m
		}
	}
	// See docs/models/seek.md, "Slack".
	return Slack{0, gamma(w.width()+w.segments+4) * math.Sqrt(squares) * fmath.NormSlack, 0}
}

func (w *seekWorker) Reference(q kg.Query, e int32) float64 {
	w.read(q.Relation)
	h, _, t := w.rows(q, e)
	w.ask(kg.Tail, q.Relation, h)
	var sum float64
	for i, v := range w.vector {
		sum += float64(v * float64(t[i]))
	}
	return sum
}

// The penalty frobenius of a triple is ‖h‖² + ‖r‖² + ‖t‖²; n3 has Σ|x|³ in place of ‖·‖²; dura
// is ‖h‖² + ‖t‖² + ‖ψ‖² of both queries.

func (m *seekModel) Training() Training {
	return Training{
		Width: m.width(), EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius, N3, Dura},
		Relations: &RelationForm{m.width(), m.rho, m.rhoGradient},
	}
}

// pairs calls the function visit for every term of the score: segment x of the relation times
// segment y of the head times segment z of the tail, with a sign.
func (m *seekModel) pairs(visit func(x, y, z int, sign float32)) {
	for x := range m.segments {
		for y := range m.segments {
			z, sign := y, 1.0
			if x%2 == 1 {
				z, sign = m.meets(kg.Tail, x, y)
			}
			visit(x, y, z, float32(sign))
		}
	}
}

func (m *seekModel) rho(_ *linalg.Backend, rho, head, tail []float32) {
	clear(rho)
	m.pairs(func(x, y, z int, sign float32) {
		to, h, t := m.segment(rho, x), m.segment(head, y), m.segment(tail, z)
		for i := range to {
			to[i] += float32(sign * h[i] * t[i])
		}
	})
}

func (m *seekModel) rhoGradient(_ *linalg.Backend, dHead, dTail, dRho, head, tail []float32) {
	clear(dHead)
	clear(dTail)
	m.pairs(func(x, y, z int, sign float32) {
		dh, dt, h, t := m.segment(dHead, y), m.segment(dTail, z), m.segment(head, y), m.segment(tail, z)
		for i, g := range m.segment(dRho, x) {
			dh[i] += float32(sign * g * t[i])
			dt[i] += float32(sign * g * h[i])
		}
	})
}

func (m *seekModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &seekTraining{
		tableTraining: newTableTraining(&m.Tables, b, p), model: m,
		even: make([]float32, m.config.Dim), g: make([]float32, m.width()), psi: make([]float32, m.width()),
	}
}

type seekTraining struct {
	tableTraining
	model  *seekModel
	even   []float32 // E of the relation
	g, psi []float32 // the gradient of a query, and its ψ
}

func (w *seekTraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	clear(w.even)
	for x := 0; x < w.model.segments; x += 2 {
		w.backend.Axpy(w.even, 1, w.model.segment(w.r, x))
	}
}

func (w *seekTraining) Query(psi, anchor []float32) (c, penalty float64) {
	for y := range w.model.segments {
		to := w.model.segment(psi, y)
		for i, v := range w.model.segment(anchor, y) {
			to[i] = w.even[i] * v
		}
	}
	for x := 1; x < w.model.segments; x += 2 {
		w.addOdd(psi, anchor, w.side, x)
	}
	return 0, w.queryPenalty(psi)
}

// addOdd adds the terms of an odd segment x of the relation to ψ of an anchor.
func (w *seekTraining) addOdd(psi, anchor []float32, side kg.Side, x int) {
	r := w.model.segment(w.r, x)
	for y := range w.model.segments {
		z, sign := w.model.meets(side, x, y)
		to, s := w.model.segment(psi, z), float32(sign)
		for i, v := range w.model.segment(anchor, y) {
			to[i] += float32(s * r[i] * v)
		}
	}
}

// QueryGradient relies on ψ being linear in the anchor: ∂a is the ψ of the anchor ∂ψ for the other
// side.
func (w *seekTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, dPenalty float64) {
	copy(w.g, dPsi)
	if slope := w.duraSlope(dPenalty); slope != 0 {
		w.Query(w.psi, anchor)
		w.backend.Axpy(w.g, slope, w.psi)
	}
	first := w.model.segment(w.sum, 0) // gradient of the first even segment, which End copies to the others
	for y := range w.model.segments {
		to, a := w.model.segment(dAnchor, y), w.model.segment(anchor, y)
		for i, g := range w.model.segment(w.g, y) {
			first[i] += float32(g * a[i])
			to[i] = w.even[i] * g
		}
	}
	for x := 1; x < w.model.segments; x += 2 {
		sum := w.model.segment(w.sum, x)
		for y := range w.model.segments {
			z, sign := w.model.meets(w.side, x, y)
			g, s := w.model.segment(w.g, z), float32(sign)
			for i, v := range w.model.segment(anchor, y) {
				sum[i] += float32(s * g[i] * v)
			}
		}
		w.addOdd(dAnchor, w.g, w.side.Opposite(), x)
	}
}

func (w *seekTraining) End(dRelation []float32) {
	for x := 2; x < w.model.segments; x += 2 {
		copy(w.model.segment(w.sum, x), w.model.segment(w.sum, 0))
	}
	w.tableTraining.End(dRelation)
}
