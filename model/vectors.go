package model

import (
	"cmp"
	"maps"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model/initial"
)

// This file contains the common parts of models that store one row of numbers for each entity and
// one for each relation, as the RotatE code does (Sun et al., 2019).

// vectors returns a Spec.Tensors function for rows of entity·d and relation·d entries. As in the
// RotatE code, initial entries are uniform up to the embedding range.
func vectors(entity, relation int) func(Config) []Parameter {
	return func(c Config) []Parameter {
		uniform := initial.Uniform(embeddingRange.Of(c))
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{entity * c.Dim}, Initial: uniform},
			{Name: "relation", Axis: PerRelation, Row: []int{relation * c.Dim}, Initial: uniform},
		}
	}
}

// inPairs returns a Spec.Tensors function that marks the tensors with the given indexes as tables of
// pairs.
func inPairs(tensors func(Config) []Parameter, tables ...int) func(Config) []Parameter {
	return func(c Config) []Parameter {
		list := tensors(c)
		for _, i := range tables {
			list[i].Pairs = true
		}
		return list
	}
}

// commonRecipe returns the default training options of most models: a softmax over all entities,
// with all answers to a query as targets at once, and an average of the parameters over epochs.
// changes adds or replaces options.
func commonRecipe(changes map[string]string) map[string]string {
	recipe := map[string]string{
		"negatives": "kvsall", "answer_weights": "true", "batch": "128", "dropout": "0", "learning_rate": "2e-3",
		"epochs": "60", "valid_every": "5", "ema": "0.9",
	}
	maps.Copy(recipe, changes)
	return recipe
}

// productRecipe is commonRecipe for dot products, which have no margin and need dropout against
// over-fitting.
func productRecipe(dim string) map[string]string {
	return commonRecipe(map[string]string{"dim": dim, "gamma": "0", "dropout": "0.3", "learning_rate": "3e-3"})
}

// The keys of the hyper-parameters.
const (
	Gamma          = "gamma"
	EmbeddingRange = "embedding_range"
)

var (
	margin = &HyperParameter{
		Key: Gamma, Help: "margin γ from which a distance is subtracted; it never changes a rank",
		Initial: func(Config) float64 { return 12 }, Least: -math.MaxFloat64, Most: math.MaxFloat64,
	}
	embeddingRange = &HyperParameter{
		Key: EmbeddingRange,
		Help: "largest absolute initial value of a parameter; in models with phases (rotate, rotate-l2, protate, " +
			"hake), the stored value that stands for π",
		Initial: initialRange, Least: -math.MaxFloat64, Most: math.MaxFloat64,
	}
	// phaseRange is the embedding range of models whose parameters are scaled phases. Its bounds
	// keep the phases of all float32 parameters, and products of their sines, within the range of
	// float64.
	phaseRange = &HyperParameter{
		Key: EmbeddingRange, Help: "the stored value that stands for π",
		Initial: initialRange, Least: 1e-30, Most: 1e30,
	}
)

// rangeFrom returns an embedding range with a different initial value.
func rangeFrom(value func(Config) float64) *HyperParameter {
	h := *embeddingRange
	h.Initial = value
	return &h
}

// DefaultRange returns the embedding range in the RotatE code, (γ + 2) / d.
func DefaultRange(gamma float64, dim int) float64 { return (gamma + 2) / float64(dim) }

func initialRange(c Config) float64 { return DefaultRange(margin.Of(c), c.Dim) }

// maxVectorDim is the largest dimension of most models. It is larger than they need and small
// enough for the error bounds of sums.
const maxVectorDim = 1 << 15

// halves splits a row of k complex numbers into its k real and k imaginary parts.
func halves(row []float32) (re, im []float32) { return row[:len(row)/2], row[len(row)/2:] }

// interleave writes a row of complex numbers to pairs, each real part followed by its imaginary
// part.
func interleave(pairs, row []float32) {
	re, im := halves(row)
	for i := range re {
		pairs[2*i], pairs[2*i+1] = re[i], im[i]
	}
}

// phases holds the cosines and sines of the phases in a row.
type phases struct{ cos, sin []float64 }

func newPhases(n int) phases { return phases{make([]float64, n), make([]float64, n)} }

// set computes the cosines and sines of the phases value·unit.
func (p phases) set(values []float32, unit float64) {
	cos, sin := p.cos[:len(values)], p.sin[:len(values)]
	for i, v := range values {
		sin[i], cos[i] = sinCos(float64(float64(v) * unit))
	}
}

// phaseTable holds the parameters of a model whose relations are scaled phases.
type phaseTable struct {
	Tables
	unit float64 // the phase of the value 1
}

// rotation caches the phases of the most recently used relation.
type rotation struct {
	phases
	relation int32
}

func newRotation(n int) rotation { return rotation{newPhases(n), -1} }

// of returns the phases of relation r.
func (c *rotation) of(t *phaseTable, r int32) phases {
	if c.relation != r {
		c.relation = r
		c.set(t.Row(relationTable, r), t.unit)
	}
	return c.phases
}

// round returns x rounded to float32 and the absolute change, which is infinite if x exceeds the
// range of float32.
func round(x float64) (rounded float32, change float64) {
	rounded = float32(x)
	return rounded, math.Abs(x - float64(rounded))
}

// gamma bounds the relative error of n roundings to float64.
func gamma(n int) float64 { return kernel.Gamma(n, kernel.U64) }

// RelationDim is the key of the dimension of relations, which may differ from the dimension of
// entities.
const RelationDim = "relation_dim"

var relationDim = &HyperParameter{
	Key: RelationDim, Help: "dimension of relations; 0 means dim", Whole: true,
	Least: 0, Most: maxVectorDim,
}

// relationWidth returns the dimension of relations.
func relationWidth(c Config) int { return cmp.Or(int(relationDim.Of(c)), c.Dim) }
