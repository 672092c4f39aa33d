package engine

import (
	"cmp"
	"math"
	"slices"
)

// Contender is a candidate that may be among a query's best, with an interval for its reference
// score minus the query's constant.
type Contender struct {
	Entity    int32
	Stage     Stage
	Low, High float64
	Score     float64 // the reference score, if that is its stage
}

// Stage is the arithmetic that gave a contender its interval.
type Stage uint8

const (
	// Screened is float32.
	Screened Stage = iota
	// Rescored is float64 from the features.
	Rescored
	// Referenced means that the reference score is known.
	Referenced
)

// shortlist finds the k best of any number of candidates in memory for 2k: it keeps those that k
// others do not certainly surpass. threshold is what the k-th best is certain to reach.
type shortlist struct {
	k         int
	items     []Contender
	lows      []float64 // a heap of the k largest lower ends so far, the least first
	threshold float64
}

// spare is how many contenders a list holds beyond k before it has to shrink.
func (l *shortlist) spare() int { return max(l.k, 64) }

func (l *shortlist) full() bool { return len(l.items) >= l.k+l.spare() }

// roomy tells that a list has so much room again that shrinking it was worth the time.
func (l *shortlist) roomy() bool { return len(l.items) <= l.k+l.spare()/2 }

func (l *shortlist) reset(k int) {
	l.k, l.items, l.lows, l.threshold = k, l.items[:0], l.lows[:0], math.Inf(-1)
}

// add takes a candidate in, unless it is certainly not among the k best.
func (l *shortlist) add(c Contender) {
	if c.High < l.threshold {
		return
	}
	l.items = append(l.items, c)
	l.count(c.Low)
}

// count takes a lower end into account for the threshold.
func (l *shortlist) count(low float64) {
	h := l.lows
	switch {
	case len(h) < l.k:
		h = append(h, low)
		for i := len(h) - 1; i > 0 && h[i] < h[(i-1)/2]; i = (i - 1) / 2 {
			h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		}
		l.lows = h
	case low > h[0]:
		h[0] = low
		for i := 0; ; {
			child := 2*i + 1
			if child+1 < len(h) && h[child+1] < h[child] {
				child++
			}
			if child >= len(h) || h[i] <= h[child] {
				break
			}
			h[i], h[child] = h[child], h[i]
			i = child
		}
	}
	if len(h) == l.k {
		l.threshold = max(l.threshold, h[0])
	}
}

// prune counts the lower ends anew, which may have risen, and drops the contenders below the
// threshold.
func (l *shortlist) prune() {
	l.lows = l.lows[:0]
	for _, c := range l.items {
		l.count(c.Low)
	}
	l.items = slices.DeleteFunc(l.items, func(c Contender) bool { return c.High < l.threshold })
}

// truncate sorts contenders with known scores, the best first, and keeps k.
func (l *shortlist) truncate() {
	slices.SortFunc(l.items, func(a, b Contender) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Entity, b.Entity))
	})
	l.items = l.items[:min(len(l.items), l.k)]
}
