package model_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/modeltest"
)

// definitions holds the reference scores of all models except those in wholeDefinitions, as functions
// of the rows of head, relation and tail. Operations are in the order that the model's file states.
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
	"rotate-l2": func(c model.Config, h, r, t []float64) float64 {
		score, k := 0.0, c.Dim
		for i := range k {
			factor := math.Pi / c.Hyper[model.EmbeddingRange]
			sin, cos := model.SinCos(float64(r[i] * factor))
			re := float64(h[i]*cos) - float64(h[k+i]*sin)
			im := float64(h[i]*sin) + float64(h[k+i]*cos)
			re, im = re-t[i], im-t[k+i]
			x, y := float64(re*re), float64(im*im)
			term := x + y
			score = score + term
		}
		return -score
	},
	"mode": func(c model.Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			hr := float64(h[i] * r[i])
			v := hr - t[i]
			score = score + math.Abs(v)
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
	"ote": func(c model.Config, h, r, t []float64) float64 {
		return transformed(c, h, r, t, func(x []float64, u [][]float64, j int) float64 {
			sum := 0.0
			for i := range x {
				p := x[i] * u[i][j]
				sum = sum + float64(p)
			}
			return sum
		}, func(kind, s float64) float64 {
			switch kind {
			case model.AbsoluteScale:
				return math.Abs(s)
			case model.ExponentialScale:
				return exponential(s)
			}
			return 1
		})
	},
	"house": func(c model.Config, h, r, t []float64) float64 {
		s, m := int(c.Hyper[model.Group]), int(c.Hyper[model.Projections])
		n, groups := int(c.Hyper[model.Reflections])+2*m, c.Dim/s
		next := r[c.Dim*n:]
		take := func(k int) []float64 {
			part := next[:k]
			next = next[k:]
			return part
		}
		w := make([]float64, c.Dim)
		if c.Hyper[model.Translation] == 1 {
			w = take(c.Dim)
		}
		var directions, scales [2][]float64
		if m > 0 {
			for side := range directions {
				directions[side], scales[side] = take(m), take(groups*m)
			}
		}
		score := 0.0
		for g := range groups {
			// reflected returns x − κ(u·x)u for vector i of the group.
			reflected := func(x []float64, i int, kappa float64) []float64 {
				u := append([]float64{}, r[(g*n+i)*s:][:s]...)
				squares := 0.0
				for _, v := range u {
					squares = squares + float64(v*v)
				}
				along, norm := 0.0, math.Sqrt(squares)
				for k := range u {
					if norm > 0 {
						u[k] = u[k] / norm
					}
					p := float64(u[k] * x[k])
					along = along + p
				}
				along = along * kappa
				y := make([]float64, s)
				for k := range u {
					p := float64(along * u[k])
					y[k] = x[k] - p
				}
				return y
			}
			coefficient := func(side, i int) float64 {
				k := directions[side][i] * math.Abs(scales[side][g*m+i])
				return math.Min(k, c.Hyper[model.ProjectionLimit])
			}
			x, y := h[g*s:][:s], t[g*s:][:s]
			for i := range m {
				x = reflected(x, n-1-i, coefficient(0, i))
				y = reflected(y, i, coefficient(1, i))
			}
			moved := make([]float64, s)
			for k := range x {
				moved[k] = x[k] + w[g*s+k]
			}
			for i := n - 1 - m; i >= m; i-- {
				moved = reflected(moved, i, 2)
			}
			squares := 0.0
			for k := range moved {
				v := moved[k] - y[k]
				squares = squares + float64(v*v)
			}
			score = score + math.Sqrt(squares)
		}
		return -score
	},
	"rescal": func(c model.Config, h, r, t []float64) float64 {
		score, d := 0.0, c.Dim
		for j := range d {
			u := 0.0
			for i := range d {
				hr := float64(h[i] * r[i*d+j])
				u = u + hr
			}
			ut := float64(u * t[j])
			score = score + ut
		}
		return score
	},
	"cp": func(c model.Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			ar := float64(h[i] * r[i])
			arb := float64(ar * t[c.Dim+i])
			score = score + arb
		}
		return score
	},
	"simple": func(c model.Config, h, r, t []float64) float64 {
		score, d := 0.0, c.Dim
		for i := range d {
			x := float64(float64(h[i]*r[i]) * t[d+i])
			y := float64(float64(t[i]*r[d+i]) * h[d+i])
			term := x + y
			score = score + term
		}
		return 0.5 * score
	},
	"quate": func(c model.Config, h, r, t []float64) float64 {
		score := 0.0
		for i := range c.Dim {
			x := quaternionOf(r, c.Dim, i)
			modulus := math.Sqrt(innerProduct(x, x))
			for k := range x {
				x[k] = x[k] / modulus
			}
			term := innerProduct(quaternionProduct(quaternionOf(h, c.Dim, i), x), quaternionOf(t, c.Dim, i))
			score = score + term
		}
		return score
	},
	"duale": func(c model.Config, h, r, t []float64) float64 {
		score, k := 0.0, c.Dim
		parts := func(row []float64, i int) (a, b [4]float64) {
			return quaternionOf(row[:4*k], k, i), quaternionOf(row[4*k:], k, i)
		}
		for i := range k {
			ra, rb := parts(r, i)
			modulus, kappa := math.Sqrt(innerProduct(ra, ra)), innerProduct(rb, ra)/innerProduct(ra, ra)
			var x, y [4]float64
			for n := range x {
				x[n] = ra[n] / modulus
				p := float64(kappa * ra[n])
				y[n] = rb[n] - p
			}
			ha, hb := parts(h, i)
			ta, tb := parts(t, i)
			first, second := quaternionProduct(ha, y), quaternionProduct(hb, x)
			for n := range first {
				first[n] = first[n] + second[n]
			}
			term := innerProduct(quaternionProduct(ha, x), ta) + innerProduct(first, tb)
			score = score + term
		}
		return score
	},
	"dihedral": func(c model.Config, h, r, t []float64) float64 {
		const order = 4
		score, k := 0.0, c.Dim
		for i := range k {
			best := 0
			for m := range 2 * order {
				if r[i*2*order+m] > r[i*2*order+best] {
					best = m
				}
			}
			d := dihedralElement(best, order)
			var product [2]float64
			for j := range product {
				p, q := float64(h[i]*d[0][j]), float64(h[k+i]*d[1][j])
				product[j] = p + q
			}
			p, q := float64(product[0]*t[i]), float64(product[1]*t[k+i])
			term := p + q
			score = score + term
		}
		return score
	},
	"seek": func(c model.Config, h, r, t []float64) float64 {
		const segments = 4
		score, d := 0.0, c.Dim
		for w := range segments {
			for i := range d {
				even := r[i] + r[2*d+i]
				q := float64(even * h[w*d+i])
				for _, x := range []int{1, 3} {
					sign, y := 1.0, w-x
					if y < 0 {
						sign, y = -1, y+segments
					}
					p := float64(r[x*d+i] * h[y*d+i])
					q = q + sign*p
				}
				qt := float64(q * t[w*d+i])
				score = score + qt
			}
		}
		return score
	},
	"transh-l1": translated(1, hyperplane), "transh-l2": translated(2, hyperplane),
	"transr-l1": translated(1, product), "transr-l2": translated(2, product),
	"transd-l1": translated(1, dynamic), "transd-l2": translated(2, dynamic),
	"boxe":                  boxe,
	"expressive":            expressive(false),
	"expressive-functional": expressive(true),
}

