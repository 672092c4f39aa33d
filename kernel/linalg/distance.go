package linalg

import (
	"context"
	"fmt"
)

// DistanceKind is a distance between two float32 vectors: a query vector ψ and a feature vector φ.
// DistanceGroupNorm, DistancePhase and DistanceProductNorm treat coordinates 2u and 2u+1 as a pair.
// The other distances of groups are results of DistanceGroupNormOf.
type DistanceKind uint32

const (
	// DistanceL1 is Σ|ψ_u − φ_u|.
	DistanceL1 DistanceKind = iota
	// DistanceL2 is √Σ(ψ_u − φ_u)².
	DistanceL2
	// DistanceGroupNorm is Σ √((ψ_2u − φ_2u)² + (ψ_2u+1 − φ_2u+1)²).
	DistanceGroupNorm
	// DistancePhase is Σ|ψ_2u φ_2u + ψ_2u+1 φ_2u+1|.
	DistancePhase
	// DistanceProductNorm is √Σ(ψ_2u φ_2u + ψ_2u+1 φ_2u+1)².
	DistanceProductNorm
	numDistances
)

var distanceNames = [numDistances]string{"l1", "l2", "group-norm", "phase", "product-norm"}

// DistanceKinds returns the distances that have separate kernels.
func DistanceKinds() []DistanceKind {
	return []DistanceKind{DistanceL1, DistanceL2, DistanceGroupNorm, DistancePhase, DistanceProductNorm}
}

// groupsShift is the position of the lowest bit of a group's size in the result of
// DistanceGroupNormOf.
const groupsShift = 8

// DistanceGroupNormOf returns the distance Σ_g ‖ψ_g − φ_g‖ of groups g of the given number of
// consecutive coordinates. For size 1 the result is DistanceL1, and for size 2 it is
// DistanceGroupNorm. DistanceGroupNormOf panics if size < 1.
func DistanceGroupNormOf(size int) DistanceKind {
	switch {
	case size < 1:
		panic(fmt.Sprintf("linalg: groups of %d coordinates", size))
	case size == 1:
		return DistanceL1
	case size == 2:
		return DistanceGroupNorm
	}
	return DistanceKind(size) << groupsShift
}

// groups returns the size of the groups that DistanceL2 compares one after another, or 0 if the
// distance has its own kernels.
func (d DistanceKind) groups() int { return int(d >> groupsShift) }

// String returns "l1", "l2", "group-norm", "phase", "product-norm" or, for groups of s coordinates,
// "group-norm-s".
func (d DistanceKind) String() string {
	if s := d.groups(); s > 0 {
		return fmt.Sprintf("group-norm-%d", s)
	}
	if d < numDistances {
		return distanceNames[d]
	}
	return fmt.Sprintf("DistanceKind(%d)", uint32(d))
}

// Group returns the number of coordinates that are compared together. It divides the length of the
// vectors.
func (d DistanceKind) Group() int {
	if s := d.groups(); s > 0 {
		return s
	}
	if d == DistanceL1 || d == DistanceL2 {
		return 1
	}
	return 2
}

// Root reports whether the distance is the square root of a sum over all coordinates. The gradients
// of such a distance depend on its scores.
func (d DistanceKind) Root() bool { return d == DistanceL2 || d == DistanceProductNorm }

// Scratch returns how many matrices with the shape of the scores a Distance has as scratch memory.
func (d DistanceKind) Scratch() int {
	switch {
	case d.groups() > 0:
		return 1 + DistanceL2.Scratch() // the scores of a group
	case d.Root():
		return 1 // quotients
	}
	return 0
}

// Distance computes the scores of queries and features, S_ij = −dist(ψ_i, φ_j), and their
// gradients. It uses the blocking of Product, with different operations in place of multiply-adds.
//
// A score is a sum over chunks of ProductChunk coordinates in ascending order. An entry of a
// gradient is a sum over chunks of ProductChunk features or queries. A chunk is one chain that
// starts at 0 and adds its terms in ascending order. A product is fused with the addition that
// follows; all other operations are rounded separately. The square root of a group norm and its
// reciprocal are computed with a polynomial; their errors are a few units in the last place
// (inverseRoot). The square root of DistanceL2 and DistanceProductNorm, and the division by this root,
// are each rounded once. A distance of DistanceGroupNormOf adds the DistanceL2 of the groups in
// ascending order. Hence the results do not depend on the number of threads or on the blocking, and
// all tiers agree bit for bit.
//
// At a kink, the gradient is the subgradient 0. Kinks occur where two coordinates are equal
// (DistanceL1), where two groups are equal (DistanceGroupNorm, DistanceGroupNormOf), where two
// vectors are equal (DistanceL2), where a term is 0 (DistancePhase), and where all terms are 0
// (DistanceProductNorm). If a coordinate is NaN or infinite, the scores of its vector are NaN or
// −Inf, and the gradients with respect to the coordinate are NaN or infinite.
//
// A Distance holds scratch memory for one call at a time. It allocates only if the matrices are
// larger than in all earlier calls.
type Distance struct {
	kind              DistanceKind
	kernels           *distanceKernels
	scores, gradients *Product

	// These are the operands of rootWork and quotientWork, which the pool runs for distances that
	// are roots.
	s, g         Matrix
	quotients    Matrix // G/S
	rootWork     func(worker, row int)
	quotientWork func(worker, row int)

	// For DistanceGroupNormOf, these are the distance of a group, its scores, and the matrix to
	// which addWork adds them.
	part           *Distance
	partScores, to Matrix
	addWork        func(worker, row int)
}

// distanceKernels holds the distance kernels of a tier. In roots and quotients, n is a multiple of
// rowLanes; the portable kernels accept any n > 0.
type distanceKernels struct {
	scores, gradients [numDistances]distanceKernel
	rows              [numDistances]rowDistance
	gradientRound     int // coordinates in a round of the gradients of rows
	// roots replaces x with −√x.
	roots func(x *float32, n int)
	// quotients sets q to g/s, or to 0 if s is 0.
	quotients func(q, g, s *float32, n int)
}

// entriesFor returns the kernels for a chunk of n entries: the portable kernels if n is not a
// multiple of rowLanes, and k otherwise.
func (k *distanceKernels) entriesFor(n int) *distanceKernels {
	if n%rowLanes != 0 {
		return &distancesGeneric
	}
	return k
}

// takeRoots replaces sums of squares with scores.
func (k *distanceKernels) takeRoots(x []float32) {
	for i, n := 0, 0; i < len(x); i += n {
		n = chunk(len(x)-i, rowLanes)
		k.entriesFor(n).roots(&x[i], n)
	}
}

// divide sets q to g/s, for the gradient of a root: S = −√Σ(ψ−φ)², for example, has the gradient
// (ψ−φ)/S with respect to ψ.
func (k *distanceKernels) divide(q, g, s []float32) {
	for i, n := 0, 0; i < len(q); i += n {
		n = chunk(len(q)-i, rowLanes)
		k.entriesFor(n).quotients(&q[i], &g[i], &s[i], n)
	}
}

// distanceKernel holds the kernels that compute a sum, and the loop that measures their ceiling.
type distanceKernel struct {
	gemm gemm
	peak Peak
}

// peakOperands is the number of operands of a Peak.
const peakOperands = 80

// Peak is a loop of arithmetic on 80 operands in registers. One round of the loop computes Terms
// terms.
type Peak struct {
	Loop  func(rounds int, operands *float32)
	Terms int
}

// DistancePeaks returns two loops for one of DistanceKinds. They do the arithmetic of scores and of
// gradients on registers alone. For m queries and n features with k coordinates, scores have m·n·k
// terms and gradients have 2·m·n·k. Package ceiling measures the rates of the loops.
func (b *Backend) DistancePeaks(kind DistanceKind) (scores, gradients Peak) {
	return b.distances.scores[kind].peak, b.distances.gradients[kind].peak
}

// NewDistance returns scratch memory for distances on the given number of threads.
func (b *Backend) NewDistance(kind DistanceKind, threads int) *Distance {
	k := &b.distances
	if kind.groups() > 0 {
		d := &Distance{kind: kind, kernels: k, part: b.NewDistance(DistanceL2, threads)}
		d.addWork = func(_, row int) { b.Axpy(d.to.Row(row), 1, d.partScores.Row(row)) }
		return d
	}
	d := &Distance{
		kind: kind, kernels: k,
		scores:    newProduct(&k.scores[kind].gemm, threads),
		gradients: newProduct(&k.gradients[kind].gemm, threads),
	}
	d.rootWork = func(_, row int) { k.takeRoots(d.s.Row(row)) }
	d.quotientWork = func(_, row int) { k.divide(d.quotients.Row(row), d.g.Row(row), d.s.Row(row)) }
	return d
}

// Scores computes S_ij = −dist(ψ_i, φ_j). s is m × n, psi is m × k and phi is n × k, where k is a
// multiple of the distance's Group. s must not overlap the other matrices. Scores returns ctx's
// error if ctx is cancelled; s is then undefined.
func (d *Distance) Scores(ctx context.Context, s, psi, phi Matrix) error {
	d.check(psi)
	if d.part != nil {
		return d.groupScores(ctx, s, psi, phi)
	}
	if err := d.scores.NT(ctx, s, psi, phi, false); err != nil || !d.kind.Root() {
		return err
	}
	d.s = s
	defer func() { d.s = Matrix{} }()
	return d.scores.pool.Run(ctx, s.Rows, d.rootWork)
}

// Gradients computes the gradients of a loss L with respect to ψ and φ, given its gradients with
// respect to the scores, G_ij = ∂L/∂S_ij:
//
//	dPsi_i = Σ_j G_ij ∂S_ij/∂ψ_i    dPhi_j = Σ_i G_ij ∂S_ij/∂φ_j
//
// g is m × n, dPsi and psi are m × k, and dPhi and phi are n × k. s is m × n and holds the result
// of Scores, which Gradients reads only if the distance is a root. The results must not overlap
// each other or the operands. Gradients returns ctx's error if ctx is cancelled; the results are
// then undefined.
func (d *Distance) Gradients(ctx context.Context, dPsi, dPhi, g, s, psi, phi Matrix) error {
	d.check(psi)
	psi.check("psi")
	phi.check("phi")
	if dPsi.Rows != psi.Rows || dPsi.Cols != psi.Cols || dPhi.Rows != phi.Rows || dPhi.Cols != phi.Cols {
		panic(fmt.Sprintf("linalg: gradients %d × %d and %d × %d for vectors %d × %d and %d × %d",
			dPsi.Rows, dPsi.Cols, dPhi.Rows, dPhi.Cols, psi.Rows, psi.Cols, phi.Rows, phi.Cols))
	}
	if d.part != nil {
		return d.groupGradients(ctx, dPsi, dPhi, g, psi, phi)
	}
	if d.kind.Root() {
		if err := d.divideRows(ctx, g, s); err != nil {
			return err
		}
		g = d.quotients
	}
	p := d.gradients
	defer func() { p.at = Matrix{} }()
	p.at = psi
	if err := p.NN(ctx, dPsi, g, phi, false); err != nil {
		return err
	}
	p.at = phi
	return p.TN(ctx, dPhi, g, psi, false)
}

func (d *Distance) check(psi Matrix) {
	if psi.Cols%d.kind.Group() != 0 {
		panic(fmt.Sprintf("linalg: distance %v of vectors of %d coordinates, not a multiple of %d",
			d.kind, psi.Cols, d.kind.Group()))
	}
}

// groupScores is Scores for DistanceGroupNormOf.
func (d *Distance) groupScores(ctx context.Context, s, psi, phi Matrix) error {
	for i := range s.Rows {
		clear(s.Row(i))
	}
	d.to = s
	defer func() { d.to = Matrix{} }()
	size, part := d.kind.Group(), d.groupMatrix(s.Rows, s.Cols)
	for u := 0; u < psi.Cols; u += size {
		if err := d.part.Scores(ctx, part, psi.Columns(u, u+size), phi.Columns(u, u+size)); err != nil {
			return err
		}
		if err := d.part.scores.pool.Run(ctx, s.Rows, d.addWork); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// groupGradients is Gradients for DistanceGroupNormOf. It computes the scores of every group again.
func (d *Distance) groupGradients(ctx context.Context, dPsi, dPhi, g, psi, phi Matrix) error {
	size, s := d.kind.Group(), d.groupMatrix(g.Rows, g.Cols)
	for u := 0; u < psi.Cols; u += size {
		q, e := psi.Columns(u, u+size), phi.Columns(u, u+size)
		if err := d.part.Scores(ctx, s, q, e); err != nil {
			return err
		}
		err := d.part.Gradients(ctx, dPsi.Columns(u, u+size), dPhi.Columns(u, u+size), g, s, q, e)
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// groupMatrix returns a matrix for the scores of a group.
func (d *Distance) groupMatrix(rows, cols int) Matrix {
	stride := roundUp(cols, rowLanes)
	d.partScores = Matrix{Data: room(d.partScores.Data, rows*stride), Rows: rows, Cols: cols, Stride: stride}
	return d.partScores
}

// divideRows sets quotients to G/S.
func (d *Distance) divideRows(ctx context.Context, g, s Matrix) error {
	g.check("g")
	s.check("s")
	if s.Rows != g.Rows || s.Cols != g.Cols {
		panic(fmt.Sprintf("linalg: %d × %d scores with gradients %d × %d", s.Rows, s.Cols, g.Rows, g.Cols))
	}
	stride := roundUp(g.Cols, rowLanes)
	d.quotients = Matrix{Data: room(d.quotients.Data, g.Rows*stride), Rows: g.Rows, Cols: g.Cols, Stride: stride}
	d.s, d.g = s, g
	defer func() { d.s, d.g = Matrix{}, Matrix{} }()
	return d.gradients.pool.Run(ctx, g.Rows, d.quotientWork)
}
