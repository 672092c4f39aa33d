package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// SimplE (Kazemi and Poole, 2018; docs/models/simple.md) has the score ½ Σ (a_h r b_t + a_t r'
// b_h). The row of an entity is [a, b], its vectors as a head and as a tail. The row of a relation
// is [r, r'], its vector and the vector of its inverse.
//
// The reference score, in float64, is half the chain over i from 0 of (a_h r) b_t + (a_t r') b_h.
// The first products and the division by 2 are exact; everything else is rounded.
//
// Towers: ψ is ½[r'∘b_h, a_h∘r] for tails and ½[r∘b_t, a_t∘r'] for heads. φ is the entity's row.

var simplE = &Spec{
	Name: "simple", Title: "SimplE", Score: "½ Σ (a_h r b_t + a_t r' b_h)", MaxDim: maxVectorDim,
	Hyper: []*HyperParameter{
		rangeFrom(func(c Config) float64 { return 6 / math.Sqrt(float64(c.Dim)) }), scoreClamp,
	},
	Tensors: vectors(2, 2),
	Recipe:  productRecipe("128"),
	Build:   func(t Tables) Model { return &simplEModel{t} },
	Start:   rangeStart,
}

// Clamp is the key of the largest absolute value of a printed score.
const Clamp = "clamp"

var scoreClamp = &HyperParameter{
	Key: Clamp, Help: "largest absolute value of a printed score, or 0 for no limit; it never changes a rank",
	Most: math.MaxFloat64,
}

// simplEModel needs no scratch memory, so it is its own worker.
type simplEModel struct{ Tables }

func (m *simplEModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: 2 * m.config.Dim, Phi: 2 * m.config.Dim}
}

func (m *simplEModel) NewWorker(*kernel.Backend) Worker { return OneByOne(m) }

// Score clamps the score as the authors' code does. Rankings compare unclamped scores.
func (m *simplEModel) Score(reference float64) float64 {
	if limit := scoreClamp.Of(m.config); limit > 0 {
		return max(-limit, min(reference, limit))
	}
	return reference
}

// Feature copies the entity's row. The size is the norm of the row.
func (m *simplEModel) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := m.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm(row)
}

// directions returns the relation's vector and the vector of its inverse. It exchanges them for
// head queries, because a head query is the tail query of the inverse relation.
func directions(side kg.Side, row []float32) (forward, backward []float32) {
	forward, backward = halves(row)
	if side == kg.Head {
		return backward, forward
	}
	return forward, backward
}

func (m *simplEModel) Query(q kg.Query, psi []float32) Slack {
	a, b := halves(m.Row(entityTable, q.Anchor))
	forward, backward := directions(q.Side, m.Row(relationTable, q.Relation))
	first, second := halves(psi)
	var squares float64
	for i := range a {
		x, y := float64(b[i])*float64(backward[i])/2, float64(a[i])*float64(forward[i])/2
		first[i], second[i] = float32(x), float32(y)
		squares += x*x + y*y
	}
	// See docs/models/simple.md, "Slack".
	return Slack{0, gamma(m.config.Dim+3) * math.Sqrt(squares) * fmath.NormSlack, 0}
}

func (m *simplEModel) Reference(q kg.Query, e int32) float64 {
	h, r, t := m.rows(q, e)
	ah, bh := halves(h)
	at, bt := halves(t)
	forward, backward := halves(r)
	var sum float64
	for i := range ah {
		x, y := float64(ah[i])*float64(forward[i]), float64(at[i])*float64(backward[i])
		sum += float64(x*float64(bt[i])) + float64(y*float64(bh[i]))
	}
	return sum / 2
}

// The penalty frobenius of a triple is ‖h‖² + ‖r‖² + ‖t‖² with whole rows; n3 has Σ|x|³ in place
// of ‖·‖²; dura is ‖h‖² + ‖t‖² + ‖ψ‖² of both queries.

func (m *simplEModel) Training() Training {
	return Training{
		Width: 2 * m.config.Dim, EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius, N3, Dura},
		Relations: &RelationForm{2 * m.config.Dim, simplERho, simplERhoGradient},
	}
}

// simplERho writes ρ = ½[a_h∘b_t, a_t∘b_h].
func simplERho(_ *linalg.Backend, rho, head, tail []float32) {
	ah, bh := halves(head)
	at, bt := halves(tail)
	first, second := halves(rho)
	for i := range ah {
		first[i], second[i] = ah[i]*bt[i]/2, at[i]*bh[i]/2
	}
}

func simplERhoGradient(_ *linalg.Backend, dHead, dTail, dRho, head, tail []float32) {
	ah, bh := halves(head)
	at, bt := halves(tail)
	dah, dbh := halves(dHead)
	dat, dbt := halves(dTail)
	first, second := halves(dRho)
	for i := range ah {
		x, y := first[i]/2, second[i]/2
		dah[i], dbt[i] = x*bt[i], x*ah[i]
		dat[i], dbh[i] = y*bh[i], y*at[i]
	}
}

func (m *simplEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &simplETraining{newTableTraining(&m.Tables, b, p)}
}

type simplETraining struct{ tableTraining }

func (w *simplETraining) Query(psi, anchor []float32) (c, penalty float64) {
	a, b := halves(anchor)
	forward, backward := directions(w.side, w.r)
	first, second := halves(psi)
	for i := range a {
		first[i], second[i] = b[i]*backward[i]/2, a[i]*forward[i]/2
	}
	return 0, w.queryPenalty(psi)
}

// QueryGradient uses ψ = ½[b∘r', a∘r] for an anchor [a, b], with r and r' exchanged for heads.
func (w *simplETraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, dPenalty float64) {
	slope := w.duraSlope(dPenalty)
	a, b := halves(anchor)
	da, db := halves(dAnchor)
	forward, backward := directions(w.side, w.r)
	dForward, dBackward := directions(w.side, w.sum)
	first, second := halves(dPsi)
	for i := range a {
		// ψ contains the other factor ½.
		x := float32(first[i]/2) + float32(float32(slope*float32(b[i]*backward[i]))/4)
		y := float32(second[i]/2) + float32(float32(slope*float32(a[i]*forward[i]))/4)
		dBackward[i] += float32(x * b[i])
		dForward[i] += float32(y * a[i])
		da[i], db[i] = y*forward[i], x*backward[i]
	}
}
