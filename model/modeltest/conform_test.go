package modeltest

import (
	"fmt"
	"testing"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

func init() {
	model.Register(CP)
	model.Register(TuckER)
}

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

func TestTuckER(t *testing.T) {
	Conform(t, Subject{
		Spec: TuckER,
		Definition: func(m model.Model, side kg.Side, triple kg.Triple) float64 {
			n, relations, d := m.Config().Entities, m.Config().Relations, m.Config().Dim
			x := m.Tensors()
			a, r, b := Row(x[0], n, triple.Head), Row(x[1], relations, triple.Relation), Row(x[0], n, triple.Tail)
			if side == kg.Head {
				a, r, b = b, Row(x[2], relations, triple.Relation), a
			}
			core, mean := Row(x[3], 1, 0), Row(x[4], 1, 0)
			score := 0.0
			for k := range d {
				q := 0.0
				for i := range d {
					projection := 0.0
					for j := range d {
						term := float64(r[j] * core[(j*d+i)*d+k])
						projection += term
					}
					term := float64(a[i] * projection)
					q += term
				}
				q -= mean[k]
				term := float64(q * b[k])
				score += term
			}
			return score
		},
	})
}
