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

// stepper computes the loss of a workload and its gradients (docs/training.md, "Gradients"). It
// does not change the parameters.
//
// dX stands for ∂L/∂X. When a loss or a gradient overwrites an array, the code gives the array a
// second name for its new contents.
type stepper struct {
	config *recipe.Recipe
	known  *kg.Index
	towers model.Training
	tables []parameterTable
	// relationTables and globalTables are the tables of relations and the global tensors that have
	// gradients.
	relationTables, globalTables []parameterTable
	// network computes the queries if model is a model.Network. Otherwise it is nil.
	network *networkStep
	// linearRelations computes the terms of the loss that contain the vectors ρ of triples. It is nil if
	// the loss has no such terms.
	linearRelations *linearRelations
	// relationQueries predicts relations if linearRelations does not. Otherwise it is nil.
	relationQueries *relationQueries
	backend         *linalg.Backend
	pool            *pool // all threads
	// halves holds two pools, each with half of the threads. It is nil if the number of threads is
	// odd or a step cannot have two score matrices of the same size.
	halves []*pool

	// duals computes the part of the penalty dura that queries do not have with reciprocal relations.
	// Otherwise it is nil.
	duals *duals

	// lossBlocks is the number of blocks of the model that have separate losses, or 1.
	lossBlocks int

	queryDropout, anchorDropout, relationDropout dropout
	regulariser                                  *regulariser

	phi, psi   linalg.Matrix // feature vectors and query vectors
	dPhi, dPsi linalg.Matrix // dPhi contains only the rows of score matrices
	dRows      linalg.Matrix // gradients of the entities of feature rows, if the workload has rowSegments
	constants  []float64     // the constant c of each query
	dConstants []float64
	// pairScores holds the scores of the pairs in the first block of the model with a separate loss, then
	// the scores in the next block, and so on. dPairScores shares memory with pairScores, and is valid once
	// the loss has replaced the scores.
	pairScores, dPairScores []float32
	pairQuery               []int32   // the query of each pair
	sliceRows               int       // rows of Φ in a slice
	fewestSlices            int       // the constant of this name, except in tests
	sliced                  bool      // the pairs of main queries are processed in slices
	visited                 []int32   // the first pair of each query that visitPairs has not visited
	losses                  []float64 // the loss of each query

	querySegments    []querySegment
	shortRowSegments []rowSegment
	dRelations       []float32 // gradients for each query segment, and then for each short row segment
	byRow            csr       // pairs by feature row
	// byEntity lists the terms of each entity's gradient: feature rows, then queries, then the targets of
	// duals, and then the heads and the tails of linearRelations or the anchors and the targets of
	// relationQueries.
	byEntity   csr
	byRelation csr     // query segments, then short row segments, and then slots of relationQueries, by relation
	keys       []int32 // scratch memory of begin

	used           usedRows
	penalties      []float64 // penalties of used.entities, then of used.relations
	queryPenalties []float64
}

// querySegment is a range of at most querySegmentSize queries with the same side and relation. The
// gradients of a relation are added segment by segment, so the order of the additions does not depend on
// the number of threads.
type querySegment struct{ first, last int }

const querySegmentSize = model.MaxBatch // affects how the gradients of relations round

// rowSegmentSize is the largest number of feature rows in a short row segment. The gradients that these
// rows contribute to their relation are added segment by segment.
const rowSegmentSize = 512

func newStepper(
	c *recipe.Recipe, b *linalg.Backend, threads int, known *kg.Index, m model.Trainable, tables []parameterTable,
) *stepper {
	s := &stepper{
		config: c, known: known, towers: m.Training(), tables: tables, backend: b,
		relationTables: tablesWith(model.PerRelation, tables), globalTables: tablesWith(model.Global, tables),
		queryDropout:    dropout{c.Dropout, c.Seed, useDropout},
		anchorDropout:   dropout{c.EntityDropout, c.Seed, useEntityDropout},
		relationDropout: dropout{c.RelationDropout, c.Seed, useRelationDropout},
		regulariser:     newRegulariser(c, m.Config().Entities, m.Config().Relations),
		sliceRows:       sliceRows(m.Training().Width), fewestSlices: fewestSlices,
		lossBlocks: lossBlocks(c, m.Training()),
	}
	all := make([]stepScratch, threads)
	for i := range all {
		all[i] = newStepScratch(c, b, m, tables)
	}
	s.pool = newPool(c, b, m, all)
	s.network = newNetworkStep(c, b, threads, m, totalWidth(s.globalTables))
	s.linearRelations = newLinearRelations(c, b, threads, m, s.relationTables)
	s.relationQueries = newRelationQueries(c, m)
	s.duals = newDuals(c)
	if threads%2 == 0 && c.Negatives == recipe.SharedNegatives && c.Distribution != recipe.Bernoulli {
		s.halves = []*pool{newPool(c, b, m, all[:threads/2]), newPool(c, b, m, all[threads/2:])}
	}
	return s
}

