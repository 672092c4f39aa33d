package rank

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Prediction is a candidate as an answer of a query.
type Prediction struct {
	Entity int32
	// Score is the reference score; higher is more plausible.
	Score float64
	// Known tells that some split has the triple.
	Known bool
}

// Predict returns, for each query, the k candidates with the highest reference scores, highest
// first and equal scores by identifier; fewer where there are fewer. With filterKnown the answers
// that x knows are left out. Lists are exact: they do not depend on backend or threads.
func Predict(ctx context.Context, m model.Model, x *kg.Index, queries []kg.Query, k int, filterKnown bool, o Options) ([][]Prediction, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fmt.Errorf("rank: cannot predict %d candidates: ask for at least 1", k)
	}
	c := m.Config()
	for _, q := range queries {
		if q.Anchor < 0 || int(q.Anchor) >= c.Entities || q.Relation < 0 || int(q.Relation) >= c.Relations {
			return nil, fmt.Errorf("rank: query %v is outside the model's %d entities and %d relations", q, c.Entities, c.Relations)
		}
	}
	distinct := slices.Clone(queries)
	slices.SortFunc(distinct, compareQueries)
	distinct = slices.Compact(distinct)
	plan := &plan{queries: make([]query, len(distinct))}
	for i, q := range distinct {
		plan.queries[i].Query = q
	}
	plan.passes = newPasses(m, plan.queries)
	reps, err := representatives(ctx, m, o.Threads)
	if err != nil {
		return nil, err
	}
	p := &predictor{run: newRun(m, x, o, plan), k: k, filterKnown: filterKnown,
		lists: make([][]possible, len(distinct)), best: make([][]Prediction, len(distinct)), scratch: make([]predictScratch, o.Threads)}
	p.reps = reps
	if o.Progress != nil {
		defer p.report(o.Progress)()
	}
	if err := p.eachSlice(ctx, o, new(Stats), p.collect); err != nil {
		return nil, err
	}
	out := make([][]Prediction, len(queries))
	for i, q := range queries {
		at, _ := slices.BinarySearchFunc(distinct, q, compareQueries)
		out[i] = p.best[at]
	}
	return out, nil
}

// predictor finds, for every distinct query, the best k candidates.
type predictor struct {
	*run
	k           int
	filterKnown bool
	lists       [][]possible   // of the slices so far
	best        [][]Prediction // when the last slice is done
	scratch     []predictScratch
}

// predictScratch is one goroutine's memory.
type predictScratch struct {
	scores []float32 // [MR][candidates of the slice], by position
	list   []possible
}

// possible is a candidate with an interval for its reference score minus the query's constant.
type possible struct {
	entity    int32
	low, high float64
}

// collect adds the candidates of f to the lists of a pass's queries; with the last slice, it decides
// them.
func (p *predictor) collect(ctx context.Context, c *crew, ps pass, f *features) error {
	mr, nr := p.backend.MR(ps.tower.Compare), p.backend.NR
	line := f.panelCount() * nr
	last := f.first+f.n == p.model.Config().Entities
	return kernel.Parallel(ctx, len(c.sweepers), (ps.last-ps.first+mr-1)/mr, func(w, i int) {
		s, scratch := c.member(w), &p.scratch[w]
		at := ps.first + i*mr
		if !s.prepare(ctx, item{first: at, last: min(at+mr, ps.last)}) {
			return
		}
		if len(scratch.scores) < mr*line {
			scratch.scores = make([]float32, mr*line)
		}
		for panel := range f.panelCount() {
			if ctx.Err() != nil {
				return
			}
			packed, valid := f.panel(panel)
			s.backend.Panel(f.tower.Compare, s.tile, s.strips, packed, f.tower.Width, s.rows[:mr+1], nil, nil, valid, nil)
			for row := range s.queries {
				copy(scratch.scores[row*line+panel*nr:][:nr], s.tile.Scores[row*nr:])
			}
		}
		for row := range s.queries {
			scratch.list = append(scratch.list[:0], p.lists[at+row]...)
			scratch.list = p.extend(s, row, scratch.list, scratch.scores[row*line:][:f.n])
			if last {
				p.lists[at+row] = nil
				p.best[at+row] = p.decide(ctx, s, row, scratch.list)
			} else {
				p.lists[at+row] = slices.Clone(scratch.list)
			}
		}
		s.done.Add(int64(len(s.queries)) * int64(f.n))
	})
}

// extend adds the candidates of s.f that may be among the best k, given their float32 scores by
// position, and drops those that no longer may.
func (p *predictor) extend(s *sweeper, row int, list []possible, scores []float32) []possible {
	f := s.f
	known := s.index.Answers(s.queries[row].Query)
	before := len(list)
	perBlock := blockPanels * f.nr
	for at, score := range scores {
		e := f.order[at] + int32(f.first)
		if p.filterKnown && s.filtersOfAnswer(known, e) != 0 {
			continue
		}
		low, high := s.tileInterval(row, at/perBlock, score)
		list = append(list, possible{e, low, high})
	}
	// What survives the tile's band gets the narrower one of the float64 dot product.
	fresh := prune(list[before:], p.k)
	for i, c := range fresh {
		local := c.entity - int32(f.first)
		fresh[i].low, fresh[i].high = s.interval(row, s.pairScore(row, f.rows, local), f.norms[local], f.sizes[local])
	}
	return prune(list[:before+len(fresh)], p.k)
}

// prune drops the candidates that k others certainly surpass.
func prune(list []possible, k int) []possible {
	if len(list) <= k {
		return list
	}
	// A heap of the k largest lower ends, smallest first.
	heap := make([]float64, 0, k)
	for _, c := range list {
		if len(heap) < k {
			heap = append(heap, c.low)
			for i := len(heap) - 1; i > 0 && heap[i] < heap[(i-1)/2]; i = (i - 1) / 2 {
				heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
			}
		} else if c.low > heap[0] {
			heap[0] = c.low
			for i := 0; ; {
				child := 2*i + 1
				if child+1 < k && heap[child+1] < heap[child] {
					child++
				}
				if child >= k || heap[i] <= heap[child] {
					break
				}
				heap[i], heap[child] = heap[child], heap[i]
				i = child
			}
		}
	}
	kept := list[:0]
	for _, c := range list {
		if c.high >= heap[0] {
			kept = append(kept, c)
		}
	}
	return kept
}

// decide orders the candidates of a row's query by reference score and returns the best k.
func (p *predictor) decide(ctx context.Context, s *sweeper, row int, list []possible) []Prediction {
	q := s.queries[row].Query
	known := p.index.Answers(q)
	slices.SortFunc(list, func(a, b possible) int {
		return cmp.Or(cmp.Compare(s.rep(a.entity), s.rep(b.entity)), cmp.Compare(a.entity, b.entity))
	})
	var found []Prediction
	same := 0 // candidates with the parameters of the last one
	for i, c := range list {
		if i%16 == 0 && ctx.Err() != nil {
			return nil
		}
		score := 0.0
		if i > 0 && s.rep(c.entity) == s.rep(list[i-1].entity) {
			if same++; same > p.k {
				continue // k others are as good and have lower identifiers
			}
			score = found[len(found)-1].Score
		} else {
			same = 1
			score = s.worker.Reference(q, s.rep(c.entity))
		}
		_, isKnown := slices.BinarySearch(known.Entities, c.entity)
		found = append(found, Prediction{c.entity, score, isKnown})
	}
	slices.SortFunc(found, func(a, b Prediction) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Entity, b.Entity))
	})
	return slices.Clone(found[:min(len(found), p.k)])
}
