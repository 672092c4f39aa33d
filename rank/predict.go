package rank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/mquine/mquine/internal/fault"
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
// that x knows are left out. Lists are exact: they do not depend on backend or threads. As with Run, they
// are a checkpoint's only if its Verify returns no error afterwards.
func Predict(ctx context.Context, m model.Model, x *kg.Index, queries []kg.Query, k int, filterKnown bool,
	o Options) (_ [][]Prediction, err error) {
	defer fault.Guard().Catch(&err)
	if err := checkTowers(m); err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
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
	order := queryOrder(m)
	slices.SortFunc(distinct, order)
	distinct = slices.Compact(distinct)
	plan := &plan{queries: make([]query, len(distinct))}
	for i, q := range distinct {
		plan.queries[i].Query = q
	}
	o.Screen = Float32Screen
	o, err = fitPredict(m, x, plan.queries, min(k, c.Entities), filterKnown, o)
	if err != nil {
		return nil, err
	}
	if len(o.Devices) > 0 {
		plan.addThresholds()
	}
	plan.passes = newPasses(m, plan.queries)
	reps, err := representatives(ctx, m, o.Threads)
	if err != nil {
		return nil, err
	}
	p := &predictor{run: newRun(m, x, o, plan), k: min(k, c.Entities), filterKnown: filterKnown,
		kept: make([]shortlist, len(distinct)), best: make([][]Prediction, len(distinct)), scratch: make([]predictScratch, o.Threads)}
	p.reps = reps
	if o.Progress != nil {
		defer p.report(o.Progress)()
	}
	if len(o.Devices) > 0 {
		d, err := newDeviceRun(p.run, o)
		if err != nil {
			return nil, err
		}
		defer d.close()
		if err := (&devicePredictor{d, p}).predict(ctx, o); err != nil {
			return nil, err
		}
	} else if err := p.eachSlice(ctx, o, new(Stats), p.sweep); err != nil {
		return nil, err
	}
	out := make([][]Prediction, len(queries))
	for i, q := range queries {
		at, _ := slices.BinarySearchFunc(distinct, q, order)
		out[i] = p.best[at]
	}
	return out, nil
}

// predictor finds, for every distinct query, the best k candidates.
type predictor struct {
	*run
	k           int
	filterKnown bool
	kept        []shortlist    // between slices
	best        [][]Prediction // when the last slice is done
	scratch     []predictScratch
}

// predictScratch is one goroutine's memory.
type predictScratch struct {
	lists  []shortlist // by row
	ids    []int32
	scores []float64
}

// maxShortlisted bounds the contenders of a block of queries, where k is large.
const maxShortlisted = 1 << 20

// sweep lets the candidates of f compete for the lists of a pass's queries; with the last slice, it
// decides them.
func (p *predictor) sweep(ctx context.Context, c *crew, ps pass, f *features) error {
	queries := ps.last - ps.first
	block := predictBlock(p.backend, ps.tower, p.k, queries, len(c.sweepers))
	return kernel.Parallel(ctx, len(c.sweepers), (queries+block-1)/block, func(w, i int) {
		s, scratch := c.member(w), &p.scratch[w]
		at := ps.first + i*block
		if s.prepare(ctx, item{first: at, last: min(at+block, ps.last)}) {
			s.f.screen.packStrips(s)
			p.sweepBlock(ctx, s, scratch, at)
		}
	})
}

// predictBlock is the number of queries in a block: fewer where there are few in all, so that every thread has work.
func predictBlock(b *kernel.Backend, t model.Tower, k, queries, threads int) int {
	panels := b.Panels(t.Compare)
	mr := panels.MR
	block := min(panels.QueryBlock(t.Phi), maxShortlisted/k, (queries+threads-1)/threads)
	return max((block+mr-1)/mr*mr, mr)
}

// sweepBlock lets the candidates of s.f compete for the lists of the prepared queries, of which at
// is the first. To the kernel, the threshold of a list is a truth that no candidate surpasses for
// certain: it counts none as better, and leaves those undecided that may reach the threshold.
func (p *predictor) sweepBlock(ctx context.Context, s *sweeper, scratch *predictScratch, at int) {
	f := s.f
	for i := range s.rows {
		s.rows[i] = int32(min(i, len(s.queries)))
	}
	lists := p.open(s, scratch, at)
	call, panels := s.call(), f.screen.panels()
	for panel := range f.panelCount() {
		if ctx.Err() != nil {
			return
		}
		block := panel / blockPanels
		if panel%blockPanels == 0 {
			s.setThresholds(block)
			for row := range lists {
				s.thresholds[2*row+1] = float32(math.Inf(1))
			}
		}
		f.aim(&call, panel)
		s.phases.enter(kernelPhase)
		panels.Score(s.panel, &call)
		s.phases.enter(decidePhase)
		for pairs := s.panel.Undecided[:2*s.panel.Pairs]; len(pairs) > 0; pairs = pairs[2:] {
			row := int(pairs[0])
			if !p.enter(ctx, s, scratch, row, panel, pairs[1]) {
				return
			}
			if threshold := lists[row].threshold; threshold > s.low[row] {
				s.low[row], s.high[row] = threshold, threshold
				s.setRowThresholds(row, block)
				s.thresholds[2*row+1] = float32(math.Inf(1))
			}
		}
		s.done.Add(int64(len(s.queries)) * int64(bits.OnesCount64(call.ValidLanes)))
	}
	p.close(ctx, s, scratch, at)
}

