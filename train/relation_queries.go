package train

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// relationQueries predicts relations as linearRelations does, if scores are not linear in the
// relation. For each target and each candidate relation, it scores the target as a candidate of the
// query with the same anchor and that relation. So all that it needs are the model's query vectors,
// feature vectors and their gradients.
//
// Targets are divided into chunks. The goroutine of a chunk computes its scores and losses, and then the
// gradients of pairs whose derivative is not negligible. It computes query vectors again for this,
// because all of them would need too much memory.
type relationQueries struct {
	lambda       float64
	config       model.Config
	numRelations int // number of relations of the model
	// sided says that the score of a triple depends on the side of the query.
	sided bool

	targets []relationTarget
	anchors []span // targets of one chunk with the same anchor
	chunks  []targetChunk
	slots   []relationSlot

	losses []float64 // losses of the targets
	// dEntities holds the gradients of all anchors, and then of the entities of all targets.
	dEntities linalg.Matrix
	// dRelations holds the gradients of the slots' relations, and filled says which slots have one.
	dRelations []float32
	filled     []bool
}

// relationTarget is a target of a main query. Its weight includes λ_rel.
type relationTarget struct {
	kg.Query
	entity, row int32 // the target and its feature row
	scored      int32 // the relation of model.Config.Scored
	weight      float64
}

// triple returns the triple that the model scores.
func (t *relationTarget) triple(c model.Config) kg.Triple { return c.Scored(t.Query, t.entity) }

// targetChunk is a range of targets with the same side, and the ranges of its anchors and slots.
type targetChunk struct{ targets, anchors, slots span }

// A step has about maxChunks chunks, or fewer if chunks would be smaller than leastChunk.
const maxChunks, leastChunk = 16, 64

// relationSlot is a candidate relation of a chunk, with memory for the gradient of this relation.
type relationSlot struct {
	relation int32 // a relation of model.Config.Scored
	// sample is the position in workload.relationCandidates of a relation that is a candidate of all
	// targets. It is −1 for other relations. Such a relation is a candidate of the targets that it
	// belongs to.
	sample int
}

// predictionScratch is the memory of a goroutine for a chunk.
type predictionScratch struct {
	scores, dPhi  linalg.Matrix // a row for each target
	psi           linalg.Matrix // one row
	dPsi, dAnchor []float32
	dScore        [1]float32
	row           [1]int32
}

// newRelationQueries returns nil unless the recipe predicts relations of a model without a RelationForm.
func newRelationQueries(c *recipe.Recipe, m model.Trainable) *relationQueries {
	if c.RelationWeight == 0 || m.Training().Relations != nil {
		return nil
	}
	config := m.Config()
	return &relationQueries{
		lambda: c.RelationWeight, config: config, numRelations: config.Relations * relationsPer(c),
		sided: isSided(config),
	}
}

// begin lists the targets of a step and allocates its memory.
func (r *relationQueries) begin(w *workload, entityWidth, relationSize int) {
	r.listTargets(w)
	r.divide(w)
	r.losses = resize(r.losses, len(r.targets))
	r.dRelations = resize(r.dRelations, r.mostSlots(w)*relationSize)
	r.filled = resize(r.filled, len(r.slots))
	r.dEntities.Resize(len(r.anchors)+len(r.targets), entityWidth)
}

// isSided reports whether the score of a triple depends on the side of the query.
func isSided(c model.Config) bool {
	spec, err := model.Lookup(c.Model)
	if err != nil {
		panic(err) // the configuration of a model is valid
	}
	return spec.IsSided(c)
}

// listTargets lists the targets, ordered by side and anchor. If the two queries of a triple have the
// same score, a triple with both queries is listed once, with the sum of the weights.
func (r *relationQueries) listTargets(w *workload) {
	r.targets = r.targets[:0]
	for i, q := range w.queries[:w.main] {
		targets := w.targets(i)
		for _, e := range targets {
			row := e // if all entities are candidates
			if from, to := w.pairsOf(i); from < to {
				row = w.pairRows[from]
			}
			weight := r.lambda * w.weights[i] / float64(len(targets))
			r.targets = append(r.targets, relationTarget{q, e, row, r.config.Scored(q, e).Relation, weight})
		}
	}
	if !r.sided {
		r.mergeSides()
	}
	slices.SortFunc(r.targets, func(a, b relationTarget) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(a.scored, b.scored),
			cmp.Compare(a.entity, b.entity))
	})
}

