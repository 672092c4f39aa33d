package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// CP (Hitchcock, 1927; Lacroix et al., 2018; docs/models/cp.md) has the score Σ a_i r_i b_i. Here a
// is the head's vector as a head, and b is the tail's vector as a tail. The row of an entity is [a,
// b].
//
// The reference score, in float64, is the chain over i from 0 of (a_i r_i) b_i. The first product
// is exact; the second and the sum are rounded.
//
// Towers: tail queries have ψ = a∘r and φ = b, and head queries have ψ = b∘r and φ = a. With
// reciprocal relations, φ is b for both sides.

var cp = &Spec{
	Name: "cp", Title: "CP", Score: "Σ a_i r_i b_i", MaxDim: maxVectorDim,
	Hyper:   []*HyperParameter{embeddingRange},
	Tensors: vectors(2, 1),
	Recipe:  productRecipe("256"),
	Build:   func(t Tables) Model { return &cpModel{t} },
	Start:   rangeStart,
}

// cpModel needs no scratch memory, so it is its own worker.
type cpModel struct{ Tables }

func (m *cpModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: m.config.Dim, Phi: m.config.Dim, Features: OnSide}
}

func (m *cpModel) NewWorker(*kernel.Backend) Worker { return OneByOne(m) }

// roles splits the row of an entity into its vectors as the anchor and as a candidate, for queries
// of one side.
func roles(side kg.Side, row []float32) (anchor, candidate []float32) {
	asHead, asTail := halves(row)
	if side == kg.Tail {
		return asHead, asTail
	}
	return asTail, asHead
}

// Feature copies the candidate's vector. The size is its norm.
func (m *cpModel) Feature(side kg.Side, _, e int32, phi []float32) (size float64) {
	_, candidate := roles(side, m.Row(entityTable, e))
	copy(phi, candidate)
	return fmath.Norm(candidate)
}

func (m *cpModel) Query(q kg.Query, psi []float32) Slack {
	anchor, _ := roles(q.Side, m.Row(entityTable, q.Anchor))
	r := m.Row(relationTable, q.Relation)
	var squares float64
	for i, a := range anchor {
		v := float64(a) * float64(r[i])
		psi[i] = float32(v)
		squares += v * v
	}
	// See docs/models/cp.md, "Slack".
	return Slack{0, gamma(m.config.Dim+1) * math.Sqrt(squares) * fmath.NormSlack, 0}
}

func (m *cpModel) Reference(q kg.Query, e int32) float64 {
	h, r, t := m.rows(q, e)
	a, _ := halves(h)
	_, b := halves(t)
	var sum float64
	for i, v := range r {
		ar := float64(a[i]) * float64(v)
		sum += float64(ar * float64(b[i]))
	}
	return sum
}

// The penalty frobenius of a triple is ‖h‖² + ‖r‖² + ‖t‖² with the whole rows h and t; n3 has
// Σ|x|³ in place of ‖·‖²; dura is ‖h‖² + ‖t‖² + ‖ψ‖² of both queries.
//
// A step may ask for heads and for tails, so φ is the whole row [a, b], and ψ has zeros for the
// half that a query does not use. A model that answers only tail queries has φ = b.

func (m *cpModel) Training() Training {
	width := 2 * m.config.Dim
	if m.config.tailsOnly {
		width = m.config.Dim
	}
	return Training{
		Width: width, Penalties: []Penalty{NoPenalty, Frobenius, N3, Dura},
		Relations: &RelationForm{m.config.Dim, cpRho, cpRhoGradient},
	}
}

// cpRho writes ρ = a∘b, where a is the head's vector as a head and b is the tail's vector as a
// tail.
func cpRho(backend *linalg.Backend, rho, head, tail []float32) {
	a, _ := halves(head)
	_, b := halves(tail)
	backend.Multiply(rho, a, b)
}

func cpRhoGradient(backend *linalg.Backend, dHead, dTail, dRho, head, tail []float32) {
	a, _ := halves(head)
	_, b := halves(tail)
	da, unusedHead := halves(dHead)
	unusedTail, db := halves(dTail)
	multiplyGradient(backend, da, db, dRho, a, b)
	clear(unusedHead)
	clear(unusedTail)
}

func (m *cpModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &cpTraining{newTableTraining(&m.Tables, b, p)}
}

type cpTraining struct{ tableTraining }

func (w *cpTraining) Features(phi []float32, e int32) {
	row := w.Row(entityTable, e)
	copy(phi, row[len(row)-len(phi):])
}

func (w *cpTraining) FeatureGradient(dEntity, dPhi, _ []float32, _ int32) {
	rest := len(dEntity) - len(dPhi)
	clear(dEntity[:rest])
	copy(dEntity[rest:], dPhi)
}

// used returns the half of ψ that a query uses, and the other half.
func (w *cpTraining) used(psi []float32) (used, other []float32) {
	if w.config.tailsOnly {
		return psi, nil
	}
	other, used = roles(w.side, psi)
	return used, other
}

func (w *cpTraining) Query(psi, anchor []float32) (c, penalty float64) {
	anchor, _ = roles(w.side, anchor)
	psi, rest := w.used(psi)
	clear(rest)
	for i, a := range anchor {
		psi[i] = a * w.r[i]
	}
	return 0, w.queryPenalty(psi)
}

// QueryGradient uses ψ = a∘r, where a is the anchor's vector: ∂a = ∂ψ∘r and ∂r = ∂ψ∘a.
func (w *cpTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, dPenalty float64) {
	slope := w.duraSlope(dPenalty)
	anchor, _ = roles(w.side, anchor)
	dPsi, _ = w.used(dPsi)
	dUsed, dOther := roles(w.side, dAnchor)
	for i, a := range anchor {
		g, r := dPsi[i]+float32(slope*float32(a*w.r[i])), w.r[i]
		w.sum[i] += float32(g * a)
		// dAnchor and dPsi may share memory, so this may overwrite dPsi[i].
		dUsed[i], dOther[i] = g*r, 0
	}
}
