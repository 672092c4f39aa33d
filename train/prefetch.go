package train

import "math"

// Prefetching: while a goroutine works on an item, it fetches into L2 what its next item is likely to read, spread over
// the item's products of small matrices. It changes nothing but the time.

// spread spreads what is wanted over products of small matrices, if there are any.
func (c *stepScratch) spread(products, rows int) {
	if products > 0 {
		c.ahead.SpreadOver(products, rows)
	}
}

// fetchFeatures fetches for the feature row after row i of the goroutine.
func (s *stepper) fetchFeatures(c *stepScratch, w *workload, i int) {
	c.ahead.Reset()
	if next := i + s.pool.threads(); next < len(w.rows) {
		c.ahead.Add(s.phi.Row(next))
		c.ahead.Add(s.tables[0].row(int(w.rows[next])))
		c.spread(s.towers.Features, s.towers.Rows)
	}
}

// fetchQuery fetches for the query after query q of group i, and the features of q's first pair.
func (s *stepper) fetchQuery(c *stepScratch, w *workload, p *pool, i, q int) {
	c.ahead.Reset()
	if next := s.nextQuery(c, w, p, i, q); next < len(w.queries) {
		c.ahead.Add(s.psi.Row(next))
		c.ahead.Add(s.tables[0].row(int(w.queries[next].Anchor)))
	}
	s.wantPair(c, w, q)
	c.spread(s.towers.Query, s.towers.Rows)
}

// fetchQueryGradient fetches for the query after query q of group i.
func (s *stepper) fetchQueryGradient(c *stepScratch, w *workload, p *pool, i, q int) {
	c.ahead.Reset()
	if next := s.nextQuery(c, w, p, i, q); next < len(w.queries) {
		s.wantPair(c, w, next)
		c.ahead.Add(s.dPsi.Row(next))
		c.ahead.Add(s.tables[0].row(int(w.queries[next].Anchor)))
	}
	c.spread(s.towers.QueryGradient, s.towers.Rows)
}

// fetchEntity fetches for the entity after entity k of the step, of a row's pairs the first.
func (s *stepper) fetchEntity(c *stepScratch, w *workload, k int) {
	c.ahead.Reset()
	next := k + s.pool.threads()
	if next >= len(s.used.entities) {
		return
	}
	e := s.used.entities[next]
	for _, i := range s.byEntity.of(int(e)) {
		switch i := int(i); {
		case i >= len(w.rows):
			c.ahead.Add(s.dAnchor(i - len(w.rows)))
		case i < s.dPhi.Rows:
			c.ahead.Add(s.dPhi.Row(i))
		default:
			c.ahead.Add(s.psi.Row(int(s.pairQuery[s.byRow.of(i)[0]])))
		}
	}
	c.ahead.Add(s.tables[0].row(int(e)))
	c.spread(s.towers.Features, s.towers.Rows)
}

// nextQuery returns the query after q of group i, the first of the goroutine's next group if q is the last, or a number
// beyond all queries. In that case it asks for the next group's relation too, unless it is the same.
func (s *stepper) nextQuery(c *stepScratch, w *workload, p *pool, i, q int) int {
	if q+1 < s.groups[i].last {
		return q + 1
	}
	group := i + p.threads()
	if group >= len(s.groups) {
		return math.MaxInt
	}
	next := s.groups[group].first
	if r := w.queries[next].Relation; r != w.queries[q].Relation {
		for k := range s.tables[1:] {
			c.ahead.Add(s.tables[1+k].row(int(r)))
		}
	}
	return next
}

// wantPair asks for the features of the first pair of query q.
func (s *stepper) wantPair(c *stepScratch, w *workload, q int) {
	if k := w.pairs[q]; k < w.pairs[q+1] {
		c.ahead.Add(s.phi.Row(int(w.pairRows[k])))
	}
}
