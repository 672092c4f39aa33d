package train

import (
	"context"

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

	phi, psi linalg.Matrix // feature vectors and query vectors
	// phiIsTable says that phi is the table of entities, so no row is copied. The table does not change
	// before the last use of phi: collect updates the row of an entity after the gradient of that entity,
	// and no other gradient needs this row of phi.
	phiIsTable bool
	ownPhi     linalg.Matrix // memory for phi, unless phiIsTable
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
	// byEntity lists the terms of the gradient of each entity of used.entities: feature rows, then queries,
	// then the targets of duals, and then the heads and the tails of linearRelations or the anchors and the
	// targets of relationQueries.
	byEntity csr
	// byRelation lists the query segments, then the short row segments, and then the slots of
	// relationQueries, for each relation of used.relations.
	byRelation          csr
	entities, relations numbering
	keys                []int32 // scratch memory of begin

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
		entities:   newNumbering(tables[0].rows()), relations: newNumbering(tables[1].rows()),
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
	s.phiIsTable = multipliesTable(s.towers) && w.scoresAllEntities(s.tables[0].rows())
	if s.phiIsTable {
		s.phi = s.tables[0].matrix()
	} else {
		s.ownPhi.Resize(len(w.rows), s.towers.Width)
		s.phi = s.ownPhi
	}
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
	if n := s.tables[0].rows(); w.scoresAllEntities(n) {
		s.used.entities = appendRange(s.used.entities[:0], n)
	} else {
		s.used.entities = s.entities.distinct(s.used.entities[:0], s.keys)
	}
	s.byEntity.build(len(s.used.entities), s.keys)
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
	if s.linearRelations.predicts() { // every relation is a candidate
		s.used.relations = appendRange(s.used.relations[:0], s.tables[1].rows())
	} else {
		s.used.relations = s.relations.distinct(s.used.relations[:0], s.keys)
	}
	s.byRelation.build(len(s.used.relations), s.keys)
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
