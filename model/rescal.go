package model

import (
	"slices"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// RESCAL (Nickel et al., 2011; docs/models/rescal.md) has the score hᵀRt, where every relation is a
// d × d matrix R, stored row by row.
//
// The reference score is computed in float64: u_j is the chain over i from 0 of h_i R_ij, and the
// score is the chain over j from 0 of u_j t_j. The products h_i R_ij are exact; everything else is
// rounded.
//
// Towers: ψ is Rᵀh for tails and Rt for heads. φ is the entity's row.

var rescal = &Spec{
	Name: "rescal", Title: "RESCAL", Score: "hᵀRt", MaxDim: maxMatrixDim,
	Hyper: []*HyperParameter{embeddingRange},
	Tensors: func(c Config) []Parameter {
		uniform := initial.Uniform(embeddingRange.Of(c))
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{c.Dim}, Initial: uniform},
			{Name: "relation", Axis: PerRelation, Row: []int{c.Dim, c.Dim}, Initial: uniform, Maps: true},
		}
	},
	Recipe: productRecipe("64"),
	Build:  func(t Tables) Model { return &rescalModel{t} },
	Start:  rangeStart,
}

type rescalModel struct{ Tables }

func (m *rescalModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: m.config.Dim, Phi: m.config.Dim}
}

func (m *rescalModel) NewWorker(b *kernel.Backend) Worker {
	ld := kernel.LD(m.config.Dim)
	return &rescalWorker{
		rescalModel: m, backend: b, ld: ld, relation: -1, matrix: kernel.AlignedFloat64(ld * ld),
		anchors: kernel.AlignedFloat64(rescalBatch * ld), queries: kernel.AlignedFloat64(rescalBatch * ld),
		product: make([]float64, m.config.Dim),
	}
}

// rescalBatch is the largest number of queries in a product of matrices.
const rescalBatch = 8

// rescalWorker computes queries in batches, as products of matrices.
type rescalWorker struct {
	*rescalModel
	backend *kernel.Backend
	ld      int // distance between the rows of the matrices

	// matrix is R of relation if side is Tail, or Rᵀ if side is Head, and norm bounds its Frobenius
	// norm.
	side     kg.Side
	relation int32
	matrix   []float64
	norm     float64

	anchors, queries []float64 // one row for each query of a batch
	product          []float64 // Rᵀh of the last reference score
	last             lastQuery
}

func (w *rescalWorker) Features(_ kg.Side, _ int32, entities []int32, phi Rows, sizes []float64) {
	for i, e := range entities {
		row := w.Row(entityTable, e)
		copy(phi.Row(i), row)
		sizes[i] = fmath.Norm(row)
	}
}

func (w *rescalWorker) Queries(side kg.Side, relation int32, anchors []int32, psi Rows, slacks []Slack) {
	w.read(side, relation)
	d := w.config.Dim
	for first := 0; first < len(anchors); first += rescalBatch {
		batch := anchors[first:min(first+rescalBatch, len(anchors))]
		for i, anchor := range batch {
			for k, v := range w.Row(entityTable, anchor) {
				w.anchors[i*w.ld+k] = float64(v)
			}
		}
		w.backend.MatMulFMARows(w.queries, w.anchors, w.matrix, len(batch), d)
		for i := range batch {
			row := psi.Row(first + i)
			for k, v := range w.queries[i*w.ld:][:d] {
				row[k] = float32(v)
			}
			// See docs/models/rescal.md, "Slack".
			slacks[first+i] = Slack{0, gamma(3*d) * w.norm * fmath.Norm(w.anchors[i*w.ld:][:d]), 0}
		}
	}
}

// read sets matrix to R or Rᵀ of a relation, by which the rows of anchors are multiplied.
func (w *rescalWorker) read(side kg.Side, relation int32) {
	if w.side == side && w.relation == relation {
		return
	}
	w.side, w.relation = side, relation
	row, column := w.ld, 1
	if side == kg.Head {
		row, column = column, row
	}
	d, values := w.config.Dim, w.Row(relationTable, relation)
	for i := range d {
		for j, v := range values[i*d:][:d] {
			w.matrix[i*row+j*column] = float64(v)
		}
	}
	w.norm = fmath.Norm(values)
}

func (w *rescalWorker) Reference(q kg.Query, e int32) float64 {
	h, r, t := w.rows(q, e)
	if !w.last.keep(q) || q.Side == kg.Head {
		clear(w.product)
		for i, x := range h {
			for j, y := range r[i*len(h):][:len(h)] {
				w.product[j] += float64(float64(x) * float64(y))
			}
		}
	}
	var sum float64
	for j, v := range t {
		sum += float64(w.product[j] * float64(v))
	}
	return sum
}

// The penalty frobenius of a triple is ‖h‖² + ‖R‖² + ‖t‖² with the Frobenius norm of R; n3 has
// Σ|x|³ in place of ‖·‖²; dura is ‖h‖² + ‖t‖² + ‖Rᵀh‖² + ‖Rt‖².

func (m *rescalModel) Training() Training {
	return Training{
		Width: m.config.Dim, EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius, N3, Dura},
		Relations: &RelationForm{m.config.Dim * m.config.Dim, outer, outerGradient},
	}
}

// outer writes ρ = htᵀ, row by row.
func outer(_ *linalg.Backend, rho, head, tail []float32) {
	d := len(head)
	for i, h := range head {
		for j, t := range tail {
			rho[i*d+j] = h * t
		}
	}
}

