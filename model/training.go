package model

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// Trainable is a model with gradients.
type Trainable interface {
	Model
	Training() Training
	// NewTrainingWorker returns a worker for penalty p, which must be one of Training().Penalties.
	// The worker reads the parameters on every call, so they may change between calls.
	NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker
}

// Training describes what a TrainingWorker computes and what it costs.
type Training struct {
	// Width is the number of float32 entries of φ. Psi is the number of entries of ψ, or 0 if it
	// equals Width.
	Width, Psi int
	// EntityRows reports that φ is the row of the entity and depends on nothing else, and dEntity is
	// therefore dPhi. The trainer then need not call TrainingWorker.Features and FeatureGradient.
	EntityRows bool
	// Distance is the distance between ψ and φ whose negative is the score. Region is a score with
	// regions, such as boxes. If both are nil, the score is the dot product of ψ and φ plus a
	// constant of the query.
	Distance *linalg.DistanceKind
	Region   *linalg.Region
	// Rest describes a second distance, which the score subtracts. Nil means none.
	Rest *DistanceRest
	// Squared reports whether the score is minus a squared norm, −‖A + B φ‖², whose constant is −‖A‖².
	Squared bool
	// Blocks is the number of equal parts of ψ and φ whose scores the model adds, if it has several
	// blocks (docs/models/mquine.md). Otherwise it is 0.
	Blocks int
	// Relations describes scores that are linear in the relation. It is nil for other scores.
	Relations *RelationForm
	// Penalties are the regularisers that the model supports.
	Penalties []Penalty
	// Layers lists the layers of a Network in which training can drop entries.
	Layers []Layer
	// Scratch is a lower bound on the number of float32 entries that a worker allocates.
	Scratch int
	// PerQuery and PerRelation are lower bounds on the numbers of float32 entries that a NetworkWorker
	// allocates for each query of a step, and for each of their relations. A reciprocal relation counts, too.
	PerQuery, PerRelation int
	// Features is the number of products of small matrices in a call to TrainingWorker.Features or
	// FeatureGradient. Query and QueryGradient are the numbers of products in calls to the methods
	// of the same names. Rows is the number of rows of each product. The trainer spreads its
	// software prefetch over these rows.
	Features, Query, QueryGradient, Rows int
}

// PsiWidth returns the number of float32 entries of ψ. The row of an entity may be longer.
func (t Training) PsiWidth() int {
	if t.Psi > 0 {
		return t.Psi
	}
	return t.Width
}

// RelationForm writes the score of a triple as the dot product of the relation's row and a vector ρ
// of its head and tail. One product of matrices then scores all relations of many pairs of
// entities. The model has one tensor of relations, and Config.Scored says which row of this tensor
// belongs to a query.
type RelationForm struct {
	// Width is the number of entries of ρ.
	Width int
	// Rho writes ρ, given the rows of the head and the tail.
	Rho func(b *linalg.Backend, rho, head, tail []float32)
	// Gradient writes the gradients of the head and the tail, given ∂L/∂ρ.
	Gradient func(b *linalg.Backend, dHead, dTail, dRho, head, tail []float32)
}

// DistanceRest is a distance between the entries of ψ and φ from entry From to the last.
// Training.Distance then compares the entries before From.
type DistanceRest struct {
	Distance linalg.DistanceKind
	From     int
}

