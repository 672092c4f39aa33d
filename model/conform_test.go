package model_test

import (
	"math"
	"testing"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/modeltest"
)

// definitions holds the reference score of each vector model, as a function of the rows of head,
// relation and tail, in the order of operations that the model's file states.
var definitions = map[string]func(c model.Config, h, r, t []float64) float64{
	"transe-l1": func(c model.Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			hr := h[i] + r[i]
			score = score + math.Abs(hr-t[i])
		}
		return -score
	},
	"transe-l2": func(c model.Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			hr := h[i] + r[i]
			v := hr - t[i]
			square := float64(v * v)
			score = score + square
		}
		return -score
	},
	"distmult": func(c model.Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			hr := float64(h[i] * r[i])
			hrt := float64(hr * t[i])
			score = score + hrt
		}
		return score
	},
	"complex": func(c model.Config, h, r, t []float64) float64 {
		score, k := 0.0, c.Dim
		for i := range k {
			p1, p2 := float64(h[i]*r[i]), float64(h[k+i]*r[k+i])
			p3, p4 := float64(h[i]*r[k+i]), float64(h[k+i]*r[i])
			re, im := p1-p2, p3+p4
			x, y := float64(re*t[i]), float64(im*t[k+i])
			term := x + y
			score = score + term
		}
		return score
	},
	"rotate": func(c model.Config, h, r, t []float64) float64 {
		score, k := 0.0, c.Dim
		for i := range k {
			factor := math.Pi / c.Hyper[model.EmbeddingRange]
			sin, cos := model.SinCos(float64(r[i] * factor))
			p1, p2 := float64(h[i]*cos), float64(h[k+i]*sin)
			p3, p4 := float64(h[i]*sin), float64(h[k+i]*cos)
			re, im := p1-p2, p3+p4
			re, im = re-t[i], im-t[k+i]
			x, y := float64(re*re), float64(im*im)
			modulus := math.Sqrt(x + y)
			score = score + modulus
		}
		return -score
	},
	"hake": func(c model.Config, h, r, t []float64) float64 {
		k := c.Dim
		factor := 3.14159262358979323846 / c.Hyper[model.EmbeddingRange] / 2
		phases, squares := 0.0, 0.0
		for i := range k {
			sinH, cosH := model.SinCos(float64(h[i] * factor))
			sinR, cosR := model.SinCos(float64(r[i] * factor))
			sinT, cosT := model.SinCos(float64(t[i] * factor))
			p1, p2 := float64(sinH*cosR), float64(cosH*sinR)
			p3, p4 := float64(cosH*cosR), float64(sinH*sinR)
			x, y := p1+p2, p3-p4
			p5, p6 := float64(x*cosT), float64(y*sinT)
			phases = phases + math.Abs(p5-p6)
			modulus, bias := math.Abs(r[k+i]), r[2*k+i]
			if bias > 1 {
				bias = 1
			}
			if bias < -modulus {
				bias = -modulus
			}
			ofHead, ofTail := modulus+bias, 1-bias
			p7, p8 := float64(h[k+i]*ofHead), float64(t[k+i]*ofTail)
			v := p7 - p8
			square := float64(v * v)
			squares = squares + square
		}
		first := float64(c.Hyper[model.PhaseWeight] * phases)
		second := math.Sqrt(squares)
		if w, given := c.Hyper[model.ModulusWeight]; given {
			second = float64(w * second)
		}
		return -(first + second)
	},
	"protate": func(c model.Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			factor := 3.14159262358979323846 / c.Hyper[model.EmbeddingRange]
			sh, ch := model.SinCos(float64(h[i] * factor))
			sr, cr := model.SinCos(float64(r[i] * factor))
			st, ct := model.SinCos(float64(t[i] * factor))
			p1, p2 := float64(sh*cr), float64(ch*sr)
			p3, p4 := float64(ch*cr), float64(sh*sr)
			x, y := p1+p2, p3-p4
			q1, q2 := float64(x*ct), float64(y*st)
			v := q1 - q2
			score = score + math.Abs(v)
		}
		return -score
	},
}

// plain computes the reference score of MQuinE or MQuadE entry by entry, in the order of the
// definition.
func plain(m model.Model, h, r, t int32) float64 {
	c := m.Config()
	d := c.Dim
	entity := func(e int32) func(i, j int) float64 {
		p := model.Triangle(d)
		row := m.Tensors()[0][int(e)*p:][:p]
		return func(i, j int) float64 {
			if i == j {
				return 2 * float64(row[i*(i+1)/2+i])
			}
			i, j = max(i, j), min(i, j)
			return float64(row[i*(i+1)/2+j])
		}
	}
	relation := func(k int) func(i, j int) float64 {
		return func(i, j int) float64 {
			if k >= len(m.Tensors()) {
				return 0
			}
			return float64(m.Tensors()[k][(int(r)*d+i)*d+j])
		}
	}
	product := func(a, b func(i, j int) float64) func(i, j int) float64 {
		c := make([]float64, d*d)
		for i := range d {
			for j := range d {
				for k := range d {
					p := a(i, k) * b(k, j)
					c[i*d+j] = float64(p) + c[i*d+j]
				}
			}
		}
		return func(i, j int) float64 { return c[i*d+j] }
	}
	H, T := entity(h), entity(t)
	P, Q := product(H, relation(1)), product(relation(2), T)
	X := product(product(H, relation(3)), T)
	var s float64
	for j := range d {
		var c float64
		for i := range d {
			D := P(i, j) - Q(i, j)
			if len(m.Tensors()) > 3 {
				D = float64(D) + X(i, j)
			}
			c += float64(D * D)
		}
		s += c
	}
	return -s
}

// definition returns the reference score of a model.
func definition(spec *model.Spec) func(m model.Model, h, r, t int32) float64 {
	score, ok := definitions[spec.Name]
	if !ok {
		return plain
	}
	return func(m model.Model, h, r, t int32) float64 {
		c, x := m.Config(), m.Tensors()
		relations := c.Relations
		if c.Reciprocal {
			relations *= 2
		}
		return score(c, modeltest.Row(x[0], c.Entities, h), modeltest.Row(x[1], relations, r),
			modeltest.Row(x[0], c.Entities, t))
	}
}

// Every registered model satisfies the contract of the package, with and without reciprocal
// relations.
func TestConform(t *testing.T) {
	for _, spec := range model.Specs() {
		score := definition(spec)
		s := modeltest.Subject{Spec: spec, Definition: func(m model.Model, _ kg.Side, t kg.Triple) float64 {
			return score(m, t.Head, t.Relation, t.Tail)
		}}
		if _, ok := definitions[spec.Name]; ok {
			s.Hyper = func(size float64) map[string]float64 {
				return map[string]float64{model.EmbeddingRange: size}
			}
		}
		t.Run(spec.Name, func(t *testing.T) { modeltest.Conform(t, s) })

		s.Reciprocal = true
		s.Definition = func(m model.Model, side kg.Side, t kg.Triple) float64 {
			if side == kg.Head {
				return score(m, t.Tail, 2*t.Relation+1, t.Head)
			}
			return score(m, t.Head, 2*t.Relation, t.Tail)
		}
		t.Run(spec.Name+"-reciprocal", func(t *testing.T) { modeltest.Conform(t, s) })
	}
}
