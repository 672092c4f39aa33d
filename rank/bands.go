package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Bands of the panels' scores and the thresholds that they give (docs/numerics.md, "Panel scores").

// panelInterval bounds a candidate in a block of panels given its float32 score. (Sums that overflow stay
// infinite or become NaN, so a finite score is within the panels' error whatever the norms are.)
func (s *sweeper) panelInterval(row, block int, score float32) (low, high float64) {
	relative, absolute := s.Job.Backend.PanelError(s.f.Tower.Compare, s.f.Tower.Phi)
	return s.Around(row, float64(score), relative, absolute, s.f.blockNorms[block], s.f.blockSizes[block])
}

// setThresholds widens the targets' intervals by the band of the panels' scores over a block of panels.
func (s *sweeper) setThresholds(block int) {
	for row := range s.Queries {
		s.setRowThresholds(row, block)
	}
	for row := len(s.Queries); row < len(s.exitBelow); row++ {
		s.exitBelow[row] = float32(math.Inf(1))
	}
}

// setRowThresholds is setThresholds for the targets of one row.
func (s *sweeper) setRowThresholds(row, block int) {
	slack := s.Slack(row, s.f.blockSizes[block]) * engine.Outward
	if s.f.Tower.Compare.MayOverflow(s.Norms[row], s.f.blockNorms[block]) {
		slack = math.Inf(1)
	}
	s.f.screen.setThresholds(s, row, block, slack)
}

// widen sets the thresholds of a row's targets and the row's score to exit below. toScores turns an
// interval of exact comparisons into one of a panel's scores: scores outside are on the same side of the target.
func (s *sweeper) widen(row int, slack float64, toScores func(lo, hi float64) (float64, float64)) {
	s.exitBelow[row] = float32(math.Inf(1))
	for t := s.TargetStart[row]; t < s.TargetStart[row+1]; t++ {
		lo, hi := toScores(s.Low[t]-slack, s.High[t]+slack)
		if !(lo > math.Inf(-1) && hi < math.Inf(1)) {
			lo, hi = math.Inf(-1), math.Inf(1)
		}
		s.thresholds[2*t], s.thresholds[2*t+1] = kernel.RoundDown32(lo), kernel.RoundUp32(hi)
		s.exitBelow[row] = min(s.exitBelow[row], s.thresholds[2*t])
	}
}
