package modeltest

import (
	"testing"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

func init() {
	model.Register(CP)
	model.Register(TuckER)
}

func TestCP(t *testing.T) {
	for _, reciprocal := range []float64{0, 1} {
		t.Run([]string{"plain", "reciprocal"}[int(reciprocal)], func(t *testing.T) {
			Conform(t, Subject{
				Spec:  CP,
				Hyper: func(float64) map[string]float64 { return map[string]float64{"reciprocal": reciprocal} },
				Definition: func(m model.Model, side kg.Side, triple kg.Triple) float64 {
					n, relations := m.Config().Entities, m.Config().Relations
					x := m.Tensors()
					head, relation, tail := triple.Head, x[2], triple.Tail
					if side == kg.Head && reciprocal == 1 {
						head, relation, tail = triple.Tail, x[3], triple.Head
					}
					a, r, b := Row(x[0], n, head), Row(relation, relations, triple.Relation), Row(x[1], n, tail)
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
