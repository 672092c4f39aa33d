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

// check compares a rival's counts with mquine's. They may differ where float32 cannot tell: for every
// truth that differs, the counts must lie between that of the candidates that are better for certain
// and that of those that may be, given the rounding of float32 sums in any order. It returns how many
// truths differ.
func (j *job) check(ctx context.Context, counts []count) (differ int, err error) {
	queryOf := make([]int32, len(j.truths)) // by place
	truthOf := make([]int32, len(j.truths))
	for q, query := range j.queries {
		for t := query.first; t < query.last; t++ {
			queryOf[j.truths[t].place], truthOf[j.truths[t].place] = int32(q), int32(t)
		}
	}
	var suspects []count
	for _, c := range counts {
		if int(c.place) < 0 || int(c.place) >= len(j.exact) {
			return 0, fmt.Errorf("it ranked query %d of %d", c.place, len(j.exact))
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
		if wrong := checkers[w].check(j.queries[queryOf[c.place]], j.truths[truthOf[c.place]], c); wrong != nil {
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

// checker is one goroutine's scratch memory.
type checker struct {
	*job
	worker model.Worker
	psi    []float32
	ids    []int32
	scores []float64
}

func newChecker(j *job) *checker {
	c := &checker{job: j, worker: j.model.NewWorker(j.backend), psi: kernel.AlignedFloat32(j.stride), ids: make([]int32, j.n), scores: make([]float64, j.n)}
	for i := range c.ids {
		c.ids[i] = int32(i)
	}
	return c
}

func (c *checker) check(q query, t truth, got count) error {
	slack := queryOf(c.worker, q.Query, c.psi[:c.tower.Psi])
	// Scores with float64 sums, from features rounded to float32 once.
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
		if got.better[f] > possible[f] || got.better[f]+got.equal[f] < certain[f] || got.better[f] < 0 || got.equal[f] < 0 {
			r := &c.exact[got.place]
			return fmt.Errorf("query %+v, answer %d, filter %v: it has %d better and %d equal candidates; exactly %d and %d are, and float32 may find %d to %d",
				q.Query, t.answer, f, got.better[f], got.equal[f], r.Better[f], r.Equal[f], certain[f], possible[f])
		}
	}
	return nil
}

// size is the norm in which the rounding errors of a comparison are bounded: the L2 norm for a
// product, else the sum of the groups' norms.
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

// band bounds the rounding errors of a float32 score, in any order of its sum.
func (c *checker) band(query, candidate float64, slack model.Slack, e int32) float64 {
	// A chain of Width products or differences, and some operations for each entry of ψ and φ:
	// rotations with float32 sines of float32 phases need the most.
	terms := kernel.Gamma(c.tower.Phi+32, kernel.U32)
	if c.tower.Compare != kernel.Dot {
		return terms * (query + candidate)
	}
	// ψ and φ made in float32: what mquine's slack is for float64, with the larger unit of rounding.
	worse := kernel.U32 / kernel.U64 * (1 + 1e-3)
	return terms*query*candidate + worse*slack.At(c.sizes[e])
}
