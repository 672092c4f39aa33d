package kernel

import (
	"math"

	"github.com/mquine/mquine/asm"
)

// Comparison is how a query vector ψ and a feature vector φ become a score; more is better. The
// comparisons are Dot, L1, GroupNorm and Phase; everything about one is in its file, comparison_NAME.go.
// Comparisons can be compared with ==.
type Comparison struct{ *spec }

// Kind numbers the comparisons, for tables and for code that is not Go.
type Kind uint8

// The kinds, in the order of Comparisons. CUDA kernels know them by these numbers.
const (
	KindDot Kind = iota
	KindL1
	KindGroupNorm
	KindPhase
	NumKinds
)

// Comparisons lists all comparisons by kind.
func Comparisons() []Comparison { return []Comparison{Dot, L1, GroupNorm, Phase} }

// spec is what a comparison is. ψ and φ are sequences of coordinates.
type spec struct {
	kind Kind
	name string
	// group is the number of coordinates that are compared together; ψ has psi numbers for each
	// coordinate, and φ has phi.
	group, psi, phi int
	// falling: a score never rises as coordinates are added.
	falling bool
	// distance: the score is a sum of terms of one sign, whose computed value has a small relative error.
	// Errors of other scores are relative to ‖ψ‖‖φ‖.
	distance bool
	// rounding: bounds must cover the rounding of ψ and φ to float32, which is not in a model's slack.
	rounding bool
	// limit: nothing overflows in a panel while ‖ψ‖‖φ‖ is less, or ‖ψ‖ + ‖φ‖ for a distance.
	limit float64
	// flops counts the floating-point operations of a coordinate: additions, multiplications and roots, but no
	// change of a sign. portOperations are those that compete with fused multiply-adds for their ports, of
	// which each counts as two; 0 if there is no common measure.
	flops, portOperations float64
	// panelError bounds the error of a panel's score over k coordinates in which a term meets n roundings in
	// sums, if the square root has the given relative error (docs/numerics.md, "Panel scores").
	panelError func(n, k int, root float64) (relative, absolute float64)
	// pairRoundings is the number of roundings in a term of Pair.
	pairRoundings int
	// scores and terms are the arithmetic of the portable kernels. scores compares one query of a strip,
	// [k][genericMR], with all candidates of a panel, [k][genericNR]. terms adds the float64 terms of a pair of
	// vectors to 32 lanes, as package asm documents.
	scores func(psi, phi []float32, query int) [genericNR]float32
	terms  func(x, row []float32) [32]float64
	tiers  [numTiers]comparer
}

// panelFunc and pairFunc are the signatures of the kernels; package asm documents them.
type (
	panelFunc func(*asm.PanelArgs) int
	pairFunc  func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float64)
)

// comparer holds the kernels of a comparison in a tier: mr queries make a strip; a round of peak computes
// peakTerms coordinates of scores.
type comparer struct {
	mr        int
	panel     panelFunc
	pair      pairFunc
	peak      func(n int, x *float32)
	peakTerms int
}

// define completes a comparison with its portable kernels.
func define(s spec) Comparison {
	panel := panelGeneric(s.psi, s.phi, s.scores)
	s.tiers[Generic] = comparer{
		genericMR, panel, pairGeneric(s.terms), peakGeneric(s.psi, s.phi, panel), Chunk * genericNR,
	}
	return Comparison{&s}
}

func (b *Backend) comparer(c Comparison) *comparer { return &c.tiers[b.Tier] }

// Kind returns the comparison's number.
func (c Comparison) Kind() Kind { return c.kind }

// String returns "dot", "l1", "group-norm" or "phase".
func (c Comparison) String() string { return c.name }

// Group is the number of coordinates that are compared together; ψ and φ have a multiple of it.
func (c Comparison) Group() int { return c.group }

// Distance tells that the score is a sum of terms of one sign whose computed value has a small
// relative error: L1 and GroupNorm.
func (c Comparison) Distance() bool { return c.distance }

// Flops counts the floating-point operations of a coordinate: additions, multiplications and roots, but
// no change of a sign.
func (c Comparison) Flops() float64 { return c.flops }

// PortOperations counts the operations of a coordinate that compete with fused multiply-adds for their
// ports, of which each counts as two; it is 0 where the two have no common measure, as with square roots.
func (c Comparison) PortOperations() float64 { return c.portOperations }

// Limit is a number below which ‖ψ‖‖φ‖, or ‖ψ‖ + ‖φ‖ for a distance, lets nothing overflow in a panel.
func (c Comparison) Limit() float64 { return c.limit }

// MayOverflow tells that a square, or a sum of products, may leave the range of float32 in a panel of
// vectors with at most the given norms. (An L1 distance of finite terms that does is farther than any
// that is compared with it.)
func (c Comparison) MayOverflow(psi, phi float64) bool {
	if c.distance {
		return !(psi+phi < c.limit)
	}
	return !(psi*phi < c.limit)
}

// InputError bounds what the rounding of vectors of the given width to float32 changes in their comparison,
// by relative·‖ψ‖‖φ‖ + absolute·(‖ψ‖ + ‖φ‖ + 1). It is 0 for all but Dot: there the slack of a model
// includes that rounding.
func (c Comparison) InputError(width int) (relative, absolute float64) {
	if !c.rounding {
		return 0, 0
	}
	return 2*U32 + U32*U32, 0x1p-149 * math.Sqrt(float64(width))
}

// PanelError bounds the error of scores that are sums of float32 chains of Chunk coordinates, against the
// exact comparison of the same float32 entries (docs/numerics.md, "Panel scores"): relative·M + absolute, where M
// is ‖ψ‖‖φ‖, or the exact distance for a distance. root is the relative error of a square root. It holds
// below Limit, and above for scores that are finite, since an overflow on the way stays infinite or
// becomes NaN.
func (c Comparison) PanelError(k int, root float64) (relative, absolute float64) {
	sums := min(k, Chunk)/c.group + (k+Chunk-1)/Chunk - 1 // roundings that a term meets in sums
	return c.panelError(sums, k, root)
}

// PairError bounds the error of Pair over n terms as PanelError does; Pair neither overflows nor underflows.
func (c Comparison) PairError(n int) (relative float64) {
	return Gamma(n/PairWidth+6+c.pairRoundings, U64)
}
