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
		plain, transposed, sign := w.relation[i], w.transposed[i], float32(1)
		if side == kg.Head {
			k := inverted[i]
			plain, transposed, sign = w.transposed[k], w.relation[k], float32(inverseSign[k])
		}
		for row := range w.d {
			for col, v := range tensors[i][(int(r)*w.d+row)*w.d:][:w.d] {
				plain[row*w.ld+col], transposed[col*w.ld+row] = sign*v, sign*v
			}
		}
	}
	for i, v := range w.relation[rt] {
		w.negated[i] = -v
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
	p := len(anchor)
	at := 0
	for i := range w.d {
		column := i
		first, second := psi[at:at+i+1], psi[p+at:p+at+i+1]
		row, square := w.ba[i*w.ld:][:i+1], w.square[i*w.ld:][:i+1]
		for j, v := range row {
			first[j] = -2 * (v + w.ba[column])
			second[j] = -2 * square[j]
			column += w.ld
		}
		first[i] /= 2
		second[i] /= 2
		at += i + 1
	}
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
	at := 0
	for i := range d {
		column := i
		line := out[at : at+i+1]
		for j, v := range w.x[i*w.ld:][:i+1] {
			line[j] = v + w.x[column]
			column += w.ld
		}
		at += i + 1
	}
}

// end writes the sum of the relation's gradients since begin, one matrix after the other.
func (w *towers) end(out []float32) {
	n := w.d * w.d
	for i := range len(out) / n {
		for row := range w.d {
			line := out[i*n+row*w.d:][:w.d]
			if w.side == kg.Tail {
				copy(line, w.sum[i][row*w.ld:])
				continue
			}
			k := inverted[i]
			for col := range line {
				line[col] = float32(inverseSign[k]) * w.sum[k][col*w.ld+row]
			}
		}
	}
}
