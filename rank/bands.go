package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
)

// The error bands of the screens, as docs/numerics.md derives them.

// interval bounds a candidate's reference score minus the constant of the query of row, given its
// dot product accumulated in float64, its ‖φ‖ and its size.
func (s *sweeper) interval(row int, dot, norm, size float64) (low, high float64) {
	band := s.band(row, kernel.PairError(s.f.stride), 0, norm, size) + 2*kernel.U64*math.Abs(dot)
	if !(band < math.Inf(1)) {
		return math.Inf(-1), math.Inf(1)
	}
	return dot - band, dot + band
}

// band bounds the distance of a computed dot product from the reference score minus the constant
// of the query, for candidates of at most the given norm and size. The product's own error is
// relative·‖ψ‖‖φ‖ + absolute; to it come the rounding of ψ and φ to float32 and the model's slack
// (docs/numerics.md, section 3). It is +Inf if the product is not finite.
func (s *sweeper) band(row int, relative, absolute, norm, size float64) float64 {
	product := s.norms[row] * norm
	if !(product < math.Inf(1)) {
		return math.Inf(1)
	}
	const rounding = 2*kernel.U32 + kernel.U32*kernel.U32
	underflow := 0x1p-149 * math.Sqrt(float64(s.f.width)) * (s.norms[row] + norm + 1)
	const outward = 1 + 1e-9 // for the rounding of this sum itself
	return ((relative+rounding)*product + absolute + underflow + s.slacks[row].At(size)) * outward
}

// tileBand is the band of the tiles' float32 scores over a block of panels.
func (s *sweeper) tileBand(row, block int) float64 {
	norm, size := s.f.blockNorms[block], s.f.blockSizes[block]
	if !(s.norms[row]*norm < kernel.DotOverflow) {
		return math.Inf(1)
	}
	relative, absolute := kernel.DotError(s.f.width)
	return s.band(row, relative, absolute, norm, size)
}

// setEnds widens the truths' intervals by the tile's band over a block of panels.
func (s *sweeper) setEnds(block int) {
	for row, q := range s.queries {
		band := s.tileBand(row, block)
		for t := s.rows[row]; t < s.rows[row]+q.last-q.first; t++ {
			if math.IsInf(band, 1) || math.IsInf(s.high[t], 1) {
				s.ends[2*t], s.ends[2*t+1] = float32(math.Inf(-1)), float32(math.Inf(1))
				continue
			}
			lo, hi := s.low[t]-band, s.high[t]+band
			s.ends[2*t] = kernel.RoundDown32(lo - 2*kernel.U64*math.Abs(lo))
			s.ends[2*t+1] = kernel.RoundUp32(hi + 2*kernel.U64*math.Abs(hi))
		}
	}
}
