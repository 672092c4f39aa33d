package linalg

import (
	"context"
	"fmt"
)

// DistanceKind is a distance of two vectors of float32 numbers, a query ψ and a feature vector φ. The
// pairwise ones take coordinates 2u and 2u+1 together.
type DistanceKind uint8

const (
	// DistanceL1 is Σ|ψ_u − φ_u|.
	DistanceL1 DistanceKind = iota
	// DistanceL2 is √Σ(ψ_u − φ_u)².
	DistanceL2
	// DistanceGroupNorm is Σ √((ψ_2u − φ_2u)² + (ψ_2u+1 − φ_2u+1)²).
	DistanceGroupNorm
	// DistancePhase is Σ|ψ_2u φ_2u + ψ_2u+1 φ_2u+1|.
	DistancePhase
	numDistances
)

var distanceNames = [numDistances]string{"l1", "l2", "group-norm", "phase"}

// DistanceKinds lists the distances.
func DistanceKinds() []DistanceKind {
	return []DistanceKind{DistanceL1, DistanceL2, DistanceGroupNorm, DistancePhase}
}

// String returns "l1", "l2", "group-norm" or "phase".
func (d DistanceKind) String() string {
	if d < numDistances {
		return distanceNames[d]
	}
	return fmt.Sprintf("DistanceKind(%d)", uint8(d))
}

// Unit is the number of coordinates that are compared together; vectors have a multiple of them.
func (d DistanceKind) Unit() int {
	if d == DistanceGroupNorm || d == DistancePhase {
		return 2
	}
	return 1
}

// Distance computes the scores of a block of queries and features, S_ij = −dist(ψ_i, φ_j), and their
// gradients. It runs through the blocking of Product, with other operations in the place of
// multiply-adds.
//
// A score is a sum over chunks of ProductChunk coordinates in ascending order, an entry of a gradient one over
// chunks of ProductChunk features (or queries); a chunk is one chain from 0 with ascending terms. A product is
// fused with the sum that it goes into, every other operation is rounded by itself. The root of a
// group norm and its reciprocal are polynomials (inverseRoot) with an error of a few units in the last
// place; the root of DistanceL2 and the division by it are rounded once. So results depend neither on threads
// nor on blocking, and all tiers agree bit for bit.
//
// At a kink the gradient is the subgradient 0: at equal coordinates for DistanceL1, equal pairs for
// DistanceGroupNorm, equal vectors for DistanceL2, and a product of 0 for DistancePhase. A coordinate that
// is NaN or infinite makes its scores NaN or −Inf, and its gradients NaN or infinite.
//
// A Distance is scratch memory and may be used for one block at a time. It allocates only when a block
// is larger than those before.
type Distance struct {
	kind              DistanceKind
	kernels           *distanceKernels
	scores, gradients *Product

	// The rows under way of work on rows of DistanceL2.
	s, g      Matrix
	quotients Matrix // G/S
	rootWork  func(worker, row int)
	quotient  func(worker, row int)
}

// distanceKernels are the kernels of a tier. roots and quotients take n entries, a multiple of rowLanes; the
// portable ones take the rest.
type distanceKernels struct {
	scores, gradients [numDistances]distanceKernel
	rows              [numDistances]rowDistance
	gradientRound     int // of the gradients of rows
	// roots replaces x by −√x.
	roots func(x *float32, n int)
	// quotients sets q to g/s, and to 0 where s is 0.
	quotients func(q, g, s *float32, n int)
}

// takeRoots replaces sums of squares by scores.
func (k *distanceKernels) takeRoots(x []float32) {
	whole := len(x) / rowLanes * rowLanes
	for i := 0; i < whole; i += rowChunk {
		k.roots(&x[i], min(rowChunk, whole-i))
	}
	if whole < len(x) {
		rootsGeneric(&x[whole], len(x)-whole)
	}
}

// divide sets q to g/s: the gradient of S = −√Σ(ψ−φ)² by ψ is (ψ−φ)/S.
func (k *distanceKernels) divide(q, g, s []float32) {
	whole := len(q) / rowLanes * rowLanes
	for i := 0; i < whole; i += rowChunk {
		k.quotients(&q[i], &g[i], &s[i], min(rowChunk, whole-i))
	}
	if whole < len(q) {
		quotientsGeneric(&q[whole], &g[whole], &s[whole], len(q)-whole)
	}
}

