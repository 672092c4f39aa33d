package model

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model/initial"
)

// TransR (Lin et al., 2015; docs/models/transr.md) has the score γ − ‖hM + r − tM‖. Here h and t
// are row vectors, and M is the dim × relation_dim matrix of the relation.
//
// The image is computed in float64, and every sum is rounded: (eM)_j is the chain over i from 0 of
// e_i M_ij. See projected.go for the rest.

var transRL1, transRL2 = projection{
	name: "transr", title: "TransR", score: "‖hM + r − tM‖", maxDim: maxMatrixDim, recipe: relational("32"),
	hyper: []*HyperParameter{relationDim, maxNorm, maxProjectionNorm, unitProjections},
	tensors: func(c Config) []Parameter {
		width := relationWidth(c)
		short := atMost(maxNorm.Of(c))
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{c.Dim}, Initial: initial.XavierUniform, Constrain: short},
			{Name: "relation", Axis: PerRelation, Row: []int{width}, Initial: initial.XavierUniform, Constrain: short},
			{Name: "relation.projection", Axis: PerRelation, Row: []int{c.Dim, width}, Initial: initial.Identity},
		}
	},
	width:     relationWidth,
	projector: newTransRProjector,
	training: func(m *projected, b *linalg.Backend) trainingProjector {
		return &transRTraining{model: m, backend: b}
	},
}.specs()

// projectionTable is the index of the projections of TransR and TransD.
const projectionTable = translationTable + 1

// transRProjector multiplies a batch of entities by the matrix of a relation.
type transRProjector struct {
	*projected
	backend  *kernel.Backend
	entities []float64 // a row for each entity of a batch
	matrix   []float64
	relation int32 // the relation of matrix
}

func newTransRProjector(m *projected, b *kernel.Backend) projector {
	return &transRProjector{
		projected: m, backend: b, relation: -1,
		entities: kernel.AlignedFloat64(projectionBatch * m.stride()),
		matrix:   kernel.AlignedFloat64(m.config.Dim * m.stride()),
	}
}

func (p *transRProjector) project(x []float64, r int32, entities []int32) {
	stride := p.stride()
	if p.relation != r {
		p.relation = r
		row := p.Row(projectionTable, r)
		for i := range p.config.Dim {
			widen(p.matrix[i*stride:], row[i*p.width:][:p.width])
		}
	}
	for i, e := range entities {
		widen(p.entities[i*stride:], p.Row(entityTable, e))
	}
	p.backend.MatMulRows(x, p.entities, p.matrix, len(entities), p.config.Dim, p.width, stride)
}

type transRTraining struct {
	model   *projected
	backend *linalg.Backend
	m       []float32
}

func (t *transRTraining) begin(r int32) { t.m = t.model.Row(projectionTable, r) }

// matrix returns M.
func (t *transRTraining) matrix() linalg.Matrix {
	width := t.model.width
	return linalg.Matrix{Data: t.m, Rows: t.model.config.Dim, Cols: width, Stride: width}
}

func (t *transRTraining) project(x, row []float32) {
	clear(x)
	t.backend.AddRows(x, row, t.matrix(), nil)
}

// gradient uses x = eM: ∂e = ∂x Mᵀ and ∂M = eᵀ ∂x.
func (t *transRTraining) gradient(dRow, sum, dX, row []float32) {
	t.backend.Dots(dRow, dX, t.matrix(), nil)
	for i, v := range row {
		t.backend.Axpy(sum[i*len(dX):][:len(dX)], v, dX)
	}
}