func outerGradient(_ *linalg.Backend, dHead, dTail, dRho, head, tail []float32) {
	d := len(head)
	clear(dTail)
	for i, h := range head {
		var sum float32
		for j, g := range dRho[i*d:][:d] {
			sum += float32(g * tail[j])
			dTail[j] += float32(g * h)
		}
		dHead[i] = sum
	}
}

func (m *rescalModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	d := m.config.Dim
	w := &rescalTraining{
		tableTraining: newTableTraining(&m.Tables, b, p),
		relation:      linalg.NewSmall(d, d), dRelation: linalg.NewSmall(d, d),
	}
	w.sum = nil // dRelation replaces it
	for _, x := range []*linalg.Matrix{&w.anchors, &w.psi, &w.dAnchors} {
		*x = linalg.NewSmall(MaxBatch, d)
	}
	for _, x := range []*linalg.Matrix{&w.columns, &w.products} {
		*x = linalg.NewSmall(d, MaxBatch)
	}
	return w
}

// rescalTraining computes queries in batches, as products of matrices (BatchWorker).
type rescalTraining struct {
	tableTraining
	relation  linalg.Matrix // R
	dRelation linalg.Matrix // sum of the gradients ∂R, undefined before the first one
	begun     bool          // dRelation is defined

	anchors, psi, dAnchors linalg.Matrix // one row for each query of a batch
	columns, products      linalg.Matrix // one column for each query of a batch
}

func (w *rescalTraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	if d := w.config.Dim; w.relation.Stride == d { // rows without padding need no copy
		w.relation.Data = w.r
	} else {
		for i := range d {
			copy(w.relation.Row(i), w.r[i*d:][:d])
		}
	}
	w.begun = false
}

func (w *rescalTraining) End(dRelation []float32) {
	d := w.config.Dim
	for i := range d {
		copy(dRelation[i*d:][:d], w.dRelation.Row(i))
	}
}

// multiply multiplies the first n rows of x by R, or by Rᵀ if transposed is set. y and x must not be
// the same. Every entry of y is one chain in ascending order.
func (w *rescalTraining) multiply(y, x linalg.Matrix, n int, transposed bool) {
	y.Rows, x.Rows = n, n
	if !transposed {
		w.backend.MatMul32(y, x, w.relation, linalg.Matrix{})
		return
	}
	// Transposing x and y takes as long as transposing R for 16 queries, and less for fewer.
	columns, products := w.columns, w.products
	columns.Cols, products.Cols = n, n
	w.backend.Transpose32(columns, x)
	w.backend.MatMul32(products, w.relation, columns, linalg.Matrix{})
	w.backend.Transpose32(y, products)
}

// Queries computes the rows hᵀR for tails, and tᵀRᵀ for heads.
func (w *rescalTraining) Queries(psi, anchors linalg.Matrix, penalties []float64) {
	w.load(anchors)
	w.multiply(w.psi, w.anchors, anchors.Rows, w.side == kg.Head)
	for i := range anchors.Rows {
		copy(psi.Row(i), w.psi.Row(i))
		penalties[i] = w.queryPenalty(w.psi.Row(i))
	}
}

func (w *rescalTraining) load(anchors linalg.Matrix) {
	for i := range anchors.Rows {
		copy(w.anchors.Row(i), anchors.Row(i))
	}
}

// QueryGradients uses ψ = Rᵀa for tails: ∂a = R∂ψ and ∂R = a∂ψᵀ. For heads, ψ = Ra: ∂a = Rᵀ∂ψ and
// ∂R = ∂ψaᵀ.
func (w *rescalTraining) QueryGradients(dAnchors, dPsi, anchors linalg.Matrix, dPenalties []float64) {
	n := anchors.Rows
	w.load(anchors)
	if w.penalty == Dura && slices.ContainsFunc(dPenalties, func(d float64) bool { return d != 0 }) {
		w.multiply(w.psi, w.anchors, n, w.side == kg.Head)
	}
	// total is the gradient ∂ψ of the loss and the penalty together.
	total := w.psi
	for i := range n {
		if slope := w.duraSlope(dPenalties[i]); slope != 0 {
			w.backend.Scale(total.Row(i), slope)
			w.backend.Axpy(total.Row(i), 1, dPsi.Row(i))
		} else {
			copy(total.Row(i), dPsi.Row(i))
		}
	}
	left, right := w.anchors, total
	if w.side == kg.Head {
		left, right = right, left
	}
	left.Rows, right.Rows = n, n
	var sum linalg.Matrix
	if w.begun {
		sum = w.dRelation
	}
	w.backend.MatMulT32(w.dRelation, left, right, sum)
	w.begun = true
	w.multiply(w.dAnchors, total, n, w.side == kg.Tail)
	for i := range n {
		copy(dAnchors.Row(i), w.dAnchors.Row(i))
	}
}

func (w *rescalTraining) Query(psi, anchor []float32) (c, penalty float64) {
	var penalties [1]float64
	w.Queries(rowMatrix(psi), rowMatrix(anchor), penalties[:])
	return 0, penalties[0]
}

func (w *rescalTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, dPenalty float64) {
	w.QueryGradients(rowMatrix(dAnchor), rowMatrix(dPsi), rowMatrix(anchor), []float64{dPenalty})
}

// rowMatrix returns a matrix with one row.
func rowMatrix(x []float32) linalg.Matrix {
	return linalg.Matrix{Data: x, Rows: 1, Cols: len(x), Stride: len(x)}
}
