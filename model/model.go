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
	// Dim is the model's own dimension d.
	Dim int
	// Entities and Relations are the numbers N and R of rows.
	Entities, Relations int
}

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

// Comparison is the class of a model: how ψ and φ are compared.
type Comparison uint8

const (
	// Dot compares by ψ·φ.
	Dot Comparison = iota
)

// Tower describes the vectors that answer the queries of one side.
type Tower struct {
	Compare Comparison
	// Width is the number F of entries of ψ and φ.
	Width int
	// Relational says that φ depends on the query's relation, so that candidates are prepared
	// relation by relation.
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

// Slack bounds everything in which the exact comparison of the rounded ψ and φ can differ from
// the reference score minus a constant of the query, apart from the rounding of ψ and φ to
// float32 themselves: Linear[0] + Linear[1]·n + Linear[2]·n² for a candidate of size n
// (docs/numerics.md).
type Slack [3]float64

// At returns the slack for candidates whose size is at most n.
func (s Slack) At(n float64) float64 { return s[0] + n*(s[1]+n*s[2]) }
