package train

import (
	"context"

	"github.com/mquine/mquine/kernel/linalg"
)

// regions is the comparer for scores with regions.
type regions struct {
	region  linalg.Region
	backend *linalg.Backend
	regions *linalg.Regions
}

func (r *regions) scores(ctx context.Context, scores, psi, phi linalg.Matrix) error {
	return r.regions.Scores(ctx, scores, psi, phi)
}

func (r *regions) gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error {
	return r.regions.Gradients(ctx, dPsi, dPhi, dScores, psi, phi)
}

func (r *regions) pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32) {
	r.backend.RegionScores(r.region, scores, psi, phi, rows)
}

func (r *regions) addPsiGradient(dPsi, dScores, psi []float32, phi linalg.Matrix, rows []int32) {
	r.backend.AddRegionPsi(r.region, dPsi, dScores, psi, phi, rows)
}

func (r *regions) addPhiGradient(dPhi, dScores, phi []float32, psi linalg.Matrix, rows []int32) {
	r.backend.AddRegionPhi(r.region, dPhi, dScores, phi, psi, rows)
}