// TrainingWorker computes ψ and φ in float32 and propagates the gradients of a loss L back to the
// parameters. It is not safe for concurrent use, and does not allocate.
//
// dX stands for ∂L/∂X. The gradient of an entity has the layout of the entity's row. The gradient
// of a relation has the layout of the relation's rows of all tensors, one after another. Methods
// overwrite gradients unless their comments say that they add.
//
// If features depend on the side or the relation (Tower.Features), Features and FeatureGradient
// refer to the side and relation of Begin, and FeatureGradient adds to the sum of the relation's
// gradients. In this case, End needs only a call to FeatureGradient, without a query.
type TrainingWorker interface {
	// Features writes φ of entity e.
	Features(phi []float32, e int32)
	// FeatureGradient writes dEntity of entity e, given its φ and dPhi.
	FeatureGradient(dEntity, dPhi, phi []float32, e int32)

	// Begin prepares Query and QueryGradient for queries of one side and relation, and clears the
	// sum of the relation's gradients.
	Begin(side kg.Side, relation int32)
	// Query writes ψ of the query whose anchor has the given row. It returns the constant c in the
	// query's scores (0 for a distance) and the query's share of the penalty.
	Query(psi, anchor []float32) (c, penalty float64)
	// QueryGradient writes dAnchor, given dPsi, dc and the derivative of L with respect to the
	// query's penalty, and adds to the sum of the relation's gradients. It may modify dPsi, and
	// dAnchor may overlap the beginning of dPsi.
	QueryGradient(dAnchor, dPsi, anchor []float32, dc, dPenalty float64)
	// End writes the sum of the relation's gradients since Begin. It needs at least one call to
	// QueryGradient since Begin.
	End(dRelation []float32)

	// EntityPenalty returns weight times the penalty of entity e, and adds its gradient to dEntity.
	EntityPenalty(dEntity []float32, e int32, weight float64) float64
	// RelationPenalty is EntityPenalty for relation r.
	RelationPenalty(dRelation []float32, r int32, weight float64) float64
}

// MaxBatch is the largest number of queries in one call of a BatchWorker or a Dual. It affects how
// the gradients of relations round.
const MaxBatch = 16

// BatchWorker is implemented by training workers that compute several queries faster together than
// one after the other, for example as a product of matrices. The constant c of these queries is 0.
type BatchWorker interface {
	// Queries is Query for the queries whose anchors are the rows of a matrix. Row i of psi and
	// penalties[i] belong to row i of anchors.
	Queries(psi, anchors linalg.Matrix, penalties []float64)
	// QueryGradients is QueryGradient for several queries. Rows of dAnchors may overlap the same rows
	// of dPsi.
	QueryGradients(dAnchors, dPsi, anchors linalg.Matrix, dPenalties []float64)
}

// Dual is implemented by the training workers of models with reciprocal relations. The penalties
// Dura and Dura3 of a triple need the vectors of both entities with the same relation, but the
// queries of a triple use different relations, r and r⁻¹. Its methods follow Begin, and refer to
// the relation of the queries, in the other direction: to the vectors that r would give the targets
// of tail queries as the anchors of head queries, for example conj(r)∘t in ComplEx. The rows of a
// matrix hold the targets.
type Dual interface {
	// DualPenalties writes the targets' shares of the penalty.
	DualPenalties(penalties []float64, targets linalg.Matrix)
	// DualGradients writes the rows of dTargets, given the derivatives of L with respect to the
	// targets' shares of the penalty, and adds to the sum of the relation's gradients.
	DualGradients(dTargets, targets linalg.Matrix, dPenalties []float64)
}

// Network is a model whose query vectors are the output of a network. Training computes the vectors
// of all queries of a step together, because batch normalisation makes each of them depend on all
// others, and because Global parameters have gradients. The model is trained with reciprocal
// relations (Spec.TrainReciprocal), so all queries ask for tails.
//
// The trainer uses a NetworkWorker in place of the methods Begin, Query, QueryGradient and End of
// TrainingWorker.
type Network interface {
	Trainable
	// NewNetworkWorker returns a worker that distributes its work over the given number of threads.
	NewNetworkWorker(b *linalg.Backend, threads int, d NetworkDropout) NetworkWorker
}

