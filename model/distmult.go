package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// DistMult (Yang et al., 2015; docs/models/distmult.md) has the score Σ h_i r_i t_i.
//
// The reference score, in float64, is the chain over i from 0 of (h_i r_i) t_i. The first product
// is exact; the second and the sum are rounded. Exchanging head and tail does not change the score
// of a triple.
//
// Towers: ψ is h∘r for tails and t∘r for heads. φ is the entity's row.

var distMult = &Spec{
	Name: "distmult", Title: "DistMult", Score: "Σ h_i r_i t_i", MaxDim: maxVectorDim,
	Hyper:   []*HyperParameter{margin, embeddingRange},
	Tensors: vectors(1, 1),
	Recipe:  productRecipe("256"),
	Build:   func(t Tables) Model { return &distMultModel{t} },
	Start:   uniformStart,
}

// distMultModel needs no scratch memory, so it is its own worker.
type distMultModel struct{ Tables }

func (m *distMultModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: m.config.Dim, Phi: m.config.Dim}
}

func (m *distMultModel) NewWorker(*kernel.Backend) Worker { return OneByOne(m) }

// Feature copies the entity's row. The size is the norm of the row.
func (m *distMultModel) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := m.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm(row)
}

func (m *distMultModel) Query(q kg.Query, psi []float32) Slack {
	anchor, r := m.Row(entityTable, q.Anchor), m.Row(relationTable, q.Relation)
	var squares float64
	for i, a := range anchor {
		v := float64(a) * float64(r[i])
		psi[i] = float32(v)
		squares += v * v
	}
	// See docs/models/distmult.md, "Slack".
	return Slack{0, gamma(m.config.Dim+1) * math.Sqrt(squares) * fmath.NormSlack, 0}
}

func (m *distMultModel) Reference(q kg.Query, e int32) float64 {
	h, r, t := m.rows(q, e)
	r, t = r[:len(h)], t[:len(h)]
	var sum float64
	for i := range h {
		hr := float64(h[i]) * float64(r[i])
		sum += float64(hr * float64(t[i]))
	}
	return sum
}

// The penalty frobenius of a triple is ‖h‖² + ‖r‖² + ‖t‖², n3 is the same with Σ|x|³ in place of
// ‖·‖², and dura is ‖h‖² + ‖t‖² + ‖h∘r‖² + ‖r∘t‖².

func (m *distMultModel) Training() Training {
	return Training{
		Width: m.config.Dim, EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius, N3, Dura},
		Relations: &RelationForm{m.config.Dim, (*linalg.Backend).Multiply, multiplyGradient},
	}
}

func (m *distMultModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &distMultTraining{newTableTraining(&m.Tables, b, p)}
}

type distMultTraining struct{ tableTraining }

func (w *distMultTraining) Query(psi, anchor []float32) (c, penalty float64) {
	w.backend.Multiply(psi, anchor, w.r)
	return 0, w.queryPenalty(psi)
}

// QueryGradient uses ψ = a∘r: ∂a = ∂ψ∘r and ∂r = ∂ψ∘a.
func (w *distMultTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, dPenalty float64) {
	slope := w.duraSlope(dPenalty)
	r, sum := w.r[:len(anchor)], w.sum[:len(anchor)]
	for i, a := range anchor {
		g := dPsi[i] + float32(slope*float32(a*r[i]))
		sum[i] += float32(g * a)
		dAnchor[i] = g * r[i]
	}
}

// multiplyGradient is the RelationForm.Gradient of ρ = h∘t.
func multiplyGradient(b *linalg.Backend, dHead, dTail, dRho, head, tail []float32) {
	b.Multiply(dHead, dRho, tail)
	b.Multiply(dTail, dRho, head)
}
