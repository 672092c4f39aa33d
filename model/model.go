// Package model defines the knowledge graph embedding models: their parameters, scores, gradients
// and error bounds.
//
// A model consists of two towers and a comparison. The query tower turns a query (anchor, relation)
// into a vector ψ, the feature tower turns a candidate entity into a vector φ, and the comparison
// scores the two. Rankings use that comparison as a screen. The reference score defines the order
// of candidates. It is computed in float64 from the stored float32 parameters, in a fixed order of
// operations.
//
// Each model's file declares it as a [Spec], docs/models has a page on it, and
// docs/adding-a-model.md shows how to add a model. Begin with [Lookup] and [New], or with package
// checkpoint for trained models. [Model.NewWorker] returns a worker that computes vectors and
// scores.
//
// A larger score means a more plausible triple.
package model

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// Comparison says how ψ and φ are combined into a score. Larger is better.
type Comparison = kernel.Comparison

// The comparisons of package kernel.
var (
	Dot        = kernel.Dot
	L1         = kernel.L1
	GroupNorm  = kernel.GroupNorm
	Phase      = kernel.Phase
	Hake       = kernel.Hake
	Expressive = kernel.Expressive
	BoxE       = kernel.BoxE
)

// Tower describes the vectors for the queries of one side.
type Tower struct {
	Compare Comparison
	// Psi and Phi are the numbers of entries of ψ and φ: the number of coordinates times the entries
	// per coordinate (kernel.Comparison.Words). The number of coordinates is even if the comparison
	// uses pairs of coordinates.
	Psi, Phi int
	// Features says what φ depends on besides the entity.
	Features Dependence
}

// Terms returns the number of coordinates of ψ and φ.
func (t Tower) Terms() int {
	_, phi := t.Compare.Words()
	return t.Phi / phi
}

// Dependence says what the features of a candidate depend on besides the entity. Accordingly, a
// ranking prepares the candidates once in all, once for each side, once for each relation, or once
// for each pair of a relation and a side.
type Dependence uint8

// The possible dependences. OnEntity, the zero value, means that features depend on the entity
// alone.
const (
	OnEntity       Dependence = 0
	OnSide         Dependence = 1 << 0
	OnRelation     Dependence = 1 << 1
	OnRelationSide            = OnRelation | OnSide
)

// Shares reports whether two queries have the same φ, given whether they have the same side and the
// same relation. The towers of the two sides must be equal.
func (d Dependence) Shares(sameSide, sameRelation bool) bool {
	return (sameSide || d&OnSide == 0) && (sameRelation || d&OnRelation == 0)
}

// DependenceOf returns what the features of a model depend on. If the towers of the two sides differ,
// the features depend on the side, too.
func DependenceOf(m Model) Dependence {
	tail, head := m.Tower(kg.Tail), m.Tower(kg.Head)
	depends := tail.Features | head.Features
	if tail != head {
		depends |= OnSide
	}
	return depends
}

// Model is a score function with its parameters. It is safe for concurrent use. Each goroutine must
// use its own Worker.
type Model interface {
	Config() Config
	// Tensors returns the parameters, in the order of Parameters.
	Tensors() [][]float32
	// SameEntity reports whether the stored parameters of two entities are equal. Such entities
	// have identical reference scores as candidates.
	SameEntity(a, b int32) bool
	// HashEntity returns a hash of the bits of e's stored parameters.
	HashEntity(e int32) uint64
	// Score converts a reference score to the score that the model's authors print, such as γ − D
	// for a distance D. Score is monotone but may map two reference scores to the same number, so
	// rankings compare reference scores.
	Score(reference float64) float64
	Tower(side kg.Side) Tower
	NewWorker(b *kernel.Backend) Worker
}

// Worker computes the vectors and reference scores of a model. It has scratch memory, is not safe
// for concurrent use, and allocates memory only in its first calls.
type Worker interface {
	// Features writes φ of the entities, as candidates on the given side of relation, to the rows
	// of phi. It also writes their sizes n ≥ 0 to sizes; the slacks of Queries are polynomials in
	// n. Features uses side and relation only if the tower depends on them.
	Features(side kg.Side, relation int32, entities []int32, phi Rows, sizes []float64)
	// Queries writes ψ of the queries with the given anchors to the rows of psi, and their slacks
	// to slacks.
	Queries(side kg.Side, relation int32, anchors []int32, psi Rows, slacks []Slack)
	// Reference returns the reference score of candidate e as an answer to q. Consecutive calls
	// with the same query share the work that depends on the query alone.
	Reference(q kg.Query, e int32) float64
}

// Rows is a list of vectors of the same width, which begin Stride entries apart in memory.
type Rows struct {
	Values        []float32
	Width, Stride int
}

// Row returns row i.
func (r Rows) Row(i int) []float32 { return r.Values[i*r.Stride:][:r.Width] }

// SingleWorker is a worker that computes one vector at a time. OneByOne turns it into a Worker.
type SingleWorker interface {
	// Feature writes φ of entity e to phi and returns its size.
	Feature(side kg.Side, relation, e int32, phi []float32) (size float64)
	// Query writes ψ of q to psi and returns its slack.
	Query(q kg.Query, psi []float32) Slack
	// Reference is like Worker.Reference.
	Reference(q kg.Query, e int32) float64
}

// lastQuery remembers the query whose data a worker's scratch memory holds. The zero value
// remembers no query.
type lastQuery struct {
	kept  bool
	query kg.Query
}

// keep reports whether q is the remembered query, and remembers q.
func (l *lastQuery) keep(q kg.Query) bool {
	same := l.kept && l.query == q
	l.kept, l.query = true, q
	return same
}

// OneByOne returns a Worker that calls w for each vector.
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

// Slack bounds the distance between two scores: the comparison of ψ and φ, and the reference score
// minus a constant of the query (docs/numerics.md, "From ψ and φ to the reference score"). For a
// candidate of size n the bound is Slack[0] + Slack[1]·n + Slack[2]·n².
//
// For the comparison Dot, the slack refers to ψ and φ before their rounding to float32; rankings
// add the effect of that rounding. For every other comparison it refers to the exact comparison of
// the float32 vectors. A slack that is not finite leaves every candidate undecided.
type Slack [3]float64

// At returns the slack for candidates of size at most n.
func (s Slack) At(n float64) float64 { return s[0] + n*(s[1]+n*s[2]) }