// NetworkWorker computes the query vectors of a step in float32 and propagates the gradients of a
// loss L back to the parameters. Its results do not depend on the number of threads. It is not safe
// for concurrent use.
type NetworkWorker interface {
	// Forward writes ψ of the queries to the rows of psi. Row i of anchors holds the embedding of
	// the anchor of query i. Anchors must not change before the call to Backward.
	Forward(ctx context.Context, queries []kg.Query, anchors, psi linalg.Matrix) error
	// Backward propagates dPsi, the gradients of the vectors that Forward computed last. It writes
	// the gradients of the anchors to the rows of dAnchors, and the gradients of the queries'
	// relations to the rows of dRelations. It writes the gradients of the Global parameters that
	// are not Frozen, one after another, to dGlobals. dAnchors may share the memory of dPsi.
	Backward(ctx context.Context, dAnchors, dRelations linalg.Matrix, dGlobals []float32, dPsi linalg.Matrix) error
	// Settle moves the Frozen parameters, which are running statistics, towards the statistics of
	// the queries in the last call to Forward.
	Settle()
}

// Layer names a place in a network where training can drop entries.
type Layer uint8

// The layers.
const (
	// InputLayer is the normalised input of a network.
	InputLayer Layer = iota
	// FeatureMaps are the results of a convolution. A whole map is dropped or kept.
	FeatureMaps
	// HiddenLayer is the matrix of a relation, or a fully connected layer.
	HiddenLayer

	Layers = iota // the number of layers
)

// NetworkDropout drops entries inside a network. Several goroutines may use it.
type NetworkDropout interface {
	// Drops reports whether entries of a layer may be dropped.
	Drops(l Layer) bool
	// Drop drops entries of x, the vector of one query in a layer. It sets some to zero and
	// multiplies the others by a factor that preserves the mean. Calls with the same layer and
	// query drop the same entries.
	Drop(l Layer, query int, x []float32)
}

// Penalty names a regulariser: a sum of terms for the head, the tail and the relation of a triple
// and for its two queries. The models' pages in docs/models give the formulas, which may leave out
// the relation.
type Penalty string

// The penalties.
const (
	NoPenalty Penalty = "none"
	// Frobenius is the sum of the squares of all parameters x.
	Frobenius Penalty = "frobenius"
	// N3 is the sum of |x|³ over all parameters x (Lacroix et al., 2018). A complex number counts
	// as one parameter.
	N3 Penalty = "n3"
	// Dura is the sum of the squared entries of both entities and both query vectors (Zhang et al.,
	// 2020). MQuinE adds the squared entries of Rᶜ. With reciprocal relations, see Dual.
	Dura Penalty = "dura"
	// Dura3 is Dura with the cubes of the norms of entities, query vectors and Rᶜ in place of their
	// squares. Large norms weigh more, as in N3.
	Dura3 Penalty = "dura3"
)

// IsDura reports whether p penalises the query vectors instead of the relation.
func (p Penalty) IsDura() bool { return p == Dura || p == Dura3 }

// ofNorm returns the penalty on a norm whose square is given, and its derivative with respect to the
// square. p is Dura or Dura3.
func (p Penalty) ofNorm(square float64) (value, slope float64) {
	if p != Dura3 {
		return square, 1
	}
	norm := math.Sqrt(square)
	return norm * square, 1.5 * norm
}

// add returns weight times the sum of |x|², or of |x|³ for N3, over the entries x of a row, and
// adds its gradient.
func (p Penalty) add(gradient, x []float32, weight float64) float64 {
	var sum float64
	for i, v := range x {
		value, slope := p.entry(float64(v))
		sum += value
		gradient[i] += float32(weight * slope)
	}
	return weight * sum
}

// entry returns the penalty of one number and its derivative.
func (p Penalty) entry(v float64) (value, slope float64) {
	if p == N3 {
		return max(v, -v) * v * v, 3 * v * max(v, -v)
	}
	return v * v, 2 * v
}

// addComplex is like add but takes a row of complex numbers, real parts first, and uses their
// moduli as |x|.
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
