package model

import (
	"context"
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// TuckER (Balažević, Allen and Hospedales, 2019; docs/models/tucker.md) has the score Σ_k N₁(Σ_ij
// N₀(h)_i r_j W_jik)_k t_k. All triples share the core tensor W and the batch normalisations N₀ and
// N₁.
//
// The reference score is computed in float64, and every product and sum is rounded. A normalisation
// is x ↦ factor·x + shift with factor and shift from newAffine. M_ik is the chain over j from 0 of
// r_j W_jik. With x = N₀(h), y_k is the chain over i from 0 of x_i M_ik. With z = N₁(y), the score
// is the chain over k from 0 of z_k t_k.
//
// Towers: tail queries have ψ = z. With N₀(h)_i = α_i h_i + β_i and N₁(y)_k = γ_k y_k + δ_k, head
// queries have ψ_i = α_i Σ_k M_ik γ_k t_k. φ is the entity's row.

// BatchNorm is the key of TuckER's hyper-parameter for batch normalisation.
const BatchNorm = "batch_norm"

var tuckERNorm = &HyperParameter{
	Key: BatchNorm, Help: "1 with batch normalisation, 0 without", Whole: true, Default: 1, Least: 0, Most: 1,
}

var tuckER = &Spec{
	Name: "tucker", Title: "TuckER", Score: "Σ_k N₁(Σ_ij N₀(h)_i r_j W_jik)_k t_k", MaxDim: maxMatrixDim,
	Hyper: []*HyperParameter{relationDim, tuckERNorm},
	Tensors: func(c Config) []Parameter {
		d, width := c.Dim, relationWidth(c)
		list := []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{d}, Initial: xavierNormal(c.Entities, d)},
			{Name: "relation", Axis: PerRelation, Row: []int{width}, Initial: xavierNormal(c.Relations, width)},
			{Name: "core", Axis: Global, Row: []int{width, d, d}, Initial: initial.Uniform(1)},
		}
		if tuckERNorm.Of(c) == 0 {
			return list
		}
		return append(append(list, normParameters("norm0", d)...), normParameters("norm1", d)...)
	},
	Build:           func(t Tables) Model { return &tuckERModel{t} },
	TrainReciprocal: true,
	Recipe: commonRecipe(map[string]string{
		"dim": "64", "reciprocal": "true", "gamma": "0", "dropout": "0.3", "input_dropout": "0.2", "ema": "0",
	}),
}

// The indices of TuckER's tensors after the tables of entities and relations.
const (
	tuckERCore  = 2
	tuckERNorm0 = 3
	tuckERNorm1 = tuckERNorm0 + normTensors
)

type tuckERModel struct{ Tables }

func (m *tuckERModel) normalised() bool { return len(m.tensors) > tuckERNorm0 }

// affines returns N₀ and N₁ with the running statistics.
func (m *tuckERModel) affines() [2]affine {
	if m.normalised() {
		return [2]affine{newAffine(m.tensors[tuckERNorm0:]), newAffine(m.tensors[tuckERNorm1:])}
	}
	return [2]affine{noNorm(m.config.Dim), noNorm(m.config.Dim)}
}

func (m *tuckERModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: m.config.Dim, Phi: m.config.Dim}
}

func (m *tuckERModel) NewWorker(*kernel.Backend) Worker {
	d := m.config.Dim
	vector := func() []float64 { return make([]float64, d) }
	return OneByOne(&tuckERWorker{
		tuckERModel: m, norms: m.affines(), relation: -1, matrix: make([]float64, d*d),
		factors: make([]float64, relationWidth(m.config)),
		x:       vector(), y: vector(), z: vector(), absolute: vector(),
	})
}

// tuckERWorker is the worker of tuckERModel.
type tuckERWorker struct {
	*tuckERModel
	norms    [2]affine
	relation int32     // the relation of matrix, or −1
	matrix   []float64 // M
	factors  []float64 // r

	x, y, absolute []float64
	z              []float64 // results of the last call of output
	last           lastQuery // the query of z
}

// of sets matrix to M of relation r.
func (w *tuckERWorker) of(r int32) {
	if w.relation == r {
		return
	}
	w.relation = r
	for j, v := range w.Row(relationTable, r) {
		w.factors[j] = float64(v)
	}
	clear(w.matrix)
	chain64(w.matrix, w.factors, w.tensors[tuckERCore])
}

// output sets z to N₁(y) for head h, given M.
func (w *tuckERWorker) output(h []float32) {
	for i, v := range h {
		w.x[i] = w.norms[0].of(i, float64(v))
	}
	clear(w.y)
	chain64(w.y, w.x, w.matrix)
	for k, v := range w.y {
		w.z[k] = w.norms[1].of(k, v)
	}
}

// Feature copies the entity's row. The size is the norm of the row.
func (w *tuckERWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := w.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm(row)
}

