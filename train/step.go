package train

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// stepper computes the loss of a workload and its gradients (docs/training.md).
type stepper struct {
	config  *recipe.Recipe
	known   *kg.Index
	model   model.Trainable
	towers  model.Training
	tables  []parameterTable
	backend *linalg.Backend
	pool    *pool   // all threads
	halves  []*pool // half of them each, where two blocks can be taken at once

	ofQuery, ofAnchor dropout
	regulariser       *regulariser

	phi, psi   linalg.Matrix // features and queries
	dPhi, dPsi linalg.Matrix // of Φ, the rows of blocks alone
	constants  []float64     // c of each query
	dConstants []float64
	// Scores of the pairs and, in their place once a loss has read them, the derivatives of the loss.
	pairScores, dPairScores []float32
	pairQuery               []int32   // the query of each pair
	losses                  []float64 // of each query

	groups     []group
	dRelations []float32 // gradients of each group's relation
	byRow      csr       // pairs by feature row
	byEntity   csr       // feature rows, and then queries, by entity
	byRelation csr       // groups by relation
	keys       []int32

	used      usedRows
	penalties []float64 // of used.entities, then used.relations
	ofQueries []float64 // the penalty of each query
}

// group is a run of queries with the same side and relation, no longer than groupSize. The gradients
// of a relation are added up group by group, so that the order does not depend on the threads.
type group struct{ first, last int }

const groupSize = 16

func newStepper(c *recipe.Recipe, b *linalg.Backend, threads int, known *kg.Index, m model.Trainable, tables []parameterTable) *stepper {
	s := &stepper{
		config: c, known: known, model: m, towers: m.Training(), tables: tables, backend: b,
		ofQuery:     dropout{c.Dropout, c.Seed, useDropout},
		ofAnchor:    dropout{c.EntityDropout, c.Seed, useEntityDropout},
		regulariser: newRegulariser(c, m.Config().Entities, m.Config().Relations),
	}
	all := make([]stepScratch, threads)
	for i := range all {
		all[i] = newStepScratch(c, b, m, tables)
	}
	s.pool = newPool(c, b, m, all)
	if threads%2 == 0 && c.Negatives == recipe.SharedNegatives && c.Distribution != recipe.Bernoulli { // two blocks, alike
		s.halves = []*pool{newPool(c, b, m, all[:threads/2]), newPool(c, b, m, all[threads/2:])}
	}
	return s
}

// begin sizes the memory for a step, and returns the rows that it uses.
func (s *stepper) begin(w *workload) usedRows {
	size(&s.phi, len(w.rows), s.towers.Width)
	size(&s.dPhi, w.blockRows(), s.towers.Width)
	size(&s.psi, len(w.queries), s.towers.Width)
	size(&s.dPsi, len(w.queries), s.towers.Width)
	s.constants = resize(s.constants, len(w.queries))
	s.dConstants = resize(s.dConstants, len(w.queries))
	s.ofQueries = resize(s.ofQueries, len(w.queries))
	s.losses = resize(s.losses, len(w.queries))
	s.pairScores = resize(s.pairScores, len(w.pairRows))
	s.dPairScores = s.pairScores
	s.groupQueries(w)
	s.dRelations = resize(s.dRelations, len(s.groups)*relationWidth(s.tables))

	s.keys = append(s.keys[:0], w.rows...)
	for _, q := range w.queries {
		s.keys = append(s.keys, q.Anchor)
	}
	s.used.entities = s.byEntity.distinct(s.used.entities[:0], s.tables[0].rows(), s.keys)
	s.keys = s.keys[:0]
	for _, g := range s.groups {
		s.keys = append(s.keys, w.queries[g.first].Relation)
	}
	s.used.relations = s.byRelation.distinct(s.used.relations[:0], s.tables[1].rows(), s.keys)
	s.penalties = resize(s.penalties, len(s.used.entities)+len(s.used.relations))

	if len(w.pairRows) > 0 {
		s.pairQuery = resize(s.pairQuery, len(w.pairRows))
		for i := range w.queries {
			for k := w.pairs[i]; k < w.pairs[i+1]; k++ {
				s.pairQuery[k] = int32(i)
			}
		}
		s.byRow.build(len(w.rows), w.pairRows)
	}
	return s.used
}

func (s *stepper) groupQueries(w *workload) {
	s.groups = s.groups[:0]
	for i, q := range w.queries {
		n := len(s.groups)
		if n > 0 && i != w.main {
			g := &s.groups[n-1]
			last := w.queries[g.last-1]
			if last.Side == q.Side && last.Relation == q.Relation && g.last-g.first < groupSize {
				g.last++
				continue
			}
		}
		s.groups = append(s.groups, group{i, i + 1})
	}
}