// lossBlocks returns the number of blocks of a model that have separate losses, or 1.
func lossBlocks(c *recipe.Recipe, t model.Training) int {
	if c.BlockLosses {
		return t.Blocks
	}
	return 1
}

// begin allocates the memory for a step and returns the parameter rows that the step uses.
func (s *stepper) begin(w *workload) usedRows {
	s.phi.Resize(len(w.rows), s.towers.Width)
	s.dPhi.Resize(w.denseRows(), s.towers.Width)
	s.psi.Resize(len(w.queries), s.towers.PsiWidth())
	s.dPsi.Resize(len(w.queries), max(s.towers.PsiWidth(), s.tables[0].width)) // see dAnchor
	s.dPsi.Cols = s.towers.PsiWidth()
	s.constants = resize(s.constants, len(w.queries))
	s.dConstants = resize(s.dConstants, len(w.queries))
	s.queryPenalties = resize(s.queryPenalties, len(w.queries))
	s.losses = resize(s.losses, len(w.queries))
	s.pairScores = resize(s.pairScores, s.lossBlocks*len(w.pairRows))
	s.dPairScores = s.pairScores
	s.findQuerySegments(w)
	s.findRowSegments(w)
	s.dRelations = resize(s.dRelations, (len(s.querySegments)+len(s.shortRowSegments))*relationSize(s.tables))
	if s.linearRelations != nil {
		s.linearRelations.begin(w, s.tables[0].width, s.regulariser.thirdPair > 0)
	}
	if s.relationQueries != nil {
		s.relationQueries.begin(w, s.tables[0].width, relationSize(s.tables))
	}
	if s.duals != nil {
		s.duals.begin(w, s.tables[0].width)
	}
	s.findUsed(w)
	s.penalties = resize(s.penalties, len(s.used.entities)+len(s.used.relations))
	if s.network != nil {
		s.network.begin(w, s.tables[0].width, relationSize(s.tables))
	}
	s.sliced = s.needsSlices(w)
	if s.sliced {
		s.sortPairs(w)
	}
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

// findQuerySegments divides the queries into segments. The first query of the Z-samples begins a segment.
func (s *stepper) findQuerySegments(w *workload) {
	s.querySegments = s.querySegments[:0]
	for i, q := range w.queries {
		if n := len(s.querySegments); n > 0 && i != w.main {
			g := &s.querySegments[n-1]
			last := w.queries[g.last-1]
			if last.Side == q.Side && last.Relation == q.Relation && g.last-g.first < querySegmentSize {
				g.last++
				continue
			}
		}
		s.querySegments = append(s.querySegments, querySegment{i, i + 1})
	}
}

// findRowSegments divides the row segments of the workload into segments of at most rowSegmentSize rows,
// and allocates memory for the gradients of these rows.
func (s *stepper) findRowSegments(w *workload) {
	s.shortRowSegments = s.shortRowSegments[:0]
	for _, r := range w.rowSegments {
		for first := r.first; first < r.last; first += rowSegmentSize {
			last := min(first+rowSegmentSize, r.last)
			s.shortRowSegments = append(s.shortRowSegments, rowSegment{r.side, r.relation, first, last})
		}
	}
	if len(s.shortRowSegments) > 0 {
		s.dRows.Resize(len(w.rows), s.tables[0].width)
	}
}

// findUsed lists the entities and relations of the step, and where each of them occurs.
func (s *stepper) findUsed(w *workload) {
	s.keys = append(s.keys[:0], w.rows...)
	for _, q := range w.queries {
		s.keys = append(s.keys, q.Anchor)
	}
	if s.duals != nil {
		s.keys = append(s.keys, w.answers...)
	}
	if r := s.linearRelations; r != nil {
		for _, t := range r.triples {
			s.keys = append(s.keys, t.Head)
		}
		for _, t := range r.triples {
			s.keys = append(s.keys, t.Tail)
		}
	}
	if r := s.relationQueries; r != nil {
		for _, g := range r.anchors {
			s.keys = append(s.keys, r.targets[g.first].Anchor)
		}
		for _, t := range r.targets {
			s.keys = append(s.keys, t.entity)
		}
	}
	s.used.entities = s.byEntity.distinct(s.used.entities[:0], s.tables[0].rows(), s.keys)
	s.keys = s.keys[:0]
	for _, g := range s.querySegments {
		s.keys = append(s.keys, w.queries[g.first].Relation)
	}
	for _, r := range s.shortRowSegments {
		s.keys = append(s.keys, r.relation)
	}
	if r := s.relationQueries; r != nil {
		for _, slot := range r.slots {
			_, relation := r.config.Asked(kg.Tail, slot.relation)
			s.keys = append(s.keys, relation)
		}
	}
	s.used.relations = s.byRelation.distinct(s.used.relations[:0], s.tables[1].rows(), s.keys)
	if s.linearRelations.predicts() { // every relation is a candidate
		s.used.relations = s.used.relations[:0]
		for r := range s.tables[1].rows() {
			s.used.relations = append(s.used.relations, int32(r))
		}
	}
}

// compute computes the loss of w and its gradients, and hands the gradients to sink. The caller must
// first call begin with w. If the loss without the regulariser is NaN or infinite, compute returns it
// and does not call sink.
func (s *stepper) compute(ctx context.Context, w *workload, sink gradientSink) (Loss, error) {
	s.regulariser.begin(w.epoch, w.positives)
	defer s.regulariser.end(w.positives)
	// Stages that do not apply to the model, the recipe or w do nothing.
	stages := []func(context.Context, *workload) error{
		s.features, s.forward, s.computeMatrices, s.otherQueries, s.scorePairs,
		s.pairLosses, s.scoreRelations, s.predictRelationsByQueries, s.zLosses,
		s.pairGradients, s.otherQueryGradients, s.backward, s.featureGradients,
	}
	for _, stage := range stages {
		if err := stage(ctx, w); err != nil {
			return Loss{}, err
		}
	}
	loss := s.fit(w)
	if !loss.finite() {
		return loss, nil
	}
	err := s.collect(ctx, w, sink)
	loss.Regulariser = s.penalty(w)
	loss.Total += loss.Regulariser
	if err == nil && len(s.globalTables) > 0 {
		err = sink.global(ctx, s.network.dGlobals)
	}
	return loss, err
}

// fit returns the loss of the step without the regulariser.
func (s *stepper) fit(w *workload) (loss Loss) {
	for i, l := range s.losses {
		if i < w.main {
			loss.Fit += l
		} else {
			loss.Z += l
		}
	}
	if s.linearRelations != nil {
		for _, l := range s.linearRelations.losses {
			loss.Relations += l
		}
	}
	if s.relationQueries != nil {
		for _, l := range s.relationQueries.losses {
			loss.Relations += l
		}
	}
	loss.Total = loss.Fit + loss.Z + loss.Relations
	return loss
}

// querySegmentsBefore returns the number of segments before the given query, which must be the first of
// its segment.
func (s *stepper) querySegmentsBefore(query int) int {
	n, _ := slices.BinarySearchFunc(s.querySegments, query, func(g querySegment, q int) int {
		return cmp.Compare(g.first, q)
	})
	return n
}

// features computes Φ.
func (s *stepper) features(ctx context.Context, w *workload) error {
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

// exclude masks the scores of entities that are not negatives of main query i.
func (s *stepper) exclude(w *workload, i int, m scoreMatrix, scores []float32) {
	candidates := w.rows[m.row:m.lastRow]
	remove := func(e int32) {
		if k, found := slices.BinarySearch(candidates, e); found {
			scores[k] = excluded
		}
	}
	remove(w.answers[i])
	if !s.config.Filter {
		return
	}
	known := s.known.Answers(w.queries[i])
	for k, e := range known.Entities {
		if known.Splits[k].Has(kg.Train) {
			remove(e)
		}
	}
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

// featureGradients computes the gradients that feature rows contribute to their entities and
// relations, if features depend on the query.
func (s *stepper) featureGradients(ctx context.Context, w *workload) error {
	n := relationSize(s.tables)
	return s.pool.parallel(ctx, len(s.shortRowSegments), func(c *stepScratch, k int) {
		r := s.shortRowSegments[k]
		c.prefetcher.Reset()
		c.worker.Begin(r.side, r.relation)
		for i := r.first; i < r.last; i++ {
			c.worker.FeatureGradient(s.dRows.Row(i), s.dPhiOf(c, w, i), s.phi.Row(i), w.rows[i])
		}
		at := len(s.querySegments) + k
		c.worker.End(s.dRelations[at*n : (at+1)*n])
	})
}

// collect computes the gradient of every used entity and relation, including the regulariser's
// part, and hands it to sink.
func (s *stepper) collect(ctx context.Context, w *workload, sink gradientSink) error {
	entities := len(s.used.entities)
	return s.pool.parallel(ctx, entities+len(s.used.relations), func(c *stepScratch, k int) {
		if k < entities {
			s.prefetchEntity(c, w, k)
			gradient := c.gradient[:s.tables[0].width]
			s.penalties[k] = s.entityGradient(gradient, c, w, s.used.entities[k])
			sink.entity(k, gradient)
			return
		}
		gradient := c.gradient[:relationSize(s.tables)]
		s.penalties[k] = s.relationGradient(gradient, c, s.used.relations[k-entities])
		sink.relation(k-entities, gradient)
	})
}

// entityGradient writes the gradient of entity e and returns the entity's penalty.
func (s *stepper) entityGradient(gradient []float32, c *stepScratch, w *workload, e int32) (penalty float64) {
	for k, i := range s.byEntity.of(int(e)) {
		switch row := int(i) < len(w.rows); {
		case row && k == 0:
			s.rowGradient(gradient, c, w, int(i))
		case row:
			s.rowGradient(c.term, c, w, int(i))
			s.backend.Axpy(gradient, 1, c.term)
		case k == 0:
			copy(gradient, s.entityTerm(w, int(i)))
		default:
			s.backend.Axpy(gradient, 1, s.entityTerm(w, int(i)))
		}
	}
	if weight := s.regulariser.ofEntity(e); weight != 0 {
		penalty = c.worker.EntityPenalty(gradient, e, weight)
	}
	return penalty
}

// entityTerm returns term i of byEntity, which must not be a feature row.
func (s *stepper) entityTerm(w *workload, i int) []float32 {
	i -= len(w.rows)
	if i < len(w.queries) {
		return s.dAnchor(i)
	}
	i -= len(w.queries)
	if s.duals != nil {
		if i < len(w.answers) {
			return s.duals.dTargets.Row(i)
		}
		i -= len(w.answers)
	}
	if s.relationQueries != nil {
		return s.relationQueries.dEntities.Row(i)
	}
	return s.linearRelations.dEntities.Row(i)
}

// rowGradient writes the gradient that feature row i contributes to its entity.
func (s *stepper) rowGradient(dEntity []float32, c *stepScratch, w *workload, i int) {
	if len(s.shortRowSegments) > 0 {
		copy(dEntity, s.dRows.Row(i))
		return
	}
	c.worker.FeatureGradient(dEntity, s.dPhiOf(c, w, i), s.phi.Row(i), w.rows[i])
}

// dPhiOf returns the gradient of feature row i. dPhi already contains the contributions of score
// matrices. dPhiOf adds the contributions of pairs. The result is valid until the next call with c.
func (s *stepper) dPhiOf(c *stepScratch, w *workload, i int) []float32 {
	dPhi := c.dPhi
	if i < s.dPhi.Rows {
		dPhi = s.dPhi.Row(i)
	} else {
		clear(dPhi)
	}
	if len(w.pairRows) > 0 {
		// Each chunk is one chain of the comparer, so these sums round like the comparer's sums.
		for pairs := range slices.Chunk(s.byRow.of(i), linalg.ProductChunk) {
			queries, dScores := c.queries[:len(pairs)], c.dScores[:len(pairs)]
			for k, pair := range pairs {
				queries[k] = s.pairQuery[pair]
			}
			for b := range s.lossBlocks {
				dPairScores := s.ofBlock(b, s.dPairScores)
				for k, pair := range pairs {
					dScores[k] = dPairScores[pair]
				}
				s.pool.comparer.addPhiGradient(s.ofBlock(b, dPhi), dScores, s.ofBlock(b, s.phi.Row(i)),
					s.columns(s.psi, b), queries)
			}
		}
	}
	return dPhi
}

// relationGradient writes the gradient of relation r and returns the relation's penalty.
func (s *stepper) relationGradient(gradient []float32, c *stepScratch, r int32) (penalty float64) {
	n := len(gradient)
	clear(gradient)
	for _, i := range s.byRelation.of(int(r)) {
		if slot := int(i) - len(s.querySegments) - len(s.shortRowSegments); slot < 0 {
			s.backend.Axpy(gradient, 1, s.dRelations[int(i)*n:(int(i)+1)*n])
		} else if s.relationQueries.filled[slot] {
			s.backend.Axpy(gradient, 1, s.relationQueries.dRelation(slot, n))
		}
	}
	if s.linearRelations.predicts() {
		s.linearRelations.addRelation(gradient, s.backend, r)
	}
	if weight := s.regulariser.ofRelation(r); weight != 0 {
		penalty = c.worker.RelationPenalty(gradient, r, weight)
		if s.regulariser.thirdPair > 0 {
			penalty += s.linearRelations.thirdPairPenalty(gradient, s.backend, r, weight*s.regulariser.thirdPair)
		}
	}
	if weight := s.regulariser.ofMatrices(r); weight != 0 {
		penalty += c.orthogonality.penalty(gradient, s.relationTables, int(r), weight)
	}
	return penalty
}

// penalty returns the value of the regulariser for the step.
func (s *stepper) penalty(w *workload) (sum float64) {
	for _, p := range s.penalties {
		sum += p
	}
	for q, p := range s.queryPenalties[:w.main] {
		sum += p * s.regulariser.factor * s.regulariser.products * w.penaltyCounts[q]
	}
	if s.linearRelations != nil {
		for _, p := range s.linearRelations.penalties {
			sum += p
		}
	}
	return sum
}
