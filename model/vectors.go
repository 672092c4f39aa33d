package model

import (
	"maps"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model/initial"
)

// What the models of the RotatE code (Sun et al., 2019) share: a row of numbers for each entity and each
// relation.

// vectors returns tables whose rows are multiples of d wide. Training begins, as in the RotatE code, with
// entries that are uniform up to the embedding range.
func vectors(entity, relation int) func(Config) []Parameter {
	return func(c Config) []Parameter {
		uniform := initial.Uniform(embeddingRange.Of(c))
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{entity * c.Dim}, Initial: uniform},
			{Name: "relation", Axis: PerRelation, Row: []int{relation * c.Dim}, Initial: uniform},
		}
	}
}

// vectorRecipe returns training options that suit models of vectors, changed by the given keys and values: a softmax over all entities, in which a query has all its answers at once, and an average over
// epochs.
func vectorRecipe(changes map[string]string) map[string]string {
	recipe := map[string]string{
		"negatives": "kvsall", "answer_weights": "true", "batch": "128", "dropout": "0", "learning_rate": "2e-3",
		"epochs": "60", "valid_every": "5", "ema": "0.9",
	}
	maps.Copy(recipe, changes)
	return recipe
}

// productRecipe is vectorRecipe for products, which have neither a margin nor a limit to what they fit.
func productRecipe(dim string) map[string]string {
	return vectorRecipe(map[string]string{"dim": dim, "gamma": "0", "dropout": "0.3", "learning_rate": "3e-3"})
}

// The keys of the hyper-parameters.
const (
	Gamma          = "gamma"
	EmbeddingRange = "embedding_range"
	Modulus        = "modulus"
)

var (
	margin = &HyperParameter{
		Key: Gamma, Help: "`margin` γ from which a distance is subtracted; it never changes a rank",
		Initial: func(Config) float64 { return 12 }, Least: -math.MaxFloat64, Most: math.MaxFloat64,
	}
	embeddingRange = &HyperParameter{
		Key: EmbeddingRange, Help: "largest absolute `value` with which training begins",
		Initial: initialRange, Least: -math.MaxFloat64, Most: math.MaxFloat64,
	}
	// phaseRange is the embedding range of models whose parameters are scaled phases. Its bounds keep the
	// phases of all float32 parameters, and products of their sines, within the range of float64.
	phaseRange = &HyperParameter{
		Key: EmbeddingRange, Help: embeddingRange.Help + ", which stands for the phase π",
		Initial: initialRange, Least: 1e-30, Most: 1e30,
	}
)

// DefaultRange is the embedding range of the RotatE code, (γ + 2) / d.
func DefaultRange(gamma float64, dim int) float64 { return (gamma + 2) / float64(dim) }

func initialRange(c Config) float64 { return DefaultRange(margin.Of(c), c.Dim) }

// maxVectorDim is far more than any model has, and little enough for the sums of the bounds.
const maxVectorDim = 1 << 15

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

// gamma bounds the relative error of n roundings to float64.
func gamma(n int) float64 { return kernel.Gamma(n, kernel.U64) }
