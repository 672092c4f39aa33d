package train

import (
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// duals computes the part of the penalty dura that queries do not have with reciprocal relations.
// Without them, the two queries of a triple have the vectors of both entities with the same
// relation, such as h∘r and conj(r)∘t. With them, the tail query has h∘r, and the head query, which
// asks for a tail of r⁻¹, has t∘r⁻¹. DURA (Zhang et al., 2020) is a mean over the triple and its
// inverse, each of which has both vectors. A query therefore counts half, and so do its targets
// together.
type duals struct {
	first    []int32       // the targets of main query i are first[i] ≤ k < first[i+1]
	targets  []int32       // entities
	dTargets linalg.Matrix // their gradients
}

// newDuals returns nil if queries have the whole penalty.
func newDuals(c *recipe.Recipe) *duals {
	if !c.Reciprocal || c.Regulariser != model.Dura {
		return nil
	}
	return &duals{}
}

// begin lists the targets of the main queries and allocates memory for their gradients.
func (d *duals) begin(w *workload, known *kg.Index, width int) {
	d.first, d.targets = append(d.first[:0], 0), d.targets[:0]
	for i := range w.main {
		d.targets = w.targets(d.targets, known, i)
		d.first = append(d.first, int32(len(d.targets)))
	}
	size(&d.dTargets, len(d.targets), width)
}

// targetsOf returns the range of the targets of main query q.
func (d *duals) targetsOf(q int) (first, last int) { return int(d.first[q]), int(d.first[q+1]) }

// penalty returns the penalty of main query q, given the query's own share.
func (d *duals) penalty(own float64, worker model.TrainingWorker, entities parameterTable, q int) float64 {
	first, last := d.targetsOf(q)
	var sum float64
	for _, e := range d.targets[first:last] {
		sum += worker.(model.Dual).DualPenalty(entities.row(int(e)))
	}
	return (own + sum/float64(last-first)) / 2
}

// gradients computes the gradients of the targets of main query q, and returns the derivative with
// respect to the query's own share of the penalty.
func (d *duals) gradients(
	dPenalty float64, worker model.TrainingWorker, entities parameterTable, q int,
) (dOwn float64) {
	first, last := d.targetsOf(q)
	each := dPenalty / 2 / float64(last-first)
	for k := first; k < last; k++ {
		worker.(model.Dual).DualGradient(d.dTargets.Row(k), entities.row(int(d.targets[k])), each)
	}
	return dPenalty / 2
}
