package engine

import (
	"cmp"
	"math"
	"slices"
)

// Contender is a candidate that may be among a query's best. Low and High bound its reference score
// minus the query's constant.
type Contender struct {
	Entity    int32
	Stage     Stage
	Low, High float64
	Score     float64 // the reference score, if the stage is Referenced
}

// Stage says how the interval of a contender was computed.
type Stage uint8

const (
	// Screened intervals come from the scores of the screen, or from its fine codes if it has them.
	Screened Stage = iota
	// Rescored intervals come from float64 scores of the features.
	Rescored
	// Referenced contenders have a reference score.
	Referenced
)

// shortlist finds the k best of any number of candidates with memory for k + max(k, 64). It keeps the
// candidates that fewer than k others certainly surpass. At least k candidates certainly reach
// threshold, unless Lists.Raise raised it.
type shortlist struct {
	k         int
	items     []Contender
	lows      []float64 // a heap of the k largest lower ends so far, smallest first
	threshold float64
}

// spare returns the number of contenders beyond k that a list may hold before it must shrink.
func (l *shortlist) spare() int { return max(l.k, 64) }

func (l *shortlist) full() bool { return len(l.items) >= l.k+l.spare() }

// roomy reports whether a list has so much free room that shrinking it further is not worth the
// time.
func (l *shortlist) roomy() bool { return len(l.items) <= l.k+l.spare()/2 }

func (l *shortlist) reset(k int) {
	l.k, l.items, l.lows, l.threshold = k, l.items[:0], l.lows[:0], math.Inf(-1)
}

// add adds a candidate, unless it is certainly not among the k best.
func (l *shortlist) add(c Contender) {
	if c.High < l.threshold {
		return
	}
	l.items = append(l.items, c)
	l.count(c.Low)
}

// count adds the lower end of a candidate's interval and updates the threshold.
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

// prune recomputes the threshold, since lower ends may have risen, and drops the contenders below
// it.
func (l *shortlist) prune() {
	l.lows = l.lows[:0]
	for _, c := range l.items {
		l.count(c.Low)
	}
	l.items = slices.DeleteFunc(l.items, func(c Contender) bool { return c.High < l.threshold })
}

// truncate sorts contenders that have reference scores, best first, and keeps k.
func (l *shortlist) truncate() {
	slices.SortFunc(l.items, func(a, b Contender) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Entity, b.Entity))
	})
	l.items = l.items[:min(len(l.items), l.k)]
}
