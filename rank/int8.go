package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
)

// The int8 screen of dot products: coarse codes in the panels, and fine ones beside them for the pairs
// that these leave, many times what float32 leaves. So it serves where few candidates score close to a truth.

// int8Width is a width padded to whole groups of spread.
func int8Width(width int) int { return (width + spread - 1) / spread * spread }

// int8Words is the number of terms of kernel.Int8 for a width.
func int8Words(width int) int { return int8Width(width) / kernel.WordBytes }

// int8Stride is the length in words of a row of coarse and fine codes, for single pairs.
func int8Stride(width int) int {
	const pad = kernel.Int8PairWidth
	return (2*int8Words(width) + pad - 1) / pad * pad
}

// codes returns the rows of coarse and fine codes, [coarse, fine], by position. They use what the
// panels, of a quarter of a float32 panel's size, leave free.
func (f *features) codes() []float32 {
	return f.panels[(f.n+f.nr-1)/f.nr*f.nr*f.terms():]
}

// int8Band bounds |ψ·φ − s| for the candidates of a block, with the score s of coarse codes.
func (s *sweeper) int8Band(row, block int) float64 {
	q, b := &s.coded[row], &s.f.codeBlocks[block]
	return (q.residual*b.norm + q.norm*b.residual + s.centerError(row)) * outward
}

// fineBand is int8Band for fineScore.
func (s *sweeper) fineBand(row, block int) float64 {
	q, b := &s.coded[row], &s.f.codeBlocks[block]
	// The fifth term bounds the rounding of the coarse sum to float32 and has room for fineScore's own roundings;
	// the last one bounds its final sum.
	return (q.fineNorm*b.fineNorm + q.fineResidual*b.norm + (q.size+q.fineResidual)*b.fineResidual + s.centerError(row) +
		q.step*b.step*kernel.U32*127*255*float64(int8Width(s.f.tower.Phi)) + kernel.U64*math.Abs(q.center)) * outward
}

// fineScore joins the panel's score and one of single pairs, of [fine, coarse] with [coarse, fine].
func (s *sweeper) fineScore(row, block int, coarse float32, fine int32) float64 {
	q := &s.coded[row]
	sum := (float64(coarse) - q.offset) + (float64(fine)-q.fineOffset)/kernel.Fine
	return q.center + q.step*s.f.codeBlocks[block].step*sum
}
