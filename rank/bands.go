package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
)

// The error bands of the screens, as docs/numerics.md derives them. Every interval bounds the
// reference score minus the constant of its query.

// outward makes up for the roundings of a band's own computation.
const outward = 1 + 1e-9

// interval bounds a candidate given its float64 score, its ‖φ‖ and its size.
func (s *sweeper) interval(row int, score, norm, size float64) (low, high float64) {
	relative := kernel.PairError(s.f.tower.Compare, s.f.stride())
	return s.around(row, score, relative, 0, norm, size)
}

// tileInterval bounds a candidate in a block of panels given its float32 score. (Sums that overflow stay
// infinite or become NaN, so a finite score is within the panels' error whatever the norms are.)
func (s *sweeper) tileInterval(row, block int, score float32) (low, high float64) {
	relative, absolute := s.backend.PanelError(s.f.tower.Compare, s.f.tower.Phi)
	return s.around(row, float64(score), relative, absolute, s.f.blockNorms[block], s.f.blockSizes[block])
}

// around bounds candidates of at most the given norm and size whose score was computed with the
// given error. A score that is infinite or NaN bounds nothing.
func (s *sweeper) around(row int, score, relative, absolute, norm, size float64) (low, high float64) {
	var band float64
	if s.f.tower.Compare.Distance() {
		// |D − D̂| ≤ relative·D + absolute, so D ≤ (D̂ + absolute)/(1 − relative).
		band = relative*(math.Abs(score)+absolute)/(1-relative) + absolute
	} else {
		band = s.product(row, relative, absolute, norm)
	}
	band = (band+s.slack(row, size))*outward + 2*kernel.U64*math.Abs(score)
	if !(band < math.Inf(1)) {
		return math.Inf(-1), math.Inf(1)
	}
	return score - band, score + band
}

// product is the band of a sum of products: the computation's own error, relative·‖ψ‖‖φ‖ +
// absolute, and for a dot product the rounding of ψ and φ to float32. (The slack of the other
// comparisons includes that rounding.)
func (s *sweeper) product(row int, relative, absolute, norm float64) float64 {
	product := s.norms[row] * norm
	if s.f.tower.Compare == kernel.Dot {
		relative += 2*kernel.U32 + kernel.U32*kernel.U32
		absolute += 0x1p-149 * math.Sqrt(float64(s.f.tower.Phi)) * (s.norms[row] + norm + 1)
	}
	if !(product < math.Inf(1)) {
		return math.Inf(1)
	}
	return relative*product + absolute
}

// slack is the model's slack for candidates of at most the given size, or +Inf if ψ is not finite.
func (s *sweeper) slack(row int, size float64) float64 {
	if slack := s.slacks[row].At(size); slack < math.Inf(1) && s.norms[row] < math.Inf(1) {
		return slack
	}
	return math.Inf(1)
}

// mayOverflow tells whether a square, or a sum of products, may leave the range of float32. (An L1
// distance of finite terms that does is farther than any that is compared with it.)
func (s *sweeper) mayOverflow(row, block int) bool {
	query, candidates := s.norms[row], s.f.blockNorms[block]
	switch s.f.tower.Compare {
	case kernel.L1:
		return !(query+candidates < math.Inf(1))
	case kernel.GroupNorm:
		return !(query+candidates < 1<<60)
	}
	return !(query*candidates < kernel.Overflow)
}

// setEnds widens the truths' intervals by the band of the tiles' float32 scores over a block of
// panels.
func (s *sweeper) setEnds(block int) {
	for row := range s.queries {
		s.setRowEnds(row, block)
	}
	for row := len(s.queries); row < len(s.drop); row++ {
		s.drop[row] = float32(math.Inf(1))
	}
}

// setRowEnds is setEnds for the truths of one row.
func (s *sweeper) setRowEnds(row, block int) {
	relative, absolute := s.backend.PanelError(s.f.tower.Compare, s.f.tower.Phi)
	norm := s.f.blockNorms[block]
	slack := s.slack(row, s.f.blockSizes[block]) * outward
	if s.mayOverflow(row, block) {
		slack = math.Inf(1)
	}
	band := 0.0
	switch s.f.compare {
	case kernel.Int8:
		s.fineBands[row] = (s.product(row, 0, s.fineBand(row, block), norm) + slack) * outward
		relative, absolute = 0, s.int8Band(row, block)
	case kernel.Int16:
		relative, absolute = 0, s.int16Band(row, block)
	}
	if !s.f.compare.Distance() {
		band = s.product(row, relative, absolute, norm) * outward
	}
	s.drop[row] = float32(math.Inf(1))
	for t := s.rows[row]; t < s.rows[row+1]; t++ {
		lo, hi := s.low[t]-slack, s.high[t]+slack
		margin := 8 * kernel.U64 * (max(math.Abs(lo), math.Abs(hi)) + band + absolute)
		if s.f.tower.Compare.Distance() {
			// A distance D̂ < X(1 − relative) − absolute proves D < X, and D̂ > X(1 + relative) + absolute
			// proves D > X.
			lo = lo*(1+relative*outward) - absolute
			hi = hi*(1-relative*outward) + absolute
		} else {
			lo, hi = lo-band, hi+band
		}
		lo, hi = lo-margin, hi+margin
		if s.f.coded() {
			lo, hi = s.codeEnds(row, block, lo, hi)
		}
		if !(lo > math.Inf(-1) && hi < math.Inf(1)) {
			lo, hi = math.Inf(-1), math.Inf(1)
		}
		s.ends[2*t], s.ends[2*t+1] = kernel.RoundDown32(lo), kernel.RoundUp32(hi)
		s.drop[row] = min(s.drop[row], s.ends[2*t])
	}
}
