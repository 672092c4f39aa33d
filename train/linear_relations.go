package train

import (
	"context"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// linearRelations holds what a step needs besides the fields of stepper if its loss contains the vectors
// ρ of triples (model.RelationForm).
//
// With relation prediction (Chen et al., 2021), the loss contains, for every target of a main query,
// λ_rel times the cross-entropy of the query's relation among all relations of the model. With
// reciprocal relations, the model has two relations for each relation of the data set. With the
// matrices Ρ of the vectors ρ, R of the relations, their scores S and W = ∂L/∂S,
//
//	S = Ρ Rᵀ,  ∂L/∂Ρ = W R,  ∂L/∂R = Wᵀ Ρ.
//
// The third pair of dura is the penalty ‖r‖² + products·‖ρ‖² of a positive, in the notation of
// regulariser. With reciprocal relations, it is the mean over the two directions of the positive or,
// with kvsall, has the ρ of the query's direction.
type linearRelations struct {
	form    *model.RelationForm
	lambda  float64 // 0 without relation prediction
	config  model.Config
	product *linalg.Product
	table   linalg.Matrix // R
	perRow  int           // number of rows of R in one row of the parameter table

	// triples are the triples to score, from model.Config.Scored. Their weights in the loss include
	// λ_rel, and their counts say how many times the penalty ‖ρ‖² counts.
	triples []kg.Triple
	weights []float64
	counts  []float64
	// losses and penalties hold the terms of each triple. Without relation prediction there are no
	// losses, and without the third pair no penalties.
	losses, penalties []float64

	rho, scores  linalg.Matrix
	dRho, dTable linalg.Matrix
	dEntities    linalg.Matrix // gradients of all heads, and then of all tails
}

// newLinearRelations returns nil if the recipe needs no vectors ρ, or if the model has none.
func newLinearRelations(
	c *recipe.Recipe, b *linalg.Backend, threads int, m model.Trainable, relations []parameterTable,
) *linearRelations {
	form := m.Training().Relations
	if form == nil || c.RelationWeight == 0 && c.DuraPair == 0 {
		return nil
	}
	table := relations[0]
	return &linearRelations{
		form: form, lambda: c.RelationWeight, config: m.Config(), product: newProduct(c, b, threads),
		table: linalg.Matrix{
			Data: table.values, Rows: len(table.values) / form.Width, Cols: form.Width, Stride: form.Width,
		},
		perRow: table.width / form.Width,
	}
}

// predicts reports whether the loss contains relation prediction.
func (r *linearRelations) predicts() bool { return r != nil && r.lambda > 0 }

// begin lists the triples of a step and allocates its memory.
func (r *linearRelations) begin(w *workload, entityWidth int, thirdPair bool) {
	r.triples, r.weights, r.counts = r.triples[:0], r.weights[:0], r.counts[:0]
	for i, q := range w.queries[:w.main] {
		targets := w.targets(i)
		n := float64(len(targets))
		for _, e := range targets {
			r.triples = append(r.triples, r.config.Scored(q, e))
			r.weights = append(r.weights, r.lambda*w.weights[i]/n)
			r.counts = append(r.counts, w.penaltyCounts[i]/(2*n)) // half of a positive or, with kvsall, a whole one
		}
	}
	n := len(r.triples)
	r.rho.Resize(n, r.form.Width)
	r.dRho.Resize(n, r.form.Width)
	r.dEntities.Resize(2*n, entityWidth)
	if r.predicts() {
		r.losses = resize(r.losses, n)
		r.scores.Resize(n, r.table.Rows)
		r.dTable.Resize(r.table.Rows, r.form.Width)
	}
	if thirdPair {
		r.penalties = resize(r.penalties, n)
	}
}

// scoreRelations computes the terms of linearRelations and their gradients.
func (s *stepper) scoreRelations(ctx context.Context, w *workload) error {
	if s.linearRelations == nil {
		return nil
	}
	r, entities := s.linearRelations, s.tables[0]
	rows := func(i int) (head, tail []float32) {
		return entities.row(int(r.triples[i].Head)), entities.row(int(r.triples[i].Tail))
	}
	err := s.pool.parallel(ctx, len(r.triples), func(_ *stepScratch, i int) {
		head, tail := rows(i)
		r.form.Rho(s.backend, r.rho.Row(i), head, tail)
	})
	if err != nil {
		return err
	}
	if r.predicts() {
		if err := s.predictRelations(ctx, w); err != nil {
			return err
		}
	}
	return s.pool.parallel(ctx, len(r.triples), func(_ *stepScratch, i int) {
		dRho := r.dRho.Row(i)
		if !r.predicts() {
			clear(dRho)
		}
		if s.regulariser.thirdPair > 0 {
			rho, weight := r.rho.Row(i), s.regulariser.thirdPair*s.regulariser.ofQuery(r.counts[i])
			r.penalties[i] = weight * s.backend.Dot(rho, rho)
			s.backend.Axpy(dRho, float32(2*weight), rho)
		}
		head, tail := rows(i)
		dHead, dTail := r.dEntities.Row(i), r.dEntities.Row(len(r.triples)+i)
		r.form.Gradient(s.backend, dHead, dTail, dRho, head, tail)
	})
}

// predictRelations computes the loss of relation prediction, and its gradients with respect to Ρ and R.
func (s *stepper) predictRelations(ctx context.Context, w *workload) error {
	r := s.linearRelations
	if err := r.product.NT(ctx, r.scores, r.rho, r.table, false); err != nil {
		return err
	}
	err := s.pool.parallel(ctx, len(r.triples), func(c *stepScratch, i int) {
		scores := r.scores.Row(i)
		target := &scores[r.triples[i].Relation]
		score := *target
		if len(w.relationCandidates) < len(scores) {
			excludeOthers(scores, w.relationCandidates)
		}
		*target = excluded
		loss, dTarget := c.objective.crossEntropy(score, scores, r.weights[i])
		r.losses[i], *target = loss, float32(dTarget)
	})
	if err != nil {
		return err
	}
	dScores := r.scores // crossEntropy replaced the scores
	if err := r.product.NN(ctx, r.dRho, dScores, r.table, false); err != nil {
		return err
	}
	return r.product.TN(ctx, r.dTable, dScores, r.rho, false)
}

// excludeOthers excludes all relations that are not in the sample, which is in ascending order.
func excludeOthers(scores []float32, sample []int32) {
	for r := range scores {
		if len(sample) > 0 && int(sample[0]) == r {
			sample = sample[1:]
			continue
		}
		scores[r] = excluded
	}
}

// addRelation adds the gradient of the relation with the given row in the parameter table.
func (r *linearRelations) addRelation(gradient []float32, b *linalg.Backend, row int32) {
	for k := range r.perRow {
		b.Axpy(gradient[k*r.form.Width:][:r.form.Width], 1, r.dTable.Row(int(row)*r.perRow+k))
	}
}

// thirdPairPenalty returns weight times the penalty of the third pair on the relation with the given row in
// the parameter table, and adds its gradient.
func (r *linearRelations) thirdPairPenalty(
	gradient []float32, b *linalg.Backend, row int32, weight float64,
) (sum float64) {
	weight /= float64(r.perRow)
	for k := range r.perRow {
		x := r.table.Row(int(row)*r.perRow + k)
		sum += weight * b.Dot(x, x)
		b.Axpy(gradient[k*r.form.Width:][:r.form.Width], float32(2*weight), x)
	}
	return sum
}
