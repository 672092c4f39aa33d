package engine

import (
	"math"

	"github.com/mquine/mquine/kernel"
)

// Tolerance is a distance between printed scores (model.Model.Score) up to which a candidate ties
// with a target. If s is the candidate's score and s* the target's, they tie if
//
//	|s − s*| ≤ Absolute + Relative·|s*|
//
// in float64, where each operation is rounded separately. Candidates with exactly the target's
// reference score tie with it in any case.
type Tolerance struct {
	Absolute float64 `json:"absolute"`
	Relative float64 `json:"relative"`
}

// tieRange is the range of reference scores that tie with a target.
type tieRange struct{ low, target, high float64 }

// around returns the reference scores that tie with the reference score of a target. score must be
// monotone. The ends of the range are exact, because both come from a binary search among all
// float64 numbers.
func (t Tolerance) around(target float64, score func(float64) float64) tieRange {
	middle := score(target)
	width := t.Absolute + float64(t.Relative*math.Abs(middle))
	ties := func(reference float64) bool { return math.Abs(score(reference)-middle) <= width }
	if !ties(target) { // the target's score is not finite
		return tieRange{target, target, target}
	}
	return tieRange{farthest(target, math.Inf(-1), ties), target, farthest(target, math.Inf(1), ties)}
}

// farthest returns the last number on the way from one number to another that satisfies ties. The
// first number must satisfy ties. Once a number fails, all later numbers must fail, too.
func farthest(from, to float64, ties func(float64) bool) float64 {
	in, out := place(from), place(to)
	if ties(to) {
		return to
	}
	for {
		middle := in/2 + out/2 + (in%2+out%2)/2 // in + out may overflow
		if middle == in || middle == out {
			return at(in)
		}
		if ties(at(middle)) {
			in = middle
		} else {
			out = middle
		}
	}
}

// Lowest returns the smallest number that satisfies a condition, or +Inf if there is none. If a
// number satisfies the condition, all larger numbers must satisfy it, too.
func Lowest(holds func(float64) bool) float64 {
	if !holds(math.Inf(1)) {
		return math.Inf(1)
	}
	return farthest(math.Inf(1), math.Inf(-1), holds)
}

// place returns the position of x among the float64 numbers in ascending order. The position of
// both zeros is 0.
func place(x float64) int64 {
	if x < 0 {
		return -int64(math.Float64bits(-x))
	}
	return int64(math.Float64bits(math.Abs(x)))
}

// at is the inverse of place.
func at(place int64) float64 {
	if place < 0 {
		return -math.Float64frombits(uint64(-place))
	}
	return math.Float64frombits(uint64(place))
}

// ties returns the reference scores that tie with target t.
func (b *Block) ties(t int32) tieRange {
	if b.tiesKnown[t] {
		return b.tieRanges[t]
	}
	target := &b.Targets[t]
	reference := b.Worker.Reference(b.Queries[b.Rows[t]].Query, target.Answer)
	r := tieRange{reference, reference, reference}
	if target.Tolerance > 0 {
		r = b.Job.Tolerances[target.Tolerance-1].around(reference, b.Job.Model.Score)
	}
	b.tieRanges[t], b.tiesKnown[t] = r, true
	return r
}

// Widen extends the intervals of targets with a tolerance to the scores that tie with them, and sets
// TieLow and TieHigh. Low and High must bound the targets' scores.
func (b *Block) Widen() {
	for t := range b.Targets {
		b.widen(int32(t))
	}
}

// widen is Widen for target t.
func (b *Block) widen(t int32) {
	if b.Targets[t].Tolerance == 0 {
		b.TieLow[t], b.TieHigh[t] = math.Inf(1), math.Inf(-1)
		return
	}
	r := b.ties(t)
	below, above := r.target-r.low, r.high-r.target
	low, high := b.Low[t], b.High[t]
	b.Low[t], b.High[t] = outward(low-below*Outward, -1), outward(high+above*Outward, 1)
	b.TieLow[t], b.TieHigh[t] = outward(high-below/Outward, 1), outward(low+above/Outward, -1)
}

// outward moves x, a rounded sum, in a direction by more than its rounding error. Infinite
// intervals can make x infinite, and then it stays, or NaN, which becomes the infinity in that
// direction.
func outward(x, direction float64) float64 {
	if math.IsNaN(x) {
		return math.Inf(int(direction))
	}
	if math.IsInf(x, 0) {
		return x // the sum of opposite infinities is NaN
	}
	return x + direction*2*kernel.U64*math.Abs(x)
}