// run computes the loss and the gradients of w, the workload that begin was given, and hands the gradients to sink. A
// loss that is not finite has no gradients.
func (s *stepper) run(ctx context.Context, w *workload, sink gradientSink) (Loss, error) {
	s.regulariser.begin(w.epoch, w.positives)
	defer s.regulariser.end(w.positives)
	blocked := s.groupsBefore(w.blockQueries())
	stages := []func() error{
		func() error { return s.features(ctx, w) },
		func() error { return s.blocks(ctx, w) },
		func() error { return s.queries(ctx, s.pool, w, blocked, len(s.groups)) },
	}
	if len(w.blocks) == 0 {
		stages = append(stages, func() error { return s.pairLosses(ctx, w) })
	}
	stages = append(stages,
		func() error { return s.zLosses(ctx, w) },
		func() error { return s.queryGradients(ctx, s.pool, w, blocked, len(s.groups)) },
	)
	for _, stage := range stages {
		if err := stage(); err != nil {
			return Loss{}, err
		}
	}
	var loss Loss
	for i, l := range s.losses {
		if i < w.main {
			loss.Fit += l
		} else {
			loss.Z += l
		}
	}
	loss.Total = loss.Fit + loss.Z
	if !loss.finite() {
		return loss, nil
	}
	err := s.collect(ctx, w, sink)
	loss.Regulariser = s.penalty(w)
	loss.Total += loss.Regulariser
	return loss, err
}

// groupsBefore returns the number of groups of queries before the given one, with which a group begins.
func (s *stepper) groupsBefore(query int) int {
	n, _ := slices.BinarySearchFunc(s.groups, query, func(g group, q int) int { return cmp.Compare(g.first, q) })
	return n
}

func (s *stepper) features(ctx context.Context, w *workload) error {
	return s.pool.parallel(ctx, len(w.rows), func(c *stepScratch, i int) {
		s.fetchFeatures(c, w, i)
		c.worker.Features(s.phi.Row(i), w.rows[i])
	})
}

// blocks takes the blocks from their queries to their gradients: one by one, so that what the queries of
// one take and give stays in a near cache, or the two at once on half of the threads each.
func (s *stepper) blocks(ctx context.Context, w *workload) error {
	pools := []*pool{s.pool}
	if len(w.blocks) == 2 && s.halves != nil {
		pools = s.halves
	}
	return kernel.Parallel(ctx, len(pools), len(w.blocks), func(worker, i int) {
		b, p := w.blocks[i], pools[worker]
		first, last := s.groupsBefore(b.query), s.groupsBefore(b.lastQuery)
		// Their errors are ctx's, which Parallel returns.
		if s.queries(ctx, p, w, first, last) == nil && s.block(ctx, p, w, b) == nil {
			s.queryGradients(ctx, p, w, first, last)
		}
	})
}

// queries computes Ψ of groups first ≤ i < last, and the scores of their pairs.
func (s *stepper) queries(ctx context.Context, p *pool, w *workload, first, last int) error {
	return p.parallel(ctx, last-first, func(c *stepScratch, k int) {
		i := first + k
		g := s.groups[i]
		c.worker.Begin(w.queries[g.first].Side, w.queries[g.first].Relation)
		for q := g.first; q < g.last; q++ {
			s.fetchQuery(c, w, p, i, q)
			psi := s.psi.Row(q)
			s.constants[q], s.ofQueries[q] = c.worker.Query(psi, s.anchor(c, w, q))
			s.ofQuery.apply(psi, c.pcg, w.epoch, w.step, q)
			from, to := w.pairsOf(q)
			p.comparer.pairScores(s.pairScores[from:to], psi, s.phi, w.pairRows[from:to])
		}
	})
}

// anchor returns the parameters of a query's anchor, with entries dropped.
func (s *stepper) anchor(c *stepScratch, w *workload, query int) []float32 {
	row := s.tables[0].row(int(w.queries[query].Anchor))
	if s.ofAnchor.probability == 0 {
		return row
	}
	copy(c.anchor, row)
	s.ofAnchor.apply(c.anchor, c.pcg, w.epoch, w.step, query)
	return c.anchor
}

