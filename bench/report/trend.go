package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/internal/plot"
)

// group holds a family's trends.
type group struct {
	Family string
	Charts []chart
	Open   bool
}

type chart struct {
	Title, Last, Change string
	Better, Worse       bool // the ranges of the first and the last commit do not overlap
	Picture             template.HTML
}

// trends draws every benchmark that was measured at more than one commit.
func (c class) trends(names []string) []group {
	var groups []group
	for _, name := range names {
		family, tier, rival, shape := split(name)
		if rival != "" {
			continue
		}
		ch, ok := c.trend(name, strings.TrimSpace(tier+" "+describe(shape)))
		if !ok {
			continue
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.Family == family })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{Family: family, Open: family == "Panel" || family == "Evaluate"})
		}
		groups[i].Charts = append(groups[i].Charts, ch)
	}
	return groups
}

// trend draws medians and ranges by commit. trendUnit returns the unit. ok is false if there are
// fewer than two commits.
func (c class) trend(name, title string) (ch chart, ok bool) {
	unit, sign := c.trendUnit(name)
	points := c.history(name, unit)
	if len(points) < 2 {
		return ch, false
	}
	first, last := points[0], points[len(points)-1]
	change := last.mid/first.mid - 1
	const enough = 3 // measurements that give a range
	apart := min(first.measurements, last.measurements) >= enough && (last.lo > first.hi || last.hi < first.lo)
	return chart{
		Title: title, Last: value(last.mid, unit), Change: fmt.Sprintf("%+.1f%%", 100*change),
		Better: apart && sign*change > 0, Worse: apart && sign*change < 0, Picture: drawTrend(title, unit, points),
	}, true
}

// trendUnit returns the unit of a benchmark's trend. sign is 1 if more is better and −1 if less is
// better.
func (c class) trendUnit(name string) (unit string, sign float64) {
	unit = bench.Headline(name, func(unit string) bool { return c.best(name, unit) > 0 })
	if bench.MoreIsBetter(unit) {
		return unit, 1
	}
	return unit, -1
}

// measured is a benchmark's result at a commit: the median and the range.
type measured struct {
	commit       string
	mid, lo, hi  float64
	measurements int
}

// history returns a benchmark's results, from the oldest commit to the newest.
func (c class) history(name, unit string) (points []measured) {
	for _, commit := range c.commits {
		v := commit.values[name][unit]
		if len(v) == 0 {
			continue
		}
		s := summary(v)
		if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) { // too few for an interval
			s.Lo, s.Hi = slices.Min(v), slices.Max(v)
		}
		points = append(points, measured{short(commit.id), s.Center, s.Lo, s.Hi, len(v)})
	}
	return points
}

// drawTrend draws medians with bands for their ranges, on an axis that the ranges fill.
func drawTrend(title, unit string, points []measured) template.HTML {
	last := len(points) - 1
	lowest, highest := points[0].lo, points[0].hi
	for _, p := range points {
		lowest, highest = min(lowest, p.lo), max(highest, p.hi)
	}
	c := plot.Chart{
		Width: 280, Height: 110, Description: title + " by commit",
		X: plot.Axis{Ticks: []float64{0, float64(last)}, Format: func(x float64) string {
			return fmt.Sprintf("%.7s", points[min(max(int(x+0.5), 0), last)].commit)
		}},
		Y: plot.Axis{
			Ticks: []float64{lowest, highest}, Format: func(v float64) string { return value(v, unit) },
		},
		Series: []plot.Series{{}},
	}
	for i, p := range points {
		c.Series[0].Points = append(c.Series[0].Points, plot.Point{X: float64(i), Y: p.mid, Lo: p.lo, Hi: p.hi,
			Hover: fmt.Sprintf("%s: %s, %s to %s (%d)", p.commit, value(p.mid, unit), value(p.lo, unit),
				value(p.hi, unit), p.measurements)})
	}
	return plot.HTML(c)
}
