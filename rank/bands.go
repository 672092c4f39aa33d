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
	relative := s.f.tower.Compare.PairError(s.f.stride())
	return s.around(row, score, relative, 0, norm, size)
}

// panelInterval bounds a candidate in a block of panels given its float32 score. (Sums that overflow stay
// infinite or become NaN, so a finite score is within the panels' error whatever the norms are.)
func (s *sweeper) panelInterval(row, block int, score float32) (low, high float64) {
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
// absolute, and that of the rounding of ψ and φ to float32, unless the slack includes it.
func (s *sweeper) product(row int, relative, absolute, norm float64) float64 {
	product := s.norms[row] * norm
	if !(product < math.Inf(1)) {
		return math.Inf(1)
	}
	input, tiny := s.f.tower.Compare.InputError(s.f.tower.Phi)
	return (relative+input)*product + (absolute + tiny*(s.norms[row]+norm+1))
}

// slack is the model's slack for candidates of at most the given size, or +Inf if ψ is not finite.
func (s *sweeper) slack(row int, size float64) float64 {
	if slack := s.slacks[row].At(size); slack < math.Inf(1) && s.norms[row] < math.Inf(1) {
		return slack
	}
	return math.Inf(1)
}

// setThresholds widens the truths' intervals by the band of the panels' scores over a block of panels.
func (s *sweeper) setThresholds(block int) {
	for row := range s.queries {
		s.setRowThresholds(row, block)
	}
	for row := len(s.queries); row < len(s.exitBelow); row++ {
		s.exitBelow[row] = float32(math.Inf(1))
	}
}

// setRowThresholds is setThresholds for the truths of one row.
func (s *sweeper) setRowThresholds(row, block int) {
	slack := s.slack(row, s.f.blockSizes[block]) * outward
	if s.f.tower.Compare.MayOverflow(s.norms[row], s.f.blockNorms[block]) {
		slack = math.Inf(1)
	}
	s.f.screen.setThresholds(s, row, block, slack)
}

// widen sets the thresholds of a row's truths and the row's score to exit below. toScores turns an
// interval of exact comparisons into one of a panel's scores: scores outside are on the same side of the truth.
func (s *sweeper) widen(row int, slack float64, toScores func(lo, hi float64) (float64, float64)) {
	s.exitBelow[row] = float32(math.Inf(1))
	for t := s.rows[row]; t < s.rows[row+1]; t++ {
		lo, hi := toScores(s.low[t]-slack, s.high[t]+slack)
		if !(lo > math.Inf(-1) && hi < math.Inf(1)) {
			lo, hi = math.Inf(-1), math.Inf(1)
		}
		s.thresholds[2*t], s.thresholds[2*t+1] = kernel.RoundDown32(lo), kernel.RoundUp32(hi)
		s.exitBelow[row] = min(s.exitBelow[row], s.thresholds[2*t])
	}
}