// open returns the lists of the prepared queries, of which at is the first, and makes their
// thresholds the intervals of the rows.
func (p *predictor) open(s *sweeper, scratch *predictScratch, at int) []shortlist {
	for len(scratch.lists) < len(s.queries) {
		scratch.lists = append(scratch.lists, shortlist{})
	}
	lists := scratch.lists[:len(s.queries)]
	for row := range lists {
		l := &lists[row]
		l.reset(p.k)
		if s.f.first > 0 {
			kept := &p.kept[at+row]
			l.items, l.threshold = append(l.items, kept.items...), kept.threshold
			l.prune()
		}
		s.low[row], s.high[row] = l.threshold, l.threshold
	}
	return lists
}

// close keeps the lists for the next slice, or decides them after the last; false if ctx ended.
func (p *predictor) close(ctx context.Context, s *sweeper, scratch *predictScratch, at int) bool {
	last := s.f.first+s.f.n == p.model.Config().Entities
	for row := range s.queries {
		l := &scratch.lists[row]
		l.prune()
		p.rescore(s, scratch, row, l)
		l.prune()
		if !last {
			p.kept[at+row] = shortlist{items: slices.Clone(l.items), threshold: l.threshold}
			continue
		}
		if !p.decide(ctx, s, row, l) {
			return false
		}
		p.kept[at+row] = shortlist{}
		p.best[at+row] = p.predictions(s.queries[row].Query, l.items)
	}
	return true
}

// enter adds the candidates in the given lanes of a panel to the list of a row; false if ctx ended.
func (p *predictor) enter(ctx context.Context, s *sweeper, scratch *predictScratch, row, panel int, lanes uint64) bool {
	f := s.f
	for ; lanes != 0; lanes &= lanes - 1 {
		lane := bits.TrailingZeros64(lanes)
		e := f.order[panel*f.nr+lane] + int32(f.first)
		low, high := s.panelInterval(row, panel/blockPanels, s.panel.Scores[row*f.nr+lane])
		if !p.add(ctx, s, scratch, row, contender{entity: e, low: low, high: high}) {
			return false
		}
	}
	return true
}

// add adds a candidate to the list of a row, unless it is known and such are left out; false if ctx
// ended.
func (p *predictor) add(ctx context.Context, s *sweeper, scratch *predictScratch, row int, c contender) bool {
	if p.filterKnown && s.filtersOfAnswer(s.index.Answers(s.queries[row].Query), c.entity) != 0 {
		return true
	}
	l := &scratch.lists[row]
	l.add(c)
	return !l.full() || p.shrink(ctx, s, scratch, row, l)
}

// shrink makes room in a list, by stages: in the end the reference chooses k. False if ctx ended.
func (p *predictor) shrink(ctx context.Context, s *sweeper, scratch *predictScratch, row int, l *shortlist) bool {
	if l.prune(); l.roomy() {
		return true
	}
	p.rescore(s, scratch, row, l)
	if l.prune(); l.roomy() {
		return true
	}
	ok := p.decide(ctx, s, row, l)
	l.prune()
	return ok
}

// rescore gives screened contenders the narrower interval of their float64 score. They must be
// candidates of s.f.
func (p *predictor) rescore(s *sweeper, scratch *predictScratch, row int, l *shortlist) {
	f := s.f
	s.shareResults(l.items)
	scratch.ids = scratch.ids[:0]
	for _, c := range l.items {
		if c.stage == screened {
			scratch.ids = append(scratch.ids, c.entity-int32(f.first))
		}
	}
	if len(scratch.ids) == 0 {
		return
	}
	scratch.scores = slices.Grow(scratch.scores[:0], len(scratch.ids))[:len(scratch.ids)]
	s.backend.Pair(f.tower.Compare, scratch.scores, s.row(row), f.rows, f.stride(), scratch.ids)
	n := 0
	for i := range l.items {
		c := &l.items[i]
		if c.stage == screened {
			local := scratch.ids[n]
			c.low, c.high = s.interval(row, scratch.scores[n], f.norms[local], f.sizes[local])
			c.stage = rescored
			n++
		}
	}
}

// decide orders the contenders of a list by their reference scores and keeps the best k; false if
// ctx ended.
func (p *predictor) decide(ctx context.Context, s *sweeper, row int, l *shortlist) bool {
	s.shareResults(l.items)
	q := s.queries[row].Query
	for i := range l.items {
		if i%16 == 0 && ctx.Err() != nil {
			return false
		}
		c := &l.items[i]
		if c.stage == reference {
			continue
		}
		if i > 0 && s.rep(l.items[i-1].entity) == s.rep(c.entity) {
			c.score = l.items[i-1].score
		} else {
			c.score = s.worker.Reference(q, s.rep(c.entity))
		}
		c.stage = reference
	}
	l.truncate()
	return true
}

// shareResults puts candidates with the same parameters side by side, and gives all of them what is
// known of one.
func (s *sweeper) shareResults(items []contender) {
	if s.reps == nil {
		return
	}
	slices.SortFunc(items, func(a, b contender) int {
		return cmp.Or(cmp.Compare(s.rep(a.entity), s.rep(b.entity)), cmp.Compare(b.stage, a.stage))
	})
	for i := 1; i < len(items); i++ {
		if c, known := &items[i], items[i-1]; s.rep(c.entity) == s.rep(known.entity) {
			known.entity = c.entity
			*c = known
		}
	}
}

// predictions returns a decided list.
func (p *predictor) predictions(q kg.Query, items []contender) []Prediction {
	known := p.index.Answers(q)
	list := make([]Prediction, 0, len(items))
	for _, c := range items {
		_, isKnown := slices.BinarySearch(known.Entities, c.entity)
		list = append(list, Prediction{c.entity, c.score, isKnown})
	}
	return list
}