// headDefinitions holds the scores of head queries in models whose sides differ.
var headDefinitions = map[string]func(c model.Config, h, r, t []float64) float64{
	"ote": func(c model.Config, h, r, t []float64) float64 {
		return transformed(c, t, r, h, func(x []float64, u [][]float64, j int) float64 {
			sum := 0.0
			for i := range x {
				p := x[i] * u[j][i]
				sum = sum + float64(p)
			}
			return sum
		}, func(kind, s float64) float64 {
			switch kind {
			case model.AbsoluteScale:
				return 1 / (math.Abs(s) + 1e-9)
			case model.ExponentialScale:
				return exponential(-s)
			}
			return 1
		})
	},
}

// transformed returns the score of OTE: minus the distance between e and the anchor a, after scale
// and turn have transformed each group of a.
func transformed(c model.Config, a, r, e []float64,
	turn func(x []float64, u [][]float64, j int) float64, scale func(kind, s float64) float64,
) float64 {
	s, kind := int(c.Hyper[model.Group]), c.Hyper[model.Scale]
	columns, score := len(r)/c.Dim, 0.0
	for from := 0; from < c.Dim; from += s {
		var u [][]float64
		x := make([]float64, s)
		for i := range s {
			raw := r[(from+i)*columns:][:columns]
			row := append([]float64{}, raw[:s]...)
			for _, earlier := range u {
				along := 0.0
				for k := range row {
					p := row[k] * earlier[k]
					along = along + float64(p)
				}
				for k := range row {
					p := float64(along * earlier[k])
					row[k] = row[k] - p
				}
			}
			squares := 0.0
			for _, v := range row {
				squares = squares + float64(v*v)
			}
			if norm := math.Sqrt(squares); norm != 0 {
				for k := range row {
					row[k] = row[k] / norm
				}
			}
			u = append(u, row)
			x[i] = a[from+i] * scale(kind, raw[columns-1])
		}
		squares := 0.0
		for j := range s {
			v := turn(x, u, j) - e[from+j]
			squares = squares + float64(v*v)
		}
		score = score + math.Sqrt(squares)
	}
	return -score
}

