// Package model holds the score functions. Each is two towers and a comparison: a query
// (anchor, relation) becomes a vector ψ, every candidate entity a vector φ, and a comparison
// of the two screens the candidates. What a model *means* is its reference score: float64 from
// the stored float32 parameters, in an order of operations that its file states.
//
// Scores are plausibilities throughout: higher is better.
package model

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// Config says which model, and of which size.
type Config struct {
	// Model is the registered name, such as "mquine".
	Model string
	// Dim is the model's own dimension d; for complex and rotate the number k of complex ones.
	Dim int
	// Entities and Relations are the numbers N and R of rows.
	Entities, Relations int
	// Gamma is the margin γ of a distance model, from which Score subtracts the distance. It
	// never changes a rank.
	Gamma float64
	// EmbeddingRange is the stored value that stands for the phase π, in the models whose
	// parameters are scaled phases.
	EmbeddingRange float64
	// Modulus is the factor of pRotatE's distance, 0 if it is not known. It never changes a rank.
	Modulus float64
}

// DefaultRange is the EmbeddingRange of the RotatE code, (γ + 2) / d, and also the largest absolute
// value with which its training begins.
func DefaultRange(gamma float64, dim int) float64 { return (gamma + 2) / float64(dim) }

// Shape is the name and the extents of one float32 tensor of a model.
type Shape struct {
	Name string
	Dims []int
}

// Len returns the number of elements.
func (s Shape) Len() int {
	n := 1
	for _, d := range s.Dims {
		n *= d
	}
	return n
}

// Comparison is the class of a model: how ψ and φ are compared. More is better.
type Comparison = kernel.Comparison

// The classes.
var (
	Dot       = kernel.Dot
	L1        = kernel.L1
	GroupNorm = kernel.GroupNorm
	Phase     = kernel.Phase
)

// Tower describes the vectors that answer the queries of one side.
type Tower struct {
	Compare Comparison
	// Width is the number F of entries of ψ and φ; even where pairs of them are compared.
	Width int
	// Relational says that φ depends on the query's relation, and perhaps its side, so that
	// candidates are prepared relation by relation. If false, φ depends on the entity alone.
	Relational bool
}

// Model is a trained model: its parameters and its score function. It is safe for concurrent
// use; the work is done by Workers, one for each goroutine.
type Model interface {
	Config() Config
	Tower(side kg.Side) Tower
	// Tensors returns the parameters, in the order of the model's Shapes.
	Tensors() [][]float32
	// EntityRow returns the stored parameters of entity e. Entities with identical rows have
	// identical reference scores as candidates.
	EntityRow(e int32) []float32
	// Score returns the plausibility that the model's authors print, such as γ − D for a distance
	// D, given the reference score. It never decreases, but may map two reference scores to one,
	// which is why candidates are compared by the latter.
	Score(reference float64) float64
	NewWorker(b *kernel.Backend) Worker
}

// Worker computes with a model's parameters, in scratch memory of its own. It is not safe for
// concurrent use and does not allocate.
type Worker interface {
	// Features writes φ of entity e, as a candidate on the given side of relation (ignored
	// unless the tower is relational), to phi[:Width], and returns the entity's size: the
	// scalar n ≥ 0 in which Query expresses its slack.
	Features(side kg.Side, relation, e int32, phi []float32) (size float64)
	// Query writes ψ of q to psi[:Width] and returns its slack.
	Query(q kg.Query, psi []float32) Slack
	// Reference returns the reference score of candidate e as the answer of q. Consecutive
	// calls with one query share the work that depends on the query alone.
	Reference(q kg.Query, e int32) float64
}

// Slack bounds the distance of a comparison of ψ and φ from the reference score minus a constant of
// the query, by Slack[0] + Slack[1]·n + Slack[2]·n² for a candidate of size n
// (docs/numerics.md).
//
// Where the comparison is Dot, it is the one of ψ and φ before they were rounded to float32, whose
// effect on a dot product follows from their norms. In every other class it is the exact comparison
// of the float32 vectors that were written. A slack that is not finite decides nothing.
type Slack [3]float64

// At returns the slack for candidates whose size is at most n.
func (s Slack) At(n float64) float64 { return s[0] + n*(s[1]+n*s[2]) }
