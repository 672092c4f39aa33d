package model_test

import (
	"maps"
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

// networks holds the reference scores of the models whose score depends on global tensors.
var networks = map[string]func(m model.Model, h, r, t int32) float64{"tucker": plainTuckER, "conve": plainConvE}

// tensors returns the tensors of a model as float64 numbers, by name.
func tensors(m model.Model) map[string][]float64 {
	parameters, err := model.Parameters(m.Config())
	if err != nil {
		panic(err)
	}
	all := map[string][]float64{}
	for i, p := range parameters {
		all[p.Name] = modeltest.Row(m.Tensors()[i], 1, 0)
	}
	return all
}

// normed applies the batch normalisation with the given name to an entry of a channel. A model
// without it leaves the entry unchanged.
func normed(all map[string][]float64, name string, channel int, x float64) float64 {
	scale, ok := all[name+".scale"]
	if !ok {
		return x
	}
	factor := scale[channel] / math.Sqrt(all[name+".variance"][channel]+1e-5)
	moved := float64(factor * all[name+".mean"][channel])
	shift := all[name+".shift"][channel] - moved
	scaled := float64(factor * x)
	return scaled + shift
}

func plainTuckER(m model.Model, h, r, t int32) float64 {
	d, all := m.Config().Dim, tensors(m)
	width := int(m.Config().Hyper[model.RelationDim])
	head, tail := all["entity"][int(h)*d:][:d], all["entity"][int(t)*d:][:d]
	relation := all["relation"][int(r)*width:][:width]
	score := 0.0
	for k := range d {
		y := 0.0
		for i := range d {
			entry := 0.0
			for j := range width {
				product := float64(relation[j] * all["core"][(j*d+i)*d+k])
				entry = entry + product
			}
			product := float64(normed(all, "norm0", i, head[i]) * entry)
			y = y + product
		}
		product := float64(normed(all, "norm1", k, y) * tail[k])
		score = score + product
	}
	return score
}

func plainConvE(m model.Model, h, r, t int32) float64 {
	c, all := m.Config(), tensors(m)
	d, filters := c.Dim, len(all["filters.bias"])
	rows := 2 * int(c.Hyper[model.ImageHeight])
	cols := 2 * d / rows
	filterRows, filterCols := min(3, rows), min(3, cols)
	embedding := all["entity"][int(h)*(d+1)+1:][:d]
	pixel := func(y, x int) float64 {
		at := y*cols + x
		if at < d {
			return normed(all, "norm0", 0, embedding[at])
		}
		return normed(all, "norm0", 0, all["relation"][int(r)*d+at-d])
	}
	var maps []float64
	for f := range filters {
		for y := range rows - filterRows + 1 {
			for x := range cols - filterCols + 1 {
				sum := all["filters.bias"][f]
				for i := range filterRows {
					for j := range filterCols {
						product := float64(all["filters"][(f*filterRows+i)*filterCols+j] * pixel(y+i, x+j))
						sum = sum + product
					}
				}
				maps = append(maps, max(0, normed(all, "norm1", f, sum)))
			}
		}
	}
	tail := all["entity"][int(t)*(d+1):][:d+1]
	score := tail[0]
	for i := range d {
		sum := all["dense.bias"][i]
		for k, v := range maps {
			product := float64(all["dense"][i*len(maps)+k] * v)
			sum = sum + product
		}
		product := float64(max(0, normed(all, "norm2", i, sum)) * tail[1+i])
		score = score + product
	}
	return score
}

// networkHyper holds the hyper-parameters of the networks in TestConform, and of their variants
// without batch normalisation.
var networkHyper = map[string][2]map[string]float64{
	"tucker": {{model.RelationDim: 5}, {model.RelationDim: 2, model.BatchNorm: 0}},
	"conve":  {{model.Channels: 3}, {model.Channels: 2, model.InputNorm: 0}},
}

// definition returns the reference score of a model.
func definition(spec *model.Spec) func(m model.Model, h, r, t int32) float64 {
	if score, ok := networks[spec.Name]; ok {
		return score
	}
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
		if hyper, ok := networkHyper[spec.Name]; ok {
			variant := s
			variant.Hyper = func(float64) map[string]float64 { return maps.Clone(hyper[1]) }
			t.Run(spec.Name+"-bare", func(t *testing.T) { modeltest.Conform(t, variant) })
			s.Hyper = func(float64) map[string]float64 { return maps.Clone(hyper[0]) }
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
