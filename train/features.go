package train

import (
	"context"

	"github.com/mquine/mquine/model"
)

// multipliesTable reports whether the table of entities can take the place of Φ if a step scores all
// entities. Distances and regions read the rows of Φ in place, which is faster if these begin at cache
// lines, as they do in memory for Φ alone. Products pack them first.
func multipliesTable(t model.Training) bool {
	return t.EntityRows && t.Distance == nil && t.Region == nil
}

// features computes Φ, unless it is the table of entities.
func (s *stepper) features(ctx context.Context, w *workload) error {
	if s.phiIsTable {
		return nil
	}
	if len(s.shortRowSegments) > 0 {
		return s.pool.parallel(ctx, len(s.shortRowSegments), func(c *stepScratch, k int) {
			r := s.shortRowSegments[k]
			c.prefetcher.Reset()
			c.worker.Begin(r.side, r.relation)
			for i := r.first; i < r.last; i++ {
				c.worker.Features(s.phi.Row(i), w.rows[i])
			}
		})
	}
	return s.pool.parallel(ctx, len(w.rows), func(c *stepScratch, i int) {
		s.prefetchFeatures(c, w, i)
		c.worker.Features(s.phi.Row(i), w.rows[i])
	})
}

// featureGradients computes the gradients that feature rows contribute to their entities and
// relations, if features depend on the query.
func (s *stepper) featureGradients(ctx context.Context, w *workload) error {
	n := relationSize(s.tables)
	return s.pool.parallel(ctx, len(s.shortRowSegments), func(c *stepScratch, k int) {
		r := s.shortRowSegments[k]
		c.prefetcher.Reset()
		c.worker.Begin(r.side, r.relation)
		for i := r.first; i < r.last; i++ {
			c.worker.FeatureGradient(s.dRows.Row(i), s.dPhiOf(c.dPhi, c, w, i), s.phi.Row(i), w.rows[i])
		}
		at := len(s.querySegments) + k
		c.worker.End(s.dRelations[at*n : (at+1)*n])
	})
}
