package train

import (
	"context"
	"slices"

	"github.com/mquine/mquine/kernel/linalg"
)

// pairSliceBytes is the size of a slice of feature rows whose pairs are processed together. The slice
// stays in the L3 cache, beside the query vectors. The size affects how gradients of distances round,
// so it does not depend on the machine.
const pairSliceBytes = 8 << 20

// fewestSlices is the least number of slices for which they pay. With fewer, Φ stays in the L3 cache
// as a whole.
const fewestSlices = 5

// sliceRows returns the number of rows of Φ in a slice.
func sliceRows(width int) int { return max(1, pairSliceBytes/(4*linalg.LineStride(width))) }

// needsSlices reports whether the pairs of main queries should be processed in slices of rows of Φ.
// The negatives of a query are spread over all rows. If the rows exceed the cache, every pair would
// wait for memory; with slices, the pairs of all queries share what they load. In return, ψ and its
// gradient are loaded for every slice. Both must be worth it: a row, and a query in a slice, must have
// at least four pairs on average.
func (s *stepper) needsSlices(w *workload) bool {
	n := (len(w.rows) + s.sliceRows - 1) / s.sliceRows
	if len(w.matrices) > 0 || w.main == 0 || n < s.fewestSlices {
		return false
	}
	return int(w.pairs[w.main]) >= 4*max(len(w.rows), w.main*n)
}

// sortPairs sorts the pairs of each main query by feature row, except the first one, the target.
func (s *stepper) sortPairs(w *workload) {
	_ = s.pool.parallel(context.Background(), w.main, func(_ *stepScratch, q int) {
		from, to := w.pairsOf(q)
		slices.Sort(w.pairRows[from+1 : to])
	})
}

// pairsInSlices reports whether the pairs of query q are processed in slices.
func (s *stepper) pairsInSlices(w *workload, q int) bool { return s.sliced && q < w.main }

// scorePairsOf computes the scores of the pairs of query q, unless scorePairs does so.
func (s *stepper) scorePairsOf(w *workload, q int) {
	if !s.pairsInSlices(w, q) {
		s.scorePairRange(w, q, w.pairs[q], w.pairs[q+1])
	}
}

// scorePairRange computes the scores of the given pairs, which belong to query q.
func (s *stepper) scorePairRange(w *workload, q int, from, to int32) {
	for b := range s.lossBlocks {
		scores, psi := s.ofBlock(b, s.pairScores)[from:to], s.ofBlock(b, s.psi.Row(q))
		s.pool.comparer.pairScores(scores, psi, s.columns(s.phi, b), w.pairRows[from:to])
	}
}

// addPairGradients adds the contributions of the given pairs, which belong to query q, to dPsi.
func (s *stepper) addPairGradients(w *workload, q int, from, to int32) {
	for b := range s.lossBlocks {
		dPsi, dScores := s.ofBlock(b, s.dPsi.Row(q)), s.ofBlock(b, s.dPairScores)[from:to]
		psi := s.ofBlock(b, s.psi.Row(q))
		s.pool.comparer.addPsiGradient(dPsi, dScores, psi, s.columns(s.phi, b), w.pairRows[from:to])
	}
}

// scorePairs computes the scores of all pairs that are processed in slices.
func (s *stepper) scorePairs(ctx context.Context, w *workload) error {
	return s.visitPairs(ctx, w, func(q int, from, to int32) { s.scorePairRange(w, q, from, to) })
}

// pairGradients computes dPsi of the queries whose pairs are processed in slices.
func (s *stepper) pairGradients(ctx context.Context, w *workload) error {
	return s.visitPairs(ctx, w, func(q int, from, to int32) {
		if from == w.pairs[q] {
			clear(s.dPsi.Row(q))
		}
		s.addPairGradients(w, q, from, to)
	})
}

// visitPairs calls visit with consecutive ranges of the pairs of each main query, slice by slice. The
// target comes first, in the first slice, even if its row is in another.
func (s *stepper) visitPairs(ctx context.Context, w *workload, visit func(q int, from, to int32)) error {
	if !s.sliced {
		return nil
	}
	const queries = 16 // in a work item
	s.visited = append(s.visited[:0], w.pairs[:w.main]...)
	for first := 0; first < len(w.rows); first += s.sliceRows {
		last := int32(min(first+s.sliceRows, len(w.rows)))
		err := s.pool.parallel(ctx, (w.main+queries-1)/queries, func(_ *stepScratch, k int) {
			for q := k * queries; q < min((k+1)*queries, w.main); q++ {
				from, end := s.visited[q], w.pairs[q+1]
				to := from
				for to < end && (to == w.pairs[q] || w.pairRows[to] < last) {
					to++
				}
				if to > from {
					visit(q, from, to)
					s.visited[q] = to
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pairLosses computes the losses of the main queries with independent negatives. It replaces the
// scores of their pairs with derivatives of the loss.
func (s *stepper) pairLosses(ctx context.Context, w *workload) error {
	if len(w.matrices) > 0 {
		return nil
	}
	return s.pool.parallel(ctx, w.main, func(c *stepScratch, i int) {
		from, to := w.pairsOf(i)
		s.losses[i], s.dConstants[i] = 0, 0
		for b := range s.lossBlocks {
			scores := s.ofBlock(b, s.pairScores)[from:to]
			loss, dTarget := c.objective.oneTarget(scores[0], scores[1:], s.constants[i], w.weights[i])
			s.losses[i] += loss
			dScores := scores // oneTarget replaced all scores except the target's
			dScores[0] = float32(dTarget)
			s.dConstants[i] += s.backend.Sum(dScores)
		}
	})
}

// zLosses computes the loss of each Z-sample and replaces the scores with derivatives of the loss.
func (s *stepper) zLosses(ctx context.Context, w *workload) error {
	if w.main == len(w.queries) {
		return nil
	}
	first := w.pairs[w.main]
	return s.pool.parallel(ctx, len(w.queries)-w.main, func(c *stepScratch, k int) {
		i := w.main + k
		s.losses[i] = 0
		from, to := w.pairsOf(i)
		for k := from; k < to; k++ {
			loss, dScore := c.objective.zSample(s.pairScores[k], s.constants[i], w.zWeights[k-first])
			s.losses[i] += loss
			s.dPairScores[k] = float32(dScore)
		}
		s.dConstants[i] = s.backend.Sum(s.dPairScores[from:to])
	})
}
