package train

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
)

// otherQueries computes the queries outside score matrices, unless forward has done so.
func (s *stepper) otherQueries(ctx context.Context, w *workload) error {
	if s.network != nil {
		return nil
	}
	return s.queries(ctx, s.pool, w, s.querySegmentsBefore(w.denseQueries()), len(s.querySegments))
}

// otherQueryGradients computes the gradients of the queries outside score matrices, unless backward
// does so.
func (s *stepper) otherQueryGradients(ctx context.Context, w *workload) error {
	if s.network != nil {
		return nil
	}
	return s.queryGradients(ctx, s.pool, w, s.querySegmentsBefore(w.denseQueries()), len(s.querySegments))
}

// queries computes Ψ for segments first ≤ i < last, and the scores of their pairs that are not in
// slices.
func (s *stepper) queries(ctx context.Context, p *pool, w *workload, first, last int) error {
	return p.parallel(ctx, last-first, func(c *stepScratch, k int) {
		i := first + k
		g, worker := s.querySegments[i], s.beginQueries(c, w, i)
		batch, isBatch := worker.(model.BatchWorker)
		if isBatch {
			c.prefetcher.Reset()
			batch.Queries(s.psi.Slice(g.first, g.last), s.anchors(c, w, g), s.queryPenalties[g.first:g.last])
			clear(s.constants[g.first:g.last])
		}
		for q := g.first; q < g.last; q++ {
			psi := s.psi.Row(q)
			if !isBatch {
				s.prefetchQuery(c, w, p, i, q)
				s.constants[q], s.queryPenalties[q] = worker.Query(psi, s.anchor(c, w, q))
			}
			s.queryDropout.apply(psi, c.pcg, w.epoch, w.step, q)
			s.scorePairsOf(w, q)
		}
		if s.duals != nil && g.first < w.main {
			s.duals.addTargets(s.queryPenalties[g.first:g.last], c, worker, s.tables[0], g.first)
		}
	})
}

// anchors returns the embeddings of a segment's anchors after dropout. The result is valid until the
// next use of c.batch.
func (s *stepper) anchors(c *stepScratch, w *workload, g querySegment) linalg.Matrix {
	anchors := c.batch.Slice(0, g.last-g.first)
	for q := g.first; q < g.last; q++ {
		copy(anchors.Row(q-g.first), s.anchor(c, w, q))
	}
	return anchors
}

// anchor returns the embedding of a query's anchor after dropout. The result is valid until the
// next call with c.
func (s *stepper) anchor(c *stepScratch, w *workload, query int) []float32 {
	row := s.tables[0].row(int(w.queries[query].Anchor))
	if s.anchorDropout.probability == 0 {
		return row
	}
	copy(c.anchor, row)
	s.anchorDropout.apply(c.anchor, c.pcg, w.epoch, w.step, query)
	return c.anchor
}

// queryGradients computes the gradients of anchors and relations from dPsi, for the segments first
// ≤ i < last. dPsi already contains the contributions of score matrices and of pairs in slices.
// queryGradients adds the contributions of other pairs.
func (s *stepper) queryGradients(ctx context.Context, p *pool, w *workload, first, last int) error {
	n, dense := relationSize(s.tables), w.denseQueries()
	return p.parallel(ctx, last-first, func(c *stepScratch, k int) {
		i := first + k
		g, worker := s.querySegments[i], s.beginQueries(c, w, i)
		dPenalties := c.dPenalties[:g.last-g.first]
		clear(dPenalties)
		if g.first < w.main {
			for j := range dPenalties {
				dPenalties[j] = s.regulariser.ofQuery(w.penaltyCounts[g.first+j])
			}
			if s.duals != nil {
				s.duals.gradients(dPenalties, c, worker, s.tables[0], g.first)
			}
		}
		batch, isBatch := worker.(model.BatchWorker)
		for q := g.first; q < g.last; q++ {
			if !isBatch {
				s.prefetchQueryGradient(c, w, p, i, q)
			}
			dPsi := s.completeDPsi(c, w, q, dense)
			if !isBatch {
				worker.QueryGradient(s.dAnchor(q), dPsi, s.anchor(c, w, q), s.dConstants[q], dPenalties[q-g.first])
			}
		}
		if isBatch {
			c.prefetcher.Reset()
			dAnchors := s.dPsi.Columns(0, s.tables[0].width).Slice(g.first, g.last)
			batch.QueryGradients(dAnchors, s.dPsi.Slice(g.first, g.last), s.anchors(c, w, g), dPenalties)
		}
		for q := g.first; q < g.last; q++ {
			s.anchorDropout.apply(s.dAnchor(q), c.pcg, w.epoch, w.step, q)
		}
		dRelation := s.dRelations[i*n : (i+1)*n]
		worker.End(dRelation)
		s.relationDropout.apply(dRelation, c.pcg, w.epoch, w.step, i)
	})
}

// beginQueries prepares a worker for the queries of segment i and returns it. With dropout, the worker
// belongs to a copy of the relation from which entries are dropped. The queries of a segment share
// these entries.
func (s *stepper) beginQueries(c *stepScratch, w *workload, i int) model.TrainingWorker {
	q := w.queries[s.querySegments[i].first]
	if s.relationDropout.probability == 0 {
		c.worker.Begin(q.Side, q.Relation)
		return c.worker
	}
	copied := c.droppedRelation.parameters
	for _, t := range s.relationTables {
		copied = copied[copy(copied, t.row(int(q.Relation))):]
	}
	s.relationDropout.apply(c.droppedRelation.parameters, c.pcg, w.epoch, w.step, i)
	c.droppedRelation.worker.Begin(q.Side, 0)
	return c.droppedRelation.worker
}

// completeDPsi adds the contributions of pairs to row q of dPsi, unless pairGradients has done so, and
// applies the dropout of ψ. The rows of queries below dense already contain the contributions of score
// matrices.
func (s *stepper) completeDPsi(c *stepScratch, w *workload, q, dense int) (dPsi []float32) {
	dPsi = s.dPsi.Row(q)
	if !s.pairsInSlices(w, q) {
		if q >= dense {
			clear(dPsi)
		}
		s.addPairGradients(w, q, w.pairs[q], w.pairs[q+1])
	}
	s.queryDropout.apply(dPsi, c.pcg, w.epoch, w.step, q)
	return dPsi
}

// dAnchor returns the gradient of query q's anchor, which overwrites the beginning of row q of
// dPsi.
func (s *stepper) dAnchor(q int) []float32 { return s.dPsi.Data[q*s.dPsi.Stride:][:s.tables[0].width] }

// querySegmentsBefore returns the number of segments before the given query, which must be the first of
// its segment.
func (s *stepper) querySegmentsBefore(query int) int {
	n, _ := slices.BinarySearchFunc(s.querySegments, query, func(g querySegment, q int) int {
		return cmp.Compare(g.first, q)
	})
	return n
}
