package model

import (
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// tableTraining is the part of a TrainingWorker that models of tables share: features are the entity's row, and
// penalties are sums over the rows of the entities and the relation.
type tableTraining struct {
	*Tables
	backend *linalg.Backend
	penalty Penalty

	side kg.Side
	r    []float32 // the relation's row
	sum  []float32 // of its gradients
}

// distanceTraining describes a model that compares by a distance.
func distanceTraining(d linalg.DistanceKind, width int, p ...Penalty) Training {
	return Training{Width: width, Distance: &d, Penalties: p}
}

func newTableTraining(t *Tables, b *linalg.Backend, p Penalty) tableTraining {
	return tableTraining{Tables: t, backend: b, penalty: p, sum: make([]float32, t.widths[relationTable])}
}

func (w *tableTraining) Features(phi []float32, e int32) { copy(phi, w.Row(entityTable, e)) }

func (w *tableTraining) FeatureGradient(dEntity, dPhi, _ []float32, _ int32) { copy(dEntity, dPhi) }

func (w *tableTraining) Begin(side kg.Side, relation int32) {
	w.side, w.r = side, w.Row(relationTable, relation)
	clear(w.sum)
}

func (w *tableTraining) End(dRelation []float32) { copy(dRelation, w.sum) }

func (w *tableTraining) EntityPenalty(dEntity []float32, e int32, weight float64) float64 {
	return w.penalty.add(dEntity, w.Row(entityTable, e), weight)
}

// RelationPenalty leaves dura to the queries.
func (w *tableTraining) RelationPenalty(dRelation []float32, r int32, weight float64) float64 {
	if w.penalty == Dura {
		return 0
	}
	return w.penalty.add(dRelation, w.Row(relationTable, r), weight)
}

// sign returns −1 for head queries, which take the inverse of the relation, and 1 for tail queries.
func (w *tableTraining) sign() float32 {
	if w.side == kg.Head {
		return -1
	}
	return 1
}

// queryPenalty is the part of dura that a query has, ‖ψ‖².
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
