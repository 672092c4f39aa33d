package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// This file contains the common parts of TransH, TransR and TransD. Each relation maps the entities
// into a separate space and translates them there. With the images h′ and t′ of head and tail, the
// score is γ − ‖h′ + r − t′‖, in the L1 or the L2 norm.
//
// Two hyper-parameters bound an image y. With unit_projections, y is divided by max(‖y‖₂, 10⁻¹²).
// Then, with max_projection_norm = m > 0, y is multiplied by m/‖y‖ if ‖y‖ > m, in the norm of the
// score.
//
// The reference score is computed in float64, and every operation is rounded. The model's file
// defines the images. Norms are chains of |y_i| or y_i², and the factor m/‖y‖ is computed first.
// With v_i = (h′_i + r_i) − t′_i, the score is, for L1, minus the chain over i from 0 of |v_i| and,
// for L2, minus the chain of v_i², without the root.
//
// The towers are TransE's, with images in place of entities: q = a′ + r for tails and a′ − r for
// heads. L1 has ψ = q and φ = e′. L2 has ψ = [2q, −1/b] and φ = [e′, b‖e′‖²], with a power of two b
// for each relation. φ depends on the relation but not on the side.

// The keys of the hyper-parameters of projections.
const (
	MaxProjectionNorm = "max_projection_norm"
	UnitProjections   = "unit_projections"
)

var (
	maxNorm = &HyperParameter{
		Key: "max_norm", Help: "largest Euclidean norm of an entity and, except in TransH, of a translation; " +
			"training shortens longer vectors; 0 for no limit",
		Least: 0, Most: math.MaxFloat64,
	}
	maxProjectionNorm = &HyperParameter{
		Key: MaxProjectionNorm, Help: "largest norm of a projected entity; longer images are shortened; 0 for no limit",
		Least: 0, Most: 1e30,
	}
	unitProjections = &HyperParameter{
		Key: UnitProjections, Help: "1 to divide projected entities by their Euclidean norms; 0 not to", Whole: true,
		Least: 0, Most: 1,
	}
)

// translationTable is the index of the tensor of translations r, after the tensor of entities.
const translationTable = relationTable

// projection declares how a model maps entities into the spaces of relations.
type projection struct {
	// name, title and score are the model's name, title and formula without the norm, such as
	// "transh", "TransH" and "‖h⊥ + r − t⊥‖".
	name, title, score string

	maxDim  int
	recipe  map[string]string
	hyper   []*HyperParameter
	tensors func(Config) []Parameter
	// width returns the dimension of a relation's space.
	width func(Config) int
	// projector and training return the objects that compute images in a ranking and in training.
	projector func(*projected, *kernel.Backend) projector
	training  func(*projected, *linalg.Backend) trainingProjector
}

// projector computes images of entities in float64. It is not safe for concurrent use.
type projector interface {
	// project writes the images of at most projectionBatch entities in the space of relation r, before
	// any bound, to the rows of x. Rows begin projected.stride entries apart.
	project(x []float64, r int32, entities []int32)
}

// projectionBatch is the largest number of entities that a projector maps at once.
const projectionBatch = 16

// specs returns the model with the L1 norm and the model with the L2 norm.
func (p projection) specs() (l1, l2 *Spec) {
	spec := func(suffix, title, norm string, distance linalg.DistanceKind) *Spec {
		return &Spec{
			Name: p.name + suffix, Title: p.title + title, Score: "γ − " + p.score + norm, MaxDim: p.maxDim,
			Hyper:   append([]*HyperParameter{margin}, p.hyper...),
			Tensors: p.tensors,
			Recipe:  p.recipe,
			Build: func(t Tables) Model {
				return &projected{
					Tables: t, projection: &p, width: p.width(t.config), distance: distance,
					limit: maxProjectionNorm.Of(t.config), unit: unitProjections.Of(t.config) != 0,
				}
			},
			Start: marginStart,
		}
	}
	return spec("-l1", " (L1)", "₁", linalg.DistanceL1), spec("-l2", " (L2)", "₂", linalg.DistanceL2)
}

// relationalRecipe holds the default training options of models whose candidates depend on the
// relation. It uses sampled negatives, because every relation of a batch needs its own vectors of
// the candidates.
var relationalRecipe = relational("100")

func relational(dim string) map[string]string {
	return map[string]string{
		"dim": dim, "negatives": "shared", "negative_count": "256", "batch": "256", "dropout": "0",
		"learning_rate": "3e-3", "epochs": "60", "valid_every": "10", "ema": "0.9",
	}
}

// projected is a model that compares the images of entities.
type projected struct {
	Tables
	projection *projection
	width      int // dimension of the images
	distance   linalg.DistanceKind
	limit      float64 // max_projection_norm, or 0
	unit       bool
}

func (m *projected) Tower(kg.Side) Tower {
	if m.distance == linalg.DistanceL1 {
		return Tower{Compare: L1, Psi: m.width, Phi: m.width, Features: OnRelation}
	}
	return Tower{Compare: Dot, Psi: m.width + 1, Phi: m.width + 1, Features: OnRelation}
}

// Score returns γ − ‖h′ + r − t′‖.
func (m *projected) Score(reference float64) float64 {
	if m.distance == linalg.DistanceL2 {
		reference = -math.Sqrt(-reference)
	}
	return margin.Of(m.config) + reference
}

// stride returns the number of entries from the beginning of an image to the next in a batch.
func (m *projected) stride() int { return kernel.LD(max(m.width, m.config.Dim)) }

func (m *projected) NewWorker(b *kernel.Backend) Worker {
	stride := m.stride()
	return &projectedWorker{
		projected: m, projector: m.projection.projector(m, b), stride: stride,
		x: kernel.AlignedFloat64(projectionBatch * stride), known: make([]float64, m.width), balanced: -1,
	}
}

// projectedWorker computes images in batches.
type projectedWorker struct {
	*projected
	projector projector
	x         []float64 // images of a batch
	stride    int       // distance between the rows of x
	sample    [projectionBatch]int32
	balance   float64 // b of relation balanced
	balanced  int32

	one   [1]int32
	known []float64 // the image of the anchor of the last query
	last  lastQuery
}

// images computes the bounded images of a batch.
func (w *projectedWorker) images(r int32, entities []int32) {
	w.projector.project(w.x, r, entities)
	for i := range entities {
		w.bound(w.image(i))
	}
}

// image returns image i of the batch.
func (w *projectedWorker) image(i int) []float64 { return w.x[i*w.stride:][:w.width] }

// bound applies the bounds of the model to an image.
func (m *projected) bound(x []float64) {
	if m.unit {
		n := max(math.Sqrt(squares(x)), unitEpsilon)
		for i, v := range x {
			x[i] = v / n
		}
	}
	if m.limit == 0 {
		return
	}
	n := m.norm(x)
	if n <= m.limit {
		return
	}
	factor := m.limit / n
	for i, v := range x {
		x[i] = float64(v * factor)
	}
}

// unitEpsilon is the least divisor of unit_projections, as in PyTorch's functional.normalize.
const unitEpsilon = 1e-12

// norm returns the norm of x that the score uses.
func (m *projected) norm(x []float64) float64 {
	if m.distance == linalg.DistanceL2 {
		return math.Sqrt(squares(x))
	}
	return norm1(x)
}

// norm1 returns the chain of |x_i|.
func norm1(x []float64) (sum float64) {
	for _, v := range x {
		sum += math.Abs(v)
	}
	return sum
}

// squares returns the chain of x_i².
func squares(x []float64) (sum float64) {
	for _, v := range x {
		sum += float64(v * v)
	}
	return sum
}

// balanceOf returns b of a relation: a power of two near the reciprocal of a typical ‖e′‖, computed
// from a sample of the entities. It overwrites the batch.
func (w *projectedWorker) balanceOf(r int32) float64 {
	if w.balanced == r {
		return w.balance
	}
	n := w.config.Entities
	step := n/projectionBatch + 1
	sample := w.sample[:0]
	for e := 0; e < n; e += step {
		sample = append(sample, int32(e))
	}
	w.images(r, sample)
	var sum float64
	for i := range sample {
		sum += squares(w.image(i))
	}
	w.balance, w.balanced = balanceOf(sum/float64(len(sample))), r
	return w.balance
}

// Features writes φ. The size is an upper bound on ‖e′‖ in the norm of the score.
func (w *projectedWorker) Features(_ kg.Side, r int32, entities []int32, phi Rows, sizes []float64) {
	var b float64
	if w.distance == linalg.DistanceL2 {
		b = w.balanceOf(r)
	}
	for first := 0; first < len(entities); first += projectionBatch {
		batch := entities[first:min(first+projectionBatch, len(entities))]
		w.images(r, batch)
		for i := range batch {
			if w.distance == linalg.DistanceL2 {
				sizes[first+i] = w.featureL2(phi.Row(first+i), w.image(i), b)
			} else {
				sizes[first+i] = featureL1(phi.Row(first+i), w.image(i))
			}
		}
	}
}

