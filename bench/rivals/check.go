package main

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// check compares a rival's counts with mquine's exact ones and returns the number of targets whose
// counts differ. The rounding of float32 sums, in any order, must explain each difference: the
// counts must lie between the number of candidates that are certainly better and the number that
// may be better.
func (j *job) check(ctx context.Context, counts []count) (differ int, err error) {
	queryOf := make([]int32, len(j.targets)) // indexed by place
	targetOf := make([]int32, len(j.targets))
	for q, query := range j.queries {
		for t := query.first; t < query.last; t++ {
			queryOf[j.targets[t].place], targetOf[j.targets[t].place] = int32(q), int32(t)
		}
	}
	var suspects []count
	for _, c := range counts {
		if int(c.place) < 0 || int(c.place) >= len(j.exact) {
			return 0, fmt.Errorf("it ranked a query with index %d, but there are %d queries", c.place, len(j.exact))
		}
		if r := &j.exact[c.place]; c.better != r.Better || c.equal != r.Equal {
			suspects = append(suspects, c)
		}
	}
	checkers := make([]*checker, j.threads)
	var mu sync.Mutex
	running := kernel.Parallel(ctx, j.threads, len(suspects), func(w, i int) {
		if checkers[w] == nil {
			checkers[w] = newChecker(j)
		}
		c := suspects[i]
		if wrong := checkers[w].check(j.queries[queryOf[c.place]], j.targets[targetOf[c.place]], c); wrong != nil {
			mu.Lock()
			err = wrong
			mu.Unlock()
		}
	})
	if running != nil {
		return 0, running
	}
	return len(suspects), err
}

// checker checks the counts of one target after another; it holds the scratch memory of a
// goroutine.
type checker struct {
	*job
	worker model.Worker
	psi    []float32
	ids    []int32
	scores []float64
}

func newChecker(j *job) *checker {
	c := &checker{
		job:    j,
		worker: j.model.NewWorker(j.backend),
		psi:    kernel.AlignedFloat32(j.stride),
		ids:    make([]int32, j.n),
		scores: make([]float64, j.n),
	}
	for i := range c.ids {
		c.ids[i] = int32(i)
	}
	return c
}

func (c *checker) check(q query, t target, got count) error {
	slack := queryOf(c.worker, q.Query, c.psi[:c.tower.Psi])
	// Scores are float64 sums over ψ and φ, whose entries are rounded to float32.
	c.backend.Pair(c.tower.Compare, c.scores, c.psi, c.phi, c.stride, c.ids)
	size := c.size(c.psi)
	band := func(e int32) float64 {
		phi := c.phi[int(e)*c.stride:][:c.stride]
		return c.band(size, c.size(phi), slack, e)
	}
	want, margin := c.scores[t.answer], band(t.answer)
	var certain, possible [rank.NumFilters]int32
	for e := range int32(c.n) {
		if e == t.answer {
			continue
		}
		b := band(e) + margin
		for f := range rank.NumFilters {
			certain[f] += bit(c.scores[e] > want+b)
			possible[f] += bit(c.scores[e] >= want-b)
		}
	}
	known := c.index.Answers(q.Query)
	for k, e := range known.Entities {
		if e == t.answer {
			continue
		}
		b := band(e) + margin
		for f, removed := range removedBy(known.Splits[k]) {
			if removed {
				certain[f] -= bit(c.scores[e] > want+b)
				possible[f] -= bit(c.scores[e] >= want-b)
			}
		}
	}
	for f := range rank.NumFilters {
		better, equal := got.better[f], got.equal[f]
		if better > possible[f] || better+equal < certain[f] || better < 0 || equal < 0 {
			r := &c.exact[got.place]
			return fmt.Errorf("query %+v, answer %d, filter %v: it counts %d better and %d equal candidates; "+
				"the exact counts are %d and %d, and float32 may find %d to %d better",
				q.Query, t.answer, f, better, equal, r.Better[f], r.Equal[f], certain[f], possible[f])
		}
	}
	return nil
}

// size returns the norm that bounds the rounding errors of a comparison: the L2 norm for a dot
// product, otherwise the sum of the groups' norms.
func (c *checker) size(x []float32) float64 {
	var sum float64
	switch group := c.tower.Compare.Group(); {
	case c.tower.Compare == kernel.Dot:
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		return math.Sqrt(sum)
	case group == 1:
		for _, v := range x {
			sum += math.Abs(float64(v))
		}
	default:
		for i := 0; i < len(x); i += 2 {
			sum += math.Hypot(float64(x[i]), float64(x[i+1]))
		}
	}
	return sum
}

// band bounds the rounding error of a float32 score, for any order of summation.
func (c *checker) band(query, candidate float64, slack model.Slack, e int32) float64 {
	// The bound covers a sum of Phi products or differences, plus a few operations for each entry
	// of ψ and φ. Rotations, with float32 sines of float32 phases, need the most operations.
	terms := kernel.Gamma(c.tower.Phi+32, kernel.U32)
	if c.tower.Compare != kernel.Dot {
		return terms * (query + candidate)
	}
	// The rival computes ψ and φ in float32, so its slack is mquine's slack for float64 with the
	// larger unit roundoff.
	worse := kernel.U32 / kernel.U64 * (1 + 1e-3)
	return terms*query*candidate + worse*slack.At(c.sizes[e])
}
