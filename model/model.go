// Package model holds the score functions. Each is two towers and a comparison: a query
// (anchor, relation) becomes a vector ψ, every candidate entity a vector φ, and a comparison
// of the two screens the candidates. What a model *means* is its reference score: float64 from
// the stored float32 parameters, in an order of operations that its file states.
//
// Everything particular to a model is in its file, which declares it as a Spec; docs/adding-a-model.md
// shows how. Scores are plausibilities throughout: higher is better.
package model

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

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
	// Psi and Phi are the numbers of entries of ψ and of φ; even where pairs of them are compared.
	Psi, Phi int
	// Features is what φ depends on beside the entity.
	Features Dependence
}

// Dependence tells what the features of a candidate depend on beside the entity. Candidates whose
// features depend on nothing else are prepared once, others for each side, relation or both.
type Dependence uint8

const (
	OnEntity       Dependence = 0
	OnSide         Dependence = 1 << 0
	OnRelation     Dependence = 1 << 1
	OnRelationSide            = OnRelation | OnSide
)

// Shares tells whether φ is the same for queries of two sides, whose towers are equal, and relations.
func (d Dependence) Shares(sameSide, sameRelation bool) bool {
	return (sameSide || d&OnSide == 0) && (sameRelation || d&OnRelation == 0)
}

// Model is a trained model: its parameters and its score function. It is safe for concurrent
// use; the work is done by Workers, one for each goroutine.
type Model interface {
	Config() Config
	// Tensors returns the parameters, in the order of Parameters.
	Tensors() [][]float32
	// SameEntity tells whether the stored parameters of two entities are equal. Such entities have
	// identical reference scores as candidates.
	SameEntity(a, b int32) bool
	// HashEntity returns a hash of the bits of the stored parameters of e.
	HashEntity(e int32) uint64
	// Score returns the plausibility that the model's authors print, such as γ − D for a distance
	// D, given the reference score. It never decreases, but may map two reference scores to one,
	// which is why candidates are compared by the latter.
	Score(reference float64) float64
	Tower(side kg.Side) Tower
	NewWorker(b *kernel.Backend) Worker
}

// Worker computes with a model's parameters, in scratch memory of its own. It is not safe for
// concurrent use and does not allocate.
type Worker interface {
	// Features writes φ of the entities, as candidates on the given side of relation, to the rows of
	// phi, and their sizes: the scalars n ≥ 0 in which Queries expresses its slacks. Side and relation
	// matter only as far as the tower says.
	Features(side kg.Side, relation int32, entities []int32, phi Rows, sizes []float64)
	// Queries writes ψ of the queries with the given anchors to the rows of psi, and their slacks.
	Queries(side kg.Side, relation int32, anchors []int32, psi Rows, slacks []Slack)
	// Reference returns the reference score of candidate e as the answer of q. Consecutive
	// calls with one query share the work that depends on the query alone.
	Reference(q kg.Query, e int32) float64
}

// Rows are vectors of one width in memory, Stride entries apart.
type Rows struct {
	Values        []float32
	Width, Stride int
}

// Row returns row i.
func (r Rows) Row(i int) []float32 { return r.Values[i*r.Stride:][:r.Width] }

// SingleWorker is a Worker that makes one vector at a time.
type SingleWorker interface {
	// Feature writes φ of entity e to phi and returns its size.
	Feature(side kg.Side, relation, e int32, phi []float32) (size float64)
	// Query writes ψ of q to psi and returns its slack.
	Query(q kg.Query, psi []float32) Slack
	Reference(q kg.Query, e int32) float64
}

// OneByOne returns a Worker that makes its vectors by w.
func OneByOne(w SingleWorker) Worker { return oneByOne{w} }

type oneByOne struct{ SingleWorker }

func (w oneByOne) Features(side kg.Side, relation int32, entities []int32, phi Rows, sizes []float64) {
	for i, e := range entities {
		sizes[i] = w.Feature(side, relation, e, phi.Row(i))
	}
}

func (w oneByOne) Queries(side kg.Side, relation int32, anchors []int32, psi Rows, slacks []Slack) {
	for i, anchor := range anchors {
		slacks[i] = w.Query(kg.Query{Side: side, Relation: relation, Anchor: anchor}, psi.Row(i))
	}
}

// Slack bounds the distance of a comparison of ψ and φ from the reference score minus a constant of
// the query, by Slack[0] + Slack[1]·n + Slack[2]·n² for a candidate of size n
// (docs/numerics.md, "From ψ and φ to the reference score").
//
// Where the comparison is Dot, it is the one of ψ and φ before they were rounded to float32, whose
// effect on a dot product follows from their norms. In every other class it is the exact comparison
// of the float32 vectors that were written. A slack that is not finite decides nothing.
type Slack [3]float64

// At returns the slack for candidates whose size is at most n.
func (s Slack) At(n float64) float64 { return s[0] + n*(s[1]+n*s[2]) }
