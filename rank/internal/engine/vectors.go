package engine

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// Outward is a factor that covers the rounding errors of computing a band.
const Outward = 1 + 1e-9

// Vectors holds ψ of the queries of a block, by row, with the norms and slacks for their error
// bands (docs/numerics.md). Every interval bounds a reference score minus the constant of its
// query.
type Vectors struct {
	Tower  model.Tower
	Psi    []float32 // rows of Stride() entries, padded with zeros
	Norms  []float64 // upper bounds on ‖ψ‖
	Slacks []model.Slack

	anchors []int32 // anchors of a batch of queries with the same relation and side
}

// NewVectors reserves memory for up to n queries. entries is the total length of their ψ.
func NewVectors(n, entries int) Vectors {
	return Vectors{
		Psi: kernel.AlignedFloat32(entries), Norms: make([]float64, n), Slacks: make([]model.Slack, n),
		anchors: make([]int32, 0, vectorBatch),
	}
}

// Stride returns the length of a row: the width of ψ, padded with zeros to a multiple of
// kernel.PairWidth coordinates.
func (v *Vectors) Stride() int { return PsiStride(v.Tower) }

// Row returns ψ of a row, padded with zeros.
func (v *Vectors) Row(i int) []float32 { return v.Psi[i*v.Stride() : (i+1)*v.Stride()] }

// Compute computes ψ, the norms and the slacks of queries.
func (v *Vectors) Compute(ctx context.Context, w model.Worker, tower model.Tower, queries []Query) error {
	v.Tower = tower
	clear(v.Psi)
	for first, last := 0, 0; first < len(queries); first = last {
		if err := ctx.Err(); err != nil {
			return err
		}
		q := queries[first]
		v.anchors = v.anchors[:0]
		for last < len(queries) && len(v.anchors) < vectorBatch &&
			queries[last].Side == q.Side && queries[last].Relation == q.Relation {
			v.anchors = append(v.anchors, queries[last].Anchor)
			last++
		}
		psi := model.Rows{Values: v.Psi[first*v.Stride():], Width: tower.Psi, Stride: v.Stride()}
		w.Queries(q.Side, q.Relation, v.anchors, psi, v.Slacks[first:])
		for i := first; i < last; i++ {
			v.Norms[i] = tower.Compare.PsiNorm(v.Row(i)[:tower.Psi])
		}
	}
	return nil
}

// Interval bounds the reference score of a candidate with the given float64 score, ‖φ‖ and size.
func (v *Vectors) Interval(row int, score, norm, size float64) (low, high float64) {
	relative := v.Tower.Compare.PairError(PairPad(v.Tower.Terms()))
	return v.Around(row, score, relative, 0, norm, size)
}

// Around bounds the reference scores of candidates with the given score whose norm and size are at
// most the given values. relative and absolute bound the error of score. The interval is infinite
// if score is infinite or NaN.
func (v *Vectors) Around(row int, score, relative, absolute, norm, size float64) (low, high float64) {
	band := absolute
	if v.Tower.Compare.Products() {
		band = v.Product(row, relative, absolute, norm)
	}
	if v.Tower.Compare.Distance() {
		// |D − D̂| ≤ relative·D + band, so D ≤ (D̂ + band)/(1 − relative).
		band = relative*(math.Abs(score)+band)/(1-relative) + band
	}
	band = (band+v.Slack(row, size))*Outward + 2*kernel.U64*math.Abs(score)
	if !(band < math.Inf(1)) {
		return math.Inf(-1), math.Inf(1)
	}
	return score - band, score + band
}

// Product returns the band of a sum of products: the error of its computation, relative·‖ψ‖‖φ‖ +
// absolute, and the error from rounding ψ and φ to float32, unless the slack includes it.
func (v *Vectors) Product(row int, relative, absolute, norm float64) float64 {
	product := v.Norms[row] * norm
	if !(product < math.Inf(1)) {
		return math.Inf(1)
	}
	input, tiny := v.Tower.Compare.InputError(v.Tower.Phi)
	return (relative+input)*product + (absolute + tiny*(v.Norms[row]+norm+1))
}

// Slack returns the model's slack for candidates of at most the given size, or +Inf if ψ is not
// finite.
func (v *Vectors) Slack(row int, size float64) float64 {
	if slack := v.Slacks[row].At(size); slack < math.Inf(1) && v.Norms[row] < math.Inf(1) {
		return slack
	}
	return math.Inf(1)
}
