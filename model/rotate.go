package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// RotatE (Sun et al., 2019; docs/models/rotate.md) has the score γ − Σ|h_i r_i − t_i| over k
// complex numbers with |r_i| = 1. The row of an entity holds k real and then k imaginary parts. The
// row of a relation holds k phases, scaled so that the embedding range stands for π.
//
// The reference score is computed in float64, and every operation is rounded. The phase is value ·
// (π / range), and c and s are its cosine and sine by sinCos. With re = (h_re c − h_im s) − t_re
// and im = (h_re s + h_im c) − t_im, the score is minus the chain over i from 0 of √(re² + im²).
//
// rotate-l2, the RotatE of PyKEEN, takes one norm over all coordinates, so its score is γ − ‖h∘r −
// t‖₂. Its reference score is minus the chain over i from 0 of re² + im², without a root.
//
// Towers: ψ is h∘r for tails and t∘conj(r) for heads, and φ is e. In both, the imaginary part of
// each number follows its real part. rotate-l2 expands the square as TransE does: ψ = [2q, −1/b]
// and φ = [e, b‖e‖²] with q = h∘r or t∘conj(r), where all real parts precede the imaginary parts.

var (
	rotatE   = rotations("rotate", "RotatE", "γ − Σ|h_i r_i − t_i|", func(m rotatEModel) Model { return &m })
	rotatEL2 = rotations("rotate-l2", "RotatE (L2)", "γ − ‖h∘r − t‖₂", func(m rotatEModel) Model {
		m.distance = linalg.DistanceL2
		return &rotatEL2Model{m, m.balance()}
	})
)

func rotations(name, title, score string, build func(rotatEModel) Model) *Spec {
	return &Spec{
		Name: name, Title: title, Score: score, MaxDim: maxVectorDim,
		Hyper:   []*HyperParameter{margin, phaseRange},
		Tensors: inPairs(vectors(2, 1), entityTable),
		Recipe:  commonRecipe(map[string]string{"dim": "128"}),
		Build: func(t Tables) Model {
			return build(rotatEModel{phaseTable{t, math.Pi / phaseRange.Of(t.config)}, linalg.DistanceGroupNorm})
		},
		Start: marginStart,
	}
}

type rotatEModel struct {
	phaseTable
	distance linalg.DistanceKind // the distance in training
}

func (m *rotatEModel) Tower(kg.Side) Tower {
	return Tower{Compare: GroupNorm, Psi: 2 * m.config.Dim, Phi: 2 * m.config.Dim}
}

// Score returns γ − Σ|h_i r_i − t_i|.
func (m *rotatEModel) Score(reference float64) float64 { return margin.Of(m.config) + reference }

func (m *rotatEModel) NewWorker(*kernel.Backend) Worker { return OneByOne(m.newWorker()) }

func (m *rotatEModel) newWorker() *rotatEWorker {
	k := m.config.Dim
	return &rotatEWorker{rotatEModel: m, rotation: newRotation(k), re: make([]float64, k), im: make([]float64, k)}
}

type rotatEWorker struct {
	*rotatEModel
	rotation rotation
	re, im   []float64 // h∘r; after a tail query, h is that query's head
	last     lastQuery
}

// Feature interleaves the real and imaginary parts in the entity's row. The size is Σ|e_i|.
func (w *rotatEWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := w.Row(entityTable, e)
	interleave(phi, row)
	return fmath.PairNorm(halves(row))
}

func (w *rotatEWorker) Query(q kg.Query, psi []float32) Slack {
	r := w.rotation.of(&w.phaseTable, q.Relation)
	aRe, aIm := halves(w.Row(entityTable, q.Anchor))
	var changes float64
	for i := range aRe {
		a, b := float64(aRe[i]), float64(aIm[i])
		c, s := r.cos[i], r.sin[i]
		if q.Side == kg.Head { // rotate by the conjugate
			s = -s
		}
		var x, y float64
		psi[2*i], x = round(float64(a*c) - float64(b*s))
		psi[2*i+1], y = round(float64(a*s) + float64(b*c))
		changes += math.Sqrt(x*x + y*y)
	}
	// See docs/models/rotate.md, "Slack".
	kappa := gamma(w.config.Dim + 20)
	return Slack{changes*fmath.NormSlack + kappa*fmath.PairNorm(aRe, aIm), kappa, 0}
}

func (w *rotatEWorker) Reference(q kg.Query, e int32) float64 { return w.moduli(w.rotateHead(q, e)) }