// exponential returns eˣ, with x limited to ±30.
func exponential(x float64) float64 {
	if x > 30 {
		x = 30
	}
	if x < -30 {
		x = -30
	}
	if x <= 0 {
		return fmath.Exp(x)
	}
	return 1 / fmath.Exp(-x)
}

// hyperplane returns the image of an entity in TransH, given the parameters of the relation.
func hyperplane(c model.Config, r, e []float64) []float64 {
	normal, image := r[c.Dim:], make([]float64, c.Dim)
	alpha := 0.0
	for i := range e {
		p := normal[i] * e[i]
		alpha = alpha + p
	}
	for i := range e {
		p := float64(alpha * normal[i])
		image[i] = e[i] - p
	}
	return image
}

// width returns the dimension of relations.
func width(c model.Config) int {
	if d := c.Hyper[model.RelationDim]; d != 0 {
		return int(d)
	}
	return c.Dim
}

// product returns the image of an entity in TransR.
func product(c model.Config, r, e []float64) []float64 {
	k := width(c)
	image := make([]float64, k)
	for j := range image {
		for i := range e {
			p := e[i] * r[k+i*k+j]
			image[j] = image[j] + float64(p)
		}
	}
	return image
}

// dynamic returns the image of an entity in TransD.
func dynamic(c model.Config, r, e []float64) []float64 {
	image, along := make([]float64, width(c)), 0.0
	for i := range c.Dim {
		p := float64(e[c.Dim+i] * e[i])
		along = along + p
	}
	for j := range image {
		p := float64(along * r[len(image)+j])
		if j < c.Dim {
			p = e[j] + p
		} else {
			p = 0 + p
		}
		image[j] = p
	}
	return image
}

// translated returns the reference score of a model that translates images of entities.
func translated(
	norm int, image func(c model.Config, r, e []float64) []float64,
) func(c model.Config, h, r, t []float64) float64 {
	length := func(x []float64, norm int) float64 {
		sum := 0.0
		for _, v := range x {
			if norm == 1 {
				sum = sum + math.Abs(v)
			} else {
				square := float64(v * v)
				sum = sum + square
			}
		}
		if norm == 2 {
			sum = math.Sqrt(sum)
		}
		return sum
	}
	return func(c model.Config, h, r, t []float64) float64 {
		var images [2][]float64
		for k, e := range [][]float64{h, t} {
			x := image(c, r, e)
			if c.Hyper[model.UnitProjections] == 1 {
				by := math.Max(length(x, 2), 1e-12)
				for i := range x {
					x[i] /= by
				}
			}
			if most := c.Hyper[model.MaxProjectionNorm]; most > 0 {
				if n := length(x, norm); n > most {
					factor := most / n
					for i := range x {
						x[i] = float64(factor * x[i])
					}
				}
			}
			images[k] = x
		}
		score := 0.0
		for i, x := range images[0] {
			v := x + r[i]
			v = v - images[1][i]
			if norm == 1 {
				score = score + math.Abs(v)
			} else {
				square := float64(v * v)
				score = score + square
			}
		}
		return -score
	}
}

