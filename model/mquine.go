package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// This file contains MQuinE (Liu et al., 2024; docs/models/mquine.md) and MQuadE (Yu et al., 2021),
// which is MQuinE without the cross matrix Rᶜ.
//
// An entity is a symmetric d × d matrix E = A + Aᵀ, stored as the packed lower triangle of A, row
// by row. With the matrices H and T of head and tail,
//
//	s(h, r, t) = ‖H Rʰ − Rᵗ T + H Rᶜ T‖²_F,   score −s.
//
// The reference score is computed in float64. E_ii = 2A_ii and E_ij = A_ij. Every entry of P = H
// Rʰ, Q = Rᵗ T, S = H Rᶜ and X = S T is a chain over k from 0, and products and sums are rounded
// separately. Then D_ij = (P_ij − Q_ij) + X_ij, c_j = Σ_i D_ij² with i ascending, and s = Σ_j c_j
// with j ascending. MQuadE has neither S nor X. Its score is computed with Rᶜ = 0, which gives the
// same bits.
//
// Towers: for a fixed head, with A = H Rʰ and B = H Rᶜ − Rᵗ,
//
//	s = ‖A‖² + 2⟨sym(BᵀA), T⟩ + ⟨BᵀB, T²⟩
//
// is linear in φ(T) = [pack(T), pack(T²)], packed lower triangles. A head query (?, r, t) is the
// tail query of the inverse relation (Rᵗᵀ, Rʰᵀ, −Rᶜᵀ), so both sides share φ.
//
// With k blocks, a model is the sum of k models with the same d (mquine_blocks.go).

var (
	mquine = &Spec{
		Name: "mquine", Title: "MQuinE", Score: "−‖H Rʰ − Rᵗ T + H Rᶜ T‖²", MaxDim: maxMatrixDim,
		Hyper: []*HyperParameter{blocks},
		Tensors: func(c Config) []Parameter {
			return matrixParameters(c, "relation.head", "relation.tail", crossMatrix)
		},
		Build:  buildMatrices,
		Start:  matrixStart,
		Recipe: matrixRecipe,
	}
	mquade = &Spec{
		Name: "mquade", Title: "MQuadE", Score: "−‖H Rʰ − Rᵗ T‖²", MaxDim: maxMatrixDim,
		Hyper:   []*HyperParameter{blocks},
		Tensors: func(c Config) []Parameter { return matrixParameters(c, "relation.head", "relation.tail") },
		Build:   buildMatrices,
		Start:   matrixStart,
		Recipe:  matrixRecipe,
	}
)

// matrixRecipe holds the default training options of both models: the ingredients of their tuned
// recipes for CoDEx, and a learning rate with which 60 epochs are enough.
var matrixRecipe = commonRecipe(map[string]string{
	"dim": "40", "max_answers": "8", "learning_rate": "5e-3",
	"regulariser": "dura", "lambda_reg": "0.01", "dropout": "0.5", "entity_dropout": "0.1",
})

// matrixStart is the Starting of both models, which lets MQuadE use MQuinE's recipes. MQuadE
// ignores the option Start.Cross.
var matrixStart = Starting{Scaled: matrixEntity, Cross: crossMatrix}

// maxMatrixDim limits d, because the duration of a product of d × d matrices grows with d³.
const maxMatrixDim = 512

// The names of the entity parameter and of Rᶜ.
const (
	matrixEntity = "entity"
	crossMatrix  = "relation.cross"
)

// Triangle returns the number of entries of the packed lower triangle of a d × d matrix, d(d+1)/2.
func Triangle(d int) int { return d * (d + 1) / 2 }

// EntityDeviation is the initial standard deviation of the entries of A in E = A + Aᵀ. The paper
// gives N(0, 0.01); this package reads 0.01 as a variance.
const EntityDeviation = 0.1

// matrixParameters lists the triangles of the entities and the named d × d matrices of the
// relations. With several blocks, a row has the triangles or matrices of the blocks one after
// another.
func matrixParameters(c Config, relations ...string) []Parameter {
	list := []Parameter{{
		Name: matrixEntity, Axis: PerEntity, Row: blockRow(c, Triangle(c.Dim)),
		Initial: initial.Normal(EntityDeviation), Scatter: scatterBlocks(Triangle(c.Dim)),
	}}
	for _, name := range relations {
		list = append(list, Parameter{
			Name: name, Axis: PerRelation, Row: blockRow(c, c.Dim, c.Dim), Initial: initial.Identity,
			Maps: name != crossMatrix,
		})
	}
	return list
}

