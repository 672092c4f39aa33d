package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// group holds the trends of a family.
type group struct {
	Family string
	Charts []chart
	Open   bool
}

type chart struct {
	Title, Last, Change string
	Better              bool // the change is for the better, Worse for the worse
	Worse               bool
	Picture             *picture
}

// trends draws every benchmark that was measured of more than one commit.
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

// trend draws the medians and their ranges by commit: of the share of the peak where there is one,
// since the machine's weather changes it least, and else of the time.
func (c class) trend(name, title string) (ch chart, ok bool) {
	unit, sign := "sec/op", -1.0
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
	type at struct {
		commit       string
		mid, lo, hi  float64
		measurements int
	}
	var points []at
	top := 0.0
	for _, commit := range c.commits {
		v := commit.values[name][unit]
		if len(v) == 0 {
			continue
		}
		s := summary(v)
		if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) { // too few for an interval: all of them
			s.Lo, s.Hi = math.Inf(1), 0
			for _, x := range v {
				s.Lo, s.Hi = min(s.Lo, x), max(s.Hi, x)
			}
		}
		points = append(points, at{short(commit.id), s.Center, s.Lo, s.Hi, len(v)})
		top = max(top, s.Hi)
	}
	if len(points) < 2 {
		return ch, false
	}
	write := func(v float64) string {
		switch unit {
		case "sec/op", "cpu-sec/op":
			return seconds(v)
		case "pct-peak":
			return digits(v) + "% of peak"
		}
		return rate(v, unit)
	}
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
		s.circle("hue1", x(i), y(p.mid), 3, fmt.Sprintf("%s: %s, %s to %s (%d)", p.commit, write(p.mid), write(p.lo), write(p.hi), p.measurements))
	}
	first, last := points[0], points[len(points)-1]
	change := sign * (last.mid/first.mid - 1)
	const enough = 3 // for ranges that say something
	apart := min(first.measurements, last.measurements) >= enough && (last.lo > first.hi || last.hi < first.lo)
	return chart{
		Title: title, Last: write(last.mid), Change: fmt.Sprintf("%+.1f%%", 100*(last.mid/first.mid-1)),
		Better: apart && change > 0, Worse: apart && change < 0, Picture: s,
	}, true
}
