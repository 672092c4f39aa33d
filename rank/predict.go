package rank

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
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
// that x knows are left out. Lists are exact: they do not depend on engine, backend or threads. As with Run, they
// are a checkpoint's only if its Verify returns no error afterwards.
func Predict(ctx context.Context, m model.Model, x *kg.Index, queries []kg.Query, k int, filterKnown bool,
	o Options) ([][]Prediction, error) {
	lists, err := predict(ctx, m, x, queries, k, filterKnown, o)
	if o.givesWay(ctx, err) {
		o.Engine = nil
		return predict(ctx, m, x, queries, k, filterKnown, o)
	}
	return lists, err
}

func predict(ctx context.Context, m model.Model, x *kg.Index, queries []kg.Query, k int, filterKnown bool,
	o Options) (_ [][]Prediction, err error) {
	defer fault.Guard().Catch(&err)
	if err := checkTowers(m); err != nil {
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
	if o, err = o.Resolve(ctx, m); err != nil {
		return nil, err
	}
	distinct := slices.Clone(queries)
	order := queryOrder(m)
	slices.SortFunc(distinct, order)
	distinct = slices.Compact(distinct)
	o.Screen = Float32Screen
	k = min(k, o.Candidates.Last-o.Candidates.First)
	if o, err = fitPredict(m, x, distinct, k, filterKnown, o); err != nil {
		return nil, err
	}
	j := o.job(m, newPredictionPlan(m, distinct))
	if o.Progress != nil {
		defer report(j, o.Progress)()
	}
	p := &predictor{job: j, index: x, k: k, filterKnown: filterKnown,
		kept: make([]engine.Kept, len(distinct)), best: make([][]Prediction, len(distinct)), scratch: make([]predictScratch, o.Threads)}
	if err := p.predict(ctx, o); err != nil {
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
	job         *engine.Job
	index       *kg.Index
	k           int
	filterKnown bool
	kept        []engine.Kept  // between slices
	best        [][]Prediction // when the last slice is done
	scratch     []predictScratch
}

// predictScratch is one goroutine's memory.
type predictScratch struct {
	block *engine.Block
	lists engine.Lists
}

// predict makes all lists.
func (p *predictor) predict(ctx context.Context, o Options) (err error) {
	if p.job.Representatives, err = engine.FindRepresentatives(ctx, p.job.Model, p.job.Threads); err != nil {
		return err
	}
	e, err := o.start(p.job)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, e.Close()) }()
	return eachSlice(ctx, p.job, e, new(Stats), func(ctx context.Context, ps engine.Pass, c engine.Candidates) error {
		ends := p.job.SplitQueries(ps, predictBlock(c.QueryBlock(), c.Strip(), p.k, ps.Last-ps.First, p.job.Threads))
		return parallel(ctx, p.job.Threads, len(ends), func(ctx context.Context, w, i int) error {
			first := ps.First
			if i > 0 {
				first = ends[i-1]
			}
			if p.scratch[w].block == nil {
				p.scratch[w].block = engine.NewBlock(p.job, e)
				p.scratch[w].lists = engine.Lists{K: p.k, Index: p.index, FilterKnown: p.filterKnown}
			}
			p.scratch[w].block.Begin(first, ends[i])
			return p.listBlock(ctx, w, first, c)
		})
	})
}

// maxShortlisted bounds the contenders of a block of queries, where k is large.
const maxShortlisted = 1 << 20

// predictBlock is the number of queries in a block, of at most size and in whole strips: fewer where there are few in
// all, so that every thread has work, and where k is large.
func predictBlock(size, strip, k, queries, threads int) int {
	block := (min(size, (queries+threads-1)/threads) + strip - 1) / strip * strip
	return max(1, min(block, maxShortlisted/k))
}

// listBlock lets the candidates of a slice compete for the lists of a block of queries, of which at is the first; with
// the last slice, it decides them.
func (p *predictor) listBlock(ctx context.Context, w, at int, c engine.Candidates) error {
	b, lists, f := p.scratch[w].block, &p.scratch[w].lists, c.Features()
	kept := p.kept[at : at+len(b.Queries)]
	lists.Open(b, f, kept)
	if err := c.Contend(ctx, w, b, lists); err != nil {
		return err
	}
	if f.First+f.N < p.job.Last {
		lists.Keep(kept)
		return nil
	}
	for row := range b.Queries {
		best, err := lists.Best(ctx, row)
		if err != nil {
			return err
		}
		kept[row] = engine.Kept{}
		p.best[at+row] = p.predictions(b.Queries[row].Query, best)
	}
	return nil
}

// predictions returns a decided list.
func (p *predictor) predictions(q kg.Query, best []engine.Contender) []Prediction {
	known := p.index.Answers(q)
	list := make([]Prediction, 0, len(best))
	for _, c := range best {
		_, isKnown := slices.BinarySearch(known.Entities, c.Entity)
		list = append(list, Prediction{c.Entity, c.Score, isKnown})
	}
	return list
}
