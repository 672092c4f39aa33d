package train

import (
	"iter"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// duals computes the part of the penalties dura and dura3 that queries do not have with reciprocal
// relations. Without them, the two queries of a triple have the vectors of both entities with the
// same relation, such as h∘r and conj(r)∘t. With them, the tail query has h∘r, and the head query,
// which asks for a tail of r⁻¹, has t∘r⁻¹. DURA (Zhang et al., 2020) is a mean over the triple and
// its inverse, each of which has both vectors. A query therefore counts half, and so do its targets
// together.
type duals struct {
	work     *workload
	dTargets linalg.Matrix // gradients of work.answers
	// penalties holds the targets' shares of the penalty, and dPenalties the derivatives of the loss with
	// respect to these shares.
	penalties, dPenalties []float64
}

// newDuals returns nil if queries have the whole penalty.
func newDuals(c *recipe.Recipe) *duals {
	if !c.Reciprocal || !c.Regulariser.IsDura() {
		return nil
	}
	return &duals{}
}

// begin allocates memory for the gradients of the targets.
func (d *duals) begin(w *workload, width int) {
	d.work = w
	d.dTargets.Resize(len(w.answers), width)
	d.penalties, d.dPenalties = resize(d.penalties, len(w.answers)), resize(d.dPenalties, len(w.answers))
}

// targetsOf returns the range of the targets of main query q.
func (d *duals) targetsOf(q int) (first, last int) {
	return int(d.work.firstAnswer[q]), int(d.work.firstAnswer[q+1])
}

// addTargets adds the shares of the targets to own, the shares of main queries from q on, and so turns
// them into the whole penalties of these queries.
func (d *duals) addTargets(own []float64, c *stepScratch, worker model.TrainingWorker, entities parameterTable, q int) {
	for first, last := range d.batches(q, q+len(own)) {
		worker.(model.Dual).DualPenalties(d.penalties[first:last], d.rows(c, entities, first, last))
	}
	for i := range own {
		first, last := d.targetsOf(q + i)
		var sum float64
		for _, p := range d.penalties[first:last] {
			sum += p
		}
		own[i] = (own[i] + sum/float64(last-first)) / 2
	}
}

// gradients computes the gradients of the targets of main queries from q on. It turns dPenalties, the
// derivatives with respect to the whole penalties of these queries, into the derivatives with respect
// to their own shares.
func (d *duals) gradients(
	dPenalties []float64, c *stepScratch, worker model.TrainingWorker, entities parameterTable, q int,
) {
	for i := range dPenalties {
		dPenalties[i] /= 2
		first, last := d.targetsOf(q + i)
		for k := first; k < last; k++ {
			d.dPenalties[k] = dPenalties[i] / float64(last-first)
		}
	}
	for first, last := range d.batches(q, q+len(dPenalties)) {
		worker.(model.Dual).DualGradients(
			d.dTargets.Slice(first, last), d.rows(c, entities, first, last), d.dPenalties[first:last])
	}
}

// batches divides the targets of main queries from ≤ q < to into ranges of at most model.MaxBatch.
func (d *duals) batches(from, to int) iter.Seq2[int, int] {
	return func(yield func(first, last int) bool) {
		end := int(d.work.firstAnswer[to])
		for first := int(d.work.firstAnswer[from]); first < end; first += model.MaxBatch {
			if !yield(first, min(first+model.MaxBatch, end)) {
				return
			}
		}
	}
}

// rows copies the embeddings of targets first ≤ k < last into c.batch.
func (d *duals) rows(c *stepScratch, entities parameterTable, first, last int) linalg.Matrix {
	rows := c.batch.Slice(0, last-first)
	for k, e := range d.work.answers[first:last] {
		copy(rows.Row(k), entities.row(int(e)))
	}
	return rows
}
