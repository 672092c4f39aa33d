package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// RotatE (Sun et al., 2019): score γ − Σ|h_i r_i − t_i| over k complex numbers, where |r_i| = 1. The
// row of an entity is k real, then k imaginary parts; that of a relation is k phases, scaled so that
// the embedding range stands for π.
//
// Reference, in float64, every operation rounded: the phase is value · (π / range), c and s are its
// cosine and sine by sinCos; re = (h_re c − h_im s) − t_re, im = (h_re s + h_im c) − t_im; minus the
// chain over i from 0 of √(re² + im²).
//
// Towers: q = h∘r for tails and t∘conj(r) for heads; ψ = q and φ = e, real and imaginary parts next
// to each other.

var rotatE = &Spec{
	Name: "rotate", Score: "γ − Σ|h_i r_i − t_i|", MaxDim: maxVectorDim,
	Hyper:   []*HyperParameter{margin, phaseRange},
	Tensors: vectors(2, 1),
	Recipe:  vectorRecipe(map[string]string{"dim": "128"}),
	Build:   func(t Tables) Model { return &rotatEModel{t, math.Pi / phaseRange.Of(t.config)} },
	Start:   marginStart,
}

type rotatEModel struct {
	Tables
	unit float64 // the phase that a value of 1 stands for
}

func (m *rotatEModel) Tower(kg.Side) Tower {
	return Tower{Compare: GroupNorm, Psi: 2 * m.config.Dim, Phi: 2 * m.config.Dim}
}

// Score returns γ − Σ|h_i r_i − t_i|.
func (m *rotatEModel) Score(reference float64) float64 { return margin.Of(m.config) + reference }

func (m *rotatEModel) NewWorker(*kernel.Backend) Worker {
	k := m.config.Dim
	return OneByOne(&rotatEWorker{
		rotatEModel: m, relation: -1,
		rotation: newPhases(k), re: make([]float64, k), im: make([]float64, k),
	})
}

type rotatEWorker struct {
	*rotatEModel
	relation int32
	rotation phases // of the relation
	// h∘r of the reference's tail query, if prepared.
	prepared bool
	query    kg.Query
	re, im   []float64
}

func (w *rotatEWorker) rotate(r int32) phases {
	if w.relation != r {
		w.relation = r
		w.rotation.set(w.Row(relationTable, r), w.unit)
	}
	return w.rotation
}

// Feature interleaves the entity's row; its size is Σ|e_i|.
func (w *rotatEWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	re, im := halves(w.Row(entityTable, e))
	for i := range re {
		phi[2*i], phi[2*i+1] = re[i], im[i]
	}
	return fmath.PairNorm(re, im)
}

func (w *rotatEWorker) Query(q kg.Query, psi []float32) Slack {
	r := w.rotate(q.Relation)
	aRe, aIm := halves(w.Row(entityTable, q.Anchor))
	var changes float64
	for i := range aRe {
		a, b := float64(aRe[i]), float64(aIm[i])
		c, s := r.cos[i], r.sin[i]
		if q.Side == kg.Head { // the conjugate
			s = -s
		}
		var x, y float64
		psi[2*i], x = round(float64(a*c) - float64(b*s))
		psi[2*i+1], y = round(float64(a*s) + float64(b*c))
		changes += math.Sqrt(x*x + y*y)
	}
	// docs/models/rotate.md, "Slack".
	kappa := gamma(w.config.Dim + 20)
	return Slack{changes*fmath.NormSlack + kappa*fmath.PairNorm(aRe, aIm), kappa, 0}
}

func (w *rotatEWorker) Reference(q kg.Query, e int32) float64 {
	r := w.rotate(q.Relation)
	if q.Side == kg.Tail {
		if !w.prepared || w.query != q {
			w.prepared, w.query = true, q
			w.product(w.Row(entityTable, q.Anchor), r)
		}
		return w.distance(w.Row(entityTable, e))
	}
	w.prepared = false
	w.product(w.Row(entityTable, e), r)
	return w.distance(w.Row(entityTable, q.Anchor))
}

