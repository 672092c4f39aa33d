package train

import (
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// With A = H Rʰ and B = H Rᶜ − Rᵗ a tail query has the scores f = −‖A + B T‖² = c + ψ·φ(T), where
// c = −‖A‖², φ = [T, T²] and ψ = −[2 sym(BᵀA), BᵀB], packed lower triangles with the off-diagonal
// entries of ψ doubled (docs/training.md). A head query is the tail query of the inverse relation
// (Rᵗᵀ, Rʰᵀ, −Rᶜᵀ). MQuadE is MQuinE with Rᶜ = 0.

// queryTower computes ψ of the queries of one side and relation after another. It belongs to one goroutine.
type queryTower struct {
	backend *linalg.Backend
	d       int

	relation                       [3]linalg.Matrix // Rʰ, −Rᵗ, Rᶜ
	entity, a, b, ba, square, temp linalg.Matrix
}

func newQueryTower(b *linalg.Backend, d int) *queryTower {
	w := &queryTower{backend: b, d: d}
	for _, m := range []*linalg.Matrix{&w.relation[rh], &w.relation[rt], &w.relation[rc],
		&w.entity, &w.a, &w.b, &w.ba, &w.square, &w.temp} {
		*m = linalg.NewSmall(d, d)
	}
	return w
}

// begin prepares for queries of one side of relation r; tensors are Rʰ, Rᵗ and, for MQuinE, Rᶜ of
// all relations.
func (w *queryTower) begin(side kg.Side, tensors [][]float32, r int32) {
	for i := range tensors {
		readRelation(w.backend, w.relation[i], w.temp, tensors, i, r, side, i == rt)
	}
}

// query writes ψ of an anchor, given by its packed A, and returns c.
func (w *queryTower) query(psi, anchor []float32) (c float64) {
	b, p := w.backend, len(anchor)
	b.UnpackSymmetric32(w.entity, anchor, 2)
	b.MatMul32(w.a, w.entity, w.relation[rh], linalg.Matrix{})
	b.MatMul32(w.b, w.entity, w.relation[rc], w.relation[rt])
	b.MatMulT32(w.ba, w.b, w.a, linalg.Matrix{})
	b.MatMulTLower32(w.square, w.b, w.b, linalg.Matrix{})
	b.AddTranspose32(w.ba)
	b.PackLower32(psi[:p], w.ba, -2, -1)
	b.PackLower32(psi[p:2*p], w.square, -2, -1)
	return -b.Dot(w.a.Data, w.a.Data)
}

// gradientTower takes the gradients of ψ and c back to the parameters, for the queries of one side and
// relation after another. It belongs to one goroutine.
//
// Products that share a factor are one, with the other factors side by side, so that columns are padded
// once: [A, B] = H [Rʰ, Rᶜ] − [0, Rᵗ] takes five AVX-512 vectors for d = 38, A and B apart take six.
// queryTower keeps them apart, because c has the bits of a sum over A's memory, padding included.
type gradientTower struct {
	backend *linalg.Backend
	d       int
	side    kg.Side

	relation     linalg.Matrix // [Rʰ, Rᶜ]
	negated      linalg.Matrix // [0, −Rᵗ]
	backH, backC linalg.Matrix // Rʰᵀ and Rᶜᵀ

	entity, x, temp linalg.Matrix
	ab, dab         linalg.Matrix // [A, B] and [∂A, ∂B]
	p               linalg.Matrix // [P1, P2]

	// The sums of the queries since begin, if there was any: [H ∂A, H ∂B] = [∂Rʰ, ∂Rᶜ] and
	// [∂A, ∂B], where ∂B = −∂Rᵗ.
	sum, sumAB linalg.Matrix
	summed     bool
}

func newGradientTower(b *linalg.Backend, d int) *gradientTower {
	w := &gradientTower{backend: b, d: d}
	for _, m := range []*linalg.Matrix{&w.backH, &w.backC, &w.entity, &w.x, &w.temp} {
		*m = linalg.NewSmall(d, d)
	}
	for _, m := range []*linalg.Matrix{&w.relation, &w.negated, &w.ab, &w.dab, &w.p, &w.sum, &w.sumAB} {
		*m = linalg.NewSmall(d, 2*d)
	}
	return w
}

func (w *gradientTower) left(m linalg.Matrix) linalg.Matrix  { return m.Columns(0, w.d) }
func (w *gradientTower) right(m linalg.Matrix) linalg.Matrix { return m.Columns(w.d, 2*w.d) }

// begin is that of queryTower, and forgets the sums.
func (w *gradientTower) begin(side kg.Side, tensors [][]float32, r int32) {
	w.side, w.summed = side, false
	readRelation(w.backend, w.right(w.negated), w.temp, tensors, rt, r, side, true)
	readRelation(w.backend, w.left(w.relation), w.temp, tensors, rh, r, side, false)
	w.backend.Transpose32(w.backH, w.left(w.relation))
	if rc < len(tensors) {
		readRelation(w.backend, w.right(w.relation), w.temp, tensors, rc, r, side, false)
		w.backend.Transpose32(w.backC, w.right(w.relation))
	}
}

// gradient takes dpsi = ∂L/∂ψ and dc = ∂L/∂c of a query to its anchor's parameters, written to out,
// and adds those of the relation to the sums. It changes dpsi, and out may be the first part of it.
func (w *gradientTower) gradient(out, anchor, dpsi []float32, dc float64) {
	b, p := w.backend, len(anchor)
	b.UnpackSymmetric32(w.entity, anchor, 2)
	b.MatMul32(w.ab, w.entity, w.relation, w.negated)
	// With P1 and P2 the symmetric matrices packed in dpsi:
	// ∂A = −2 (B P1 + dc A), ∂B = −2 (B P2 + A P1).
	b.Scale(dpsi, -2)
	b.UnpackSymmetric32(w.left(w.p), dpsi[:p], 1)
	b.UnpackSymmetric32(w.right(w.p), dpsi[p:2*p], 1)
	copy(w.dab.Data, w.ab.Data)
	b.Scale(w.dab.Data, float32(-2*dc))
	b.MatMul32(w.right(w.dab), w.left(w.ab), w.left(w.p), linalg.Matrix{})
	b.MatMul32(w.dab, w.right(w.ab), w.p, w.dab)
	// ∂Rʰ = H ∂A, ∂Rᶜ = H ∂B, ∂Rᵗ = −∂B.
	if w.summed {
		b.MatMul32(w.sum, w.entity, w.dab, w.sum)
		b.Axpy(w.sumAB.Data, 1, w.dab.Data)
	} else {
		b.MatMul32(w.sum, w.entity, w.dab, linalg.Matrix{})
		copy(w.sumAB.Data, w.dab.Data)
		w.summed = true
	}
	// ∂H = sym(∂A Rʰᵀ + ∂B Rᶜᵀ), and twice its lower triangle is the gradient of A.
	b.MatMul32(w.x, w.left(w.dab), w.backH, linalg.Matrix{})
	b.MatMul32(w.x, w.right(w.dab), w.backC, w.x)
	b.AddTranspose32(w.x)
	b.PackLower32(out[:p], w.x, 1, 1)
}

// end writes the sum of the relation's gradients since begin, of one query at least, one matrix after
// the other.
func (w *gradientTower) end(out []float32) {
	sums := [3]linalg.Matrix{rh: w.left(w.sum), rt: w.right(w.sumAB), rc: w.right(w.sum)}
	n := w.d * w.d
	for i := range len(out) / n {
		k, sum, negative := i, sums[i], i == rt
		if w.side == kg.Head {
			k, sum = inverted[i], w.x
			w.backend.Transpose32(sum, sums[k])
			negative = (k == rt) != (inverseSign[k] < 0)
		}
		to := out[i*n : (i+1)*n]
		for row := range w.d {
			copy(to[row*w.d:], sum.Row(row))
		}
		if negative {
			w.backend.Scale(to, -1)
		}
	}
}

// readRelation writes matrix i of relation r, or of its inverse for head queries, or its negative, to dst. Nothing else
// may write to temp: what lies beyond its rows is zero, and with a transpose comes to lie beyond the columns of dst.
func readRelation(b *linalg.Backend, dst, temp linalg.Matrix, tensors [][]float32, i int, r int32, side kg.Side, negative bool) {
	d, to := dst.Rows, dst
	if side == kg.Head {
		i = inverted[i]
		negative = negative != (inverseSign[i] < 0)
	}
	if side == kg.Head || negative {
		to = temp
	}
	values := tensors[i][int(r)*d*d:][:d*d]
	for row := range d {
		copy(to.Row(row), values[row*d:])
	}
	if negative {
		b.Scale(temp.Data[:d*temp.Stride], -1)
	}
	switch {
	case side == kg.Head:
		b.Transpose32(dst, temp)
	case negative:
		for row := range d {
			copy(dst.Row(row), temp.Row(row))
		}
	}
}
