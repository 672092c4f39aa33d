package model

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// In block MQuinE and block MQuadE (docs/models/mquine.md, "Blocks"), an entity consists of k
// symmetric d × d matrices, and a relation has k matrices in place of each matrix. The score is the
// sum of the scores of k independent models. It equals the score of one model with block-diagonal
// matrices. φ and ψ are the blocks' vectors, one after another.
//
// The reference score is −s = (−s₁ − s₂) − … − s_k, computed from the blocks' reference scores
// −s_i. Every addition is rounded.

// blocks is the number k of blocks.
var blocks = &HyperParameter{
	Key: "blocks", Help: "number of blocks: the score is the sum of this many models of dimension d",
	Default: 1, Least: 1, Most: 64, Whole: true,
}

// blockRow returns the extents of a row that has an equal part for each block.
func blockRow(c Config, extents ...int) []int {
	if k := int(blocks.Of(c)); k > 1 {
		return append([]int{k}, extents...)
	}
	return extents
}

// scatterBlocks scatters each block, a triangle of n entries, around the block of the centre.
func scatterBlocks(n int) initial.Scatter {
	return func(s *initial.Source, row, centre []float32) {
		for at := 0; at < len(row); at += n {
			initial.NearbySymmetric(s, row[at:at+n], centre[at:at+n])
		}
	}
}

// buildMatrices returns MQuinE or MQuadE.
func buildMatrices(t Tables) Model {
	k := int(blocks.Of(t.config))
	if k == 1 {
		return &matrixModel{t, 0, 1}
	}
	m := &blockModel{Tables: t}
	for i := range k {
		m.blocks = append(m.blocks, &matrixModel{t, i, k})
	}
	return m
}

// blockModel is MQuinE or MQuadE with several blocks.
type blockModel struct {
	Tables
	blocks []*matrixModel
}

func (m *blockModel) Tower(side kg.Side) Tower {
	t := m.blocks[0].Tower(side)
	t.Psi *= len(m.blocks)
	t.Phi *= len(m.blocks)
	return t
}

func (m *blockModel) NewWorker(b *kernel.Backend) Worker {
	w := &blockWorker{}
	for _, block := range m.blocks {
		w.blocks = append(w.blocks, block.newWorker(b))
	}
	return OneByOne(w)
}

// blockWorker is the worker of blockModel.
type blockWorker struct{ blocks []*matrixWorker }

// ofBlock returns the entries of block i in a vector with k blocks of equal length.
func ofBlock[T any](x []T, i, k int) []T {
	n := len(x) / k
	return x[i*n : (i+1)*n]
}

// Feature writes φ of the blocks. The size is an upper bound on the norm of all blocks together.
func (w *blockWorker) Feature(side kg.Side, relation, e int32, phi []float32) (size float64) {
	var squares float64
	for i, block := range w.blocks {
		n := block.Feature(side, relation, e, ofBlock(phi, i, len(w.blocks)))
		squares += n * n
	}
	return math.Sqrt(squares) * blockSlack
}

// blockSlack covers the roundings of sums over at most 64 blocks.
const blockSlack = 1 + 0x1p-40

func (w *blockWorker) Query(q kg.Query, psi []float32) Slack {
	// See docs/models/mquine.md, "Blocks".
	var constant, linear, most float64
	k := len(w.blocks)
	for i, block := range w.blocks {
		a0, a1 := block.query(q, ofBlock(psi, i, k))
		constant += a0 * a0
		linear += a0 * a0 * a1 * a1
		most = max(most, a1)
	}
	kappa := kernel.Gamma(10*w.blocks[0].d+16+k, kernel.U64) * blockSlack
	return Slack{kappa * constant, 2 * kappa * math.Sqrt(linear), kappa * most * most}
}

func (w *blockWorker) Reference(q kg.Query, e int32) float64 {
	sum := w.blocks[0].Reference(q, e)
	for _, block := range w.blocks[1:] {
		sum += block.Reference(q, e)
	}
	return sum
}

func (m *blockModel) Training() Training {
	t, k := m.blocks[0].Training(), len(m.blocks)
	t.Blocks = k
	t.Width *= k
	t.Scratch *= k
	t.Features *= k
	t.Query *= k
	t.QueryGradient *= k
	return t
}

func (m *blockModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	w := &blockTraining{model: m}
	for _, block := range m.blocks {
		w.blocks = append(w.blocks, block.NewTrainingWorker(b, p))
	}
	d := m.config.Dim
	w.relation = make([]float32, (len(m.tensors)-1)*d*d)
	return w
}

// blockTraining is the training worker of blockModel.
type blockTraining struct {
	model    *blockModel
	blocks   []TrainingWorker
	relation []float32 // the gradient of a relation's matrices in one block
}

func (w *blockTraining) Features(phi []float32, e int32) {
	for i, block := range w.blocks {
		block.Features(ofBlock(phi, i, len(w.blocks)), e)
	}
}

func (w *blockTraining) FeatureGradient(dEntity, dPhi, phi []float32, e int32) {
	k := len(w.blocks)
	for i, block := range w.blocks {
		block.FeatureGradient(ofBlock(dEntity, i, k), ofBlock(dPhi, i, k), ofBlock(phi, i, k), e)
	}
}

func (w *blockTraining) Begin(side kg.Side, relation int32) {
	for _, block := range w.blocks {
		block.Begin(side, relation)
	}
}

func (w *blockTraining) Query(psi, anchor []float32) (c, penalty float64) {
	k := len(w.blocks)
	for i, block := range w.blocks {
		blockC, blockPenalty := block.Query(ofBlock(psi, i, k), ofBlock(anchor, i, k))
		c += blockC
		penalty += blockPenalty
	}
	return c, penalty
}

// QueryGradient works from the first block to the last. dPsi is twice as long as dAnchor. If
// dAnchor overlaps the beginning of dPsi, a block therefore overwrites only parts of dPsi that are
// no longer needed.
func (w *blockTraining) QueryGradient(dAnchor, dPsi, anchor []float32, dc, dPenalty float64) {
	k := len(w.blocks)
	for i, block := range w.blocks {
		block.QueryGradient(ofBlock(dAnchor, i, k), ofBlock(dPsi, i, k), ofBlock(anchor, i, k), dc, dPenalty)
	}
}

func (w *blockTraining) End(dRelation []float32) {
	for i, block := range w.blocks {
		block.End(w.relation)
		w.eachMatrix(dRelation, i, func(to, from []float32) { copy(to, from) })
	}
}

func (w *blockTraining) EntityPenalty(dEntity []float32, e int32, weight float64) (sum float64) {
	for i, block := range w.blocks {
		sum += block.EntityPenalty(ofBlock(dEntity, i, len(w.blocks)), e, weight)
	}
	return sum
}

func (w *blockTraining) RelationPenalty(dRelation []float32, r int32, weight float64) (sum float64) {
	for i, block := range w.blocks {
		clear(w.relation)
		sum += block.RelationPenalty(w.relation, r, weight)
		w.eachMatrix(dRelation, i, func(to, from []float32) {
			for j, g := range from {
				to[j] += g
			}
		})
	}
	return sum
}

// eachMatrix calls f for each matrix of a block. The argument to is the matrix's place in dRelation,
// and from is the matrix's gradient in w.relation.
func (w *blockTraining) eachMatrix(dRelation []float32, block int, f func(to, from []float32)) {
	tensors := len(w.model.tensors) - 1
	for i := range tensors {
		f(ofBlock(ofBlock(dRelation, i, tensors), block, len(w.blocks)), ofBlock(w.relation, i, tensors))
	}
}
