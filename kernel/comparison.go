package kernel

import (
	"fmt"

	"github.com/mquine/mquine/asm"
)

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
	// Int16 is the screen of Dot with coarse and fine codes (CodeInt8, without an offset) of both: k
	// terms are words like those of Int8, all bytes signed, the coarse codes c first and then as many
	// fine codes f. The score is Σ c c' + Σ (c f' + f c')/Fine, without the products of fine codes: the
	// two sums, the quotient and their sum are rounded to float32. Sums must not leave the range of int32.
	Int16
	numComparisons
)

var comparisonNames = [numComparisons]string{"dot", "l1", "group-norm", "phase", "int8", "int16"}

// String returns "dot", "l1", "group-norm", "phase", "int8" or "int16".
func (c Comparison) String() string {
	if c < numComparisons {
		return comparisonNames[c]
	}
	return fmt.Sprintf("Comparison(%d)", uint8(c))
}

// Distance tells that the score is a sum of terms of one sign whose computed value has a small
// relative error: L1 and GroupNorm.
func (c Comparison) Distance() bool { return c == L1 || c == GroupNorm }

// Unit is the number of terms that are compared together; a call has a multiple of them.
func (c Comparison) Unit() int {
	switch c {
	case GroupNorm, Phase:
		return 2
	case Int16:
		return 2 * tileWords
	}
	return 1
}

// falling tells that a score never rises as terms are added.
func (c Comparison) falling() bool { return c == L1 || c == GroupNorm || c == Phase }

// panelFunc and pairFunc are the signatures of the kernels; package asm documents them.
type (
	panelFunc func(*asm.PanelArgs) int
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
