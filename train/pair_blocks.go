package train

import "context"

// pairBlockBytes is the size of a block of feature rows whose pairs are processed together. The block
// stays in the L3 cache, beside the query vectors. The size affects how gradients of distances round,
// so it does not depend on the machine.
const pairBlockBytes = 8 << 20

// pairBlockRows returns the number of rows of Φ in a block.
func pairBlockRows(width int) int { return max(1, pairBlockBytes/(4*stride(width))) }

// pairsInBlocks reports whether the pairs of main query q are processed in blocks of feature rows.
// Independent negatives are rows in random order. If the rows exceed the cache, every pair of a query
// would wait for memory; with blocks, the pairs of all queries share what they load.
func (s *stepper) pairsInBlocks(w *workload, q int) bool {
	return len(w.parts) == 0 && q < w.main && len(w.rows) > s.pairBlockRows
}

// scorePairsOf computes the scores of the pairs of query q, unless scorePairs does so.
func (s *stepper) scorePairsOf(p *pool, w *workload, q int) {
	if s.pairsInBlocks(w, q) {
		return
	}
	from, to := w.pairsOf(q)
	p.comparer.pairScores(s.pairScores[from:to], s.psi.Row(q), s.phi, w.pairRows[from:to])
}

// scorePairs computes the scores of all pairs that are processed in blocks.
func (s *stepper) scorePairs(ctx context.Context, w *workload) error {
	return s.visitPairs(ctx, w, func(q int, from, to int32) {
		s.pool.comparer.pairScores(s.pairScores[from:to], s.psi.Row(q), s.phi, w.pairRows[from:to])
	})
}

// pairGradients computes dPsi of the queries whose pairs are processed in blocks.
func (s *stepper) pairGradients(ctx context.Context, w *workload) error {
	return s.visitPairs(ctx, w, func(q int, from, to int32) {
		dPsi := s.dPsi.Row(q)
		if from == w.pairs[q] {
			clear(dPsi)
		}
		s.pool.comparer.addPsiGradient(dPsi, s.dPairScores[from:to], s.psi.Row(q), s.phi, w.pairRows[from:to])
	})
}

// visitPairs calls visit with ranges of pairs of one query, block by block. The pairs of every query
// follow in their order. The first pair of a query, its target, belongs to the first block.
func (s *stepper) visitPairs(ctx context.Context, w *workload, visit func(q int, from, to int32)) error {
	if !s.pairsInBlocks(w, 0) {
		return nil
	}
	s.visited = append(s.visited[:0], w.pairs[:w.main]...)
	rows := s.pairBlockRows
	for first := 0; first < len(w.rows); first += rows {
		last := int32(min(first+rows, len(w.rows)))
		err := s.pool.parallel(ctx, (w.main+segmentSize-1)/segmentSize, func(_ *stepScratch, k int) {
			for q := k * segmentSize; q < min((k+1)*segmentSize, w.main); q++ {
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
