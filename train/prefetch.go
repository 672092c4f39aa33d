package train

import "math"

// Software prefetch: while a goroutine computes an item, it fetches the operands of its next item
// into L2. It spreads the fetches over the products of small matrices that the item needs, because
// a burst of fetches would stall it. The fetches affect only the running time.

// prefetchFeatures fetches the operands of the feature row that the goroutine computes after row i.
func (s *stepper) prefetchFeatures(c *stepScratch, w *workload, i int) {
	c.prefetcher.Reset()
	if next := i + s.pool.threads(); next < len(w.rows) {
		c.prefetcher.Add(s.phi.Row(next))
		c.prefetcher.Add(s.tables[0].row(int(w.rows[next])))
		c.spread(s.towers.Features, s.towers.Rows)
	}
}

// prefetchQuery fetches the operands of the query after query q of segment i, and the features of
// q's first pair, unless the pairs are in slices.
func (s *stepper) prefetchQuery(c *stepScratch, w *workload, p *pool, i, q int) {
	c.prefetcher.Reset()
	if next := s.nextQuery(c, w, p, i, q); next < len(w.queries) {
		c.prefetcher.Add(s.psi.Row(next))
		c.prefetcher.Add(s.tables[0].row(int(w.queries[next].Anchor)))
	}
	s.addFirstPair(c, w, q)
	c.spread(s.towers.Query, s.towers.Rows)
}

// prefetchQueryGradient fetches the operands for the gradient of the query after query q of segment
// i.
func (s *stepper) prefetchQueryGradient(c *stepScratch, w *workload, p *pool, i, q int) {
	c.prefetcher.Reset()
	if next := s.nextQuery(c, w, p, i, q); next < len(w.queries) {
		s.addFirstPair(c, w, next)
		c.prefetcher.Add(s.dPsi.Row(next))
		c.prefetcher.Add(s.tables[0].row(int(w.queries[next].Anchor)))
	}
	c.spread(s.towers.QueryGradient, s.towers.Rows)
}

// prefetchEntity fetches the operands of the entity that the goroutine updates after entity k of
// the step. For a feature row outside score matrices, it fetches only the query vector of the first pair.
func (s *stepper) prefetchEntity(c *stepScratch, w *workload, k int) {
	c.prefetcher.Reset()
	next := k + s.pool.threads()
	if next >= len(s.used.entities) {
		return
	}
	for _, i := range s.byEntity.of(next) {
		switch i := int(i); {
		case i >= len(w.rows):
			c.prefetcher.Add(s.otherTerm(w, i))
		case len(s.shortRowSegments) > 0:
			c.prefetcher.Add(s.dRows.Row(i))
		case i < s.dPhi.Rows:
			c.prefetcher.Add(s.dPhi.Row(i))
		default:
			c.prefetcher.Add(s.psi.Row(int(s.pairQuery[s.byRow.of(i)[0]])))
		}
	}
	c.prefetcher.Add(s.tables[0].row(int(s.used.entities[next])))
	c.spread(s.towers.Features, s.towers.Rows)
}

// nextQuery returns the query that the goroutine computes after query q of segment i, or a number
// beyond all queries. If that query has a different relation, nextQuery also fetches the relation.
func (s *stepper) nextQuery(c *stepScratch, w *workload, p *pool, i, q int) int {
	if q+1 < s.querySegments[i].last {
		return q + 1
	}
	i += p.threads()
	if i >= len(s.querySegments) {
		return math.MaxInt
	}
	next := s.querySegments[i].first
	if r := w.queries[next].Relation; r != w.queries[q].Relation {
		for k := range s.relationTables {
			c.prefetcher.Add(s.relationTables[k].row(int(r)))
		}
	}
	return next
}

// addFirstPair fetches the features of the first pair of query q.
func (s *stepper) addFirstPair(c *stepScratch, w *workload, q int) {
	if k := w.pairs[q]; k < w.pairs[q+1] && !s.pairsInSlices(w, q) {
		c.prefetcher.Add(s.phi.Row(int(w.pairRows[k])))
	}
}

// spread spreads the fetches over the given number of products of small matrices, if that number is
// positive.
func (c *stepScratch) spread(products, rows int) {
	if products > 0 {
		c.prefetcher.SpreadOver(products, rows)
	}
}
