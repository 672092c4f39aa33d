package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// TransE (Bordes et al., 2013; docs/models/transe.md) has the score γ − ‖h + r − t‖ with the L1
// norm, as in the RotatE code, or with the L2 norm.
//
// The reference score is computed in float64, and every sum and product is rounded. With v_i = (h_i
// + r_i) − t_i, the score is, for L1, minus the chain over i from 0 of |v_i| and, for L2, minus the
// chain of v_i², without the root.
//
// Towers: q is h + r for tails and t − r for heads. L1 has ψ = q and φ = e, the entity's row. For
// L2, −‖q − e‖² = −‖q‖² + 2q·e − ‖e‖², so ψ = [2q, −1/b] and φ = [e, b‖e‖²]. Any b gives the same
// score. b is a power of two near the reciprocal of a typical ‖e‖, which makes the two parts of φ
// about equally long. ‖ψ‖‖φ‖, on which the error bounds depend, is then not much larger than the
// score.

var (
	transeL1 = transE("transe-l1", "TransE (L1)", "γ − ‖h + r − t‖₁", func(t Tables) Model {
		return &transEL1{translation{t, linalg.DistanceL1}}
	})
	transeL2 = transE("transe-l2", "TransE (L2)", "γ − ‖h + r − t‖₂", func(t Tables) Model {
		return &transEL2{translation{t, linalg.DistanceL2}, t.balance()}
	})
)

func transE(name, title, score string, build func(Tables) Model) *Spec {
	return &Spec{
		Name: name, Title: title, Score: score, MaxDim: maxVectorDim,
		Hyper:   []*HyperParameter{margin, embeddingRange},
		Tensors: vectors(1, 1),
		Recipe:  commonRecipe(map[string]string{"dim": "256"}),
		Build:   build,
		Start:   marginStart,
	}
}

// translation is the part of TransE that both norms share.
type translation struct {
	Tables
	distance linalg.DistanceKind // the distance in training
}

// terms returns the rows of a query's anchor and relation, and the sign s in q = anchor + s·relation.
func (t *translation) terms(q kg.Query) (anchor, relation []float32, s float64) {
	return t.Row(entityTable, q.Anchor), t.Row(relationTable, q.Relation), signOf(q.Side)
}

// transEL1 needs no scratch memory, so it is its own worker.
type transEL1 struct{ translation }

func (m *transEL1) Tower(kg.Side) Tower {
	return Tower{Compare: L1, Psi: m.config.Dim, Phi: m.config.Dim}
}

// Score returns γ − ‖h + r − t‖₁.
func (m *transEL1) Score(reference float64) float64 { return margin.Of(m.config) + reference }

func (m *transEL1) NewWorker(*kernel.Backend) Worker { return OneByOne(m) }

// Feature copies the entity's row. The size is the L1 norm of the row.
func (m *transEL1) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := m.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm1(row)
}

func (m *transEL1) Query(q kg.Query, psi []float32) Slack {
	anchor, r, sign := m.terms(q)
	var changes float64
	for i, a := range anchor {
		var change float64
		psi[i], change = round(float64(a) + float64(sign*float64(r[i])))
		changes += change
	}
	known := fmath.Norm1(anchor) + fmath.Norm1(r)
	// See docs/models/transe.md, "Slack".
	kappa := gamma(m.config.Dim + 4)
	return Slack{changes*fmath.NormSlack + kappa*known, kappa, 0}
}

func (m *transEL1) Reference(q kg.Query, e int32) float64 {
	h, r, t := m.rows(q, e)
	r, t = r[:len(h)], t[:len(h)]
	var sum float64
	for i := range h {
		sum += math.Abs(float64(h[i]) + float64(r[i]) - float64(t[i]))
	}
	return -sum
}

// transEL2 needs no scratch memory, so it is its own worker.
type transEL2 struct {
	translation
	b float64
}

// balance returns b: a power of two near the reciprocal of a typical ‖e‖, computed from a sample of
// at most 256 entities.
func (t *Tables) balance() float64 {
	const sample = 256
	var squares float64
	n := t.config.Entities
	step := n/sample + 1
	for e := 0; e < n; e += step {
		norm := fmath.Norm(t.Row(entityTable, int32(e)))
		squares += norm * norm
	}
	return balanceOf(squares / float64((n+step-1)/step))
}

// balanceOf returns b for a typical ‖e‖².
func balanceOf(square float64) float64 {
	if !(square > 0) {
		return 1
	}
	_, exponent := math.Frexp(math.Sqrt(square))
	return math.Ldexp(1, -max(-100, min(exponent, 100))) // b and 1/b must be float32 numbers
}

func (m *transEL2) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: m.config.Dim + 1, Phi: m.config.Dim + 1}
}

// Score returns γ − ‖h + r − t‖₂.
func (m *transEL2) Score(reference float64) float64 {
	return margin.Of(m.config) - math.Sqrt(-reference)
}

func (m *transEL2) NewWorker(*kernel.Backend) Worker { return OneByOne(m) }

// Feature writes [e, b‖e‖²]. The size is ‖e‖.
func (m *transEL2) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	return featureL2(phi, m.Row(entityTable, e), m.b)
}

// featureL2 writes [e, b‖e‖²] and returns an upper bound on ‖e‖.
func featureL2(phi, row []float32, b float64) (size float64) {
	var squares float64
	for i, v := range row {
		phi[i] = v
		squares += float64(v) * float64(v)
	}
	phi[len(row)] = float32(b * squares)
	return math.Sqrt(squares) * fmath.NormSlack
}

func (m *transEL2) Query(q kg.Query, psi []float32) Slack {
	d := m.config.Dim
	anchor, r, sign := m.terms(q)
	for i, a := range anchor {
		psi[i] = float32(2 * (float64(a) + float64(sign*float64(r[i]))))
	}
	psi[d] = float32(-1 / m.b)
	known := fmath.Norm(anchor) + fmath.Norm(r)
	// See docs/models/transe.md, "Slack".
	kappa := gamma(2*d + 12)
	return Slack{kappa * known * known, 2 * kappa * known, kappa}
}

func (m *transEL2) Reference(q kg.Query, e int32) float64 {
	h, r, t := m.rows(q, e)
	r, t = r[:len(h)], t[:len(h)]
	var sum float64
	for i := range h {
		v := float64(h[i]) + float64(r[i]) - float64(t[i])
		sum += float64(v * v)
	}
	return -sum
}

// Training compares ψ = q and φ = e by the distance in the model's norm. The penalty frobenius of a
// triple is ‖h‖² + ‖r‖² + ‖t‖², and n3 is the same with Σ|x|³ in place of ‖·‖².
func (t *translation) Training() Training {
	training := distanceTraining(t.distance, t.config.Dim, NoPenalty, Frobenius, N3)
	training.EntityRows = true
	return training
}

func (t *translation) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &transETraining{newTableTraining(&t.Tables, b, p)}
}

type transETraining struct{ tableTraining }

func (w *transETraining) Query(psi, anchor []float32) (c, penalty float64) {
	copy(psi, anchor)
	w.backend.Axpy(psi, w.sign(), w.r)
	return 0, 0
}

func (w *transETraining) QueryGradient(dAnchor, dPsi, _ []float32, _, _ float64) {
	w.backend.Axpy(w.sum, w.sign(), dPsi)
	copy(dAnchor, dPsi)
}
