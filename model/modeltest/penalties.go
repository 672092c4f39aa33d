package modeltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// penalties checks every penalty of a model: the gradients equal central differences of its three terms
// (of an entity, of a relation and of a query), and the terms of entities and relations are proportional
// to their weight. Dura and Dura3 must have a term of the query. It leaves out a Network, as gradients
// does. The definition of a penalty is on the model's page, and a test of the model must check it.
func (s Subject) penalties(t *testing.T, b *kernel.Backend) {
	for _, d := range []int{1, 3} {
		if d > s.Spec.MaxDim {
			continue
		}
		m, parameters := s.model(t, d, normal(0.8))
		trainable, ok := m.(model.Trainable)
		if _, network := m.(model.Network); !ok || network {
			return
		}
		for _, penalty := range trainable.Training().Penalties {
			if penalty == model.NoPenalty {
				continue
			}
			w := trainable.NewTrainingWorker(linalg.New(b), penalty)
			name := fmt.Sprintf("d = %d, penalty %s", d, penalty)
			newPenaltyCheck(trainable, parameters, b).entity(t, w, name)
			newPenaltyCheck(trainable, parameters, b).relation(t, w, name)
			for _, side := range sides {
				value := newPenaltyCheck(trainable, parameters, b).query(t, w, side, name)
				if penalty.IsDura() {
					require.Positive(t, value, "%s, %v: the penalty of a query", name, side)
				}
			}
		}
	}
}

// The entity and the relation whose penalties are checked, and the weight of the terms.
const (
	penalisedEntity   = 5
	penalisedRelation = 2
	penaltyWeight     = 0.75
)

// penaltyCheck compares the gradients of a term with its differences.
type penaltyCheck struct{ *gradients }

func newPenaltyCheck(m model.Trainable, parameters []model.Parameter, b *kernel.Backend) penaltyCheck {
	return penaltyCheck{newGradients(m, parameters, b)}
}

func (c penaltyCheck) entity(t *testing.T, w model.TrainingWorker, name string) {
	width := c.parameters[0].Width()
	term := func(weight float64) float64 { return w.EntityPenalty(make([]float32, width), penalisedEntity, weight) }
	row := c.tensors[0][penalisedEntity*width:][:width]
	added(row, func() { w.EntityPenalty(row, penalisedEntity, penaltyWeight) })
	c.check(t, term, name+", the term of an entity")
}

func (c penaltyCheck) relation(t *testing.T, w model.TrainingWorker, name string) {
	width := relationWidth(c.parameters)
	term := func(weight float64) float64 {
		return w.RelationPenalty(make([]float32, width), penalisedRelation, weight)
	}
	gradient := make([]float32, width)
	added(gradient, func() { w.RelationPenalty(gradient, penalisedRelation, penaltyWeight) })
	c.add(gradient, penalisedRelation)
	c.check(t, term, name+", the term of a relation")
}

// added sets a gradient to what a function adds to it.
func added(gradient []float32, add func()) {
	for i := range gradient {
		gradient[i] = 1
	}
	add()
	for i := range gradient {
		gradient[i]--
	}
}

// query returns the term of a query.
func (c penaltyCheck) query(t *testing.T, w model.TrainingWorker, side kg.Side, name string) float64 {
	training, width := c.model.Training(), c.parameters[0].Width()
	anchor := c.model.Tensors()[0][penalisedEntity*width:][:width]
	psi := make([]float32, training.PsiWidth())
	term := func(weight float64) float64 {
		w.Begin(side, penalisedRelation)
		_, penalty := w.Query(psi, anchor)
		return weight * penalty
	}
	value := term(1)
	w.Begin(side, penalisedRelation)
	w.QueryGradient(c.tensors[0][penalisedEntity*width:][:width], make([]float32, training.PsiWidth()), anchor,
		0, penaltyWeight)
	c.addRelation(w, penalisedRelation)
	c.check(t, term, fmt.Sprintf("%s, %v, the term of a query", name, side))
	return value
}

// check compares the gradients of the term with penaltyWeight with its differences, for all parameters
// that a term may contain.
func (c penaltyCheck) check(t *testing.T, term func(weight float64) float64, name string) {
	one := term(1)
	require.InDelta(t, penaltyWeight*one, term(penaltyWeight), 1e-6*max(1, one),
		"%s is not proportional to its weight", name)
	rows := map[model.Axis]int{model.PerEntity: penalisedEntity, model.PerRelation: penalisedRelation}
	for i, p := range c.parameters {
		if p.Frozen {
			continue
		}
		from := rows[p.Axis] * p.Width()
		for k := range p.Width() {
			got, x := float64(c.tensors[i][from+k]), &c.model.Tensors()[i][from+k]
			want := smoothDerivative(x, func() float64 { return term(penaltyWeight) })
			require.InDelta(t, want, got, 5e-3*max(1, math.Abs(want)), "%s: tensor %s, column %d", name, p.Name, k)
		}
	}
}

// smoothDerivative returns the derivative of f with respect to x. A worker computes penalties in float32, so
// the steps are large, and Richardson's extrapolation removes the third derivative.
func smoothDerivative(x *float32, f func() float64) float64 {
	v := *x
	difference := func(step float32) float64 {
		*x = v + step
		above, width := f(), float64(*x)
		*x = v - step
		below := f()
		width -= float64(*x)
		*x = v
		return (above - below) / width
	}
	return (4*difference(0x1p-7) - difference(0x1p-6)) / 3
}
