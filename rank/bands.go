package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// This file computes the bands of panel scores and the thresholds that follow from them
// (docs/numerics.md, "Panel scores").

// panelInterval returns an interval that contains the reference score of a candidate. score is the
// candidate's panel score for the query in row, and group is the candidate's panel group. The norms
// need not be checked: sums that overflow stay infinite or become NaN, so the error bound of the
// panels holds for every finite score.
func (f *features) panelInterval(
	b *engine.Block, q *packedQueries, row, group int, score float32,
) (low, high float64) {
	if f.screen.name() != Float32Screen {
		m := f.screen.margins(q, &b.Vectors, row, group)
		return m.comparisons(float64(score), b.Slack(row, f.groupSizes[group])*engine.Outward)
	}
	relative, absolute := b.Job.Backend.PanelError(f.Tower.Compare, f.Tower.Terms())
	return b.Around(row, float64(score), relative, absolute, f.groupNorms[group], f.groupSizes[group])
}

// margins bounds the differences between the scores of a panel group and the exact comparisons with
// a query. It also holds the units of these scores.
type margins struct {
	relative, absolute float64 // to widen an interval by
	rounding           float64 // the largest intermediate result, apart from the ends of the interval
	units              units
	fine               float64 // the value of absolute for the scores of fine codes, if the screen has them
}

// scores returns the interval of panel scores for an interval of exact comparisons. A score below
// the result proves that the comparison is below the given interval, and a score above the result
// proves that the comparison is above it.
func (m *margins) scores(low, high float64) (lo, hi float64) {
	// For distances, D̂ < X(1 − relative) − absolute proves D < X, and D̂ > X(1 + relative) +
	// absolute proves D > X. Scores are negative distances.
	margin := 8 * kernel.U64 * (max(math.Abs(low), math.Abs(high)) + m.rounding)
	lo = low*(1+m.relative) - m.absolute - margin
	hi = high*(1-m.relative) + m.absolute + margin
	if m.units == (units{}) {
		return lo, hi
	}
	return m.units.sums(lo, hi)
}

// comparisons returns an interval that contains the exact comparison of a pair with the given score
// of codes, widened by slack.
func (m *margins) comparisons(score, slack float64) (low, high float64) {
	u := m.units
	product := u.center + u.step*(score-u.offset)
	rounding := 8 * kernel.U64 * (math.Abs(u.center) + u.step*(math.Abs(score)+math.Abs(u.offset)) + m.rounding)
	// If |D − D̂| ≤ relative·D + absolute, then |D − D̂| ≤ (relative·D̂ + absolute)/(1 − relative).
	band := (m.relative*math.Abs(product) + m.absolute) / (1 - m.relative)
	width := (band+slack)*engine.Outward + rounding
	return product - width, product + width
}

// thresholds holds the intervals of a block's targets in the units of the panel scores, for one
// panel group.
type thresholds struct {
	ends      []float32 // low and high of each target
	exitBelow []float32 // by row: candidates below this score do not matter to any target
	fineBands []float64 // by row: bands of the scores of fine codes
}

func newThresholds(queries int) thresholds {
	return thresholds{
		ends: make([]float32, 2*engine.BlockTargets), exitBelow: make([]float32, queries),
		fineBands: make([]float64, queries),
	}
}

// set computes the thresholds of all targets for a panel group.
func (t *thresholds) set(f *features, b *engine.Block, q *packedQueries, group int) {
	for row := range b.Queries {
		t.setRow(f, b, q, row, group)
	}
	for row := len(b.Queries); row < len(t.exitBelow); row++ {
		t.exitBelow[row] = float32(math.Inf(1))
	}
}

// setRow computes the thresholds of a row's targets for a panel group.
func (t *thresholds) setRow(f *features, b *engine.Block, q *packedQueries, row, group int) {
	slack := b.Slack(row, f.groupSizes[group]) * engine.Outward
	if f.Tower.Compare.MayOverflow(b.Norms[row], f.groupNorms[group]) {
		slack = math.Inf(1)
	}
	m := f.screen.margins(q, &b.Vectors, row, group)
	t.fineBands[row] = (m.fine + slack) * engine.Outward
	t.exitBelow[row] = float32(math.Inf(1))
	for target := b.TargetStart[row]; target < b.TargetStart[row+1]; target++ {
		lo, hi := m.scores(b.Low[target]-slack, b.High[target]+slack)
		if !(lo > math.Inf(-1) && hi < math.Inf(1)) {
			lo, hi = math.Inf(-1), math.Inf(1)
		}
		t.ends[2*target], t.ends[2*target+1] = kernel.RoundDown32(lo), kernel.RoundUp32(hi)
		t.exitBelow[row] = min(t.exitBelow[row], t.ends[2*target])
	}
}

// openAbove raises the upper end of a target to infinity, so no candidate counts as better.
func (t *thresholds) openAbove(target int) { t.ends[2*target+1] = float32(math.Inf(1)) }
