package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// pRotatE (Sun et al., 2019; docs/models/protate.md) has the score γ − m Σ|sin(θ_h + θ_r − θ_t)|
// over d phases, with a modulus m > 0. The rows of entities and relations hold phases, scaled so
// that the embedding range stands for π.
//
// The reference score is computed in float64, and every operation is rounded. The phase is value ·
// (π / range), with π as mistyped in the authors' code (mistypedPi). c and s are its cosine and
// sine by sinCos. By the addition theorems x = s_h c_r + c_h s_r, y = c_h c_r − s_h s_r and v = x
// c_t − y s_t. The score is minus the chain over i from 0 of |v_i|. It does not include the
// modulus, which would only add another rounding to every score.
//
// Towers: φ holds the pairs (cos θ_e, sin θ_e). Tail queries have ψ = (sin α, −cos α) with α = θ_h
// + θ_r. Head queries have ψ = (sin α, cos α) with α = θ_r − θ_t.

var pRotatE = &Spec{
	Name: "protate", Title: "pRotatE", Score: "γ − m Σ|sin(θ_h + θ_r − θ_t)|", MaxDim: maxVectorDim,
	Hyper: []*HyperParameter{margin, phaseRange, modulus},
	Tensors: func(c Config) []Parameter {
		list := vectors(1, 1)(c)
		list[entityTable].Scatter = initial.NearbyPhases(phaseRange.Of(c))
		return list
	},
	// Training does not change the modulus. A larger γ gives a larger modulus, and scores then
	// differ enough for a softmax.
	Recipe: commonRecipe(map[string]string{"dim": "128", "gamma": "40"}),
	Build:  func(t Tables) Model { return &pRotatEModel{phaseTable{t, mistypedPi / phaseRange.Of(t.config)}} },
	Start:  marginStart,
}

// modulus is the factor m of the distance, or 0 if it is unknown.
var modulus = &HyperParameter{
	Key: "modulus", Help: "factor of the distance, 0 if unknown; it never changes a rank",
	Missing: "the checkpoint lacks the modulus of pRotatE: scores are −Σ|sin(θ_h + θ_r − θ_t)|; " +
		"ranks do not depend on it",
	Initial: func(c Config) float64 { return 0.5 * phaseRange.Of(c) }, Least: 0, Most: math.MaxFloat64,
}

// mistypedPi is π with the wrong digits of the authors' code.
const mistypedPi = 3.14159262358979323846

type pRotatEModel struct{ phaseTable }

func (m *pRotatEModel) Tower(kg.Side) Tower {
	return Tower{Compare: Phase, Psi: 2 * m.config.Dim, Phi: 2 * m.config.Dim}
}

// Score returns γ − m Σ|sin(θ_h + θ_r − θ_t)|, or −Σ|sin(θ_h + θ_r − θ_t)| if m is unknown.
func (m *pRotatEModel) Score(reference float64) float64 {
	factor := modulus.Of(m.config)
	if factor == 0 {
		return reference
	}
	return margin.Of(m.config) + float64(factor*reference)
}

func (m *pRotatEModel) NewWorker(*kernel.Backend) Worker {
	d := m.config.Dim
	return OneByOne(&pRotatEWorker{
		pRotatEModel: m, rotation: newRotation(d),
		anchor: newPhases(d), entity: newPhases(d), sum: newPhases(d),
	})
}

type pRotatEWorker struct {
	*pRotatEModel
	rotation rotation
	entity   phases // scratch
	// anchor holds the phases of the last query's anchor. sum holds x and y of a head and a
	// relation; after a tail query, these are the head and the relation of the query.
	last        lastQuery
	anchor, sum phases
}

// Feature writes cosines and sines. The size is the sum of the changes from rounding φ to float32.
func (w *pRotatEWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	w.entity.set(w.Row(entityTable, e), w.unit)
	var changes float64
	for i, c := range w.entity.cos {
		var x, y float64
		phi[2*i], x = round(c)
		phi[2*i+1], y = round(w.entity.sin[i])
		changes += math.Sqrt(x*x + y*y)
	}
	return changes * fmath.NormSlack
}

