package model

import (
	"fmt"
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// A model with reciprocal relations can score a triple in both directions: (h, r, t) as an answer to
// (h, r, ?), and the inverse triple (t, r⁻¹, h), whose parameters were trained with other queries.
// With Config.InverseWeight w > 0, the score is the weighted mean of the two,
//
//	(1 − w) s(h, r, t) + w s(t, r⁻¹, h)   for (h, r, ?),
//	(1 − w) s(t, r⁻¹, h) + w s(h, r, t)   for (?, r, t),
//
// where s is the reference score of the underlying model: with an L2 norm, the negative squared distance.
// In the second term of both, the candidate is the
// head of a triple of the underlying model. If the candidates of both sides have the same φ, the
// two dot products are one, of the weighted mean of the two ψ with φ (docs/models/ensemble.md,
// "Both directions").
//
// The reference score is the float64 chain of the two terms, as in an ensemble. Training computes
// gradients of one direction at a time, as without a weight.

// WithInverseWeight returns the model m, which must have reciprocal relations, with another weight of
// the inverse triple. The result shares the parameters of m.
func WithInverseWeight(m Model, weight float64) (Model, error) {
	c := m.Config()
	c.InverseWeight = weight
	return New(c, m.Tensors())
}

// checkInverseWeight returns an error if the configuration cannot have its InverseWeight, for reasons
// that do not depend on the towers.
func (c Config) checkInverseWeight() error {
	switch w := c.InverseWeight; {
	case !(w >= 0 && w <= 1):
		return fmt.Errorf("model %s: inverse_weight is %v: it must be from 0 to 1", c.Model, w)
	case w > 0 && !c.Reciprocal:
		return fmt.Errorf("model %s: inverse_weight is %v, but the model has no reciprocal relations: "+
			"set inverse_weight to 0", c.Model, w)
	}
	return nil
}

// bothDirections returns the two directions of m as members of an ensemble. m is a model with
// reciprocal relations and a weight of the inverse triple.
func (m *reciprocal) bothDirections() ([]Member, error) {
	tail, head := m.Model.Tower(kg.Tail), m.Model.Tower(kg.Head)
	switch {
	case tail.Compare != Dot:
		return nil, fmt.Errorf("model %s: inverse_weight needs scores that are dot products, but the comparison "+
			"is %s: set it to 0", m.config.Model, tail.Compare)
	case tail != head || tail.Features != OnEntity:
		return nil, fmt.Errorf("model %s: inverse_weight needs candidates with the same features on both sides: "+
			"set it to 0", m.config.Model)
	}
	w, c := m.config.InverseWeight, m.config
	c.InverseWeight = 0
	direct := &reciprocal{Model: m.Model, config: c}
	return []Member{
		{Model: direct, Weight: 1 - w},
		{Model: inverse{direct}, Weight: w},
	}, nil
}

// inverse is a model with reciprocal relations that answers (h, r, ?) with the scores of the triples
// (?, r⁻¹, h), and (?, r, t) with the scores of (?, r, t).
type inverse struct{ *reciprocal }

func (m inverse) Tower(kg.Side) Tower { return m.Model.Tower(kg.Head) }

func (m inverse) NewWorker(b *kernel.Backend) Worker { return inverseWorker{m.Model.NewWorker(b)} }

type inverseWorker struct{ inner Worker }

func (w inverseWorker) Features(side kg.Side, relation int32, entities []int32, phi Rows, sizes []float64) {
	w.inner.Features(kg.Head, reciprocalOf(side.Opposite(), relation), entities, phi, sizes)
}

func (w inverseWorker) Queries(side kg.Side, relation int32, anchors []int32, psi Rows, slacks []Slack) {
	w.inner.Queries(kg.Head, reciprocalOf(side.Opposite(), relation), anchors, psi, slacks)
}

func (w inverseWorker) Reference(q kg.Query, e int32) float64 {
	q.Relation, q.Side = reciprocalOf(q.Side.Opposite(), q.Relation), kg.Head
	return w.inner.Reference(q, e)
}

// directionsWorker is the worker of a model that scores in both directions. It computes like an
// ensemble, but adds up the members' ψ instead of joining them.
type directionsWorker struct {
	ensembleWorker
	inverse []float32 // w ψ of the inverse triples
}

// Features writes the φ that both directions have. As in an ensemble, the size is at least the norm
// of φ before the rounding to float32.
func (w *directionsWorker) Features(side kg.Side, relation int32, entities []int32, phi Rows, sizes []float64) {
	w.members[0].worker.Features(side, relation, entities, phi, sizes)
	for k := range entities {
		sizes[k] = max(sizes[k], beforeRounding(phi.Row(k)))
	}
}

// Queries writes the sum of the members' w ψ. Rankings account for the rounding of the sum, but no
// longer for the first rounding of the members' ψ (docs/models/ensemble.md, "Both directions").
func (w *directionsWorker) Queries(side kg.Side, relation int32, anchors []int32, psi Rows, slacks []Slack) {
	w.inverse = grow(w.inverse, len(anchors)*psi.Width)
	inverse := Rows{Values: w.inverse, Width: psi.Width, Stride: psi.Width}
	w.begin(slacks[:len(anchors)])
	w.queries(&w.members[0], side, relation, anchors, psi, slacks)
	w.queries(&w.members[1], side, relation, anchors, inverse, slacks)
	zeros := tiny32 * math.Sqrt(float64(psi.Width))
	for k := range anchors {
		direct, inverse := psi.Row(k), inverse.Row(k)
		norms := beforeRounding(direct) + beforeRounding(inverse)
		slacks[k][1] += (kernel.U32*norms + 2*zeros) * fmath.NormSlack
		for i, v := range inverse {
			direct[i] += v
		}
	}
}
