package kernel

import "fmt"

// Comparison is how a query vector ψ and a feature vector φ become a score; more is better. The
// pairwise comparisons take terms 2i and 2i+1 together.
type Comparison uint8

const (
	// Dot is ψ·φ.
	Dot Comparison = iota
	// L1 is −Σ|ψ_i − φ_i|.
	L1
	// GroupNorm is −Σ √((ψ_2i − φ_2i)² + (ψ_2i+1 − φ_2i+1)²).
	GroupNorm
	// Phase is −Σ|ψ_2i φ_2i + ψ_2i+1 φ_2i+1|.
	Phase
	// Int8 is the dot product of bytes, the screen of Dot: a term is a word of 32 bits, four signed
	// bytes of ψ or four unsigned bytes of φ, kept in a float32 whose value means nothing (CodeInt8).
	// The sum must not leave the range of int32; as a score it is rounded to float32.
	Int8
	numComparisons
)

var comparisonNames = [numComparisons]string{"dot", "l1", "group-norm", "phase", "int8"}

// String returns "dot", "l1", "group-norm", "phase" or "int8".
func (c Comparison) String() string {
	if c < numComparisons {
		return comparisonNames[c]
	}
	return fmt.Sprintf("Comparison(%d)", uint8(c))
}

// Distance tells that the score is a sum of terms of one sign whose computed value has a small
// relative error: L1 and GroupNorm.
func (c Comparison) Distance() bool { return c == L1 || c == GroupNorm }

// Unit is the number of consecutive terms that are compared together.
func (c Comparison) Unit() int {
	if c == GroupNorm || c == Phase {
		return 2
	}
	return 1
}

// falling tells that a score never rises as terms are added.
func (c Comparison) falling() bool { return c != Dot && c != Int8 }

// panelFunc and pairFunc are the signatures of the kernels; package asm documents them.
type (
	panelFunc func(q *float32, qStride int, e *float32, k, strips int, scores *float32, add int, drop *float32, alive *uint8, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64, ahead uintptr, step int) int
	pairFunc  func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float64)
)

// comparer holds the kernels of one comparison: mr queries make a strip; a round of peak computes
// peakTerms terms of a score.
type comparer struct {
	mr        int
	panel     panelFunc
	pair      pairFunc
	peak      func(n int, x *float32)
	peakTerms int
}
