package plot

import (
	"math"
	"strconv"
	"strings"
)

// scale maps the values of an axis to pixels.
type scale struct {
	log      bool
	lo, hi   float64 // values at the ends
	from, to float64 // pixels at the ends
	ticks    []float64
}

func (s *scale) at(v float64) float64 {
	part := 0.0
	if s.log {
		part = math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	} else {
		part = (v - s.lo) / (s.hi - s.lo)
	}
	return s.from + (s.to-s.from)*part
}

// extent is the range of an axis.
type extent struct {
	lo, hi float64
	any    bool
}

func (e *extent) add(a *Axis, v float64) {
	switch {
	case !a.shown(v):
	case !e.any:
		e.lo, e.hi, e.any = v, v, true
	default:
		e.lo, e.hi = min(e.lo, v), max(e.hi, v)
	}
}

// extents returns the ranges of the values on both axes.
func (c *Chart) extents() (x, y extent) {
	for i := range c.Series {
		s := &c.Series[i]
		for j := range s.Points {
			p := &s.Points[j]
			if !c.X.shown(p.X) || !c.Y.shown(p.Y) {
				continue
			}
			x.add(&c.X, p.X)
			y.add(&c.Y, p.Y)
			if p.interval(&c.Y) {
				y.add(&c.Y, p.Lo)
				y.add(&c.Y, p.Hi)
			}
		}
		if s.Mark == Bars {
			y.add(&c.Y, 0)
		}
	}
	for _, axis := range []struct {
		*Axis
		*extent
	}{{&c.X, &x}, {&c.Y, &y}} {
		for _, v := range axis.Include {
			axis.add(axis.Axis, v)
		}
		for _, r := range axis.Rules {
			axis.add(axis.Axis, r.At)
		}
	}
	return x, y
}

// newScale returns the scale for a range, with at most the given number of ticks. If round is true and
// the axis does not have its own ticks, a linear scale ends at ticks, and a logarithmic scale has room
// at its ends.
func (a *Axis) newScale(e extent, most int, round bool) scale {
	if n := len(a.Categories); n > 0 {
		return scale{lo: -0.5, hi: float64(n) - 0.5}
	}
	if !e.any {
		e.lo, e.hi = 0, 1
		if a.Log {
			e.lo = 0.1
		}
	}
	s := scale{log: a.Log, lo: e.lo, hi: e.hi}
	if round = round && a.Ticks == nil; s.log {
		s.widenLog(round)
	} else {
		s.widen(a, most, round)
	}
	switch {
	case a.Ticks != nil:
		s.ticks = a.thinned(s.lo, s.hi, most)
	case s.log:
		s.ticks = logTicks(s.lo, s.hi, most)
	default:
		s.ticks = linearTicks(s.lo, s.hi, a.step(s.lo, s.hi, most))
	}
	return s
}

// widenLog makes room around a single value of a logarithmic scale and, if round is true, around any
// other range.
func (s *scale) widenLog(round bool) {
	switch {
	case s.hi/s.lo < 1.01:
		s.lo, s.hi = s.lo/2, s.hi*2
	case round:
		room := math.Pow(s.hi/s.lo, 0.04)
		s.lo, s.hi = s.lo/room, s.hi*room
	}
}

// widen makes room around a single value of a linear scale. If round is true, it extends any other
// range to ticks, and an end at 0 stays at 0.
func (s *scale) widen(a *Axis, most int, round bool) {
	if s.hi-s.lo <= max(1e-9*max(math.Abs(s.lo), math.Abs(s.hi)), 1/largest) {
		room := max(math.Abs(s.lo)/2, 0.5)
		if a.Integer {
			room = max(room, 1)
		}
		s.lo, s.hi = s.lo-room, s.hi+room
		return
	}
	if round {
		step := a.step(s.lo, s.hi, most)
		s.lo, s.hi = math.Floor(s.lo/step+1e-6)*step, math.Ceil(s.hi/step-1e-6)*step
	}
}

// step returns the distance between ticks that gives at most the given number of them: 1, 2 or 5
// times a power of ten.
func (a *Axis) step(lo, hi float64, most int) float64 {
	least := (hi - lo) / float64(max(most-1, 1))
	power := math.Pow(10, math.Floor(math.Log10(least)))
	step := 10 * power
	for _, f := range []float64{1, 2, 5} {
		if f*power >= least*(1-1e-9) {
			step = f * power
			break
		}
	}
	if a.Integer {
		return max(step, 1)
	}
	return step
}