// networkFloor bounds the effect of underflow on the slack of a network (docs/models/tucker.md,
// "Slack").
const networkFloor = 0x1p-300

func (w *tuckERWorker) Query(q kg.Query, psi []float32) Slack {
	w.of(q.Relation)
	anchor, d := w.Row(entityTable, q.Anchor), len(psi)
	// See docs/models/tucker.md, "Slack".
	if q.Side == kg.Tail {
		w.last.kept = false
		w.output(anchor)
		for k, v := range w.z {
			psi[k] = float32(v)
		}
		return Slack{networkFloor, gamma(d+1) * fmath.Norm(w.z), 0}
	}
	var constant float64
	for k, v := range anchor {
		w.y[k] = w.norms[1].factor[k] * float64(v)
		constant += math.Abs(w.norms[1].shift[k] * float64(v))
	}
	for i := range psi {
		var sum, absolute float64
		for k, v := range w.matrix[i*d:][:d] {
			term := v * w.y[k]
			sum += term
			absolute += math.Abs(term)
		}
		psi[i] = float32(w.norms[0].factor[i] * sum)
		w.absolute[i] = w.norms[0].factor[i] * absolute
		constant += math.Abs(w.norms[0].shift[i]) * absolute
	}
	rounding := gamma(3*d + 10)
	return Slack{rounding*constant*fmath.NormSlack + networkFloor, rounding * fmath.Norm(w.absolute), 0}
}

func (w *tuckERWorker) Reference(q kg.Query, e int32) float64 {
	h, _, t := w.rows(q, e)
	if !w.last.keep(q) || q.Side == kg.Head {
		w.of(q.Relation)
		w.output(h)
	}
	var sum float64
	for k, v := range t {
		sum += float64(w.z[k] * float64(v))
	}
	return sum
}

// The penalties frobenius and n3 of a triple are sums over the rows of head, relation and tail.

func (m *tuckERModel) Training() Training {
	d, sums := m.config.Dim, 0
	if m.normalised() {
		sums = 2 * batchNormSums(d)
	}
	return Training{
		Width: d, EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius, N3},
		Layers: []Layer{InputLayer, HiddenLayer},
		// See tuckERNetwork: x, y, relations, matrices and their gradients.
		PerQuery:    4*linalg.LineStride(d) + sums,
		PerRelation: 2 * (linalg.LineStride(relationWidth(m.config)) + linalg.LineStride(d*d)),
	}
}

func (m *tuckERModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &networkTraining{newTableTraining(&m.Tables, b, p)}
}

func (m *tuckERModel) NewNetworkWorker(b *linalg.Backend, threads int, d NetworkDropout) NetworkWorker {
	w := &tuckERNetwork{
		model: m, backend: b, threads: threads, drop: d, product: b.NewProduct(threads),
		dropped: make([][]float32, threads), outer: make([][]float32, threads),
	}
	if m.normalised() {
		w.norm0 = newBatchNorm(m.tensors[tuckERNorm0:], 1, threads)
		w.norm1 = newBatchNorm(m.tensors[tuckERNorm1:], 1, threads)
	}
	for i := range threads {
		w.dropped[i] = make([]float32, m.config.Dim*m.config.Dim)
		w.outer[i] = make([]float32, m.config.Dim*m.config.Dim)
	}
	return w
}

// tuckERNetwork is the NetworkWorker of tuckERModel. The product of the relation rows of a step and
// the core gives the relations' matrices M, one in each row of matrices.
type tuckERNetwork struct {
	model        *tuckERModel
	backend      *linalg.Backend
	threads      int
	drop         NetworkDropout
	product      *linalg.Product
	norm0, norm1 *batchNorm // nil without batch normalisation

	segments             []relationSegment
	segmentRoom          int           // segments for which the matrices have room
	segmentOf            []int         // the segment of each query
	anchors, x, y        linalg.Matrix // a row for each query; x after dropout
	dX, dY               linalg.Matrix
	relations, matrices  linalg.Matrix // a row for each segment
	dSegments, dMatrices linalg.Matrix // gradients of relations and matrices
	dropped, outer       [][]float32   // scratch memory of each goroutine
}

// core returns a tensor with the shape of W as a matrix with one row for each coordinate of a
// relation.
func (w *tuckERNetwork) core(values []float32) linalg.Matrix {
	square := w.model.config.Dim * w.model.config.Dim
	return linalg.Matrix{Data: values, Rows: len(values) / square, Cols: square, Stride: square}
}

