package train

import (
	"context"
	"slices"

	"github.com/mquine/mquine/kernel/linalg"
)

// collect computes the gradient of every used entity and relation, including the regulariser's
// part, and hands it to sink.
func (s *stepper) collect(ctx context.Context, w *workload, sink gradientSink) error {
	entities := len(s.used.entities)
	return s.pool.parallel(ctx, entities+len(s.used.relations), func(c *stepScratch, k int) {
		if k < entities {
			s.prefetchEntity(c, w, k)
			gradient, penalty := s.entityGradient(c, w, k)
			s.penalties[k] = penalty
			sink.entity(k, gradient)
			return
		}
		gradient := c.gradient[:relationSize(s.tables)]
		s.penalties[k] = s.relationGradient(gradient, c, k-entities)
		sink.relation(k-entities, gradient)
	})
}

// entityGradient returns the gradient and the penalty of entity used.entities[k]. The gradient may share the
// memory of the first term of the entity, which belongs to no other. It is valid until the next call with c.
func (s *stepper) entityGradient(c *stepScratch, w *workload, k int) (gradient []float32, penalty float64) {
	e, terms := s.used.entities[k], s.byEntity.of(k) // at least one term, because the step uses e
	gradient = s.entityTerm(c.gradient[:s.tables[0].width], c, w, int(terms[0]))
	for _, i := range terms[1:] {
		s.backend.Axpy(gradient, 1, s.entityTerm(c.term, c, w, int(i)))
	}
	if weight := s.regulariser.ofEntity(e); weight != 0 {
		penalty = c.worker.EntityPenalty(gradient, e, weight)
	}
	return gradient, penalty
}

// entityTerm returns term i of byEntity, in scratch or in the memory of the term.
func (s *stepper) entityTerm(scratch []float32, c *stepScratch, w *workload, i int) []float32 {
	if i < len(w.rows) {
		return s.rowGradient(scratch, c, w, i)
	}
	return s.otherTerm(w, i)
}

// otherTerm returns term i of byEntity, which must not be a feature row.
func (s *stepper) otherTerm(w *workload, i int) []float32 {
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

// rowGradient returns the gradient that feature row i contributes to its entity, in scratch or in the
// memory of the row.
func (s *stepper) rowGradient(scratch []float32, c *stepScratch, w *workload, i int) []float32 {
	switch {
	case len(s.shortRowSegments) > 0:
		return s.dRows.Row(i)
	case s.towers.EntityRows:
		return s.dPhiOf(scratch, c, w, i)
	}
	c.worker.FeatureGradient(scratch, s.dPhiOf(c.dPhi, c, w, i), s.phi.Row(i), w.rows[i])
	return scratch
}

// dPhiOf returns the gradient of feature row i. dPhi already contains the contributions of score
// matrices. dPhiOf adds the contributions of pairs. The result of a row outside score matrices is in
// scratch.
func (s *stepper) dPhiOf(scratch []float32, c *stepScratch, w *workload, i int) []float32 {
	dPhi := scratch
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

// relationGradient writes the gradient of relation used.relations[k] and returns the relation's penalty.
func (s *stepper) relationGradient(gradient []float32, c *stepScratch, k int) (penalty float64) {
	n, r := len(gradient), s.used.relations[k]
	clear(gradient)
	for _, i := range s.byRelation.of(k) {
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
