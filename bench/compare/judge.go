// Package compare decides whether one revision is faster than another. Build compiles a revision's
// benchmarks, Interleave runs the benchmarks of two revisions alternately, and Compare judges the
// results. docs/benchmarks.md, "Compare", explains the method.
package compare

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Verdict is the outcome of a comparison. judge defines the values.
type Verdict string

const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Same         Verdict = "same"
	Inconclusive Verdict = "inconclusive"
)

// DefaultMinEffect is the smallest relative change in time that matters by default.
const DefaultMinEffect = 0.02

// point is one measurement of a benchmark: a time, or another value for which less is better. Values
// are finite and not negative. Points of one round were measured right after each other. Rounds are
// numbered from 1; 0 means no round.
type point struct {
	Value float64
	Round int
}

// Judgement is the result of comparing one benchmark of a base and a head.
type Judgement struct {
	// Base and Head are medians with 95% intervals.
	Base, Head benchmath.Summary
	// Ratio is head over base, and Control is the second measurement of the base over the first,
	// both with 95% intervals. Ratios may be 0 or +Inf (see judge). Control.Confidence is 0 without a
	// control.
	Ratio, Control benchmath.Summary
	// Rounds is the number of paired rounds, or 0 if the points have no rounds.
	Rounds  int
	Verdict Verdict
	// Why is the reason for an inconclusive verdict.
	Why string
}

// judge compares head with base. Let e = ln(1 + minEffect), let n be the noise that the control
// shows, |ln(control ratio)|, and let [lo, hi] be the 95% interval of the logarithm of the ratio.
// The head is
//
//	slower        if lo > max(e, n)
//	faster        if hi < −max(e, n)
//	same          if −e ≤ lo, hi ≤ e and n ≤ e
//	inconclusive  otherwise
//
// so "faster", "slower" and "same" hold for the whole interval.
//
// If the points have rounds, judge divides head by base within each round, so drift between rounds
// cancels; base is then the geometric mean of base and control. The ratio is the median over the
// rounds. Its interval comes from order statistics, without assumptions about the distribution.
// Without rounds, the ratio is the quotient of the medians, and its interval follows from the 97.5%
// intervals of both.
//
// A quotient is +Inf if only its denominator is 0, and 1 if both parts are 0.
func judge(base, head, control []point, minEffect float64) Judgement {
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
	case math.IsInf(j.Ratio.Lo, -1) || math.IsNaN(noise):
		j.Verdict, j.Why = Inconclusive, tooFew(j.Rounds > 0)
	case lo > threshold:
		j.Verdict = Slower
	case hi < -threshold:
		j.Verdict = Faster
	case -effect <= lo && hi <= effect && noise <= effect:
		j.Verdict = Same
	case noise > effect:
		j.Verdict, j.Why = Inconclusive, "the control differs by more than the minimum effect: use a quieter machine"
	case hi-lo > 2*effect:
		j.Verdict, j.Why = Inconclusive, "the interval is wide: use a quieter machine or more rounds"
	default:
		j.Verdict, j.Why = Inconclusive, "the interval contains the minimum effect: use more rounds"
	}
	return j
}

const confidence = 0.95

// tooFew says why there is no interval, which makes the verdict inconclusive.
func tooFew(paired bool) string {
	if paired {
		return fmt.Sprintf("too few rounds for an interval: at least %d are needed", leastSample(confidence))
	}
	return fmt.Sprintf("too few measurements for an interval: both sides need at least %d",
		leastSample(confidenceOfEach))
}

// LeastRounds returns the smallest number of rounds that gives an interval.
func LeastRounds() int { return leastSample(confidence) }

// leastSample returns the size of the smallest sample whose extremes enclose the median of the
// distribution with the given probability. The probability that all n values lie on the same side
// of the median is 2·2⁻ⁿ.
func leastSample(confidence float64) int {
	n := 1
	for 1-math.Exp2(float64(1-n)) < confidence {
		n++
	}
	return n
}

// confidenceOfEach is the confidence that each of two intervals needs so that both hold with a
// probability of at least confidence.
const confidenceOfEach = 1 - (1-confidence)/2

// ratio returns other over base, and the number of paired rounds, or 0 if the points have no
// rounds. With rounds and a control, base is the geometric mean of base and control.
func ratio(base, control, other []point) (r benchmath.Summary, rounds int) {
	if of := pair(base, control, other); of != nil {
		r = summary(of, confidence)
		if math.IsNaN(r.Center) || math.IsInf(r.Center, 0) { // benchmath cannot interpolate infinite values
			slices.Sort(of)
			r.Center = (of[(len(of)-1)/2] + of[len(of)/2]) / 2
		}
		return r, len(of)
	}
	b, o := summary(values(base), confidenceOfEach), summary(values(other), confidenceOfEach)
	r = benchmath.Summary{
		Center: quotient(o.Center, b.Center), Lo: quotient(o.Lo, b.Hi), Hi: quotient(o.Hi, b.Lo),
		Confidence: confidence,
	}
	if math.IsInf(b.Lo, 0) || math.IsInf(o.Lo, 0) { // too few measurements
		r.Lo, r.Hi = math.Inf(-1), math.Inf(1)
	}
	return r, 0
}

// quotient returns a/b, or 1 if both are 0.
func quotient(a, b float64) float64 {
	if a == b {
		return 1
	}
	return a / b
}

// pair returns the ratio of the medians for each round that all series have, or nil if a point has
// no round.
func pair(base, control, other []point) []float64 {
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
			ratios = append(ratios, quotient(median(o[round]), math.Sqrt(median(values)*median(c[round]))))
		}
	}
	return ratios
}

// rounds returns the number of rounds that at least one series has.
func rounds(series ...[]point) int {
	all := map[int]bool{}
	for _, points := range series {
		for _, p := range points {
			all[p.Round] = true
		}
	}
	delete(all, 0) // no round
	return len(all)
}

// byRound groups points by round. ok is false if a point has no round.
func byRound(points []point) (rounds map[int][]float64, ok bool) {
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
	sample := benchmath.NewSample(slices.Clone(x), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, confidence)
}

func values(points []point) []float64 {
	x := make([]float64, len(points))
	for i, p := range points {
		x[i] = p.Value
	}
	return x
}
