// Package compare tells whether one revision is faster than another: the statistics, and the
// interleaved runs that make them mean something.
package compare

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Verdict is the outcome of a comparison.
type Verdict string

const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Same         Verdict = "same"
	Inconclusive Verdict = "inconclusive"
)

// DefaultMinEffect is the smallest change that matters unless the user says otherwise.
const DefaultMinEffect = 0.02

// Point is one measurement of a benchmark: a time, or whatever is better when it is less. Points of
// one round, numbered from 1, were measured one right after the other; 0 is no round.
type Point struct {
	Value float64
	Round int
}

// Judgement compares one benchmark of a base and a head.
type Judgement struct {
	// Base and Head are medians with their 95% intervals.
	Base, Head benchmath.Summary
	// Ratio is that of head to base, with a 95% interval, and Control that of the base, measured a
	// second time, to itself; Control.Center is 0 if there is none.
	Ratio, Control benchmath.Summary
	// Rounds is the number of rounds that were paired, 0 if there are none.
	Rounds  int
	Verdict Verdict
	// Why says in words what an inconclusive comparison lacks.
	Why string
}

// Judge compares head with base. With e = ln(1 + minEffect), n the noise that the control shows, the
// |ln| of its ratio, and [lo, hi] the 95% interval of the logarithm of the ratio, the head is
//
//	slower        if lo > max(e, n)
//	faster        if hi < −max(e, n)
//	same          if −e ≤ lo, hi ≤ e and n ≤ e
//	inconclusive  otherwise
//
// so that "faster", "slower" and "same" are all claims about the whole interval. If the points have
// rounds, the ratio is the median over the rounds of head to base within the round, where what
// changes from round to round cancels, base being the geometric mean of the base and the control; its
// interval is that of the median, without assumptions about the distribution (order statistics).
// Without rounds, the ratio is that of the medians, and its interval follows from theirs at 97.5%
// each.
func Judge(base, head, control []Point, minEffect float64) Judgement {
	j := Judgement{Base: summary(values(base), confidence), Head: summary(values(head), confidence)}
	var noise float64
	if len(control) > 0 {
		j.Control, _ = ratio(base, nil, control)
		noise = math.Abs(math.Log(j.Control.Center))
	}
	j.Ratio, j.Rounds = ratio(base, control, head)
	effect := math.Log1p(minEffect)
	threshold := max(effect, noise)
	lo, hi := math.Log(j.Ratio.Lo), math.Log(j.Ratio.Hi)
	switch {
	case !(j.Ratio.Lo > 0) || math.IsInf(hi, 0) || math.IsNaN(noise):
		j.Verdict, j.Why = Inconclusive, "too few measurements for an interval"
	case lo > threshold:
		j.Verdict = Slower
	case hi < -threshold:
		j.Verdict = Faster
	case -effect <= lo && hi <= effect && noise <= effect:
		j.Verdict = Same
	case noise > effect:
		j.Verdict, j.Why = Inconclusive, fmt.Sprintf("the base differs from itself by %.1f%%", 100*math.Expm1(noise))
	case hi-lo > 2*effect:
		j.Verdict, j.Why = Inconclusive, "the interval is wide: a calmer machine or more rounds may tell"
	default:
		j.Verdict, j.Why = Inconclusive, "the interval is across the minimum effect: more rounds may tell"
	}
	return j
}

const confidence = 0.95

// ratio returns how other compares with base, or with base and its control together.
func ratio(base, control, other []Point) (r benchmath.Summary, rounds int) {
	if of := pair(base, control, other); of != nil {
		return summary(of, confidence), len(of)
	}
	const each = 1 - (1-confidence)/2 // both hold with 95% at least
	b, o := summary(values(base), each), summary(values(other), each)
	r = benchmath.Summary{Center: o.Center / b.Center, Lo: o.Lo / b.Hi, Hi: o.Hi / b.Lo, Confidence: confidence}
	if !(b.Lo > 0) || math.IsInf(o.Hi, 0) {
		r.Lo, r.Hi = math.Inf(-1), math.Inf(1)
	}
	return r, 0
}

// pair returns the ratios of the rounds that all have, each round by its medians; nil if a point has
// no round.
func pair(base, control, other []Point) []float64 {
	b, ok := byRound(base)
	o, also := byRound(other)
	if !ok || !also {
		return nil
	}
	c, ok := byRound(control)
	if !ok || len(c) == 0 {
		c = b
	}
	var ratios []float64
	for round, values := range b {
		if o[round] != nil && c[round] != nil {
			ratios = append(ratios, median(o[round])/math.Sqrt(median(values)*median(c[round])))
		}
	}
	return ratios
}

// byRound groups points by round; not ok if one has none.
func byRound(points []Point) (rounds map[int][]float64, ok bool) {
	rounds = map[int][]float64{}
	for _, p := range points {
		if p.Round == 0 {
			return nil, false
		}
		rounds[p.Round] = append(rounds[p.Round], p.Value)
	}
	return rounds, true
}

func median(x []float64) float64 { return summary(x, 0).Center }

func summary(x []float64, confidence float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(x), &benchmath.DefaultThresholds), confidence)
}

func values(points []Point) []float64 {
	x := make([]float64, len(points))
	for i, p := range points {
		x[i] = p.Value
	}
	return x
}