// distanceKernel is the kernel of a sum over a block, and the loop of its operations on registers alone.
type distanceKernel struct {
	gemm gemm
	peak Peak
}

// peakOperands is the number of operands of a Peak.
const peakOperands = 80

// Peak is a loop on registers alone, on 80 operands. A round computes Terms terms.
type Peak struct {
	Loop  func(rounds int, operands *float32)
	Terms int
}

// DistancePeaks returns the operations of a Distance's scores and gradients on registers alone. A
// block of m queries and n features with k coordinates has m·n·k terms of scores, and twice as many of gradients.
// Package ceiling measures their rates.
func (b *Backend) DistancePeaks(kind DistanceKind) (scores, gradients Peak) {
	return b.distances.scores[kind].peak, b.distances.gradients[kind].peak
}

// NewDistance returns scratch memory for distances on the given number of threads.
func (b *Backend) NewDistance(kind DistanceKind, threads int) *Distance {
	k := &b.distances
	d := &Distance{
		kind: kind, kernels: k,
		scores: newProduct(&k.scores[kind].gemm, threads), gradients: newProduct(&k.gradients[kind].gemm, threads),
	}
	d.rootWork = func(_, row int) { k.takeRoots(d.s.Row(row)) }
	d.quotient = func(_, row int) { k.divide(d.quotients.Row(row), d.g.Row(row), d.s.Row(row)) }
	return d
}

// Scores computes S_ij = −dist(ψ_i, φ_j): s is m × n, psi m × k, phi n × k, and k is a multiple of the
// distance's Unit. s must not overlap the others. The error is ctx's; s is undefined then.
func (d *Distance) Scores(ctx context.Context, s, psi, phi Matrix) error {
	d.check(psi)
	if err := d.scores.NT(ctx, s, psi, phi, false); err != nil || d.kind != DistanceL2 {
		return err
	}
	d.s = s
	defer func() { d.s = Matrix{} }()
	return d.scores.pool.Run(ctx, s.Rows, d.rootWork)
}

// Gradients computes the gradients of a loss L, given those of the scores, G_ij = ∂L/∂S_ij:
//
//	dPsi_i = Σ_j G_ij ∂S_ij/∂ψ_i    dPhi_j = Σ_i G_ij ∂S_ij/∂φ_j
//
// g is m × n, dPsi and psi are m × k, dPhi and phi n × k. s, m × n, holds what Scores computed; only DistanceL2
// reads it. The results must not overlap anything else. The error is ctx's; the results are undefined then.
func (d *Distance) Gradients(ctx context.Context, dPsi, dPhi, g, s, psi, phi Matrix) error {
	d.check(psi)
	psi.check("psi")
	phi.check("phi")
	if dPsi.Rows != psi.Rows || dPsi.Cols != psi.Cols || dPhi.Rows != phi.Rows || dPhi.Cols != phi.Cols {
		panic(fmt.Sprintf("kernel: gradients %d × %d and %d × %d of vectors %d × %d and %d × %d",
			dPsi.Rows, dPsi.Cols, dPhi.Rows, dPhi.Cols, psi.Rows, psi.Cols, phi.Rows, phi.Cols))
	}
	if d.kind == DistanceL2 {
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
	if psi.Cols%d.kind.Unit() != 0 {
		panic(fmt.Sprintf("kernel: distance %v of vectors of %d coordinates, an odd number", d.kind, psi.Cols))
	}
}

// divideRows sets quotients to G/S.
func (d *Distance) divideRows(ctx context.Context, g, s Matrix) error {
	g.check("g")
	s.check("s")
	if s.Rows != g.Rows || s.Cols != g.Cols {
		panic(fmt.Sprintf("kernel: %d × %d scores with gradients %d × %d", s.Rows, s.Cols, g.Rows, g.Cols))
	}
	stride := roundUp(g.Cols, rowLanes)
	d.quotients = Matrix{Data: room(d.quotients.Data, g.Rows*stride), Rows: g.Rows, Cols: g.Cols, Stride: stride}
	d.s, d.g = s, g
	defer func() { d.s, d.g = Matrix{}, Matrix{} }()
	return d.gradients.pool.Run(ctx, g.Rows, d.quotient)
}
