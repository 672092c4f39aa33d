package train

import (
	"context"

	"github.com/mquine/mquine/kernel/linalg"
)

// distances is the comparer for scores that are negated distances between ψ and φ.
type distances struct {
	kind     linalg.DistanceKind
	backend  *linalg.Backend
	distance *linalg.Distance
	kept     linalg.Matrix // a copy of the scores, for DistanceL2 only
}

// newDistances returns the comparer for the given distance and number of threads.
func newDistances(kind linalg.DistanceKind, b *linalg.Backend, threads int) *distances {
	return &distances{kind: kind, backend: b, distance: b.NewDistance(kind, threads)}
}

func (d *distances) scores(ctx context.Context, scores, psi, phi linalg.Matrix) error {
	if err := d.distance.Scores(ctx, scores, psi, phi); err != nil {
		return err
	}
	if d.kind == linalg.DistanceL2 {
		size(&d.kept, scores.Rows, scores.Cols)
		for i := range scores.Rows {
			copy(d.kept.Row(i), scores.Row(i))
		}
	}
	return nil
}

func (d *distances) gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error {
	return d.distance.Gradients(ctx, dPsi, dPhi, dScores, d.kept, psi, phi)
}

func (d *distances) pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32) {
	d.backend.DistanceScores(d.kind, scores, psi, phi, rows)
}

func (d *distances) addPsiGradient(dPsi, dScores, psi []float32, phi linalg.Matrix, rows []int32) {
	d.backend.AddDistanceGradient(d.kind, dPsi, dScores, psi, phi, rows)
}

// addPhiGradient is addPsiGradient, because distances are symmetric.
func (d *distances) addPhiGradient(dPhi, dScores, phi []float32, psi linalg.Matrix, rows []int32) {
	d.addPsiGradient(dPhi, dScores, phi, psi, rows)
}