// block scores the queries of a block, and computes their losses and the gradients of Ψ and Φ.
func (s *stepper) block(ctx context.Context, p *pool, w *workload, b block) error {
	queries, features := s.psi.Slice(b.query, b.lastQuery), s.phi.Slice(b.row, b.lastRow)
	size(&p.scores, queries.Rows, features.Rows)
	if err := p.comparer.scores(ctx, p.scores, queries, features); err != nil {
		return err
	}
	if err := s.blockLosses(ctx, p, w, b); err != nil {
		return err
	}
	dScores := p.scores // each loss has replaced its scores
	return p.comparer.gradients(ctx, s.dPsi.Slice(b.query, b.lastQuery), s.dPhi.Slice(b.row, b.lastRow), dScores,
		queries, features)
}

// blockLosses computes the losses of a block's queries, and replaces the scores by the derivatives of the loss.
func (s *stepper) blockLosses(ctx context.Context, p *pool, w *workload, b block) error {
	return p.parallel(ctx, p.scores.Rows, func(c *stepScratch, k int) {
		i := b.query + k
		neg := p.scores.Row(k)
		if s.config.Negatives == recipe.KvsAll {
			s.losses[i] = c.objective.takeAll(neg, s.known.Answers(w.queries[i]), s.constants[i], w.weights[i])
			s.dConstants[i] = s.backend.Sum(neg)
			return
		}
		var answer *float32
		if s.config.Negatives == recipe.OneVsAll {
			answer = &neg[w.answers[i]] // row e has entity e
		} else {
			answer = &s.pairScores[w.pairs[i]]
		}
		pos := *answer
		s.exclude(w, i, b, neg)
		loss, dPos := c.objective.take(pos, neg, s.constants[i], w.weights[i])
		s.losses[i] = loss
		*answer = float32(dPos)
		sum := s.backend.Sum(neg)
		if s.config.Negatives != recipe.OneVsAll {
			sum += dPos
		}
		s.dConstants[i] = sum
	})
}

// exclude marks the scores of entities that are not negatives of main query i.
func (s *stepper) exclude(w *workload, i int, b block, scores []float32) {
	candidates := w.rows[b.row:b.lastRow]
	remove := func(e int32) {
		if k, found := slices.BinarySearch(candidates, e); found {
			scores[k] = excluded
		}
	}
	remove(w.answers[i])
	if s.config.Filter {
		known := s.known.Answers(w.queries[i])
		for k, e := range known.Entities {
			if known.Splits[k].Has(kg.Train) {
				remove(e)
			}
		}
	}
}

// pairLosses is blockLosses for queries with negatives of their own.
func (s *stepper) pairLosses(ctx context.Context, w *workload) error {
	return s.pool.parallel(ctx, w.main, func(c *stepScratch, i int) {
		from, to := w.pairsOf(i)
		scores := s.pairScores[from:to]
		loss, dPos := c.objective.take(scores[0], scores[1:], s.constants[i], w.weights[i])
		s.losses[i] = loss
		dScores := scores // the loss has replaced all but the answer's
		dScores[0] = float32(dPos)
		s.dConstants[i] = s.backend.Sum(dScores)
	})
}

// zLosses computes the losses of the Z-samples, −log σ(γ + f) each.
func (s *stepper) zLosses(ctx context.Context, w *workload) error {
	if w.main == len(w.queries) {
		return nil
	}
	first := w.pairs[w.main]
	return s.pool.parallel(ctx, len(w.queries)-w.main, func(_ *stepScratch, k int) {
		i := w.main + k
		s.losses[i] = 0
		from, to := w.pairsOf(i)
		for k := from; k < to; k++ {
			x, weight := float64(s.pairScores[k])+s.constants[i]+s.config.Gamma, w.zWeights[k-first]
			s.losses[i] += weight * softplus(-x)
			s.dPairScores[k] = float32(-weight * sigmoid(-x))
		}
		s.dConstants[i] = s.backend.Sum(s.dPairScores[from:to])
	})
}

