package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// Batches of any size have the query vectors, penalties and gradients that gonum computes in float64,
// with rows of whole cache lines (d = 16) and others, and after more than one batch.
func TestRESCALBatches(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, d := range []int{1, 5, 16, 33, 48} {
		m := random(t, "rescal", d, 1, 2, 1, 1).(*rescalModel)
		for _, b := range backends {
			for _, penalty := range []Penalty{NoPenalty, Dura} {
				w := m.NewTrainingWorker(linalg.New(b), penalty).(*rescalTraining)
				for _, side := range []kg.Side{kg.Tail, kg.Head} {
					for _, batches := range [][]int{{1}, {2}, {7}, {MaxBatch}, {MaxBatch, 3}} {
						name := fmt.Sprintf("d = %d, %v, %s, %v, batches of %v", d, b.Tier, penalty, side, batches)
						checkRESCALBatches(t, name, m, w, side, batches)
					}
				}
			}
		}
	}
}

func checkRESCALBatches(t *testing.T, name string, m *rescalModel, w *rescalTraining, side kg.Side, batches []int) {
	const relation = 1
	d, rng := m.config.Dim, rand.New(rand.NewPCG(uint64(m.config.Dim), uint64(len(batches))))
	r := denseOf(m.Row(relationTable, relation), d)
	if side == kg.Head { // ψ = Rᵀa for tails, and Ra for heads
		r = mat.DenseCopyOf(r.T())
	}
	dR := mat.NewDense(d, d, nil)
	w.Begin(side, relation)
	for _, n := range batches {
		anchors, dPsi := normal(rng, n, d), normal(rng, n, d)
		psi, dAnchors := linalg.NewMatrix(n, d), linalg.NewMatrix(n, d)
		penalties, dPenalties := make([]float64, n), make([]float64, n)
		w.Queries(psi, anchors, penalties)
		for i := range dPenalties {
			dPenalties[i] = rng.Float64()
		}
		w.QueryGradients(dAnchors, dPsi, anchors, dPenalties)

		var want, total, dA, outer mat.Dense
		a := denseOf(entriesOf(anchors), d)
		want.Mul(a, r)
		closeRows(t, name+": ψ", &want, psi)
		total.CloneFrom(denseOf(entriesOf(dPsi), d))
		for i := range n {
			norm, penalty := mat.Norm(want.RowView(i), 2), 0.0
			if w.penalty == Dura {
				penalty = norm * norm
				for j := range d {
					total.Set(i, j, total.At(i, j)+2*dPenalties[i]*want.At(i, j))
				}
			}
			assert.InDelta(t, penalty, penalties[i], 1e-5*penalty, "%s: penalty", name)
		}
		dA.Mul(&total, r.T())
		closeRows(t, name+": ∂a", &dA, dAnchors)
		outer.Mul(a.T(), &total)
		dR.Add(dR, &outer)
	}
	if side == kg.Head {
		dR = mat.DenseCopyOf(dR.T())
	}
	dRelation := make([]float32, d*d)
	w.End(dRelation)
	closeRows(t, name+": ∂R", dR, linalg.Matrix{Data: dRelation, Rows: d, Cols: d, Stride: d})
}

// closeRows allows for the rounding of float32 sums, relative to the largest entry.
func closeRows(t *testing.T, name string, want *mat.Dense, got linalg.Matrix) {
	t.Helper()
	var difference mat.Dense
	difference.Sub(want, denseOf(entriesOf(got), got.Cols))
	largest := func(x mat.Matrix) float64 { return max(mat.Max(x), -mat.Min(x)) }
	tolerance := float64(got.Cols+MaxBatch) * math.Exp2(-23) * largest(want)
	assert.LessOrEqual(t, largest(&difference), tolerance, name)
}

func normal(rng *rand.Rand, n, d int) linalg.Matrix {
	m := linalg.NewMatrix(n, d)
	for i := range n {
		for j := range d {
			m.Row(i)[j] = float32(rng.NormFloat64())
		}
	}
	return m
}

// entriesOf returns the entries of m without the padding.
func entriesOf(m linalg.Matrix) (entries []float32) {
	for i := range m.Rows {
		entries = append(entries, m.Row(i)...)
	}
	return entries
}

func denseOf(x []float32, cols int) *mat.Dense {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return mat.NewDense(len(x)/cols, cols, y)
}