// quaternionProduct returns a ⊗ b, term by term from the table of the products of units.
func quaternionProduct(a, b [4]float64) (c [4]float64) {
	type term struct {
		i, j int
		sign float64
	}
	table := [4][4]term{
		{{0, 0, 1}, {1, 1, -1}, {2, 2, -1}, {3, 3, -1}},
		{{0, 1, 1}, {1, 0, 1}, {2, 3, 1}, {3, 2, -1}},
		{{0, 2, 1}, {1, 3, -1}, {2, 0, 1}, {3, 1, 1}},
		{{0, 3, 1}, {1, 2, 1}, {2, 1, -1}, {3, 0, 1}},
	}
	for k, terms := range table {
		for n, t := range terms {
			p := float64(a[t.i] * b[t.j])
			if n == 0 {
				c[k] = p
			} else {
				c[k] = c[k] + t.sign*p
			}
		}
	}
	return c
}

func innerProduct(a, b [4]float64) (sum float64) {
	for i := range a {
		p := float64(a[i] * b[i])
		if i == 0 {
			sum = p
		} else {
			sum = sum + p
		}
	}
	return sum
}

// quaternionOf returns number i of a row of k quaternions, component by component.
func quaternionOf(row []float64, k, i int) (q [4]float64) {
	for c := range q {
		q[c] = row[c*k+i]
	}
	return q
}

// dihedralElement returns the matrix of element m of the dihedral group of order 2n.
func dihedralElement(m, n int) (d [2][2]float64) {
	sin, cos := model.SinCos(2 * math.Pi * float64(m%n) / float64(n))
	switch 4 * (m % n) { // exact quarter turns
	case 0:
		sin, cos = 0, 1
	case n:
		sin, cos = 1, 0
	case 2 * n:
		sin, cos = 0, -1
	case 3 * n:
		sin, cos = -1, 0
	}
	if m < n {
		return [2][2]float64{{cos, -sin}, {sin, cos}}
	}
	return [2][2]float64{{cos, sin}, {sin, -cos}}
}

// expressive returns the definition of ExpressivE or of its functional variant.
func expressive(functional bool) func(c model.Config, h, r, t []float64) float64 {
	return func(c model.Config, h, r, t []float64) float64 {
		d := c.Dim
		inside, outside, within := 0.0, 0.0, true
		add := func(x, delta float64) {
			omega := 2*delta + 1
			k := float64(0.5*(omega-1)) * (omega - 1/omega)
			in := x / omega
			out := float64(omega*x) - float64(k)
			inside = inside + float64(in*in)
			outside = outside + float64(out*out)
			if x > delta {
				within = false
			}
		}
		for i := range d {
			var deltaH, deltaT float64
			rest := r
			if !functional {
				deltaH, deltaT = math.Abs(fmath.Tanh(r[i])), math.Abs(fmath.Tanh(r[d+i]))
				rest = r[2*d:]
			}
			ch, ct, sh, st := fmath.Tanh(rest[i]), fmath.Tanh(rest[d+i]), rest[2*d+i], rest[3*d+i]
			if !functional {
				if st < 0 {
					st = st - 1e-4
				} else {
					st = st + 1e-4
				}
				delta, m := 1-float64(sh*st), 0.5
				if math.Abs(delta) < m {
					if delta < 0 {
						m = -m
					}
					sh = sh + (delta-m)/st
				}
			}
			x, y := fmath.Tanh(h[i]), fmath.Tanh(t[i])
			add(math.Abs((x-ch)-float64(st*y)), deltaH)
			add(math.Abs((y-ct)-float64(sh*x)), deltaT)
		}
		if within {
			return -inside
		}
		return -outside
	}
}

// boxe is the definition of BoxE.
func boxe(c model.Config, h, r, t []float64) float64 {
	d := c.Dim
	distance := func(position, bump, centre, shape []float64, size float64) float64 {
		logs := 0.0
		for _, s := range shape {
			logs = logs + fmath.Ln(math.Max(math.Abs(s), 0x1p-23))
		}
		exp := func(x float64) float64 {
			if x > 0 {
				return 1 / fmath.Exp(-x)
			}
			return fmath.Exp(x)
		}
		mean := exp(logs / float64(d))
		var sigma float64
		if size > 0 {
			sigma = size + 1
		} else {
			sigma = exp(size)
		}
		sum := 0.0
		for i := range d {
			quotient := shape[i] / mean
			half := math.Abs(float64(quotient*sigma)) / 2
			lower, upper := fmath.Tanh(centre[i]-half), fmath.Tanh(centre[i]+half)
			width := upper - lower
			w1 := width + 1
			kappa := float64(width / 2 * (w1 - 1/w1))
			v := math.Abs(fmath.Tanh(position[i]+bump[i]) - (lower+upper)/2)
			distance := math.Max(v/w1, float64(w1*v)-kappa)
			sum = sum + float64(distance*distance)
		}
		return math.Sqrt(sum)
	}
	return -distance(h[:d], t[d:], r[:d], r[d:2*d], r[4*d]) - distance(t[:d], h[d:], r[2*d:3*d], r[3*d:4*d], r[4*d+1])
}

