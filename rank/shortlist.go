package rank

import (
	"cmp"
	"math"
	"slices"
)

// contender is a candidate that may be among a query's best, with an interval for its reference
// score minus the query's constant.
type contender struct {
	entity    int32
	stage     stage
	low, high float64
	score     float64 // the reference score, if that is its stage
}

// stage is the arithmetic that a contender's interval is of.
type stage uint8

const (
	screened  stage = iota // float32
	rescored               // float64 from the features
	reference              // score is known as well
)

// shortlist finds the k best of any number of candidates in memory for 2k: it keeps those that k
// others do not certainly surpass. threshold is what the k-th best is certain to reach.
type shortlist struct {
	k         int
	items     []contender
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
func (l *shortlist) add(c contender) {
	if c.high < l.threshold {
		return
	}
	l.items = append(l.items, c)
	l.count(c.low)
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
		l.count(c.low)
	}
	l.items = slices.DeleteFunc(l.items, func(c contender) bool { return c.high < l.threshold })
}

// truncate sorts contenders with known scores, the best first, and keeps k.
func (l *shortlist) truncate() {
	slices.SortFunc(l.items, func(a, b contender) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.entity, b.entity))
	})
	l.items = l.items[:min(len(l.items), l.k)]
}