// matrixModel is MQuinE, with the tensors entity, Rʰ, Rᵗ and Rᶜ, or MQuadE, which lacks Rᶜ. It may
// be one block of such a model.
type matrixModel struct {
	Tables
	block, blocks int
}

// Row returns the block's part of row i of a parameter.
func (m *matrixModel) Row(parameter int, i int32) []float32 {
	row := m.Tables.Row(parameter, i)
	n := len(row) / m.blocks
	return row[m.block*n:][:n]
}

// relationRows returns the rows of a relation, in the order of the tensors. For MQuadE, the row of
// Rᶜ is nil.
func (m *matrixModel) relationRows(r int32) (rows [3][]float32) {
	for i := range m.tensors[1:] {
		rows[i] = m.Row(1+i, r)
	}
	return rows
}

func (m *matrixModel) Tower(kg.Side) Tower {
	width := 2 * Triangle(m.config.Dim)
	return Tower{Compare: Dot, Psi: width, Phi: width}
}

// MatrixTowers reports whether m is MQuinE or MQuadE with one block. If so, a GPU can compute the
// towers from the tensors entity, Rʰ, Rᵗ and, for MQuinE, Rᶜ. kappa is the κ of the slack κ(a₀ + a₁n)²
// (docs/models/mquine.md, "Slack").
func MatrixTowers(m Model) (kappa float64, ok bool) {
	if _, ok := m.(*matrixModel); !ok {
		return 0, false
	}
	return matrixKappa(m.Config().Dim), true
}

func matrixKappa(d int) float64 { return kernel.Gamma(10*d+16, kernel.U64) }

func (m *matrixModel) NewWorker(b *kernel.Backend) Worker { return OneByOne(m.newWorker(b)) }

func (m *matrixModel) newWorker(b *kernel.Backend) *matrixWorker {
	d := m.config.Dim
	ld := kernel.LD(d)
	matrix := func() []float64 { return kernel.AlignedFloat64(ld * ld) }
	w := &matrixWorker{
		model: m, backend: b, d: d, ld: ld,
		entity: matrix(), anchor: matrix(), square: matrix(), a: matrix(), b: matrix(), bt: matrix(), ba: matrix(),
		p: matrix(), q: matrix(), s: matrix(), x: matrix(), columns: kernel.AlignedFloat64(ld),
	}
	for i := range w.relations {
		w.relations[i] = relationMatrices{id: -1, head: matrix(), tail: matrix(), cross: matrix()}
	}
	return w
}

// matrixWorker is the worker of matrixModel. All its matrices are ld × ld, with zeros beyond d.
type matrixWorker struct {
	model   *matrixModel
	backend *kernel.Backend
	d, ld   int

	entity, square []float64
	a, b, bt, ba   []float64
	// Reference computes these matrices. Matrices that depend on the query alone belong to the last
	// query.
	anchor, p, q, s, x []float64
	columns            []float64
	last               lastQuery
	// relations holds, by side, the matrices of the last relation of tail queries and the inverse
	// of the last relation of head queries.
	relations [2]relationMatrices
}

// relationMatrices holds the matrices of a relation, or of its inverse, and their Frobenius norms.
type relationMatrices struct {
	id                            int32
	head, tail, cross             []float64
	headNorm, tailNorm, crossNorm float64
}

// relation returns the matrices (Rʰ, Rᵗ, Rᶜ) of r or, for side Head, of its inverse.
func (w *matrixWorker) relation(side kg.Side, r int32) *relationMatrices {
	m := &w.relations[side]
	if m.id == r {
		return m
	}
	m.id = r
	dst := [3][]float64{m.head, m.tail, m.cross}
	if side == kg.Head {
		dst[0], dst[1] = dst[1], dst[0]
	}
	for i := range w.model.tensors[1:] {
		src := w.model.Row(1+i, r)
		for row := range w.d {
			for col, v := range src[row*w.d : (row+1)*w.d] {
				switch {
				case side == kg.Tail:
					dst[i][row*w.ld+col] = float64(v)
				case i < 2:
					dst[i][col*w.ld+row] = float64(v)
				default:
					dst[i][col*w.ld+row] = -float64(v)
				}
			}
		}
	}
	m.headNorm, m.tailNorm, m.crossNorm = fmath.Norm(m.head), fmath.Norm(m.tail), fmath.Norm(m.cross)
	return m
}