// plain computes the reference score of MQuinE or MQuadE entry by entry, in the order of the
// definition, block after block.
func plain(m model.Model, h, r, t int32) float64 {
	blocks := max(1, int(m.Config().Hyper["blocks"]))
	sum := plainBlock(m, h, r, t, 0, blocks)
	for b := 1; b < blocks; b++ {
		sum += plainBlock(m, h, r, t, b, blocks)
	}
	return sum
}

// plainBlock computes the reference score of one block.
func plainBlock(m model.Model, h, r, t int32, block, blocks int) float64 {
	c := m.Config()
	d := c.Dim
	entity := func(e int32) func(i, j int) float64 {
		p := model.Triangle(d)
		row := m.Tensors()[0][(int(e)*blocks+block)*p:][:p]
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
			return float64(m.Tensors()[k][((int(r)*blocks+block)*d+i)*d+j])
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

// wholeDefinitions holds the reference scores of models with matrices or with global tensors.
var wholeDefinitions = map[string]func(m model.Model, h, r, t int32) float64{
	"mquine": plain, "mquade": plain, "tucker": plainTuckER, "conve": plainConvE,
}

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
	width := width(m.Config())
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

// networkHyper holds the hyper-parameters of the networks in TestConform, and of two variants:
// TuckER without batch normalisation, and ConvE without normalisation of the image.
var networkHyper = map[string][2]map[string]float64{
	"tucker": {{model.RelationDim: 5}, {model.RelationDim: 2, model.BatchNorm: 0}},
	"conve":  {{model.Channels: 3}, {model.Channels: 2, model.InputNorm: 0}},
}

// definition returns the function that computes the reference score of a model for queries of one
// side.
func definition(t testing.TB, spec *model.Spec, side kg.Side) func(m model.Model, h, r, t int32) float64 {
	if score, ok := wholeDefinitions[spec.Name]; ok {
		return score
	}
	score, ok := definitions[spec.Name]
	require.True(t, ok, "model %s has no definition in conform_test.go: add it to definitions", spec.Name)
	if head, ok := headDefinitions[spec.Name]; ok && side == kg.Head {
		score = head
	}
	return func(m model.Model, h, r, t int32) float64 {
		c, x := m.Config(), m.Tensors()
		relations := c.Relations
		if c.Reciprocal {
			relations *= 2
		}
		var ofRelation []float64 // the relation's rows of all tensors
		for _, tensor := range x[1:] {
			ofRelation = append(ofRelation, modeltest.Row(tensor, relations, r)...)
		}
		return score(c, modeltest.Row(x[0], c.Entities, h), ofRelation, modeltest.Row(x[0], c.Entities, t))
	}
}

// Every registered model satisfies the contract of the package, with and without reciprocal
// relations.
func TestConform(t *testing.T) {
	for _, spec := range model.Specs() {
		score, ofHeads := definition(t, spec, kg.Tail), definition(t, spec, kg.Head)
		s := modeltest.Subject{Spec: spec, Definition: func(m model.Model, side kg.Side, t kg.Triple) float64 {
			if side == kg.Head {
				return ofHeads(m, t.Head, t.Relation, t.Tail)
			}
			return score(m, t.Head, t.Relation, t.Tail)
		}}
		if spec.Name == "dihedral" { // its weights have straight-through gradients: see TestStraightThrough
			s.Approximate = []string{"relation"}
		}
		isRange := func(h *model.HyperParameter) bool { return h.Key == model.EmbeddingRange }
		if slices.ContainsFunc(spec.Hyper, isRange) {
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
		if spec.Name == "mquine" || spec.Name == "mquade" {
			s := s
			s.Hyper = func(float64) map[string]float64 { return map[string]float64{"blocks": 3} }
			t.Run(spec.Name+"-blocks", func(t *testing.T) { modeltest.Conform(t, s) })
		}

		s.Reciprocal = true
		s.Definition = func(m model.Model, side kg.Side, t kg.Triple) float64 {
			if side == kg.Head {
				return score(m, t.Tail, 2*t.Relation+1, t.Head)
			}
			return score(m, t.Head, 2*t.Relation, t.Tail)
		}
		t.Run(spec.Name+"-reciprocal", func(t *testing.T) { modeltest.Conform(t, s) })

		if !slices.Contains(bothDirections, spec.Name) {
			continue
		}
		const w = 0.3
		s.InverseWeight = w
		s.Definition = func(m model.Model, side kg.Side, t kg.Triple) float64 {
			first, second := 2*t.Relation, 2*t.Relation+1
			head, tail := t.Head, t.Tail
			if side == kg.Head {
				first, second, head, tail = second, first, tail, head
			}
			direct := float64((1 - w) * score(m, head, first, tail))
			return direct + float64(w*ofHeads(m, tail, second, head))
		}
		t.Run(spec.Name+"-both-directions", func(t *testing.T) { modeltest.Conform(t, s) })
	}
}

// bothDirections lists the models that can have a weight of the inverse triple: they compare by dot
// product, and the candidates of both sides have the same φ.
var bothDirections = []string{
	"mquine", "mquade", "transe-l2", "rotate-l2", "distmult", "complex", "rescal", "simple", "quate", "duale",
	"dihedral", "seek", "tucker", "expressive-functional",
}

func TestInverseWeightErrors(t *testing.T) {
	for _, spec := range model.Specs() {
		c := spec.Initial(model.Config{Model: spec.Name, Dim: 4, Reciprocal: true, InverseWeight: 0.5})
		_, err := model.Unfilled(c)
		if slices.Contains(bothDirections, spec.Name) {
			assert.NoError(t, err, "%s is in bothDirections", spec.Name)
			continue
		}
		assert.ErrorContains(t, err, "model "+spec.Name+": inverse_weight needs ",
			"%s: if it can have a weight of the inverse triple, add it to bothDirections", spec.Name)
	}
	for want, c := range map[string]model.Config{
		"inverse_weight is 0.5, but the model has no": {InverseWeight: 0.5},
		"inverse_weight is -0.1: it must be from 0":   {Reciprocal: true, InverseWeight: -0.1},
		"inverse_weight is NaN: it must be from 0":    {Reciprocal: true, InverseWeight: math.NaN()},
	} {
		c.Model, c.Dim = "complex", 2
		_, err := model.New(c, nil)
		assert.ErrorContains(t, err, want)
	}
}

// Models also satisfy the contract with other hyper-parameters: variants and group sizes of OTE and
// HousE, bounds of projections and of entities, and dimensions of relations.
func TestConformVariants(t *testing.T) {
	for _, c := range []struct {
		name  string
		hyper map[string]float64
	}{
		{"transh-l1", map[string]float64{model.UnitProjections: 1}},
		{"transh-l2", map[string]float64{model.UnitProjections: 1, model.MaxProjectionNorm: 0.8}},
		{"transr-l1", map[string]float64{model.RelationDim: 5, model.MaxProjectionNorm: 1, "max_norm": 0.5}},
		{"transr-l2", map[string]float64{model.RelationDim: 20, model.MaxProjectionNorm: 1e-3}},
		{"transd-l1", map[string]float64{model.RelationDim: 20, model.UnitProjections: 1, "max_norm": 2}},
		{"transd-l2", map[string]float64{model.RelationDim: 5, model.MaxProjectionNorm: 1}},
		{"ote", map[string]float64{model.Scale: model.AbsoluteScale, model.Group: 1}},
		{"house", map[string]float64{model.Projections: 0}},
		{"house", map[string]float64{model.Projections: 0, model.Translation: 1, model.Group: 1}},
		{"house", map[string]float64{model.Projections: 2, model.Translation: 1, model.Reflections: 3}},
	} {
		t.Run(fmt.Sprint(c.name, c.hyper), func(t *testing.T) {
			spec, err := model.Lookup(c.name)
			require.NoError(t, err)
			modeltest.Conform(t, modeltest.Subject{
				Spec: spec, Hyper: func(float64) map[string]float64 { return c.hyper },
				Definition: func(m model.Model, side kg.Side, triple kg.Triple) float64 {
					return definition(t, spec, side)(m, triple.Head, triple.Relation, triple.Tail)
				},
			})
		})
	}
}
