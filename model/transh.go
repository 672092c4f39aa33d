package model

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model/initial"
)

// TransH (Wang et al., 2014; docs/models/transh.md) has the score γ − ‖h⊥ + r − t⊥‖. Here e⊥ = e −
// (w·e)w is the projection of an entity onto the relation's hyperplane, whose normal is w. Training
// keeps w at unit length; the score uses the stored w.
//
// The image is computed in float64, and every operation is rounded: α is the chain over i from 0 of
// w_i e_i, and e⊥_i = e_i − α w_i. See projected.go for the rest.

var transHL1, transHL2 = projection{
	name: "transh", title: "TransH", score: "‖h⊥ + r − t⊥‖", maxDim: maxVectorDim, recipe: relationalRecipe,
	hyper: []*HyperParameter{maxNorm, maxProjectionNorm, unitProjections},
	tensors: func(c Config) []Parameter {
		row, short := []int{c.Dim}, atMost(maxNorm.Of(c))
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: row, Initial: initial.XavierUniform, Constrain: short},
			{Name: "relation", Axis: PerRelation, Row: row, Initial: initial.XavierUniform},
			{Name: "relation.normal", Axis: PerRelation, Row: row, Initial: initial.XavierUniform, Constrain: toUnit},
		}
	},
	width:     func(c Config) int { return c.Dim },
	projector: func(m *projected, _ *kernel.Backend) projector { return transHProjector{m} },
	training: func(m *projected, b *linalg.Backend) trainingProjector {
		return &transHTraining{model: m, backend: b}
	},
}.specs()

// normalTable is the index of TransH's normals.
const normalTable = translationTable + 1

type transHProjector struct{ *projected }

func (p transHProjector) project(x []float64, r int32, entities []int32) {
	w := p.Row(normalTable, r)
	for i, e := range entities {
		row := p.Row(entityTable, e)
		to := x[i*p.stride():][:len(row)]
		var alpha float64
		for k, v := range row {
			alpha += float64(float64(w[k]) * float64(v))
		}
		for k, v := range row {
			to[k] = float64(v) - float64(alpha*float64(w[k]))
		}
	}
}

type transHTraining struct {
	model   *projected
	backend *linalg.Backend
	w       []float32
}

func (t *transHTraining) begin(r int32) { t.w = t.model.Row(normalTable, r) }

func (t *transHTraining) project(x, row []float32) {
	copy(x, row)
	t.backend.Axpy(x, -float32(t.backend.Dot(t.w, row)), t.w)
}

// gradient uses x = e − (w·e)w: ∂e = ∂x − (w·∂x)w and ∂w = −(w·e)∂x − (w·∂x)e.
func (t *transHTraining) gradient(dRow, sum, dX, row []float32) {
	along, alpha := float32(t.backend.Dot(t.w, dX)), float32(t.backend.Dot(t.w, row))
	t.backend.Axpy(sum, -alpha, dX)
	t.backend.Axpy(sum, -along, row)
	copy(dRow, dX)
	t.backend.Axpy(dRow, -along, t.w)
}
