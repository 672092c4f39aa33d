package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// ComplEx (Trouillon et al., 2016; docs/models/complex.md) has the score Re Σ h_i r_i conj(t_i)
// over k complex numbers. The rows of entities and relations hold k real and then k imaginary
// parts.
//
// The reference score is computed in float64, and every product and sum is rounded. With re = h_re
// r_re − h_im r_im and im = h_re r_im + h_im r_re, it is the chain over i from 0 of re t_re + im
// t_im.
//
// Towers: ψ is [re, im] for tails and [r_re t_re + r_im t_im, r_re t_im − r_im t_re] for heads. φ
// is the entity's row.

var complEx = &Spec{
	Name: "complex", Title: "ComplEx", Score: "Re Σ h_i r_i conj(t_i)", MaxDim: maxVectorDim,
	Hyper:   []*HyperParameter{margin, embeddingRange},
	Tensors: inPairs(vectors(2, 2), entityTable, relationTable),
	Recipe:  productRecipe("128"),
	Build:   func(t Tables) Model { return &complExModel{t} },
	Start:   uniformStart,
}

// complExModel needs no scratch memory, so it is its own worker.
type complExModel struct{ Tables }

func (m *complExModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: 2 * m.config.Dim, Phi: 2 * m.config.Dim}
}

func (m *complExModel) NewWorker(*kernel.Backend) Worker { return OneByOne(m) }

// Feature copies the entity's row. The size is the norm of the row.
func (m *complExModel) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := m.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm(row)
}

func (m *complExModel) Query(q kg.Query, psi []float32) Slack {
	aRe, aIm := halves(m.Row(entityTable, q.Anchor))
	rRe, rIm := halves(m.Row(relationTable, q.Relation))
	re, im := halves(psi)
	var squares float64 // squares of the moduli |a_i||r_i|
	for i := range aRe {
		a, b := float64(aRe[i]), float64(aIm[i])
		c, d := float64(rRe[i]), float64(rIm[i])
		if q.Side == kg.Head { // multiply by the conjugate
			d = -d
		}
		re[i] = float32(float64(a*c) - float64(b*d))
		im[i] = float32(float64(a*d) + float64(b*c))
		squares += (a*a + b*b) * (c*c + d*d)
	}
	// See docs/models/complex.md, "Slack".
	return Slack{0, math.Sqrt2 * gamma(m.config.Dim+6) * math.Sqrt(squares) * fmath.NormSlack, 0}
}

func (m *complExModel) Reference(q kg.Query, e int32) float64 {
	h, r, t := m.rows(q, e)
	hRe, hIm := halves(h)
	rRe, rIm := halves(r)
	tRe, tIm := halves(t)
	var sum float64
	for i := range hRe {
		a, b := float64(hRe[i]), float64(hIm[i])
		c, d := float64(rRe[i]), float64(rIm[i])
		re := float64(a*c) - float64(b*d)
		im := float64(a*d) + float64(b*c)
		sum += float64(re*float64(tRe[i])) + float64(im*float64(tIm[i]))
	}
	return sum
}

// The penalty frobenius of a triple is ‖h‖² + ‖r‖² + ‖t‖², and n3 is the same with Σ|x|³ in place
// of ‖·‖², where |x| is the modulus of a complex number. The penalty dura is ‖h‖² + ‖t‖² + ‖h∘r‖² +
// ‖conj(r)∘t‖².

func (m *complExModel) Training() Training {
	return Training{
		Width: 2 * m.config.Dim, EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius, N3, Dura},
		Relations: &RelationForm{2 * m.config.Dim, complexRho, complexRhoGradient},
	}
}

// complexRho writes ρ = conj(h)∘t.
func complexRho(b *linalg.Backend, rho, head, tail []float32) {
	b.MultiplyComplex(rho, head, tail, true)
}

// complexRhoGradient uses ρ = conj(h)∘t: ∂h = conj(∂ρ)∘t and ∂t = h∘∂ρ.
func complexRhoGradient(b *linalg.Backend, dHead, dTail, dRho, head, tail []float32) {
	b.MultiplyComplex(dHead, dRho, tail, true)
	b.MultiplyComplex(dTail, head, dRho, false)
}

func (m *complExModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &complExTraining{newComplexTraining(&m.Tables, b, p), make([]float32, 2*m.config.Dim)}
}

type complExTraining struct {
	tableTraining
	product []float32
}

// Query computes ψ = a∘r or, for head queries, a∘conj(r).
func (w *complExTraining) Query(psi, anchor []float32) (c, penalty float64) {
	w.backend.MultiplyComplex(psi, w.r, anchor, w.side == kg.Head)
	return 0, w.queryPenalty(psi)
}

// QueryGradient uses ψ = a∘r: ∂a = ∂ψ∘conj(r) and ∂r = ∂ψ∘conj(a), with conj(r) in place of r for
// head queries.
func (w *complExTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, dPenalty float64) {
	if slope := w.duraSlope(dPenalty); slope != 0 {
		w.backend.MultiplyComplex(w.product, w.r, anchor, w.side == kg.Head)
		w.backend.Axpy(dPsi, slope, w.product)
	}
	w.backend.MultiplyComplex(w.product, anchor, dPsi, true)
	re, im := halves(w.product)
	sumRe, sumIm := halves(w.sum)
	w.backend.Axpy(sumRe, 1, re)
	w.backend.Axpy(sumIm, w.sign(), im)
	w.backend.MultiplyComplex(dAnchor, w.r, dPsi, w.side == kg.Tail)
}