// product computes h∘r.
func (w *rotatEWorker) product(h []float32, r phases) {
	hRe, hIm := halves(h)
	for i := range hRe {
		a, b := float64(hRe[i]), float64(hIm[i])
		c, s := r.cos[i], r.sin[i]
		w.re[i] = float64(a*c) - float64(b*s)
		w.im[i] = float64(a*s) + float64(b*c)
	}
}

// distance returns the reference score of h∘r and t.
func (w *rotatEWorker) distance(t []float32) float64 {
	tRe, tIm := halves(t)
	var sum float64
	for i := range tRe {
		re, im := w.re[i]-float64(tRe[i]), w.im[i]-float64(tIm[i])
		sum += math.Sqrt(float64(re*re) + float64(im*im))
	}
	return -sum
}

// Training: ψ = a∘(c + is), with the sine s of the inverse relation for heads, and φ are interleaved as in ranking. The
// penalties of a triple are sums over its entities, since |r_i| = 1: frobenius ‖h‖² + ‖t‖², and n3 Σ|h_i|³ + Σ|t_i|³.

func (m *rotatEModel) Training() Training {
	return distanceTraining(linalg.DistanceGroupNorm, 2*m.config.Dim, NoPenalty, Frobenius, N3)
}

func (m *rotatEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	k := m.config.Dim
	return &rotatETraining{
		tableTraining: newTableTraining(&m.Tables, b, p), unit: m.unit,
		cos: make([]float32, k), sin: make([]float32, k), dAnchor: make([]float32, 2*k),
	}
}

type rotatETraining struct {
	tableTraining
	unit     float64
	cos, sin []float32 // of the relation, or of its inverse for head queries
	dAnchor  []float32 // of a query
}

func (w *rotatETraining) Features(phi []float32, e int32) {
	re, im := halves(w.Row(entityTable, e))
	for i := range re {
		phi[2*i], phi[2*i+1] = re[i], im[i]
	}
}

func (w *rotatETraining) FeatureGradient(dEntity, dPhi, _ []float32, _ int32) {
	re, im := halves(dEntity)
	for i := range re {
		re[i], im[i] = dPhi[2*i], dPhi[2*i+1]
	}
}

func (w *rotatETraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	sign := w.sign()
	for i, v := range w.r {
		s, c := sinCos(float64(float64(v) * w.unit))
		w.cos[i], w.sin[i] = float32(c), sign*float32(s)
	}
}

func (w *rotatETraining) Query(psi, anchor []float32) (c, penalty float64) {
	re, im := halves(anchor)
	for i, a := range re {
		psi[2*i], psi[2*i+1] = rotate(a, im[i], w.cos[i], w.sin[i])
	}
	return 0, 0
}

// rotate returns (a + ib)(c + is).
func rotate(a, b, c, s float32) (re, im float32) {
	return float32(a*c) - float32(b*s), float32(a*s) + float32(b*c)
}

// QueryGradient turns ∂ψ back by the phase θ, and moves θ along the tangent iψ.
func (w *rotatETraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	re, im := halves(anchor)
	dRe, dIm := halves(w.dAnchor)
	slope := w.sign() * float32(w.unit)
	for i, a := range re {
		gx, gy := dPsi[2*i], dPsi[2*i+1]
		x, y := rotate(a, im[i], w.cos[i], w.sin[i])
		w.sum[i] += float32(slope * (float32(gy*x) - float32(gx*y)))
		dRe[i], dIm[i] = rotate(gx, gy, w.cos[i], -w.sin[i])
	}
	copy(dAnchor, w.dAnchor)
}

func (w *rotatETraining) EntityPenalty(dEntity []float32, e int32, weight float64) float64 {
	return w.penalty.addComplex(dEntity, w.Row(entityTable, e), weight)
}

// RelationPenalty is 0: phases have none.
func (w *rotatETraining) RelationPenalty([]float32, int32, float64) float64 { return 0 }