func (w *tuckERNetwork) Forward(ctx context.Context, queries []kg.Query, anchors, psi linalg.Matrix) error {
	n, d := len(queries), w.model.config.Dim
	w.anchors = anchors
	w.segments, w.segmentOf = relationSegments(w.segments[:0], queries), w.segmentOf[:0]
	core := w.core(w.model.tensors[tuckERCore])
	if n := len(w.segments); n > w.segmentRoom {
		w.segmentRoom = n + n/8
	}
	w.resizeSegments(&w.relations, core.Rows)
	w.resizeSegments(&w.matrices, core.Cols)
	for i, segment := range w.segments {
		copy(w.relations.Row(i), w.model.Row(relationTable, segment.relation))
		for range segment.last - segment.first {
			w.segmentOf = append(w.segmentOf, i)
		}
	}
	if err := w.product.NN(ctx, w.matrices, w.relations, core, false); err != nil {
		return err
	}
	w.x.Resize(n, d)
	w.y.Resize(n, d)
	if err := w.norm0.normalise(ctx, w.x, anchors); err != nil {
		return err
	}
	err := kernel.Parallel(ctx, w.threads, n, func(worker, q int) {
		x, y := w.x.Row(q), w.y.Row(q)
		w.drop.Drop(InputLayer, q, x)
		clear(y)
		w.backend.AddRows(y, x, w.matrix(worker, q), nil)
	})
	if err != nil {
		return err
	}
	return w.norm1.normalise(ctx, psi, w.y)
}

// resizeSegments makes m a matrix with a row for each segment. The number of segments changes from step to
// step, so m gets room for more.
func (w *tuckERNetwork) resizeSegments(m *linalg.Matrix, cols int) {
	m.Resize(w.segmentRoom, cols)
	m.Rows = len(w.segments)
}

// matrix returns M of a query's relation after dropout. The result is valid until the same
// goroutine calls matrix again.
func (w *tuckERNetwork) matrix(worker, query int) linalg.Matrix {
	d, values := w.x.Cols, w.matrices.Row(w.segmentOf[query])
	if w.drop.Drops(HiddenLayer) {
		dropped := w.dropped[worker]
		copy(dropped, values)
		w.drop.Drop(HiddenLayer, query, dropped)
		values = dropped
	}
	return linalg.Matrix{Data: values, Rows: d, Cols: d, Stride: d}
}

func (w *tuckERNetwork) Backward(
	ctx context.Context, dAnchors, dRelations linalg.Matrix, dGlobals []float32, dPsi linalg.Matrix,
) error {
	d, core := w.model.config.Dim, w.core(w.model.tensors[tuckERCore])
	dCore, dNorms := w.core(dGlobals[:core.Rows*core.Cols]), dGlobals[core.Rows*core.Cols:]
	w.dX.Resize(w.x.Rows, d)
	w.dY.Resize(w.x.Rows, d)
	w.resizeSegments(&w.dSegments, core.Rows)
	w.resizeSegments(&w.dMatrices, core.Cols)
	if w.norm1 == nil {
		copyRows(w.dY, dPsi)
	} else if err := w.norm1.backward(ctx, dNorms[2*d:3*d], dNorms[3*d:], w.dY, dPsi, w.y); err != nil {
		return err
	}
	err := kernel.Parallel(ctx, w.threads, len(w.segments), func(worker, i int) {
		clear(w.dMatrices.Row(i))
		for q := w.segments[i].first; q < w.segments[i].last; q++ {
			w.matrixGradient(worker, i, q)
		}
	})
	if err != nil {
		return err
	}
	if err := w.product.NT(ctx, w.dSegments, w.dMatrices, core, false); err != nil {
		return err
	}
	if err := w.product.TN(ctx, dCore, w.relations, w.dMatrices, false); err != nil {
		return err
	}
	for i, segment := range w.segments {
		for q := segment.first; q < segment.last; q++ {
			clear(dRelations.Row(q))
		}
		copy(dRelations.Row(segment.first), w.dSegments.Row(i))
	}
	if w.norm0 == nil {
		copyRows(dAnchors, w.dX)
		return nil
	}
	return w.norm0.backward(ctx, dNorms[:d], dNorms[d:2*d], dAnchors, w.dX, w.anchors)
}

// matrixGradient writes ∂x of query q and adds ∂M to the gradient of segment i: ∂x = M ∂y and ∂M = x
// ∂yᵀ.
func (w *tuckERNetwork) matrixGradient(worker, i, q int) {
	x, dX, dY := w.x.Row(q), w.dX.Row(q), w.dY.Row(q)
	d, matrix, sum := len(x), w.matrix(worker, q), w.dMatrices.Row(i)
	drops := w.drop.Drops(HiddenLayer)
	to := sum
	if drops {
		to = w.outer[worker]
		clear(to)
	}
	w.backend.Dots(dX, dY, matrix, nil)
	for i, v := range x {
		w.backend.Axpy(to[i*d:][:d], v, dY)
	}
	if drops {
		w.drop.Drop(HiddenLayer, q, to)
		w.backend.Axpy(sum, 1, to)
	}
	w.drop.Drop(InputLayer, q, dX)
}

func (w *tuckERNetwork) Settle() {
	if w.norm0 != nil {
		w.norm0.settle()
		w.norm1.settle()
	}
}
