package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// DihEdral (Xu and Li, 2019; docs/models/dihedral.md) has the score Σ h_iᵀ D_i t_i over k blocks of
// two coordinates. D_i is one of the K rotations and K reflections of the dihedral group D_K. The
// row of an entity holds the first coordinates of the k blocks and then the second coordinates. A
// relation holds 2K weights for each block. Element m < K is the rotation by 2πm/K, and element K +
// m is the reflection [cos, sin; sin, −cos] with the same angle. D_i is the first element with the
// largest weight.
//
// The reference score is computed in float64, and every product and sum is rounded. Function turn
// computes cosines and sines. With u = D₀₀h₀ + D₁₀h₁ and v = D₀₁h₀ + D₁₁h₁, the score is the chain
// over i from 0 of u t₀ + v t₁.
//
// Towers: ψ is Dᵀh for tails and Dt for heads. φ is the entity's row.

var dihEdral = &Spec{
	Name: "dihedral", Title: "DihEdral", Score: "Σ h_iᵀ D_i t_i", MaxDim: maxVectorDim,
	Hyper: []*HyperParameter{groupOrder},
	Tensors: func(c Config) []Parameter {
		normal, elements := initial.Normal(EntityDeviation), 2*int(groupOrder.Of(c))
		return []Parameter{
			{Name: dihedralEntity, Axis: PerEntity, Row: []int{2 * c.Dim}, Initial: normal, Pairs: true},
			{Name: "relation", Axis: PerRelation, Row: []int{c.Dim, elements}, Initial: normal},
		}
	},
	Recipe: productRecipe("128"),
	Build:  func(t Tables) Model { return newDihEdral(t) },
	Start:  Starting{Scaled: dihedralEntity},
}

const dihedralEntity = "entity"

var groupOrder = &HyperParameter{
	Key: "order", Help: "number K of rotations in the dihedral group, which also has K reflections",
	Default: 4, Least: 1, Most: 64, Whole: true,
}

// turn returns the cosine and the sine of the angle 2πm/n for 0 ≤ m < n. They are exact for quarter
// turns.
func turn(m, n int) (cos, sin float64) {
	quarters, rest := 4*m/n, 4*m%n
	sin, cos = sinCos(math.Pi / 2 * float64(rest) / float64(n))
	for range quarters {
		cos, sin = -sin, cos
	}
	return cos, sin
}

// block is an element of the group: the matrix [a, b; c, d].
type block struct{ a, b, c, d float64 }

// apply returns Dᵀ(x, y) for tail queries and D(x, y) for head queries.
func (m block) apply(side kg.Side, x, y float64) (u, v float64) {
	b, c := m.b, m.c
	if side == kg.Head {
		b, c = c, b
	}
	return float64(m.a*x) + float64(c*y), float64(b*x) + float64(m.d*y)
}

type dihEdralModel struct {
	Tables
	elements []block // all elements of the group
}

func newDihEdral(t Tables) *dihEdralModel {
	n := int(groupOrder.Of(t.config))
	m := &dihEdralModel{t, make([]block, 2*n)}
	for i := range n {
		cos, sin := turn(i, n)
		m.elements[i], m.elements[n+i] = block{cos, -sin, sin, cos}, block{cos, sin, sin, -cos}
	}
	return m
}

// choose writes the element of each block of a relation to chosen.
func (m *dihEdralModel) choose(chosen []block, relation int32) {
	weights := m.Row(relationTable, relation)
	for i := range chosen {
		best := 0
		for k, w := range weights[i*len(m.elements):][:len(m.elements)] {
			if w > weights[i*len(m.elements)+best] {
				best = k
			}
		}
		chosen[i] = m.elements[best]
	}
}

func (m *dihEdralModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: 2 * m.config.Dim, Phi: 2 * m.config.Dim}
}

func (m *dihEdralModel) NewWorker(*kernel.Backend) Worker {
	return OneByOne(&dihEdralWorker{m, -1, make([]block, m.config.Dim)})
}

// dihEdralWorker caches the elements of a relation.
type dihEdralWorker struct {
	*dihEdralModel
	relation int32
	chosen   []block
}

func (w *dihEdralWorker) read(relation int32) {
	if w.relation != relation {
		w.relation = relation
		w.choose(w.chosen, relation)
	}
}

// Feature copies the entity's row. The size is the norm of the row.
func (w *dihEdralWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := w.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm(row)
}

