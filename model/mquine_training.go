package model

import (
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// This file contains the training of MQuinE and MQuadE, in float32.
//
// With A = H Rʰ and B = H Rᶜ − Rᵗ, a tail query has the scores f = −‖A + B T‖² = c + ψ·φ(T). Here
// c = −‖A‖², φ = [T, T²] and ψ = −[2 sym(BᵀA), BᵀB] are packed lower triangles, with the
// off-diagonal entries of ψ doubled (docs/models/mquine.md, "Towers" and "Gradients"). A head query
// is the tail query of the inverse relation (Rᵗᵀ, Rʰᵀ, −Rᶜᵀ). MQuadE is MQuinE with Rᶜ = 0.
//
// A triple has these penalties:
//
//	frobenius  ‖H‖² + ‖T‖² + ‖Rʰ‖² + ‖Rᵗ‖² + ‖Rᶜ‖²
//	n3         the same with Σ|x|³ of the entries in place of ‖·‖²
//	dura       ‖H‖² + ‖T‖² + ‖H Rʰ‖² + ‖Rᵗ T‖² + ‖Rᶜ‖²
//	dura3      the same with ‖·‖³ in place of ‖·‖²
//
// ‖H Rʰ‖² is −c of the tail query, and ‖Rᵗ T‖² is −c of the head query.

// These are the indices of a relation's matrices, in the order of the model's tensors.
const (
	rh = iota
	rt
	rc
)

// Matrix i of the inverse relation is inverseSign[i] times the transpose of matrix inverted[i].
var (
	inverted    = [3]int{rh: rt, rt: rh, rc: rc}
	inverseSign = [3]float64{rh: 1, rt: 1, rc: -1}
)

func (m *matrixModel) Training() Training {
	d := m.config.Dim
	const matrices = 3 + 9 + 19 // d × d matrices of the three towers below
	return Training{
		Width: 2 * Triangle(d), Squared: true, Penalties: []Penalty{NoPenalty, Frobenius, N3, Dura, Dura3},
		Scratch:  matrices * len(linalg.NewSmall(d, d).Data),
		Features: 1, Query: 4, QueryGradient: 6, Rows: d,
	}
}

func (m *matrixModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	d := m.config.Dim
	return &matrixTraining{model: m, penalty: p,
		features: newFeatureTower(b, d), query: newQueryTower(b, d), gradient: newGradientTower(b, d, p)}
}

// matrixTraining is the training worker of matrixModel.
type matrixTraining struct {
	model   *matrixModel
	penalty Penalty

	features *featureTower
	query    *queryTower
	gradient *gradientTower

	side     kg.Side
	relation int32
	// queryReady and gradientReady report whether the query tower and the gradient tower have read
	// the matrices of side and relation. Each tower reads them on first use.
	queryReady, gradientReady bool
}

func (w *matrixTraining) Features(phi []float32, e int32) {
	w.features.features(phi, w.model.Row(entityTable, e))
}

func (w *matrixTraining) FeatureGradient(dEntity, dPhi, _ []float32, e int32) {
	w.features.gradient(dEntity, dPhi, w.model.Row(entityTable, e))
}

func (w *matrixTraining) Begin(side kg.Side, relation int32) {
	w.side, w.relation, w.queryReady, w.gradientReady = side, relation, false, false
}

func (w *matrixTraining) Query(psi, anchor []float32) (c, penalty float64) {
	if !w.queryReady {
		w.query.begin(w.side, w.model.relationRows(w.relation))
		w.queryReady = true
	}
	c = w.query.query(psi, anchor)
	if w.penalty.IsDura() {
		penalty, _ = w.penalty.ofNorm(-c)
	}
	return c, penalty
}

func (w *matrixTraining) QueryGradient(dAnchor, dPsi, anchor []float32, dc, dPenalty float64) {
	if !w.gradientReady {
		w.gradient.begin(w.side, w.model.relationRows(w.relation))
		w.gradientReady = true
	}
	if !w.penalty.IsDura() {
		dPenalty = 0
	}
	w.gradient.gradient(dAnchor, anchor, dPsi, dc, dPenalty)
}

func (w *matrixTraining) End(dRelation []float32) { w.gradient.end(dRelation) }

// EntityPenalty adds the penalties of all entries of E. Off the diagonal, E_ij = A_ij occurs twice;
// on it, E_ii = 2A_ii.
func (w *matrixTraining) EntityPenalty(dEntity []float32, e int32, weight float64) float64 {
	a := w.model.Row(entityTable, e)
	if w.penalty == Dura3 {
		value, slope := w.penalty.ofNorm(squareOfEntity(a, w.model.config.Dim))
		w.addEntries(dEntity, a, weight*slope)
		return weight * value
	}
	return weight * w.addEntries(dEntity, a, weight)
}

// addEntries returns the sum of the penalties on all entries of E, whose stored row is a, and adds
// weight times its gradient to dEntity.
func (w *matrixTraining) addEntries(dEntity, a []float32, weight float64) (sum float64) {
	at := 0
	for i := range w.model.config.Dim {
		for j := range i + 1 {
			twice, once := 2.0, 1.0
			if j == i {
				twice, once = 1, 2
			}
			v := once * float64(a[at])
			value, slope := w.penalty.entry(v)
			sum += twice * value
			dEntity[at] += float32(weight * twice * once * slope)
			at++
		}
	}
	return sum
}

// squareOfEntity returns ‖E‖² for a stored row a.
func squareOfEntity(a []float32, d int) (sum float64) {
	at := 0
	for i := range d {
		for range i {
			v := float64(a[at])
			sum += float64(2 * v * v)
			at++
		}
		v := float64(a[at])
		sum += float64(4 * v * v)
		at++
	}
	return sum
}

func (w *matrixTraining) RelationPenalty(dRelation []float32, r int32, weight float64) (sum float64) {
	n := w.model.config.Dim * w.model.config.Dim
	for i, row := range w.model.relationRows(r) {
		if row == nil || w.penalty.IsDura() && i != rc {
			continue
		}
		gradient := dRelation[i*n : (i+1)*n]
		if w.penalty == Dura3 {
			value, slope := w.penalty.ofNorm(squareOf(row))
			w.penalty.add(gradient, row, weight*slope)
			sum += weight * value
		} else {
			sum += w.penalty.add(gradient, row, weight)
		}
	}
	return sum
}

// squareOf returns Σx².
func squareOf(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return sum
}

// featureTower computes φ of entities and propagates its gradients back. It is not safe for
// concurrent use.
//
// A stored row a holds d(d+1)/2 entries, the packed lower triangle of A, and represents E = A + Aᵀ:
// E_ii = 2a_ii and E_ij = a_ij for i > j. Its features are φ = [pack(E), pack(E²)], where pack
// lists the lower triangle, row by row.
type featureTower struct {
	backend *linalg.Backend
	d       int
	e, g, y linalg.Matrix
}

func newFeatureTower(b *linalg.Backend, d int) *featureTower {
	return &featureTower{b, d, linalg.NewSmall(d, d), linalg.NewSmall(d, d), linalg.NewSmall(d, d)}
}

// features writes the d(d+1) features of the stored row a to phi.
func (w *featureTower) features(phi, a []float32) {
	b, p := w.backend, len(a)
	b.UnpackSymmetric32(w.e, a, 2)
	b.MatMulLower32(w.y, w.e, w.e, linalg.Matrix{})
	copy(phi[:p], a)
	for i := range w.d {
		phi[Triangle(i+1)-1] *= 2 // the diagonal
	}
	b.PackLower32(phi[p:2*p], w.y, 1, 1)
}

// gradient writes ∂L/∂a to da, given the stored row a and dphi = ∂L/∂φ. An entry of dphi is the
// derivative with respect to a stored entry of φ, which represents both E_ij and E_ji. da and dphi
// must not overlap.
//
// Let γ₁ and γ₂ be the halves of dphi and G the symmetric matrix with G_ij = γ₂_ij off the diagonal
// and 2γ₂_ii on it. Then ∂L/∂a_ij is γ₁_ij + (G E + E G)_ij for i > j and 2γ₁_ii + (G E + E G)_ii
// on the diagonal.
func (w *featureTower) gradient(da, dphi, a []float32) {
	b, p := w.backend, len(a)
	b.UnpackSymmetric32(w.e, a, 2)
	b.UnpackSymmetric32(w.g, dphi[p:2*p], 2)
	b.MatMul32(w.y, w.g, w.e, linalg.Matrix{})
	b.AddTranspose32(w.y) // E G = (G E)ᵀ
	b.PackLower32(da[:p], w.y, 1, 1)
	b.Axpy(da[:p], 1, dphi[:p])
	for i := range w.d {
		at := Triangle(i+1) - 1 // on the diagonal
		da[at] = w.y.Row(i)[i] + 2*dphi[at]
	}
}

// queryTower computes ψ of queries, for one side and relation at a time. It is not safe for
// concurrent use.
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

// begin prepares for queries of one side and one relation, whose rows are Rʰ, Rᵗ and, for MQuinE,
// Rᶜ.
func (w *queryTower) begin(side kg.Side, rows [3][]float32) {
	for i, row := range rows {
		if row != nil {
			readRelation(w.backend, w.relation[i], w.temp, rows, i, side, i == rt)
		}
	}
}

// query writes ψ of an anchor, given by its stored row, and returns c.
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

// gradientTower propagates the gradients of ψ and c back to the parameters, for one side and
// relation at a time. It is not safe for concurrent use.
//
// Products that share a factor run as one product, with the other factors side by side, so columns
// are padded only once. For d = 38, [A, B] = H [Rʰ, Rᶜ] − [0, Rᵗ] needs five AVX-512 vectors per
// row, but separate products need six. queryTower keeps A and B apart, because its c sums over the
// memory of A, including the padding.
type gradientTower struct {
	backend *linalg.Backend
	d       int
	penalty Penalty
	side    kg.Side

	relation     linalg.Matrix // [Rʰ, Rᶜ]
	negated      linalg.Matrix // [0, −Rᵗ]
	backH, backC linalg.Matrix // Rʰᵀ and Rᶜᵀ

	entity, x, temp linalg.Matrix
	ab, dab         linalg.Matrix // [A, B] and [∂A, ∂B]
	p               linalg.Matrix // [P1, P2]

	// sum and sumAB are sums over the queries since begin, valid if summed: [H ∂A, H ∂B] = [∂Rʰ,
	// ∂Rᶜ] and [∂A, ∂B], where ∂B = −∂Rᵗ.
	sum, sumAB linalg.Matrix
	summed     bool
}

func newGradientTower(b *linalg.Backend, d int, p Penalty) *gradientTower {
	w := &gradientTower{backend: b, d: d, penalty: p}
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

// begin prepares for queries as queryTower.begin does, and clears the sums.
func (w *gradientTower) begin(side kg.Side, rows [3][]float32) {
	w.side, w.summed = side, false
	readRelation(w.backend, w.right(w.negated), w.temp, rows, rt, side, true)
	readRelation(w.backend, w.left(w.relation), w.temp, rows, rh, side, false)
	w.backend.Transpose32(w.backH, w.left(w.relation))
	if rows[rc] != nil {
		readRelation(w.backend, w.right(w.relation), w.temp, rows, rc, side, false)
		w.backend.Transpose32(w.backC, w.right(w.relation))
	}
}

// gradient writes the gradient of a query's anchor to out, given dpsi = ∂L/∂ψ, dc = ∂L/∂c and the
// derivative of L with respect to the penalty on ‖A‖, and adds the relation's gradients to the sums.
// It modifies dpsi, and out may overlap the beginning of dpsi.
func (w *gradientTower) gradient(out, anchor, dpsi []float32, dc, dPenalty float64) {
	b, p := w.backend, len(anchor)
	b.UnpackSymmetric32(w.entity, anchor, 2)
	b.MatMul32(w.ab, w.entity, w.relation, w.negated)
	if dPenalty != 0 { // c is −‖A‖²
		slope := 1.0
		if w.penalty == Dura3 {
			_, slope = w.penalty.ofNorm(w.squareOfA())
		}
		dc -= float64(dPenalty * slope)
	}
	// If dpsi packs the symmetric matrices P1 and P2, ∂A = −2 (B P1 + dc A) and ∂B = −2 (B P2 + A
	// P1).
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

// squareOfA returns ‖A‖².
func (w *gradientTower) squareOfA() (sum float64) {
	for i := range w.d {
		for _, v := range w.left(w.ab).Row(i) {
			sum += float64(float64(v) * float64(v))
		}
	}
	return sum
}

// end writes the sums of the relation's gradients since begin, one matrix after another. It needs
// at least one call to gradient since begin.
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

// readRelation writes matrix i of a relation or, for head queries, of its inverse to dst. It
// negates the matrix if negative is set. No other function may write to temp, because a transpose
// turns the zero padding of temp's rows into the padding of dst.
func readRelation(b *linalg.Backend, dst, temp linalg.Matrix, rows [3][]float32, i int, side kg.Side, negative bool) {
	d, to := dst.Rows, dst
	if side == kg.Head {
		i = inverted[i]
		negative = negative != (inverseSign[i] < 0)
	}
	if side == kg.Head || negative {
		to = temp
	}
	for row := range d {
		copy(to.Row(row), rows[i][row*d:][:d])
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
