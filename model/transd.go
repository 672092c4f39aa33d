package model

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model/initial"
)

// TransD (Ji et al., 2015; docs/models/transd.md) has the score γ − ‖h′ + r − t′‖ with e′ = Ie +
// (e_p·e)r_p. I cuts e to relation_dim coordinates or appends zeros. The row of an entity holds e,
// then its projection vector e_p; each has dim entries.
//
// The image is computed in float64, and every operation is rounded: c is the chain over i from 0 of
// p_i e_i, where p = e_p, and e′_j = (Ie)_j + c r_p,j. See projected.go for the rest.

var transDL1, transDL2 = projection{
	name: "transd", title: "TransD", score: "‖h′ + r − t′‖", maxDim: maxVectorDim, recipe: relationalRecipe,
	hyper: []*HyperParameter{relationDim, maxNorm, maxProjectionNorm, unitProjections},
	tensors: func(c Config) []Parameter {
		width := relationWidth(c)
		short := atMost(maxNorm.Of(c))
		first := func(row []float32) { short(row[:c.Dim]) }
		if short == nil {
			first = nil
		}
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{2, c.Dim}, Initial: initial.XavierUniform, Constrain: first},
			{Name: "relation", Axis: PerRelation, Row: []int{width}, Initial: initial.XavierUniform, Constrain: short},
			{Name: "relation.projection", Axis: PerRelation, Row: []int{width}, Initial: initial.XavierUniform},
		}
	},
	width:     relationWidth,
	projector: func(m *projected, _ *kernel.Backend) projector { return transDProjector{m} },
	training: func(m *projected, b *linalg.Backend) trainingProjector {
		return &transDTraining{model: m, backend: b}
	},
}.specs()

type transDProjector struct{ *projected }

func (p transDProjector) project(x []float64, r int32, entities []int32) {
	direction := p.Row(projectionTable, r)
	for i, e := range entities {
		row, by := halves(p.Row(entityTable, e))
		to := x[i*p.stride():][:len(direction)]
		var c float64
		for k, v := range row {
			c += float64(float64(by[k]) * float64(v))
		}
		for k, v := range direction {
			var own float64
			if k < len(row) {
				own = float64(row[k])
			}
			to[k] = own + float64(c*float64(v))
		}
	}
}

type transDTraining struct {
	model     *projected
	backend   *linalg.Backend
	direction []float32 // r_p
}

func (t *transDTraining) begin(r int32) { t.direction = t.model.Row(projectionTable, r) }

func (t *transDTraining) project(x, row []float32) {
	e, by := halves(row)
	clear(x[copy(x, e):])
	t.backend.Axpy(x, float32(t.backend.Dot(by, e)), t.direction)
}

// gradient uses x = Ie + c r_p with c = p·e: with ∂c = r_p·∂x and Iᵀ, which restores the length of an
// entity, ∂e = Iᵀ∂x + ∂c p, ∂p = ∂c e and ∂r_p = c ∂x.
func (t *transDTraining) gradient(dRow, sum, dX, row []float32) {
	e, by := halves(row)
	dE, dBy := halves(dRow)
	c, dc := float32(t.backend.Dot(by, e)), float32(t.backend.Dot(t.direction, dX))
	t.backend.Axpy(sum, c, dX)
	clear(dE[copy(dE, dX):])
	t.backend.Axpy(dE, dc, by)
	clear(dBy)
	t.backend.Axpy(dBy, dc, e)
}