// featureL1 writes x, rounded to float32, and returns an upper bound n on its L1 norm. The rounding
// changes x by at most 2⁻²⁴n + roundingL1 in that norm. A number beyond the range of float32
// becomes the largest float32 number, and n is then large enough for this bound.
func featureL1(phi []float32, x []float64) (size float64) {
	n := norm1(x)
	size = n * fmath.NormSlack
	for k, v := range x {
		if math.Abs(v) > math.MaxFloat32 {
			v, size = math.Copysign(math.MaxFloat32, v), n*(2/kernel.U32)
		}
		phi[k] = float32(v)
	}
	return size
}

// roundingL1 bounds the change from rounding k numbers below the normal range to float32.
func roundingL1(k int) float64 { return 0x1p-149 * float64(k) }

func (w *projectedWorker) featureL2(phi []float32, x []float64, b float64) (size float64) {
	square := squares(x)
	for k, v := range x {
		phi[k] = float32(v)
	}
	phi[w.width] = float32(b * square)
	return math.Sqrt(square) * fmath.NormSlack
}

func (w *projectedWorker) Queries(side kg.Side, r int32, anchors []int32, psi Rows, slacks []Slack) {
	translation := w.Row(translationTable, r)
	sign := signOf(side)
	l2 := w.distance == linalg.DistanceL2
	var b, ofRelation float64
	if l2 {
		b, ofRelation = w.balanceOf(r), fmath.Norm(translation)
	} else {
		ofRelation = fmath.Norm1(translation)
	}
	for first := 0; first < len(anchors); first += projectionBatch {
		batch := anchors[first:min(first+projectionBatch, len(anchors))]
		w.images(r, batch)
		for i := range batch {
			x, row := w.image(i), psi.Row(first+i)
			known := w.norm(x)*fmath.NormSlack + ofRelation
			// See docs/models/transh.md, "Slack".
			if l2 {
				for k, v := range x {
					row[k] = float32(2 * (v + sign*float64(translation[k])))
				}
				row[w.width] = float32(-1 / b)
				kappa := gamma(2*w.width + 12)
				slacks[first+i] = Slack{kappa * known * known, 2 * kappa * known, kappa}
				continue
			}
			var changes float64
			for k, v := range x {
				var change float64
				row[k], change = round(v + sign*float64(translation[k]))
				changes += change
			}
			kappa := gamma(w.width + 4)
			changes += roundingL1(w.width)
			slacks[first+i] = Slack{changes*fmath.NormSlack + kappa*known, kappa + kernel.U32, 0}
		}
	}
}

func (w *projectedWorker) Reference(q kg.Query, e int32) float64 {
	if !w.last.keep(q) {
		w.one[0] = q.Anchor
		w.images(q.Relation, w.one[:])
		copy(w.known, w.image(0))
	}
	w.one[0] = e
	w.images(q.Relation, w.one[:])
	h, t := w.known, w.image(0)
	if q.Side == kg.Head {
		h, t = t, h
	}
	r := w.Row(translationTable, q.Relation)
	r, t = r[:len(h)], t[:len(h)]
	var sum float64
	if w.distance == linalg.DistanceL2 {
		for i := range h {
			v := h[i] + float64(r[i]) - t[i]
			sum += float64(v * v)
		}
		return -sum
	}
	for i := range h {
		sum += math.Abs(h[i] + float64(r[i]) - t[i])
	}
	return -sum
}

// Training compares ψ = q and φ = e′ by the distance in the norm of the score. The penalties of a
// triple are sums over all its parameters x: frobenius sums x², and n3 sums |x|³.

func (m *projected) Training() Training {
	return distanceTraining(m.distance, m.width, NoPenalty, Frobenius, N3)
}

// trainingProjector computes images of entities in float32, and gradients. It is not safe for
// concurrent use.
type trainingProjector interface {
	// begin prepares for a relation.
	begin(r int32)
	// project writes the image of the entity with the given row, before any bound.
	project(x, row []float32)
	// gradient writes ∂row, given ∂x. It adds the gradients of the relation's parameters, except
	// the translation, to sum.
	gradient(dRow, sum, dX, row []float32)
}

func (m *projected) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	relation := 0
	for _, q := range m.parameters {
		if q.Axis == PerRelation {
			relation += q.Width()
		}
	}
	return &projectedTraining{
		projected: m, backend: b, penalty: p, projector: m.projection.training(m, b),
		sum: make([]float32, relation),
		dX:  make([]float32, m.width), raw: make([]float32, m.width), unitImage: make([]float32, m.width),
	}
}

