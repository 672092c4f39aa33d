package model

import (
	"math"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// Trainable is a model that can be trained by gradients.
type Trainable interface {
	Model
	Training() Training
	// NewTrainingWorker returns a worker whose penalties are p's, one of Training's. The worker reads the model's
	// parameters whenever it needs them, and somebody else may change them between its calls.
	NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker
}

// Training describes what a TrainingWorker computes and what that costs.
type Training struct {
	// Width is the number of float32 entries of ψ and of φ.
	Width int
	// Distance is the distance of ψ and φ whose negative is the score. If it is nil, the score is their dot product
	// plus a constant of the query.
	Distance *linalg.DistanceKind
	// Penalties are those that the model has.
	Penalties []Penalty
	// Scratch is the number of float32 entries that a worker allocates, or a lower bound.
	Scratch int
	// Features, Query and QueryGradient are the numbers of products of small matrices in a call of Features or
	// FeatureGradient, of Query and of QueryGradient, and Rows is the number of rows of their results. A prefetcher
	// spreads its work over them.
	Features, Query, QueryGradient, Rows int
}

// TrainingWorker computes ψ and φ in float32 and takes the gradients of a loss L back from them to the parameters. It
// belongs to one goroutine and does not allocate.
//
// dX stands for ∂L/∂X. The gradient of an entity has the layout of its EntityRow, that of a relation the relation's
// rows of all other tensors, one after the other. Methods write a gradient, unless they say that they add to it.
type TrainingWorker interface {
	// Features writes φ of entity e.
	Features(phi []float32, e int32)
	// FeatureGradient writes dEntity of entity e, given its φ and dPhi.
	FeatureGradient(dEntity, dPhi, phi []float32, e int32)

	// Begin prepares Query and QueryGradient for queries of one side of a relation, and sets the sum of the relation's
	// gradients to zero.
	Begin(side kg.Side, relation int32)
	// Query writes ψ of the query whose anchor has the given parameters, and returns the constant c of its scores,
	// 0 for a distance, and the part of the penalty that the query has.
	Query(psi, anchor []float32) (c, penalty float64)
	// QueryGradient writes dAnchor, given dPsi, dc and the derivative of L by the query's penalty, and adds to the
	// sum of the relation's gradients. It may change dPsi, and dAnchor may be the first part of dPsi.
	QueryGradient(dAnchor, dPsi, anchor []float32, dc, dPenalty float64)
	// End writes the sum of the relation's gradients since Begin, of one query at least.
	End(dRelation []float32)

	// EntityPenalty returns weight times the penalty of entity e, and adds the gradient to dEntity.
	EntityPenalty(dEntity []float32, e int32, weight float64) float64
	// RelationPenalty is EntityPenalty for relation r.
	RelationPenalty(dRelation []float32, r int32, weight float64) float64
}

// Penalty is a regulariser: a sum over the head, the tail and the relation of a triple, and over its two queries. The
// files of the models define it for each.
type Penalty string

// The penalties.
const (
	NoPenalty Penalty = "none"
	// Frobenius is the sum of the squares of all parameters.
	Frobenius Penalty = "frobenius"
	// N3 is the sum of the cubes of their absolute values, complex numbers being one parameter (Lacroix et al., 2018).
	N3 Penalty = "n3"
	// Dura is the sum of the squares of the two entities and of the two queries' vectors (Zhang et al., 2020).
	Dura Penalty = "dura"
)

// add returns weight times the sum of |x|², or of |x|³ for N3, over the entries of x, and adds the gradient.
func (p Penalty) add(gradient, x []float32, weight float64) float64 {
	var sum float64
	for i, v := range x {
		value, slope := p.entry(float64(v))
		sum += value
		gradient[i] += float32(weight * slope)
	}
	return weight * sum
}

// entry returns the penalty of a number and its derivative.
func (p Penalty) entry(v float64) (value, slope float64) {
	if p == N3 {
		return max(v, -v) * v * v, 3 * v * max(v, -v)
	}
	return v * v, 2 * v
}

// addComplex is add for a row of complex numbers, k real and then k imaginary parts, with their moduli for |x|.
func (p Penalty) addComplex(gradient, row []float32, weight float64) float64 {
	if p != N3 {
		return p.add(gradient, row, weight)
	}
	re, im := halves(row)
	dRe, dIm := halves(gradient)
	var sum float64
	for i := range re {
		x, y := float64(re[i]), float64(im[i])
		modulus := math.Sqrt(float64(x*x) + float64(y*y))
		sum += float64(modulus * modulus * modulus)
		dRe[i] += float32(weight * 3 * modulus * x)
		dIm[i] += float32(weight * 3 * modulus * y)
	}
	return weight * sum
}
