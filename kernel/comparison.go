package kernel

import (
	"math"

	"github.com/mquine/mquine/asm"
	"github.com/mquine/mquine/internal/fmath"
)

// Comparison computes a score from a query vector ψ and a feature vector φ. It is Dot, L1,
// GroupNorm, Phase, Hake, BoxE, Expressive or a result of GroupNormOf. Larger scores are better.
// Comparisons can be compared with ==.
//
// Each comparison is defined in its own file, comparison_NAME.go.
type Comparison struct{ *spec }

// Kind numbers the comparisons, for use as an index and in CUDA.
type Kind uint8

// The kinds are in the order of Comparisons. The CUDA kernels use the same numbers for the kinds
// that they have.
const (
	KindDot Kind = iota
	KindL1
	KindGroupNorm
	KindPhase
	KindGroupNormOf
	KindHake
	KindBoxE
	KindExpressive
)

// Comparisons returns a comparison of every kind, ordered by kind.
func Comparisons() []Comparison {
	return []Comparison{Dot, L1, GroupNorm, Phase, GroupNormOf(4), Hake, BoxE, Expressive}
}

// spec is the declaration of a comparison. ψ and φ are sequences of coordinates. A score is a sum
// over the coordinates, or combines two such sums.
type spec struct {
	kind Kind
	name string
	// group is the number of coordinates that are compared together. psi and phi are the numbers of
	// values per coordinate in ψ and φ.
	group, psi, phi int
	// falling reports whether a score never rises as coordinates are added.
	falling bool
	// exits reports whether rankings leave strips of a falling score early and order the
	// coordinates for this purpose. Distances need not set exits, because rankings always do both
	// for distances.
	exits bool
	// distance reports whether errors are relative to the distance D, the absolute value of a score
	// whose terms all have the same sign. products reports whether errors are relative to ‖ψ‖‖φ‖.
	// If both are set, errors are relative to ‖ψ‖‖φ‖ + D.
	distance, products bool
	// rounding reports whether bounds must cover the rounding of ψ and φ to float32. Otherwise the
	// model's slack covers that rounding.
	rounding bool
	// psiNorm and phiNorm take the place of ‖ψ‖ and ‖φ‖ in the bounds of products. They are nil if
	// the bounds refer to these norms.
	psiNorm, phiNorm func([]float32) float64
	// limit is a bound below which nothing overflows in a panel: on ‖ψ‖‖φ‖ for products, on ‖ψ‖ +
	// ‖φ‖ for a distance, and on ‖ψ‖ + ‖ψ‖‖φ‖ for both.
	limit float64
	// flops is the number of floating-point operations per coordinate: additions, subtractions,
	// multiplications, divisions and roots, but no sign changes or maxima. portOperations is the
	// number of operations that compete with fused multiply-adds for their ports, counting a
	// multiply-add as two. It is 0 if some operations, such as square roots, cannot be counted in
	// this way.
	flops, portOperations float64
	// panelError bounds the error of a panel's score over k coordinates if each term passes through
	// n rounded additions and the square root has the given relative error (docs/numerics.md,
	// "Panel scores").
	panelError func(n, k int, root float64) (relative, absolute float64)
	// pairRoundings is the number of roundings in a term of Pair.
	pairRoundings int
	// pairSums bounds the number of rounded additions that a term of Pair passes through, for n
	// entries. Nil means the additions within a lane and across the 32 lanes.
	pairSums func(n int) int
	// scores and terms are the arithmetic of the portable kernels. scores compares one query of a
	// strip, [k·psi][genericMR], with all candidates in a panel, [k·phi][genericNR]. terms adds the
	// float64 terms of a pair of vectors in 32 lanes, as the pair kernels of package asm do. Every
	// coordinate adds the term of its group. If terms is nil, pair is the portable pair kernel,
	// which adds the term of each group once.
	scores func(psi, phi []float32, query int) [genericNR]float32
	terms  func(x, row []float32) [32]float64
	pair   func(x, row []float32) float64
	// second is the second sum of a score that combines two. If it is not nil, scores and terms
	// compute the first sum.
	second *secondSum
	tiers  [numTiers]comparer
}

// secondSum is the second sum of a comparison. Its scores and terms correspond to the fields of
// spec with the same names, which compute the first sum. combine returns the score in the
// arithmetic of the panels, and combine64 returns it in the arithmetic of Pair. A falling score
// never rises as terms are added to either sum.
type secondSum struct {
	scores    func(psi, phi []float32, query int) [genericNR]float32
	terms     func(x, row []float32) [32]float64
	combine   func(first, second float32) float32
	combine64 func(first, second float64) float64
	// largest reports whether the "sum" is instead the largest of the values, none of which is
	// negative.
	largest bool
}

// panelFunc and pairFunc are the signatures of the kernels. Package asm documents their arguments.
type (
	panelFunc func(*asm.PanelArgs) int
	pairFunc  func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float64)
)

// comparer holds a comparison's kernels for one tier.
type comparer struct {
	mr        int // queries in a strip
	panel     panelFunc
	pair      pairFunc // the portable kernel if nil in a declaration
	peak      func(n int, x *float32)
	peakTerms int // terms of scores in a round of peak
}

// define completes a comparison with its portable kernels.
func define(s spec) Comparison {
	panel, pair := panelGeneric(&s), pairGeneric(&s)
	s.tiers[Generic] = comparer{genericMR, panel, pair, peakGeneric(&s, panel), s.chunk() * genericNR}
	for i := range s.tiers {
		if s.tiers[i].pair == nil {
			s.tiers[i].pair = pair
		}
	}
	return Comparison{&s}
}