type projectedTraining struct {
	*projected
	backend   *linalg.Backend
	penalty   Penalty
	projector trainingProjector

	side kg.Side
	r    []float32 // the translation
	sum  []float32 // sum of the relation's gradients

	dX, raw, unitImage []float32 // scratch
}

func (w *projectedTraining) Begin(side kg.Side, relation int32) {
	w.side, w.r = side, w.Row(translationTable, relation)
	w.projector.begin(relation)
	clear(w.sum)
}

func (w *projectedTraining) End(dRelation []float32) { copy(dRelation, w.sum) }

// image writes the bounded image of the entity with the given row.
func (w *projectedTraining) image(x, row []float32) {
	w.projector.project(x, row)
	if w.unit {
		w.scale(x, 1/max(w.norm2(x), unitEpsilon))
	}
	if n := w.limited(x); n > 0 {
		w.scale(x, w.limit/n)
	}
}

func (w *projectedTraining) scale(x []float32, factor float64) { w.backend.Scale(x, float32(factor)) }

func (w *projectedTraining) norm2(x []float32) float64 { return math.Sqrt(w.backend.Dot(x, x)) }

// limited returns the norm of x if it exceeds the limit, and 0 otherwise.
func (w *projectedTraining) limited(x []float32) (n float64) {
	if w.limit == 0 {
		return 0
	}
	if w.distance == linalg.DistanceL2 {
		n = w.norm2(x)
	} else {
		for _, v := range x {
			n += math.Abs(float64(v))
		}
	}
	if n <= w.limit {
		return 0
	}
	return n
}

// imageGradient writes ∂row, given ∂x of the bounded image, and adds the relation's gradients to
// w.sum. It overwrites dX.
func (w *projectedTraining) imageGradient(dRow, dX, row []float32) {
	if w.unit || w.limit > 0 {
		w.projector.project(w.raw, row)
		norm, inner := 0.0, w.raw
		if w.unit {
			norm, inner = max(w.norm2(w.raw), unitEpsilon), w.unitImage
			copy(inner, w.raw)
			w.scale(inner, 1/norm)
		}
		if n := w.limited(inner); n > 0 {
			w.lengthGradient(dX, inner, n, w.limit, w.distance)
		}
		if w.unit {
			w.lengthGradient(dX, w.raw, norm, 1, linalg.DistanceL2)
		}
	}
	w.projector.gradient(dRow, w.sum[w.width:], dX, row)
}

// lengthGradient replaces ∂L/∂z with ∂L/∂y, where z = y·length/n and n is the norm of y: ∂L/∂y =
// (length/n)(∂L/∂z − s (∂L/∂z·y)/n), where s is the gradient of the norm, y/n or the signs of y.
func (w *projectedTraining) lengthGradient(dX, y []float32, n, length float64, norm linalg.DistanceKind) {
	along := w.backend.Dot(dX, y) / n
	if norm == linalg.DistanceL2 {
		w.backend.Axpy(dX, float32(-along/n), y)
	} else {
		for i, v := range y {
			switch {
			case v > 0:
				dX[i] -= float32(along)
			case v < 0:
				dX[i] += float32(along)
			}
		}
	}
	w.scale(dX, length/n)
}

func (w *projectedTraining) Features(phi []float32, e int32) { w.image(phi, w.Row(entityTable, e)) }

func (w *projectedTraining) FeatureGradient(dEntity, dPhi, _ []float32, e int32) {
	copy(w.dX, dPhi)
	w.imageGradient(dEntity, w.dX, w.Row(entityTable, e))
}

// sign returns 1 for tail queries and −1 for head queries.
func (w *projectedTraining) sign() float32 { return float32(signOf(w.side)) }

func (w *projectedTraining) Query(psi, anchor []float32) (c, penalty float64) {
	w.image(psi, anchor)
	w.backend.Axpy(psi, w.sign(), w.r)
	return 0, 0
}

func (w *projectedTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	w.backend.Axpy(w.sum[:w.width], w.sign(), dPsi)
	copy(w.dX, dPsi)
	w.imageGradient(dAnchor, w.dX, anchor)
}

func (w *projectedTraining) EntityPenalty(dEntity []float32, e int32, weight float64) float64 {
	return w.penalty.add(dEntity, w.Row(entityTable, e), weight)
}

func (w *projectedTraining) RelationPenalty(dRelation []float32, r int32, weight float64) (sum float64) {
	for i, p := range w.parameters {
		if p.Axis == PerRelation {
			row := w.Row(i, r)
			sum += w.penalty.add(dRelation[:len(row)], row, weight)
			dRelation = dRelation[len(row):]
		}
	}
	return sum
}