// mergeSides merges the targets of a triple's two queries.
func (r *relationQueries) mergeSides() {
	slices.SortStableFunc(r.targets, func(x, y relationTarget) int {
		a, b := x.triple(r.config), y.triple(r.config)
		return cmp.Or(cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Head, b.Head), cmp.Compare(a.Tail, b.Tail),
			cmp.Compare(x.Side, y.Side))
	})
	n := 0
	for i := range r.targets {
		if t := &r.targets[i]; n > 0 && r.targets[n-1].triple(r.config) == t.triple(r.config) {
			r.targets[n-1].weight += t.weight
			continue
		}
		r.targets[n] = r.targets[i]
		n++
	}
	r.targets = r.targets[:n]
}

// divide divides the targets into chunks, groups them by anchor, and lists the slots of each chunk.
func (r *relationQueries) divide(w *workload) {
	r.chunks, r.anchors, r.slots = r.chunks[:0], r.anchors[:0], r.slots[:0]
	most := max(leastChunk, (len(r.targets)+maxChunks-1)/maxChunks)
	for first := 0; first < len(r.targets); {
		last := first + 1
		for last < len(r.targets) && last-first < most && r.targets[last].Side == r.targets[first].Side {
			last++
		}
		chunk := targetChunk{targets: span{first, last}}
		chunk.anchors.first = len(r.anchors)
		for i := first; i < last; i++ {
			if i == first || r.targets[i].Anchor != r.targets[i-1].Anchor {
				r.anchors = append(r.anchors, span{i, i})
			}
			r.anchors[len(r.anchors)-1].last++
		}
		chunk.anchors.last = len(r.anchors)
		chunk.slots = r.addSlots(w, r.targets[first:last])
		r.chunks = append(r.chunks, chunk)
		first = last
	}
}

// addSlots adds the slots of a chunk's targets, in ascending order of their relations.
func (r *relationQueries) addSlots(w *workload, targets []relationTarget) span {
	first := len(r.slots)
	for k, relation := range w.relationCandidates {
		r.slots = append(r.slots, relationSlot{relation, k})
	}
	for _, t := range targets {
		if _, sampled := slices.BinarySearch(w.relationCandidates, t.scored); !sampled {
			r.slots = append(r.slots, relationSlot{t.scored, -1})
		}
	}
	own := r.slots[first:]
	slices.SortFunc(own, func(a, b relationSlot) int { return cmp.Compare(a.relation, b.relation) })
	r.slots = r.slots[:first+len(slices.Compact(own))]
	return span{first, len(r.slots)}
}

// column returns the column of a target's score for the relation of a slot, or −1 if the relation is not
// a candidate. The last column belongs to a target's relation that is not in the sample.
func (s relationSlot) column(t *relationTarget, last int) int {
	switch {
	case s.sample >= 0:
		return s.sample
	case s.relation == t.scored:
		return last
	}
	return -1
}

// predictRelationsByQueries computes the loss of relationQueries and its gradients.
func (s *stepper) predictRelationsByQueries(ctx context.Context, w *workload) error {
	if s.relationQueries == nil {
		return nil
	}
	return s.pool.parallel(ctx, len(s.relationQueries.chunks), func(c *stepScratch, k int) {
		r, x := s.relationQueries, &c.prediction
		chunk := r.chunks[k]
		n := chunk.targets.last - chunk.targets.first
		x.scores.Resize(n, len(w.relationCandidates)+1)
		x.dPhi.Resize(n, s.towers.Width)
		x.psi.Resize(1, s.towers.PsiWidth())
		x.dPsi, x.dAnchor = resize(x.dPsi, s.towers.PsiWidth()), resize(x.dAnchor, s.tables[0].width)
		c.prefetcher.Reset()
		s.scoreChunk(ctx, c, w, chunk)
		for i := chunk.targets.first; i < chunk.targets.last; i++ {
			scores := x.scores.Row(i - chunk.targets.first)
			r.losses[i] = c.objective.relationLoss(scores, &r.targets[i], w.relationCandidates)
		}
		s.chunkGradients(ctx, c, w, chunk)
	})
}

// scoreChunk computes the scores of a chunk. A chunk may take long, so it stops if ctx is cancelled.
func (s *stepper) scoreChunk(ctx context.Context, c *stepScratch, w *workload, chunk targetChunk) {
	r, x, last := s.relationQueries, &c.prediction, len(w.relationCandidates)
	for i := range x.scores.Rows {
		x.scores.Row(i)[last] = excluded
	}
	psi := x.psi.Row(0)
	for _, slot := range r.slots[chunk.slots.first:chunk.slots.last] {
		if ctx.Err() != nil {
			return
		}
		c.worker.Begin(r.config.Asked(r.targets[chunk.targets.first].Side, slot.relation))
		for _, g := range r.anchors[chunk.anchors.first:chunk.anchors.last] {
			var constant float64
			ready := false
			for i := g.first; i < g.last; i++ {
				t := &r.targets[i]
				column := slot.column(t, last)
				if column < 0 {
					continue
				}
				if !ready {
					constant, _ = c.worker.Query(psi, s.tables[0].row(int(t.Anchor)))
					ready = true
				}
				x.row[0] = t.row
				s.pool.comparer.pairScores(x.dScore[:], psi, s.phi, x.row[:])
				x.scores.Row(i - chunk.targets.first)[column] = float32(float64(x.dScore[0]) + constant)
			}
		}
	}
}

