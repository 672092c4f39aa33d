package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// group holds a family's trends.
type group struct {
	Family string
	Charts []chart
	Open   bool
}

type chart struct {
	Title, Last, Change string
	Better, Worse       bool // whether a change exceeds the ranges
	Picture             *picture
}

// trends draws every benchmark that was measured at more than one commit.
func (c class) trends(names []string) []group {
	var groups []group
	for _, name := range names {
		family, tier, rival, shape := split(name)
		if rival != "" {
			continue
		}
		ch, ok := c.trend(name, strings.TrimSpace(tier+" "+shape))
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

// trend draws medians and ranges by commit. It uses the share of the peak if there is one, because
// disturbances change it least, and the time otherwise. ok is false if there are fewer than two
// commits.
func (c class) trend(name, title string) (ch chart, ok bool) {
	unit, sign := c.trendUnit(name)
	points, top := c.history(name, unit)
	if len(points) < 2 {
		return ch, false
	}
	first, last := points[0], points[len(points)-1]
	change := last.mid/first.mid - 1
	const enough = 3 // measurements that give a range
	apart := min(first.measurements, last.measurements) >= enough && (last.lo > first.hi || last.hi < first.lo)
	return chart{
		Title: title, Last: formatted(last.mid, unit), Change: fmt.Sprintf("%+.1f%%", 100*change),
		Better: apart && sign*change > 0, Worse: apart && sign*change < 0, Picture: drawTrend(title, unit, points, top),
	}, true
}

// trendUnit returns the unit of a benchmark's trend, and the sign: 1 if more is better, −1 if less
// is better.
func (c class) trendUnit(name string) (unit string, sign float64) {
	unit, sign = "sec/op", -1.0
	switch {
	case strings.HasPrefix(name, "Ceiling"):
		for _, u := range []string{"GFLOP/s", "GOP/s", "GB/s"} {
			if c.best(name, u) > 0 {
				unit, sign = u, 1
			}
		}
	case c.best(name, "cpu-sec/op") > 0 && c.best(name, "pct-peak") > 0:
		unit, sign = "pct-peak", 1
	case c.best(name, "cpu-sec/op") > 0:
		unit = "cpu-sec/op"
	}
	return unit, sign
}

// measured is a benchmark's result at a commit: the median and the range.
type measured struct {
	commit       string
	mid, lo, hi  float64
	measurements int
}

// history returns a benchmark's results, from the oldest commit to the newest, and the largest
// value.
func (c class) history(name, unit string) (points []measured, top float64) {
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
		top = max(top, s.Hi)
	}
	return points, top
}

// formatted returns a value with its unit.
func formatted(v float64, unit string) string {
	switch unit {
	case "sec/op", "cpu-sec/op":
		return seconds(v)
	case "pct-peak":
		return digits(v) + "% of peak"
	}
	return rate(v, unit)
}

// drawTrend draws medians and ranges on an axis from 0 to top.
func drawTrend(title, unit string, points []measured, top float64) *picture {
	const width, height, pad = 220.0, 64.0, 6.0
	x := func(i int) float64 { return pad + (width-2*pad)*float64(i)/float64(len(points)-1) }
	y := func(v float64) float64 { return height - pad - (height-2*pad)*v/top }
	s := newPicture(width, height, title+" by commit")
	s.line("grid", 0, y(0), width, y(0))
	var middles []point
	for i, p := range points {
		middles = append(middles, point{x(i), y(p.mid)})
	}
	s.polyline("trend", middles)
	for i, p := range points {
		s.line("range", x(i), y(p.lo), x(i), y(p.hi))
		s.circle("hue1", x(i), y(p.mid), 3, fmt.Sprintf("%s: %s, %s to %s (%d)", p.commit,
			formatted(p.mid, unit), formatted(p.lo, unit), formatted(p.hi, unit), p.measurements))
	}
	return s
}