// pairScore is the arithmetic of the portable pair kernel.
func (s *spec) pairScore(x, row []float32) float64 {
	if s.terms == nil {
		return s.pair(x, row)
	}
	score := addLanes(s.terms(x, row))
	if s.second != nil {
		score = s.second.combine64(score, addLanes(s.second.terms(x, row)))
	}
	return score
}

// chunk returns the number of coordinates in a chain: as many whole groups as fit into Chunk, but
// at least one. The number is smaller if a candidate has several values per coordinate, so that a
// chunk of a panel does not take more memory. For pairs and single coordinates it is a multiple of
// 4, the number of coordinates in a round of the kernels.
func (s *spec) chunk() int { return max(Chunk/s.phi&^3/s.group, 1) * s.group }

func (b *Backend) comparer(c Comparison) *comparer { return &c.tiers[b.Tier] }

// Kind returns the number of the comparison.
func (c Comparison) Kind() Kind { return c.kind }

// String returns "dot", "l1", "group-norm", "phase", "hake", "boxe", "expressive" or, for groups of
// s coordinates, "group-norm-s".
func (c Comparison) String() string { return c.name }

// Group returns the number of coordinates that are compared together. It divides the number of
// coordinates of ψ and φ.
func (c Comparison) Group() int { return c.group }

// Words returns the numbers of values per coordinate in ψ and in φ. The values of a coordinate are
// next to each other.
func (c Comparison) Words() (psi, phi int) { return c.psi, c.phi }

// Distance reports whether the score is −D for a distance D ≥ 0 that never falls as coordinates are
// added. Errors are then relative to D, or for Hake to ‖ψ‖‖φ‖ + D. Distance is true for L1, group
// norms and Hake.
func (c Comparison) Distance() bool { return c.distance }

// Exits reports whether rankings leave strips early. It is true for all distances, BoxE and
// Expressive.
func (c Comparison) Exits() bool { return c.distance || c.exits }

// PsiNorm returns an upper bound on ‖ψ‖, or on the number that takes its place in the error bounds
// of BoxE and Expressive.
func (c Comparison) PsiNorm(psi []float32) float64 {
	if c.psiNorm != nil {
		return c.psiNorm(psi)
	}
	return fmath.Norm(psi)
}

// PhiNorm returns an upper bound on ‖φ‖, or on the number that takes its place in the error bounds
// of BoxE and Expressive.
func (c Comparison) PhiNorm(phi []float32) float64 {
	if c.phiNorm != nil {
		return c.phiNorm(phi)
	}
	return fmath.Norm(phi)
}

// Products reports whether the errors of scores are relative to ‖ψ‖‖φ‖. It is true for all
// comparisons except L1 and group norms. The errors of Hake are relative to the sum of ‖ψ‖‖φ‖ and
// the distance.
func (c Comparison) Products() bool { return c.products }

// Flops returns the number of floating-point operations per coordinate: additions, subtractions,
// multiplications, divisions and roots, but no sign changes or maxima.
func (c Comparison) Flops() float64 { return c.flops }

// PortOperations returns the number of operations per coordinate that compete with fused
// multiply-adds for their ports, where a multiply-add counts as two. It is 0 if some operations,
// such as square roots, cannot be counted in this way.
func (c Comparison) PortOperations() float64 { return c.portOperations }

// Limit returns a bound below which nothing overflows in a panel: on ‖ψ‖‖φ‖ for products, on ‖ψ‖ +
// ‖φ‖ for a distance, and on ‖ψ‖ + ‖ψ‖‖φ‖ for both.
func (c Comparison) Limit() float64 { return c.limit }

// MayOverflow reports whether a square or a sum of products may overflow float32 in a panel of
// vectors with at most the given norms. It ignores L1 distances that overflow, because they exceed
// every distance with which they are compared.
func (c Comparison) MayOverflow(psi, phi float64) bool {
	switch {
	case c.distance && c.products:
		return !(psi+psi*phi < c.limit)
	case c.distance:
		return !(psi+phi < c.limit)
	}
	return !(psi*phi < c.limit)
}

// InputError bounds the change in a score when vectors of the given width are rounded to float32.
// The bound is relative·‖ψ‖‖φ‖ + absolute·(‖ψ‖ + ‖φ‖ + 1). It is 0 for all comparisons except Dot,
// because the slack of the model includes that rounding.
func (c Comparison) InputError(width int) (relative, absolute float64) {
	if !c.rounding {
		return 0, 0
	}
	return 2*U32 + U32*U32, 0x1p-149 * math.Sqrt(float64(width))
}

// PanelError bounds the difference between a score over k coordinates, computed in float32 chains,
// and the exact score of the same float32 entries. The bound is relative·M + absolute, where M is
// ‖ψ‖‖φ‖ if Products is true, plus the exact distance if Distance is true (docs/numerics.md, "Panel
// scores"). root is the relative error of a square root. For vectors below Limit, the bound holds
// for all scores. For other vectors, it holds for finite scores, because an intermediate overflow
// stays infinite or becomes NaN.
func (c Comparison) PanelError(k int, root float64) (relative, absolute float64) {
	chunk := c.chunk()
	sums := min(k, chunk)/c.group + (k+chunk-1)/chunk - 1 // rounded additions per term
	return c.panelError(sums, k, root)
}

// PairError bounds the error of Pair over n coordinates: relative·M with the M of PanelError. Pair
// neither overflows nor underflows.
func (c Comparison) PairError(n int) (relative float64) {
	sums := n/PairWidth + 6
	if c.pairSums != nil {
		sums = c.pairSums(n)
	}
	return Gamma(sums+c.pairRoundings, U64)
}
