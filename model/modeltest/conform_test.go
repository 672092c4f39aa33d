package modeltest

import (
	"fmt"
	"testing"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

func init() { model.Register(CP) }

func TestCP(t *testing.T) {
	for _, reciprocal := range []bool{false, true} {
		t.Run(fmt.Sprintf("reciprocal %v", reciprocal), func(t *testing.T) {
			Conform(t, Subject{
				Spec: CP, Reciprocal: reciprocal,
				Definition: func(m model.Model, side kg.Side, triple kg.Triple) float64 {
					n, relations := m.Config().Entities, m.Config().Relations
					x := m.Tensors()
					head, relation, tail := triple.Head, triple.Relation, triple.Tail
					if reciprocal {
						relations, relation = 2*relations, 2*relation
						if side == kg.Head {
							head, relation, tail = tail, relation+1, head
						}
					}
					a, r, b := Row(x[0], n, head), Row(x[2], relations, relation), Row(x[1], n, tail)
					score := 0.0
					for i := range a {
						ar := float64(a[i] * r[i])
						term := float64(ar * b[i])
						score += term
					}
					return score
				},
			})
		})
	}
}