// queryGradients takes the gradients of Ψ of groups first ≤ i < last back to anchors and relations. Those of a block's
// queries are there; the pairs' parts are added.
func (s *stepper) queryGradients(ctx context.Context, p *pool, w *workload, first, last int) error {
	n, blocked := relationWidth(s.tables), w.blockQueries()
	return p.parallel(ctx, last-first, func(c *stepScratch, k int) {
		i := first + k
		g := s.groups[i]
		c.worker.Begin(w.queries[g.first].Side, w.queries[g.first].Relation)
		for q := g.first; q < g.last; q++ {
			s.fetchQueryGradient(c, w, p, i, q)
			dPsi := s.dPsi.Row(q)
			if q >= blocked {
				clear(dPsi)
			}
			from, to := w.pairsOf(q)
			p.comparer.addGradient(dPsi, s.dPairScores[from:to], s.psi.Row(q), s.phi, w.pairRows[from:to])
			s.ofQuery.apply(dPsi, c.pcg, w.epoch, w.step, q)
			dPenalty := 0.0
			if q < w.main {
				dPenalty = s.regulariser.factor * w.penaltyCounts[q]
			}
			dAnchor := s.dAnchor(q)
			c.worker.QueryGradient(dAnchor, dPsi, s.anchor(c, w, q), s.dConstants[q], dPenalty)
			s.ofAnchor.apply(dAnchor, c.pcg, w.epoch, w.step, q)
		}
		c.worker.End(s.dRelations[i*n : (i+1)*n])
	})
}

// dAnchor is the gradient of query q's anchor, which takes the place of the first part of dPsi.
func (s *stepper) dAnchor(q int) []float32 { return s.dPsi.Row(q)[:s.tables[0].width] }

// collect adds up the gradients of each entity and each relation, and the regulariser's, and hands them to sink.
func (s *stepper) collect(ctx context.Context, w *workload, sink gradientSink) error {
	n := len(s.used.entities)
	return s.pool.parallel(ctx, n+len(s.used.relations), func(c *stepScratch, k int) {
		if k < n {
			s.fetchEntity(c, w, k)
			s.penalties[k] = s.entityGradient(c, w, s.used.entities[k])
			sink.entity(k, c.gradient[:s.tables[0].width])
		} else {
			s.penalties[k] = s.relationGradient(c, s.used.relations[k-n])
			sink.relation(k-n, c.gradient[:relationWidth(s.tables)])
		}
	})
}

// entityGradient writes the gradient of entity e to c.gradient, and returns its penalty.
func (s *stepper) entityGradient(c *stepScratch, w *workload, e int32) (penalty float64) {
	gradient := c.gradient[:s.tables[0].width]
	for k, i := range s.byEntity.of(int(e)) {
		part := gradient
		if k > 0 {
			part = c.part
		}
		if int(i) < len(w.rows) {
			s.rowGradient(part, c, w, int(i))
		} else if dAnchor := s.dAnchor(int(i) - len(w.rows)); k == 0 {
			copy(gradient, dAnchor)
		} else {
			part = dAnchor
		}
		if k > 0 {
			s.backend.Axpy(gradient, 1, part)
		}
	}
	if weight := s.regulariser.ofEntity(e); weight != 0 {
		penalty = c.worker.EntityPenalty(gradient, e, weight)
	}
	return penalty
}

// rowGradient writes the gradient of feature row i by its entity. That of a block's row is there; the pairs' parts are
// added.
func (s *stepper) rowGradient(dEntity []float32, c *stepScratch, w *workload, i int) {
	dPhi := c.features
	if i < s.dPhi.Rows {
		dPhi = s.dPhi.Row(i)
	} else {
		clear(dPhi)
	}
	if len(w.pairRows) > 0 {
		// Chunks of the comparer's chains, which therefore round alike.
		for pairs := range slices.Chunk(s.byRow.of(i), linalg.ProductChunk) {
			for k, pair := range pairs {
				c.queries[k], c.dScores[k] = s.pairQuery[pair], s.dPairScores[pair]
			}
			n := len(pairs)
			s.pool.comparer.addGradient(dPhi, c.dScores[:n], s.phi.Row(i), s.psi, c.queries[:n])
		}
	}
	c.worker.FeatureGradient(dEntity, dPhi, s.phi.Row(i), w.rows[i])
}

// relationGradient writes the gradient of relation r to c.gradient, and returns its penalty.
func (s *stepper) relationGradient(c *stepScratch, r int32) (penalty float64) {
	n := relationWidth(s.tables)
	gradient := c.gradient[:n]
	clear(gradient)
	for _, i := range s.byRelation.of(int(r)) {
		s.backend.Axpy(gradient, 1, s.dRelations[int(i)*n:(int(i)+1)*n])
	}
	if weight := s.regulariser.ofRelation(r); weight != 0 {
		penalty = c.worker.RelationPenalty(gradient, r, weight)
	}
	return penalty
}

// penalty returns the regulariser of the step.
func (s *stepper) penalty(w *workload) (sum float64) {
	for _, p := range s.penalties {
		sum += p
	}
	for q, p := range s.ofQueries[:w.main] {
		sum += p * s.regulariser.factor * w.penaltyCounts[q]
	}
	return sum
}