// rotateHead computes h∘r for the triple that completes q with e. It writes the result to re and
// im, and returns the row of the tail.
func (w *rotatEWorker) rotateHead(q kg.Query, e int32) (t []float32) {
	r := w.rotation.of(&w.phaseTable, q.Relation)
	if q.Side == kg.Tail {
		if !w.last.keep(q) {
			w.product(w.Row(entityTable, q.Anchor), r)
		}
		return w.Row(entityTable, e)
	}
	w.last.kept = false
	w.product(w.Row(entityTable, e), r)
	return w.Row(entityTable, q.Anchor)
}

// product writes h∘r to re and im.
func (w *rotatEWorker) product(h []float32, r phases) {
	hRe, hIm := halves(h)
	for i := range hRe {
		a, b := float64(hRe[i]), float64(hIm[i])
		c, s := r.cos[i], r.sin[i]
		w.re[i] = float64(a*c) - float64(b*s)
		w.im[i] = float64(a*s) + float64(b*c)
	}
}

// moduli returns the reference score of RotatE, given t and the product h∘r in re and im.
func (w *rotatEWorker) moduli(t []float32) float64 {
	tRe, tIm := halves(t)
	var sum float64
	for i := range tRe {
		re, im := w.re[i]-float64(tRe[i]), w.im[i]-float64(tIm[i])
		sum += math.Sqrt(float64(re*re) + float64(im*im))
	}
	return -sum
}

// rotatEL2Model is rotate-l2.
type rotatEL2Model struct {
	rotatEModel
	b float64
}

func (m *rotatEL2Model) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: 2*m.config.Dim + 1, Phi: 2*m.config.Dim + 1}
}

// Score returns γ − ‖h∘r − t‖₂.
func (m *rotatEL2Model) Score(reference float64) float64 {
	return margin.Of(m.config) - math.Sqrt(-reference)
}

func (m *rotatEL2Model) NewWorker(*kernel.Backend) Worker {
	return OneByOne(&rotatEL2Worker{m.newWorker(), m.b})
}

type rotatEL2Worker struct {
	*rotatEWorker
	b float64
}

// Feature writes [e, b‖e‖²]. The size is ‖e‖.
func (w *rotatEL2Worker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	return featureL2(phi, w.Row(entityTable, e), w.b)
}

func (w *rotatEL2Worker) Query(q kg.Query, psi []float32) Slack {
	r, k := w.rotation.of(&w.phaseTable, q.Relation), w.config.Dim
	anchor := w.Row(entityTable, q.Anchor)
	aRe, aIm := halves(anchor)
	for i := range aRe {
		a, b := float64(aRe[i]), float64(aIm[i])
		c, s := r.cos[i], r.sin[i]
		if q.Side == kg.Head { // rotate by the conjugate
			s = -s
		}
		psi[i] = float32(2 * (float64(a*c) - float64(b*s)))
		psi[k+i] = float32(2 * (float64(a*s) + float64(b*c)))
	}
	psi[2*k] = float32(-1 / w.b)
	// See docs/models/rotate.md, "Slack".
	kappa, known := gamma(3*k+40), fmath.Norm(anchor)
	return Slack{kappa * known * known, 2 * kappa * known, kappa}
}

func (w *rotatEL2Worker) Reference(q kg.Query, e int32) float64 {
	tRe, tIm := halves(w.rotateHead(q, e))
	var sum float64
	for i := range tRe {
		re, im := w.re[i]-float64(tRe[i]), w.im[i]-float64(tIm[i])
		sum += float64(re*re) + float64(im*im)
	}
	return -sum
}

// Training of either model uses the ψ and φ with which RotatE ranks. rotate-l2 compares them by
// their L2 distance. Because |r_i| = 1, the penalties of a triple are sums over its entities only:
// frobenius is ‖h‖² + ‖t‖², and n3 is Σ|h_i|³ + Σ|t_i|³.

func (m *rotatEModel) Training() Training {
	return distanceTraining(m.distance, 2*m.config.Dim, NoPenalty, Frobenius, N3)
}

func (m *rotatEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	k := m.config.Dim
	return &rotatETraining{
		tableTraining: newComplexTraining(&m.Tables, b, p), unit: m.unit,
		cos: make([]float32, k), sin: make([]float32, k), dAnchor: make([]float32, 2*k),
	}
}

type rotatETraining struct {
	tableTraining
	unit     float64
	cos, sin []float32 // for the phases of the relation or, for head queries, of its inverse
	dAnchor  []float32 // scratch
}

func (w *rotatETraining) Features(phi []float32, e int32) {
	interleave(phi, w.Row(entityTable, e))
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

// QueryGradient rotates ∂ψ back by the phase θ. A change in θ moves ψ along the tangent iψ.
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

// RelationPenalty returns 0, because phases have no penalty.
func (w *rotatETraining) RelationPenalty([]float32, int32, float64) float64 { return 0 }
