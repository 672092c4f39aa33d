package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// ModE (Zhang et al., 2020; docs/models/mode.md) has the score γ − Σ|h_i r_i − t_i|, the modulus
// part of HAKE with signed entries.
//
// The reference score, in float64, is minus the chain over i from 0 of |h_i r_i − t_i|. The product
// is exact; the difference and the sum are rounded.
//
// Towers: tail queries have ψ = h∘r and φ = t. Head queries have ψ = t and φ = h∘r, which depends
// on the relation.

var modE = &Spec{
	Name: "mode", Title: "ModE", Score: "γ − Σ|h_i r_i − t_i|", MaxDim: maxVectorDim,
	Hyper:   []*HyperParameter{margin, embeddingRange},
	Tensors: vectors(1, 1),
	Recipe:  relationalRecipe,
	Build:   func(t Tables) Model { return &modEModel{t} },
	Start:   marginStart,
}

type modEModel struct{ Tables }

func (m *modEModel) Tower(side kg.Side) Tower {
	t := Tower{Compare: L1, Psi: m.config.Dim, Phi: m.config.Dim}
	if side == kg.Head {
		t.Features = OnRelation
	}
	return t
}

// Score returns γ − Σ|h_i r_i − t_i|.
func (m *modEModel) Score(reference float64) float64 { return margin.Of(m.config) + reference }

func (m *modEModel) NewWorker(*kernel.Backend) Worker {
	return OneByOne(&modEWorker{m, make([]float64, m.config.Dim)})
}

type modEWorker struct {
	*modEModel
	scaled []float64 // e∘r
}

// scale sets w.scaled to e∘r for an entity e.
func (w *modEWorker) scale(e, relation int32) {
	r := w.Row(relationTable, relation)
	for i, v := range w.Row(entityTable, e) {
		w.scaled[i] = float64(v) * float64(r[i])
	}
}

// Feature writes e for tails and e∘r for heads. The size is an upper bound on the L1 norm.
func (w *modEWorker) Feature(side kg.Side, relation, e int32, phi []float32) (size float64) {
	if side == kg.Head {
		w.scale(e, relation)
		return featureL1(phi, w.scaled)
	}
	row := w.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm1(row)
}

func (w *modEWorker) Query(q kg.Query, psi []float32) Slack {
	// See docs/models/mode.md, "Slack".
	kappa := gamma(w.config.Dim + 3)
	if q.Side == kg.Head {
		anchor := w.Row(entityTable, q.Anchor)
		copy(psi, anchor)
		return Slack{roundingL1(len(psi)) + kappa*fmath.Norm1(anchor), kappa + kernel.U32, 0}
	}
	w.scale(q.Anchor, q.Relation)
	var changes, known float64
	for i, v := range w.scaled {
		var change float64
		psi[i], change = round(v)
		changes += change
		known += math.Abs(v)
	}
	return Slack{(changes + kappa*known) * fmath.NormSlack, kappa, 0}
}

func (w *modEWorker) Reference(q kg.Query, e int32) float64 {
	h, r, t := w.rows(q, e)
	r, t = r[:len(h)], t[:len(h)]
	var sum float64
	for i := range h {
		sum += math.Abs(float64(float64(h[i])*float64(r[i])) - float64(t[i]))
	}
	return -sum
}

// Training uses the same ψ and φ as ranking. The penalty frobenius of a triple is ‖h‖² + ‖r‖² +
// ‖t‖², and n3 is the same with Σ|x|³ in place of ‖·‖².

func (m *modEModel) Training() Training {
	return distanceTraining(linalg.DistanceL1, m.config.Dim, NoPenalty, Frobenius, N3)
}

func (m *modEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &modETraining{newTableTraining(&m.Tables, b, p), make([]float32, m.config.Dim)}
}

type modETraining struct {
	tableTraining
	g []float32 // scratch
}

// vector writes ψ or φ of a row: row∘r for the head of a triple and the row itself for the tail.
func (w *modETraining) vector(x, row []float32, head bool) {
	copy(x, row)
	if head {
		for i, r := range w.r {
			x[i] *= r
		}
	}
}

// gradient writes ∂row, given ∂x, and adds the relation's gradient to w.sum.
func (w *modETraining) gradient(dRow, dX, row []float32, head bool) {
	copy(w.g, dX)
	if head {
		for i, g := range w.g {
			w.sum[i] += float32(g * row[i])
			w.g[i] = g * w.r[i]
		}
	}
	copy(dRow, w.g)
}

func (w *modETraining) Features(phi []float32, e int32) {
	w.vector(phi, w.Row(entityTable, e), w.side == kg.Head)
}

func (w *modETraining) FeatureGradient(dEntity, dPhi, _ []float32, e int32) {
	w.gradient(dEntity, dPhi, w.Row(entityTable, e), w.side == kg.Head)
}

func (w *modETraining) Query(psi, anchor []float32) (c, penalty float64) {
	w.vector(psi, anchor, w.side == kg.Tail)
	return 0, 0
}

func (w *modETraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	w.gradient(dAnchor, dPsi, anchor, w.side == kg.Tail)
}
