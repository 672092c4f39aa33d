package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// WordCodes is the number of two-byte codes in a word.
const WordCodes = 2

const (
	// MostInt16Norm is the largest magnitude of a code of Int16NormPanels: differences must fit in 16
	// bits with a sign.
	MostInt16Norm = math.MaxInt16 / 2
	// MaxInt16Norm is the largest Euclidean norm of a group of codes of Int16NormPanels: the square of a
	// distance, which is at most twice as large, must fit in 32 bits with a sign.
	MaxInt16Norm = 23170
)

// Int16NormWords returns the number of words that a group of the given number of coordinates needs in
// Int16NormPanels.
func Int16NormWords(group int) int { return (group + WordCodes - 1) / WordCodes }

// normPanels holds the kernels of Int16NormPanels, and a loop with only their arithmetic on registers.
type normPanels struct {
	mr         int // queries in a strip
	panel      panelFunc
	peak       func(n, words int, x *float32)
	peakGroups int // groups in a round of peak
}

func (b *Backend) int16NormsOf(words int) *normPanels {
	return &b.int16Norms[min(words, len(b.int16Norms))-1]
}

// Int16NormPanels returns the panels that score −Σ_g ‖ψ_g − φ_g‖ over signed two-byte codes, in groups
// g of the given number of coordinates. A group begins a word; zeros fill up its last word. K counts
// words. Codes are at most MostInt16Norm in magnitude, and norms of groups at most MaxInt16Norm.
// Int16NormError bounds the errors of the scores, which never rise with more groups. The kernels are
// in assembly with FeatureAVX2 and FeatureAVX512, and for groups of more than one word faster with
// FeatureVNNI and FeatureAVXVNNI.
func (b *Backend) Int16NormPanels(group int) Panels {
	words := Int16NormWords(group)
	c := b.int16NormsOf(words)
	return Panels{
		MR: c.mr, NR: b.NR, Multiple: words, name: fmt.Sprintf("int16-norm-%d", group), psi: 1, phi: 1,
		chunk: int16NormChunk(words), falling: true, sums: words > 2, kernel: c.panel, pack: PackRows,
	}
}

// int16NormChunk returns the number of words in a chain of Int16NormPanels: as many whole groups as fit
// into half of Chunk, but at least one. A chain then has as many coordinates as in float32, so strips are
// left as early.
func int16NormChunk(words int) int { return max(Chunk/WordCodes/words, 1) * words }

// Int16NormError bounds the error of a score of Int16NormPanels over the given number of groups of
// coordinates: relative·D + absolute, where D is the exact distance of the codes (docs/numerics.md,
// "The int16 screen of group norms").
func (b *Backend) Int16NormError(groups, group int) (relative, absolute float64) {
	chain := int16NormChunk(Int16NormWords(group)) / Int16NormWords(group)
	sums := Gamma(min(groups, chain)+(groups+chain-1)/chain, U32)
	return sums + rootErrors[b.Tier]*(1+sums), float64(groups) * 0x1p-62
}

// Int16NormPeak is Peak for Int16NormPanels. A term is a coordinate, of which a word has two.
func (b *Backend) Int16NormPeak(group int) (loop func(rounds int, operands *float32), terms int) {
	words := Int16NormWords(group)
	c := b.int16NormsOf(words)
	return func(n int, x *float32) { c.peak(n, words, x) }, WordCodes * words * c.peakGroups
}

// int16NormGeneric is the portable twin of Int16NormPanels, except that it rounds roots correctly.
func int16NormGeneric() normPanels {
	const mr, nr = genericMR, genericNR
	panel := func(a *asm.PanelArgs) int {
		psi := unsafe.Slice((*[WordCodes]int16)(unsafe.Pointer(a.Psi)), (a.Strips-1)*a.PsiStride+a.K*mr)
		phi := unsafe.Slice((*[WordCodes]int16)(unsafe.Pointer(a.Phi)), a.K*nr)
		scores := unsafe.Slice(a.Scores, a.Strips*mr*nr)
		for s := range a.Strips {
			if a.ExitBelow != nil && unsafe.Slice(a.Active, a.Strips)[s] == 0 {
				continue
			}
			strip := psi[s*a.PsiStride:]
			for i := range mr {
				row := scores[(s*mr+i)*nr:][:nr]
				for j := range row {
					var score float32
					for t := 0; t < a.K; t += a.Group {
						squares := int32(0)
						for u := t; u < t+a.Group; u++ {
							x, y := strip[u*mr+i], phi[u*nr+j]
							d, e := int32(x[0]-y[0]), int32(x[1]-y[1])
							squares += d*d + e*e
						}
						score -= float32(math.Sqrt(float64(float32(squares))))
					}
					if a.Add != 0 {
						score += row[j]
					}
					row[j] = score
				}
			}
		}
		markGeneric(a, nr, scores)
		return countGeneric(a, mr, nr, scores)
	}
	peak := func(n, words int, _ *float32) {
		strip, candidates := make([]uint32, words*mr), make([]uint32, words*nr)
		scores := make([]float32, mr*nr)
		a := asm.PanelArgs{
			Psi: &strip[0], Phi: &candidates[0], K: words, Strips: 1, Group: words, Scores: &scores[0],
		}
		for range (n + mr - 1) / mr { // a round is one query
			panel(&a)
		}
	}
	return normPanels{mr, panel, peak, nr}
}
