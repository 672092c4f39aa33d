package ownmodel_test

import (
	"testing"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/modeltest"
)

// The definition of the score shares no code with the model.
func TestConform(t *testing.T) {
	modeltest.Conform(t, modeltest.Subject{
		Spec: diagonal,
		Definition: func(m model.Model, _ kg.Side, triple kg.Triple) (score float64) {
			d := m.(*diagonalModel)
			h, r, t := d.Row(entities, triple.Head), d.Row(relations, triple.Relation), d.Row(entities, triple.Tail)
			for i := range r {
				score += float64(float64(float64(h[i])*float64(r[i])) * float64(t[i]))
			}
			return score
		},
	})
}