func (w *pRotatEWorker) Query(q kg.Query, psi []float32) Slack {
	r := w.rotation.of(&w.phaseTable, q.Relation)
	w.entity.set(w.Row(entityTable, q.Anchor), w.unit)
	var changes float64
	for i, c := range w.entity.cos {
		s := w.entity.sin[i]
		if q.Side == kg.Head {
			s = -s
		}
		var x, y float64
		cos := float64(c*r.cos[i]) - float64(s*r.sin[i])
		if q.Side == kg.Tail {
			cos = -cos
		}
		psi[2*i], x = round(float64(s*r.cos[i]) + float64(c*r.sin[i]))
		psi[2*i+1], y = round(cos)
		changes += math.Sqrt(x*x + y*y)
	}
	// See docs/models/protate.md, "Slack".
	const second = 1 + 1e-6 // bounds the norms of pairs
	d := w.config.Dim
	return Slack{changes*second + float64(d)*gamma(d+20), second, 0}
}

func (w *pRotatEWorker) Reference(q kg.Query, e int32) float64 {
	r := w.rotation.of(&w.phaseTable, q.Relation)
	if !w.last.keep(q) {
		w.anchor.set(w.Row(entityTable, q.Anchor), w.unit)
		if q.Side == kg.Tail {
			w.sum.add(w.anchor, r)
		}
	}
	w.entity.set(w.Row(entityTable, e), w.unit)
	tail := w.entity
	if q.Side == kg.Head {
		w.sum.add(w.entity, r)
		tail = w.anchor
	}
	var sum float64
	for i, x := range w.sum.sin {
		sum += math.Abs(float64(x*tail.cos[i]) - float64(w.sum.cos[i]*tail.sin[i]))
	}
	return -sum
}

// add sets p to the sums of the phases a and b.
func (p phases) add(a, b phases) {
	for i := range p.cos {
		p.sin[i] = float64(a.sin[i]*b.cos[i]) + float64(a.cos[i]*b.sin[i])
		p.cos[i] = float64(a.cos[i]*b.cos[i]) - float64(a.sin[i]*b.sin[i])
	}
}

// Training uses the same φ as ranking, and multiplies ψ by the modulus m, so the score is −m
// Σ|sin(θ_h + θ_r − θ_t)|. The modulus stays fixed. Phases have no penalty.

func (m *pRotatEModel) Training() Training {
	return distanceTraining(linalg.DistancePhase, 2*m.config.Dim, NoPenalty)
}

func (m *pRotatEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &pRotatETraining{newTableTraining(&m.Tables, b, p), m.unit, float32(modulus.Of(m.config))}
}

type pRotatETraining struct {
	tableTraining
	unit    float64
	modulus float32
}

func (w *pRotatETraining) Features(phi []float32, e int32) {
	for i, v := range w.Row(entityTable, e) {
		s, c := sinCos(float64(float64(v) * w.unit))
		phi[2*i], phi[2*i+1] = float32(c), float32(s)
	}
}

func (w *pRotatETraining) FeatureGradient(dEntity, dPhi, phi []float32, _ int32) {
	unit := float32(w.unit)
	for i := range dEntity {
		cos, sin := phi[2*i], phi[2*i+1]
		dEntity[i] = unit * (float32(dPhi[2*i+1]*cos) - float32(dPhi[2*i]*sin))
	}
}

// phase returns m times the sine and the cosine of the phase α of ψ.
func (w *pRotatETraining) phase(anchor []float32, i int) (sin, cos float32) {
	s, c := sinCos(float64((float64(w.r[i]) + float64(float64(w.sign())*float64(anchor[i]))) * w.unit))
	return w.modulus * float32(s), w.modulus * float32(c)
}

func (w *pRotatETraining) Query(psi, anchor []float32) (c, penalty float64) {
	sign := w.sign()
	for i := range anchor {
		sin, cos := w.phase(anchor, i)
		psi[2*i], psi[2*i+1] = sin, -sign*cos
	}
	return 0, 0
}

func (w *pRotatETraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	sign, unit := w.sign(), float32(w.unit)
	for i := range anchor {
		sin, cos := w.phase(anchor, i)
		g := float32(unit * (float32(dPsi[2*i]*cos) + float32(sign*dPsi[2*i+1]*sin)))
		w.sum[i] += g
		dAnchor[i] = sign * g
	}
}