// unpack writes the symmetric matrix of entity e to dst and returns an upper bound on its norm.
func (w *matrixWorker) unpack(dst []float64, e int32) (norm float64) {
	row := w.model.Row(entityTable, e)
	var sum float64
	at := 0
	for i := range w.d {
		line := dst[i*w.ld : i*w.ld+i]
		for j := range line {
			v := float64(row[at])
			at++
			line[j] = v
			dst[j*w.ld+i] = v
			sum += 2 * v * v
		}
		v := 2 * float64(row[at])
		at++
		dst[i*w.ld+i] = v
		sum += v * v
	}
	return math.Sqrt(sum) * fmath.NormSlack
}

func (w *matrixWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	size = w.unpack(w.entity, e)
	w.backend.MatMulFMALower(w.square, w.entity, w.entity, w.d)
	row := w.model.Row(entityTable, e)
	first, second := phi[:len(row)], phi[len(row):2*len(row)]
	copy(first, row)
	at := 0
	for i := range w.d {
		for _, v := range w.square[i*w.ld : i*w.ld+i+1] {
			second[at] = float32(v)
			at++
		}
		first[at-1] *= 2
	}
	return size
}

func (w *matrixWorker) Query(q kg.Query, psi []float32) Slack {
	a0, a1 := w.query(q, psi)
	kappa := matrixKappa(w.d)
	return Slack{kappa * a0 * a0, 2 * kappa * a0 * a1, kappa * a1 * a1}
}

// query writes ψ and returns the norms a₀ and a₁ of the slack κ(a₀ + a₁n)² (docs/models/mquine.md,
// "Slack").
func (w *matrixWorker) query(q kg.Query, psi []float32) (a0, a1 float64) {
	r := w.relation(q.Side, q.Relation)
	anchorNorm := w.unpack(w.entity, q.Anchor)
	w.backend.MatMulFMA(w.a, w.entity, r.head, w.d)
	w.backend.MatMulFMA(w.b, w.entity, r.cross, w.d)
	for i := range w.d {
		for j := range w.d {
			v := w.b[i*w.ld+j] - r.tail[i*w.ld+j]
			w.b[i*w.ld+j] = v
			w.bt[j*w.ld+i] = v
		}
	}
	w.backend.MatMulFMA(w.ba, w.bt, w.a, w.d)
	w.backend.MatMulFMALower(w.square, w.bt, w.b, w.d)

	p := Triangle(w.d)
	first, second := psi[:p], psi[p:2*p]
	at := 0
	for i := range w.d {
		ba, bb := w.ba[i*w.ld:], w.square[i*w.ld:]
		for j := range i {
			first[at] = float32(-2 * (ba[j] + w.ba[j*w.ld+i]))
			second[at] = float32(-2 * bb[j])
			at++
		}
		first[at] = float32(-2 * ba[i])
		second[at] = float32(-bb[i])
		at++
	}
	return anchorNorm * r.headNorm, r.tailNorm + anchorNorm*r.crossNorm
}

func (w *matrixWorker) Reference(q kg.Query, e int32) float64 {
	r := w.relation(kg.Tail, q.Relation)
	b, d := w.backend, w.d
	if !w.last.keep(q) {
		w.unpack(w.anchor, q.Anchor)
		if q.Side == kg.Tail {
			b.MatMul(w.p, w.anchor, r.head, d)
			b.MatMul(w.s, w.anchor, r.cross, d)
		} else {
			b.MatMul(w.q, r.tail, w.anchor, d)
		}
	}
	w.unpack(w.entity, e)
	if q.Side == kg.Tail {
		b.MatMul(w.q, r.tail, w.entity, d)
		b.MatMul(w.x, w.s, w.entity, d)
	} else {
		b.MatMul(w.p, w.entity, r.head, d)
		b.MatMul(w.s, w.entity, r.cross, d)
		b.MatMul(w.x, w.s, w.anchor, d)
	}
	return -b.Frobenius(w.p, w.q, w.x, d, w.columns)
}
