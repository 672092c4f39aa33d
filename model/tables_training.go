package model

import (
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// tableTraining is the common part of the TrainingWorkers of models with one row for each entity
// and each relation. Unless a model overrides its methods, φ is the entity's row, and penalties are
// sums over rows. Each model adds Query and QueryGradient.
type tableTraining struct {
	*Tables
	backend *linalg.Backend
	penalty Penalty
	// addPenalty is Penalty.add, or Penalty.addComplex for rows of complex numbers.
	addPenalty func(p Penalty, gradient, row []float32, weight float64) float64

	side kg.Side
	r    []float32 // the relation's row
	sum  []float32 // sum of the relation's gradients
}

// distanceTraining describes a model whose comparison is a distance.
func distanceTraining(d linalg.DistanceKind, width int, p ...Penalty) Training {
	return Training{Width: width, Distance: &d, Penalties: p}
}

func newTableTraining(t *Tables, b *linalg.Backend, p Penalty) tableTraining {
	return tableTraining{
		Tables: t, backend: b, penalty: p, addPenalty: Penalty.add, sum: make([]float32, t.widths[relationTable]),
	}
}

func newComplexTraining(t *Tables, b *linalg.Backend, p Penalty) tableTraining {
	w := newTableTraining(t, b, p)
	w.addPenalty = Penalty.addComplex
	return w
}

func (w *tableTraining) Features(phi []float32, e int32) { copy(phi, w.Row(entityTable, e)) }

func (w *tableTraining) FeatureGradient(dEntity, dPhi, _ []float32, _ int32) { copy(dEntity, dPhi) }

func (w *tableTraining) Begin(side kg.Side, relation int32) {
	w.side, w.r = side, w.Row(relationTable, relation)
	clear(w.sum)
}

func (w *tableTraining) End(dRelation []float32) { copy(dRelation, w.sum) }

func (w *tableTraining) EntityPenalty(dEntity []float32, e int32, weight float64) float64 {
	return w.addPenalty(w.penalty, dEntity, w.Row(entityTable, e), weight)
}

// RelationPenalty returns 0 for dura, whose relation terms belong to the queries.
func (w *tableTraining) RelationPenalty(dRelation []float32, r int32, weight float64) float64 {
	if w.penalty == Dura {
		return 0
	}
	return w.addPenalty(w.penalty, dRelation, w.Row(relationTable, r), weight)
}

// sign returns 1 for tail queries and −1 for head queries, which use the inverse of the relation.
func (w *tableTraining) sign() float32 { return float32(signOf(w.side)) }

// queryPenalty returns the query's share of dura, ‖ψ‖².
func (w *tableTraining) queryPenalty(psi []float32) float64 {
	if w.penalty != Dura {
		return 0
	}
	return w.backend.Dot(psi, psi)
}

// duraSlope returns the factor of ψ in the gradient of the query's penalty.
func (w *tableTraining) duraSlope(dPenalty float64) float32 {
	if w.penalty != Dura {
		return 0
	}
	return float32(2 * dPenalty)
}
