package train

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train/recipe"
)

// computeMatrices computes the queries, losses and gradients of the score matrices, one matrix after the
// other, so the data of a matrix stays in a near cache. Two matrices of the same size run concurrently,
// each on half of the threads.
func (s *stepper) computeMatrices(ctx context.Context, w *workload) error {
	pools := []*pool{s.pool}
	if len(w.matrices) == 2 && s.halves != nil {
		pools = s.halves
	}
	errs := make([]error, len(w.matrices))
	err := kernel.Parallel(ctx, len(pools), len(w.matrices), func(worker, i int) {
		errs[i] = s.computeQueriesAndMatrix(ctx, pools[worker], w, w.matrices[i])
	})
	return cmp.Or(append(errs, err)...)
}

// computeQueriesAndMatrix computes the queries, losses and gradients of a score matrix.
func (s *stepper) computeQueriesAndMatrix(ctx context.Context, p *pool, w *workload, m scoreMatrix) error {
	if s.network != nil { // forward has computed the queries, and backward computes their gradients
		return s.computeMatrix(ctx, p, w, m)
	}
	first, last := s.querySegmentsBefore(m.query), s.querySegmentsBefore(m.lastQuery)
	if err := s.queries(ctx, p, w, first, last); err != nil {
		return err
	}
	if err := s.computeMatrix(ctx, p, w, m); err != nil {
		return err
	}
	return s.queryGradients(ctx, p, w, first, last)
}

// computeMatrix computes the scores and losses of a matrix, and the gradients with respect to its Ψ
// and Φ. With block_losses, it does so for one block of the model after the other.
func (s *stepper) computeMatrix(ctx context.Context, p *pool, w *workload, m scoreMatrix) error {
	psi, phi := s.psi.Slice(m.query, m.lastQuery), s.phi.Slice(m.row, m.lastRow)
	dPsi, dPhi := s.dPsi.Slice(m.query, m.lastQuery), s.dPhi.Slice(m.row, m.lastRow)
	p.scores.Resize(psi.Rows, phi.Rows)
	for i := range s.lossBlocks {
		if err := p.comparer.scores(ctx, p.scores, s.columns(psi, i), s.columns(phi, i)); err != nil {
			return err
		}
		if err := s.denseLosses(ctx, p, w, m, i); err != nil {
			return err
		}
		dScores := p.scores // denseLosses replaced the scores
		err := p.comparer.gradients(ctx, s.columns(dPsi, i), s.columns(dPhi, i), dScores,
			s.columns(psi, i), s.columns(phi, i))
		if err != nil {
			return err
		}
	}
	return nil
}

// columns returns the columns of feature vectors or query vectors that belong to a block of the model
// with a separate loss.
func (s *stepper) columns(m linalg.Matrix, block int) linalg.Matrix {
	width := m.Cols / s.lossBlocks
	return m.Columns(block*width, (block+1)*width)
}

// ofBlock returns the values that belong to a block of the model with a separate loss, from a feature
// vector, a query vector or pairScores.
func (s *stepper) ofBlock(block int, values []float32) []float32 {
	n := len(values) / s.lossBlocks
	return values[block*n : (block+1)*n]
}

// denseLosses computes the losses of a matrix's queries, and adds them to the losses of the model's
// blocks before the given one. It replaces each score with the derivative of the loss with respect to
// that score.
func (s *stepper) denseLosses(ctx context.Context, p *pool, w *workload, m scoreMatrix, modelBlock int) error {
	return p.parallel(ctx, p.scores.Rows, func(c *stepScratch, k int) {
		i, scores := m.query+k, p.scores.Row(k)
		var loss, dConstant float64
		switch s.config.Negatives {
		case recipe.KvsAll:
			loss = c.objective.manyTargets(scores, w.targets(i), s.constants[i], w.weights[i])
			dConstant = s.backend.Sum(scores)
		case recipe.OneVsAll:
			target := &scores[w.answers[i]] // row e is entity e
			loss, _ = s.denseLoss(c, w, i, m, target, scores)
			dConstant = s.backend.Sum(scores)
		default:
			target := &s.ofBlock(modelBlock, s.pairScores)[w.pairs[i]]
			loss, dConstant = s.denseLoss(c, w, i, m, target, scores)
			dConstant += s.backend.Sum(scores)
		}
		if modelBlock > 0 {
			loss += s.losses[i]
			dConstant += s.dConstants[i]
		}
		s.losses[i], s.dConstants[i] = loss, dConstant
	})
}

// denseLoss computes the loss of main query i and replaces the scores of its target and negatives
// with derivatives of the loss. It also returns the derivative for the target.
func (s *stepper) denseLoss(
	c *stepScratch, w *workload, i int, m scoreMatrix, target *float32, scores []float32,
) (loss, dTarget float64) {
	score := *target
	s.exclude(w, i, m, scores)
	loss, dTarget = c.objective.oneTarget(score, scores, s.constants[i], w.weights[i])
	*target = float32(dTarget)
	return loss, dTarget
}

// exclude masks the scores of entities that are not negatives of main query i. The candidates of a matrix
// are in ascending order, so if there are as many as entities, candidate e is entity e.
func (s *stepper) exclude(w *workload, i int, m scoreMatrix, scores []float32) {
	candidates := w.rows[m.row:m.lastRow]
	all := len(candidates) == s.tables[0].rows()
	remove := func(e int32) {
		if all {
			scores[e] = excluded
		} else if k, found := slices.BinarySearch(candidates, e); found {
			scores[k] = excluded
		}
	}
	remove(w.answers[i])
	if !s.config.Filter {
		return
	}
	known := s.known.Answers(w.queries[i])
	if len(known.Entities) > len(candidates) { // the anchor is a hub: search the longer list
		for k, e := range candidates {
			if isTrainAnswer(known, e) {
				scores[k] = excluded
			}
		}
		return
	}
	for k, e := range known.Entities {
		if known.Splits[k].Has(kg.Train) {
			remove(e)
		}
	}
}