// relationLoss returns the loss of a target, given its scores for the sampled relations and, in the last
// column, for its own relation if that is not in the sample. It replaces the scores with the derivatives
// of the loss. Derivatives below the rounding error of the target's derivative become 0.
func (o *objective) relationLoss(scores []float32, t *relationTarget, relations []int32) (loss float64) {
	own, sampled := slices.BinarySearch(relations, t.scored)
	if !sampled {
		own = len(relations)
	}
	target := &scores[own]
	score := *target
	*target = excluded
	loss, dTarget := o.crossEntropy(score, scores, t.weight)
	*target = float32(dTarget)
	const negligible = 0x1p-24
	for k, d := range scores {
		if max(d, -d) < float32(negligible*t.weight) {
			scores[k] = 0
		}
	}
	return loss
}

// chunkGradients computes the gradients of a chunk from the derivatives of its scores. It stops if ctx is
// cancelled.
func (s *stepper) chunkGradients(ctx context.Context, c *stepScratch, w *workload, chunk targetChunk) {
	r, x, n := s.relationQueries, &c.prediction, relationSize(s.tables)
	dScores, first, last := x.scores, chunk.targets.first, len(w.relationCandidates)
	clear(x.dPhi.Data[:x.dPhi.Rows*x.dPhi.Stride])
	for g := chunk.anchors.first; g < chunk.anchors.last; g++ {
		clear(r.dEntities.Row(g))
	}
	psi := x.psi.Row(0)
	for k := chunk.slots.first; k < chunk.slots.last; k++ {
		if ctx.Err() != nil {
			return
		}
		slot := r.slots[k]
		r.filled[k] = false
		for g := chunk.anchors.first; g < chunk.anchors.last; g++ {
			var dConstant float64
			ready := false
			anchor := s.tables[0].row(int(r.targets[r.anchors[g].first].Anchor))
			for i := r.anchors[g].first; i < r.anchors[g].last; i++ {
				t := &r.targets[i]
				column := slot.column(t, last)
				if column < 0 || dScores.Row(i - first)[column] == 0 {
					continue
				}
				if !r.filled[k] {
					c.worker.Begin(r.config.Asked(t.Side, slot.relation))
					r.filled[k] = true
				}
				if !ready {
					c.worker.Query(psi, anchor)
					clear(x.dPsi)
					ready = true
				}
				d := dScores.Row(i - first)[column]
				dConstant += float64(d)
				x.dScore[0], x.row[0] = d, t.row
				s.pool.comparer.addPsiGradient(x.dPsi, x.dScore[:], psi, s.phi, x.row[:])
				x.row[0] = 0
				s.pool.comparer.addPhiGradient(x.dPhi.Row(i-first), x.dScore[:], s.phi.Row(int(t.row)), x.psi, x.row[:])
			}
			if ready {
				c.worker.QueryGradient(x.dAnchor, x.dPsi, anchor, dConstant, 0)
				s.backend.Axpy(r.dEntities.Row(g), 1, x.dAnchor)
			}
		}
		if r.filled[k] {
			c.worker.End(r.dRelation(k, n))
		}
	}
	for i := first; i < chunk.targets.last; i++ {
		t := &r.targets[i]
		dEntity := r.dEntities.Row(len(r.anchors) + i)
		c.worker.FeatureGradient(dEntity, x.dPhi.Row(i-first), s.phi.Row(int(t.row)), t.entity)
	}
}

// dRelation returns the gradient of a slot.
func (r *relationQueries) dRelation(slot, width int) []float32 {
	return r.dRelations[slot*width : (slot+1)*width]
}

// mostSlots returns an upper bound on the number of slots. The bound is the same for most steps, so the
// memory for their gradients rarely grows.
func (r *relationQueries) mostSlots(w *workload) (n int) {
	others := r.numRelations - len(w.relationCandidates) // relations outside the sample
	for _, chunk := range r.chunks {
		n += len(w.relationCandidates) + min(others, max(leastChunk, chunk.targets.last-chunk.targets.first))
	}
	return n
}
