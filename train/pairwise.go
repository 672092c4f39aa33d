package train

import (
	"context"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
)

// pairwise is the comparer of models with a PairScore. It computes one pair at a time. Every entry of
// a gradient is a sum in the order of the rows, so the results do not depend on the number of threads.
type pairwise struct {
	model.PairScore
	threads int
}

func (p *pairwise) scores(ctx context.Context, scores, psi, phi linalg.Matrix) error {
	return kernel.Parallel(ctx, p.threads, psi.Rows, func(_, i int) {
		row := scores.Row(i)
		for j := range row {
			row[j] = p.Score(psi.Row(i), phi.Row(j))
		}
	})
}

func (p *pairwise) gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error {
	return kernel.Parallel(ctx, p.threads, psi.Rows+phi.Rows, func(_, i int) {
		if i < psi.Rows {
			clear(dPsi.Row(i))
			for j, weight := range dScores.Row(i) {
				if weight != 0 {
					p.AddPsi(dPsi.Row(i), psi.Row(i), phi.Row(j), weight)
				}
			}
			return
		}
		j := i - psi.Rows
		clear(dPhi.Row(j))
		for q := range psi.Rows {
			if weight := dScores.Row(q)[j]; weight != 0 {
				p.AddPhi(dPhi.Row(j), psi.Row(q), phi.Row(j), weight)
			}
		}
	})
}

func (p *pairwise) pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32) {
	for k, row := range rows {
		scores[k] = p.Score(psi, phi.Row(int(row)))
	}
}

func (p *pairwise) addPsiGradient(dPsi, dScores, psi []float32, phi linalg.Matrix, rows []int32) {
	for k, row := range rows {
		if dScores[k] != 0 {
			p.AddPsi(dPsi, psi, phi.Row(int(row)), dScores[k])
		}
	}
}

func (p *pairwise) addPhiGradient(dPhi, dScores, phi []float32, psi linalg.Matrix, rows []int32) {
	for k, row := range rows {
		if dScores[k] != 0 {
			p.AddPhi(dPhi, psi.Row(int(row)), phi, dScores[k])
		}
	}
}