func linearTicks(lo, hi, step float64) (ticks []float64) {
	for i := math.Ceil(lo/step - 1e-6); i <= hi/step+1e-6; i++ {
		ticks = append(ticks, i*step+0) // not −0
	}
	return ticks
}

// logTicks returns at most the given number of ticks: powers of ten, with multiples where there is
// room. If there is no room for every power, it returns every nth power, for the smallest n that
// fits. If hi is less than ten times lo, the ticks may be linear.
func logTicks(lo, hi float64, most int) []float64 {
	collect := func(factors []float64, every int) (ticks []float64) {
		for e := int(math.Floor(math.Log10(lo))); e <= int(math.Ceil(math.Log10(hi))); e++ {
			if e%every != 0 {
				continue
			}
			for _, f := range factors {
				if v := f * math.Pow10(e); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
					ticks = append(ticks, v)
				}
			}
		}
		return ticks
	}
	for _, factors := range [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 5}, {1, 3}, {1}} {
		if ticks := collect(factors, 1); len(ticks) >= 2 && len(ticks) <= most {
			if len(factors) == 9 && hi/lo < 2.5 {
				break
			}
			return ticks
		}
	}
	if hi/lo < 10 { // the scale is nearly linear
		return linearTicks(lo, hi, new(Axis).step(lo, hi, most))
	}
	for every := 2; ; every++ {
		if ticks := collect([]float64{1}, every); len(ticks) <= max(most, 1) {
			return ticks
		}
	}
}

// thinned returns the axis's own ticks within a range. It leaves out some of them if there are too
// many.
func (a *Axis) thinned(lo, hi float64, most int) []float64 {
	var inside []float64
	for _, v := range a.Ticks {
		if a.shown(v) && v >= lo-1e-9*math.Abs(lo) && v <= hi+1e-9*math.Abs(hi) {
			inside = append(inside, v)
		}
	}
	every := (len(inside) + max(most, 1) - 1) / max(most, 1)
	var ticks []float64
	for i := 0; i < len(inside); i += max(every, 1) {
		ticks = append(ticks, inside[i])
	}
	return ticks
}

// labels returns the texts of the ticks. Without the axis's own format, the ticks of a linear scale
// have the same number of decimals.
func (a *Axis) labels(s *scale) []string {
	texts := make([]string, len(s.ticks))
	decimals := 0
	for _, v := range s.ticks {
		short := strconv.FormatFloat(v, 'g', 10, 64)
		if at := strings.IndexByte(short, '.'); at >= 0 && !strings.Contains(short, "e") {
			decimals = max(decimals, len(short)-at-1)
		}
	}
	for i, v := range s.ticks {
		switch large := math.Abs(v) >= 1e6 || v != 0 && math.Abs(v) < 1e-4; {
		case a.Format != nil:
			texts[i] = a.Format(v)
		case s.log || large:
			texts[i] = number(v, 4)
		default:
			texts[i] = minus(grouped(strconv.FormatFloat(v, 'f', min(decimals, 6), 64)))
		}
	}
	return texts
}

// number formats a number with the given number of significant digits, but keeps all digits before
// the point if there are at most six.
func number(v float64, digits int) string {
	size := math.Abs(v)
	for _, p := range []struct {
		suffix string
		scale  float64
	}{{"G", 1e9}, {"M", 1e6}} {
		if size >= p.scale && size < 1e12 {
			return minus(strconv.FormatFloat(roundTo(v/p.scale, digits), 'f', -1, 64) + p.suffix)
		}
	}
	switch {
	case size != 0 && (size >= 1e12 || size < 1e-4):
		return minus(strconv.FormatFloat(roundTo(v, digits), 'g', -1, 64))
	case size >= 1e3:
		return minus(grouped(strconv.FormatFloat(v, 'f', 0, 64)))
	}
	return minus(strconv.FormatFloat(roundTo(v, digits), 'f', -1, 64))
}

// roundTo rounds to significant decimal digits.
func roundTo(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// grouped puts commas between groups of three digits before the point.
func grouped(s string) string {
	whole, rest, point := strings.Cut(s, ".")
	sign := strings.HasPrefix(whole, "-")
	whole = strings.TrimPrefix(whole, "-")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if sign {
		whole = "-" + whole
	}
	if point {
		whole += "." + rest
	}
	return whole
}

// minus replaces hyphens with minus signs.
func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }
