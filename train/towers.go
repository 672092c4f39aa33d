package train

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// towers computes ψ of MQuinE and takes its gradients back to the parameters (docs/training.md).
// It belongs to one goroutine. MQuadE is MQuinE with Rᶜ = 0.
//
// With A = H Rʰ and B = H Rᶜ − Rᵗ a tail query has the scores f = −‖A + B T‖² = c + ψ·φ(T), where
// c = −‖A‖², φ = [T, T²] and ψ = −[2 sym(BᵀA), BᵀB], packed lower triangles with the off-diagonal
// entries of ψ doubled. A head query is the tail query of the inverse relation (Rᵗᵀ, Rʰᵀ, −Rᶜᵀ).
//
// All matrices are float32 ones of kernel.Len32(d) entries.
type towers struct {
	backend *kernel.Backend
	d, ld   int
	side    kg.Side

	// The relation, or its inverse for head queries, with transposes; negated has −Rᵗ. sum has the
	// gradients of the queries since begin.
	relation, transposed, sum [3][]float32
	negated                   []float32

	entity, a, b, ba, square, p1, p2, da, db, x []float32
}

func newTowers(b *kernel.Backend, d int) *towers {
	w := &towers{backend: b, d: d, ld: kernel.LD32(d)}
	matrix := func() []float32 { return kernel.AlignedFloat32(kernel.Len32(d)) }
	for i := range w.relation {
		w.relation[i], w.transposed[i], w.sum[i] = matrix(), matrix(), matrix()
	}
	for _, m := range []*[]float32{&w.negated, &w.entity, &w.a, &w.b, &w.ba, &w.square, &w.p1, &w.p2, &w.da, &w.db, &w.x} {
		*m = matrix()
	}
	return w
}

// begin prepares for queries of one side of relation r; tensors are Rʰ, Rᵗ and, for MQuinE, Rᶜ of
// all relations.
func (w *towers) begin(side kg.Side, tensors [][]float32, r int32) {
	w.side = side
	for i := range w.relation {
		clear(w.sum[i])
		if i >= len(tensors) {
			continue // zero from the start
		}
		given, transposed := w.relation[i], w.transposed[i]
		if side == kg.Head {
			given, transposed = w.transposed[inverted[i]], w.relation[inverted[i]]
		}
		w.spread(given, tensors[i][int(r)*w.d*w.d:])
		if side == kg.Head && inverseSign[inverted[i]] < 0 {
			w.backend.Scale(given, -1)
		}
		w.backend.Transpose32(transposed, given, w.d)
	}
	copy(w.negated, w.relation[rt])
	w.backend.Scale(w.negated, -1)
}

// spread copies a d × d matrix without padding.
func (w *towers) spread(dst, matrix []float32) {
	for row := range w.d {
		copy(dst[row*w.ld:][:w.d], matrix[row*w.d:])
	}
}

// sides computes A and B of an anchor, given by its packed A.
func (w *towers) sides(anchor []float32) {
	w.backend.UnpackSymmetric32(w.entity, anchor, w.d, 2)
	w.backend.MatMul32(w.a, w.entity, w.relation[rh], w.d, false)
	copy(w.b, w.negated)
	w.backend.MatMul32(w.b, w.entity, w.relation[rc], w.d, true)
}

// query writes ψ of an anchor and returns c.
func (w *towers) query(psi, anchor []float32) (c float64) {
	w.sides(anchor)
	w.backend.MatMulT32(w.ba, w.b, w.a, w.d, false)
	w.backend.MatMulTLower32(w.square, w.b, w.b, w.d, false)
	w.backend.AddTranspose32(w.ba, w.d)
	p := len(anchor)
	w.backend.PackLower32(psi[:p], w.ba, w.d, -2, -1)
	w.backend.PackLower32(psi[p:2*p], w.square, w.d, -2, -1)
	return -w.backend.Dot(w.a, w.a)
}

// gradient takes dpsi = ∂L/∂ψ and dc = ∂L/∂c of a query to its anchor's parameters, written to out,
// and adds those of the relation to the sum. It changes dpsi, and out may be the first part of it.
func (w *towers) gradient(out, anchor, dpsi []float32, dc float64) {
	b, d, p := w.backend, w.d, len(anchor)
	w.sides(anchor)
	// With P1 and P2 the symmetric matrices packed in dpsi:
	// ∂A = −2 (B P1 + dc A), ∂B = −2 (A P1 + B P2).
	b.Scale(dpsi, -2)
	b.UnpackSymmetric32(w.p1, dpsi[:p], d, 1)
	b.UnpackSymmetric32(w.p2, dpsi[p:2*p], d, 1)
	b.MatMul32(w.da, w.b, w.p1, d, false)
	b.Axpy(w.da, float32(-2*dc), w.a)
	b.MatMul32(w.db, w.a, w.p1, d, false)
	b.MatMul32(w.db, w.b, w.p2, d, true)
	// ∂Rʰ = H ∂A, ∂Rᵗ = −∂B, ∂Rᶜ = H ∂B.
	b.MatMul32(w.sum[rh], w.entity, w.da, d, true)
	b.Axpy(w.sum[rt], -1, w.db)
	b.MatMul32(w.sum[rc], w.entity, w.db, d, true)
	// ∂H = sym(∂A Rʰᵀ + ∂B Rᶜᵀ), and twice its lower triangle is the gradient of A.
	b.MatMul32(w.x, w.da, w.transposed[rh], d, false)
	b.MatMul32(w.x, w.db, w.transposed[rc], d, true)
	b.AddTranspose32(w.x, d)
	b.PackLower32(out[:p], w.x, d, 1, 1)
}

// end writes the sum of the relation's gradients since begin, one matrix after the other.
func (w *towers) end(out []float32) {
	n := w.d * w.d
	for i := range len(out) / n {
		sum := w.sum[i]
		if w.side == kg.Head {
			sum = w.x
			w.backend.Transpose32(sum, w.sum[inverted[i]], w.d)
			if inverseSign[inverted[i]] < 0 {
				w.backend.Scale(sum, -1)
			}
		}
		for row := range w.d {
			copy(out[i*n+row*w.d:][:w.d], sum[row*w.ld:])
		}
	}
}