func (w *dihEdralWorker) Query(q kg.Query, psi []float32) Slack {
	w.read(q.Relation)
	anchor := w.Row(entityTable, q.Anchor)
	first, second := halves(anchor)
	u, v := halves(psi)
	for i, m := range w.chosen {
		x, y := m.apply(q.Side, float64(first[i]), float64(second[i]))
		u[i], v[i] = float32(x), float32(y)
	}
	// See docs/models/dihedral.md, "Slack".
	return Slack{0, gamma(w.config.Dim+16) * fmath.Norm(anchor), 0}
}

func (w *dihEdralWorker) Reference(q kg.Query, e int32) float64 {
	w.read(q.Relation)
	h, _, t := w.rows(q, e)
	first, second := halves(h)
	t0, t1 := halves(t)
	var sum float64
	for i, m := range w.chosen {
		u, v := m.apply(kg.Tail, float64(first[i]), float64(second[i]))
		sum += float64(u*float64(t0[i])) + float64(v*float64(t1[i]))
	}
	return sum
}

// Training uses a straight-through estimator: scores use the chosen elements, and the weights get the
// gradient that they would have if D were the mean of all elements, weighted by the softmax of the
// weights.
//
// The penalty frobenius of a triple is ‖h‖² + ‖t‖², and n3 is Σ|h_i|³ + Σ|t_i|³ over the norms of
// the blocks.

func (m *dihEdralModel) Training() Training {
	return Training{Width: 2 * m.config.Dim, EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius, N3}}
}

func (m *dihEdralModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	k := m.config.Dim
	return &dihEdralTraining{
		tableTraining: newComplexTraining(&m.Tables, b, p), model: m,
		chosen: make([]block, k), sums: make([]block, k), weights: make([]float64, len(m.elements)),
	}
}

type dihEdralTraining struct {
	tableTraining
	model   *dihEdralModel
	chosen  []block
	sums    []block   // sums of the gradients of the chosen elements
	weights []float64 // the softmax of a block's weights
}

func (w *dihEdralTraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	w.model.choose(w.chosen, relation)
	clear(w.sums)
}

func (w *dihEdralTraining) Query(psi, anchor []float32) (c, penalty float64) {
	first, second := halves(anchor)
	u, v := halves(psi)
	for i, m := range w.chosen {
		x, y := m.apply(w.side, float64(first[i]), float64(second[i]))
		u[i], v[i] = float32(x), float32(y)
	}
	return 0, 0
}

// QueryGradient uses ∂D = htᵀ, the gradient of the score hᵀDt, with the gradient of ψ in place of
// the candidate.
func (w *dihEdralTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	first, second := halves(anchor)
	u, v := halves(dPsi)
	dFirst, dSecond := halves(dAnchor)
	for i, m := range w.chosen {
		h0, h1, t0, t1 := float64(first[i]), float64(second[i]), float64(u[i]), float64(v[i])
		x, y := m.apply(w.side.Opposite(), t0, t1)
		dFirst[i], dSecond[i] = float32(x), float32(y)
		if w.side == kg.Head {
			h0, h1, t0, t1 = t0, t1, h0, h1
		}
		s := &w.sums[i]
		s.a += float64(h0 * t0)
		s.b += float64(h0 * t1)
		s.c += float64(h1 * t0)
		s.d += float64(h1 * t1)
	}
}

// End uses ∂w_m = p_m(g_m − Σ p_k g_k). Here p is the softmax of the weights, and g_m is the inner
// product of ∂D and element m.
func (w *dihEdralTraining) End(dRelation []float32) {
	elements := w.model.elements
	for i, s := range w.sums {
		row, gradient := w.r[i*len(elements):][:len(elements)], dRelation[i*len(elements):][:len(elements)]
		softmax(w.weights, row)
		var mean float64
		for k, m := range elements {
			g := float64(s.a*m.a) + float64(s.b*m.b) + float64(s.c*m.c) + float64(s.d*m.d)
			gradient[k] = float32(g)
			mean += float64(w.weights[k] * g)
		}
		for k, p := range w.weights {
			gradient[k] = float32(p * (float64(gradient[k]) - mean))
		}
	}
}

// softmax writes exp(x_i)/Σ exp(x_k) to p.
func softmax(p []float64, x []float32) {
	largest := x[0]
	for _, v := range x {
		largest = max(largest, v)
	}
	var sum float64
	for i, v := range x {
		p[i] = fmath.Exp(float64(v) - float64(largest))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
}

// RelationPenalty returns 0, because weights have no scale.
func (w *dihEdralTraining) RelationPenalty([]float32, int32, float64) float64 { return 0 }
