package train

import (
	"context"
	"slices"
)

// pairBlockBytes is the size of a block of feature rows whose pairs are processed together. The block
// stays in the L3 cache, beside the query vectors. The size affects how gradients of distances round,
// so it does not depend on the machine.
const pairBlockBytes = 8 << 20

// fewestPairBlocks is the least number of blocks for which they pay. With fewer, Φ stays in the L3 cache
// as a whole.
const fewestPairBlocks = 5

// pairBlockRows returns the number of rows of Φ in a block.
func pairBlockRows(width int) int { return max(1, pairBlockBytes/(4*stride(width))) }

// needsBlocks reports whether the pairs of main queries should be processed in blocks of rows of Φ.
// The negatives of a query are spread over all rows. If the rows exceed the cache, every pair would
// wait for memory; with blocks, the pairs of all queries share what they load. In return, ψ and its
// gradient are loaded for every block. Both must be worth it: a row, and a query in a block, must have
// at least four pairs on average.
func (s *stepper) needsBlocks(w *workload) bool {
	blocks := (len(w.rows) + s.pairBlockRows - 1) / s.pairBlockRows
	if len(w.parts) > 0 || w.main == 0 || blocks < s.fewestPairBlocks {
		return false
	}
	return int(w.pairs[w.main]) >= 4*max(len(w.rows), w.main*blocks)
}

// sortPairs sorts the pairs of each main query by feature row, except the first one, the target.
func (s *stepper) sortPairs(w *workload) {
	_ = s.pool.parallel(context.Background(), w.main, func(_ *stepScratch, q int) {
		from, to := w.pairsOf(q)
		slices.Sort(w.pairRows[from+1 : to])
	})
}

// pairsInBlocks reports whether the pairs of query q are processed in blocks.
func (s *stepper) pairsInBlocks(w *workload, q int) bool { return s.blocks && q < w.main }

// scorePairsOf computes the scores of the pairs of query q, unless scorePairs does so.
func (s *stepper) scorePairsOf(p *pool, w *workload, q int) {
	if !s.pairsInBlocks(w, q) {
		s.scorePairRange(p, w, q, w.pairs[q], w.pairs[q+1])
	}
}

// scorePairRange computes the scores of the given pairs, which belong to query q.
func (s *stepper) scorePairRange(p *pool, w *workload, q int, from, to int32) {
	for b := range s.lossBlocks {
		scores, psi := s.ofBlock(b, s.pairScores)[from:to], s.ofBlock(b, s.psi.Row(q))
		p.comparer.pairScores(scores, psi, s.columns(s.phi, b), w.pairRows[from:to])
	}
}

// addPairGradients adds the contributions of the given pairs, which belong to query q, to dPsi.
func (s *stepper) addPairGradients(p *pool, w *workload, q int, from, to int32) {
	for b := range s.lossBlocks {
		dPsi, dScores := s.ofBlock(b, s.dPsi.Row(q)), s.ofBlock(b, s.dPairScores)[from:to]
		psi := s.ofBlock(b, s.psi.Row(q))
		p.comparer.addPsiGradient(dPsi, dScores, psi, s.columns(s.phi, b), w.pairRows[from:to])
	}
}

// scorePairs computes the scores of all pairs that are processed in blocks.
func (s *stepper) scorePairs(ctx context.Context, w *workload) error {
	return s.visitPairs(ctx, w, func(q int, from, to int32) { s.scorePairRange(s.pool, w, q, from, to) })
}

// pairGradients computes dPsi of the queries whose pairs are processed in blocks.
func (s *stepper) pairGradients(ctx context.Context, w *workload) error {
	return s.visitPairs(ctx, w, func(q int, from, to int32) {
		if from == w.pairs[q] {
			clear(s.dPsi.Row(q))
		}
		s.addPairGradients(s.pool, w, q, from, to)
	})
}

// visitPairs calls visit with consecutive ranges of the pairs of each main query, block by block. The
// target comes first, in the first block, even if its row is in another.
func (s *stepper) visitPairs(ctx context.Context, w *workload, visit func(q int, from, to int32)) error {
	if !s.blocks {
		return nil
	}
	const queries = 16 // in a work item
	s.visited = append(s.visited[:0], w.pairs[:w.main]...)
	for first := 0; first < len(w.rows); first += s.pairBlockRows {
		last := int32(min(first+s.pairBlockRows, len(w.rows)))
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
