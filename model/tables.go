package model

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// tables are the parameters of a model with one row of numbers for each entity and one for each
// relation, in the layout of the RotatE code (Sun et al., 2019).
type tables struct {
	config           Config
	tensors          [][]float32
	entity, relation int // widths of the rows
}

// tableParameters returns tables whose rows are multiples of d wide. Training begins, as in the RotatE
// code, with entries that are uniform up to ±Config.EmbeddingRange.
func tableParameters(entity, relation int) func(Config) []Parameter {
	return func(c Config) []Parameter {
		uniform := initial.Uniform(c.EmbeddingRange)
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{entity * c.Dim}, Initial: uniform},
			{Name: "relation", Axis: PerRelation, Row: []int{relation * c.Dim}, Initial: uniform},
		}
	}
}

func newTables(c Config, tensors [][]float32, entity, relation int) tables {
	return tables{c, tensors, entity * c.Dim, relation * c.Dim}
}

func (t *tables) Config() Config       { return t.config }
func (t *tables) Tensors() [][]float32 { return t.tensors }

func (t *tables) EntityRow(e int32) []float32 {
	return t.tensors[0][int(e)*t.entity : (int(e)+1)*t.entity]
}

func (t *tables) relationRow(r int32) []float32 {
	return t.tensors[1][int(r)*t.relation : (int(r)+1)*t.relation]
}

// rows returns the rows of the triple that e makes of q.
func (t *tables) rows(q kg.Query, e int32) (h, r, tail []float32) {
	h, tail = t.EntityRow(q.Anchor), t.EntityRow(e)
	if q.Side == kg.Head {
		h, tail = tail, h
	}
	return h, t.relationRow(q.Relation), tail
}

// halves splits a row of k complex numbers, stored as k real and then k imaginary parts.
func halves(row []float32) (re, im []float32) { return row[:len(row)/2], row[len(row)/2:] }

// phases has the cosines and the sines of a row of scaled phases.
type phases struct{ cos, sin []float64 }

func newPhases(n int) phases { return phases{make([]float64, n), make([]float64, n)} }

// set computes the phases value·unit.
func (p phases) set(values []float32, unit float64) {
	cos, sin := p.cos[:len(values)], p.sin[:len(values)]
	for i, v := range values {
		sin[i], cos[i] = sinCos(float64(float64(v) * unit))
	}
}

// round returns x rounded to float32 and what that changes, which is infinite beyond the range of
// float32.
func round(x float64) (rounded float32, change float64) {
	rounded = float32(x)
	return rounded, math.Abs(x - float64(rounded))
}

// norm1 returns an upper bound of Σ|x_i|.
func norm1(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += math.Abs(float64(v))
	}
	return sum * normSlack
}

// norm2 returns an upper bound of √Σx_i².
func norm2(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum) * normSlack
}

// pairNorm returns an upper bound of Σ√(re_i² + im_i²).
func pairNorm(re, im []float32) float64 {
	var sum float64
	for i, v := range re {
		sum += math.Sqrt(float64(v)*float64(v) + float64(im[i])*float64(im[i]))
	}
	return sum * normSlack
}

// gamma bounds the relative error of n roundings to float64.
func gamma(n int) float64 { return kernel.Gamma(n, kernel.U64) }
