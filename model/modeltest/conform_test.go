package modeltest

import (
	"testing"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

func init() { model.Register(TuckER) }

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
