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

// Prediction is an answer that a model suggests for a query.
type Prediction struct {
	// Answer is an entity or, from PredictRelations, a relation.
	Answer int32
	// Score is the reference score; higher is more plausible. Model.Score converts it to the score that
	// Scores returns for the side of the query or, from PredictRelations, for tails.
	Score float64
	// Known reports whether a split contains the triple.
	Known bool
}

// Top says which answers to a query Predict and PredictRelations list.
type Top struct {
	// K is the length of the lists, at least 1. A list is shorter only if the query has fewer
	// candidates.
	K int
	// FilterKnown leaves out the answers that a split contains.
	FilterKnown bool
}

// Predict returns, for each query, the candidates with the highest reference scores. The best comes
// first; candidates with equal scores are in the order of their identifiers. The lists are exact, as
// Run's ranks are. Equal queries share a list, so do not modify the lists. x must suit m as for Run.
// Verify a mapped checkpoint as Run's comment describes.
func Predict(
	ctx context.Context, m model.Model, x *kg.Index, queries []kg.Query, top Top, o Options,
) ([][]Prediction, error) {
	lists, err := predict(ctx, m, x, queries, top, o)
	if o.givesWay(ctx, err) {
		o.Engine = nil
		return predict(ctx, m, x, queries, top, o)
	}
	return lists, err
}

func predict(
	ctx context.Context, m model.Model, x *kg.Index, queries []kg.Query, top Top, o Options,
) (_ [][]Prediction, err error) {
	defer fault.Guard().Catch(&err)
	if err := cmp.Or(checkTowers(m), checkIndex(m, x)); err != nil {
		return nil, err
	}
	if top.K < 1 {
		return nil, fmt.Errorf("rank: cannot predict %d candidates: ask for at least 1", top.K)
	}
	c := m.Config()
	for _, q := range queries {
		if q.Side != kg.Tail && q.Side != kg.Head {
			return nil, fmt.Errorf("rank: Predict answers queries for entities, not on the %v side: "+
				"call PredictRelations for relations", q.Side)
		}
		if q.Anchor < 0 || int(q.Anchor) >= c.Entities || q.Relation < 0 || int(q.Relation) >= c.Relations {
			return nil, fmt.Errorf("rank: query %v is outside the model's %d entities and %d relations",
				q, c.Entities, c.Relations)
		}
	}
	o.Negatives = nil
	if o, err = o.Resolve(ctx, m); err != nil {
		return nil, err
	}
	distinct := slices.Clone(queries)
	top.K = min(top.K, o.most(m))
	p := &predictor{model: m, index: x, top: top, sets: o.sets(m)}
	order := queryOrder(m, p.sets)
	slices.SortFunc(distinct, order)
	distinct = slices.Compact(distinct)
	best := make([][]Prediction, len(distinct))
	p.take = func(_ model.Worker, number int, q kg.Query, list []engine.Contender) {
		best[number] = predictions(x, q, list)
	}
	if o, err = fitPredict(m, x, distinct, top, o); err != nil {
		return nil, err
	}
	if _, err := p.run(ctx, distinct, o); err != nil {
		return nil, err
	}
	out := make([][]Prediction, len(queries))
	for i, q := range queries {
		number, _ := slices.BinarySearchFunc(distinct, q, order)
		out[i] = best[number]
	}
	return out, nil
}

// predictor finds the best candidates of every distinct query.
type predictor struct {
	model model.Model
	index *kg.Index
	top   Top // K is at most the number of candidates
	sets  *sets
	// floor, if not nil, returns a reference score below which a candidate of a query does not matter.
	floor func(model.Worker, kg.Query) float64
	// take receives the list of a query, given the query's number. The list may lack candidates below
	// the floor. take must copy it. Several goroutines call take and floor, each with its own worker.
	take func(w model.Worker, number int, q kg.Query, best []engine.Contender)

	kept  []engine.Kept  // between slices
	lists []engine.Lists // by goroutine
}

// run computes the lists of distinct queries, which must be in queryOrder. The options are
// resolved. run returns the number of pairs of a query and a candidate.
func (p *predictor) run(ctx context.Context, distinct []kg.Query, o Options) (pairs int64, err error) {
	j := o.job(p.model, newPredictionPlan(p.model, p.sets, distinct))
	if o.Progress != nil {
		defer report(j, o.Progress)()
	}
	p.kept, p.lists = make([]engine.Kept, len(distinct)), make([]engine.Lists, o.Threads)
	for w := range p.lists {
		p.lists[w] = engine.Lists{K: p.top.K, Index: p.index, FilterKnown: p.top.FilterKnown, Floor: p.floor}
	}
	s, err := o.begin(ctx, j)
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, s.engine.Close()) }()
	_, _, err = s.eachSlice(ctx, func(ctx context.Context, ps engine.Pass, c engine.Candidates) error {
		size := predictBlock(c.QueryBlock(), c.Strip(), p.top.K, ps.Last-ps.First, j.Threads)
		return s.eachBlock(ctx, j.Blocks(engine.Span{First: ps.First, Last: ps.Last}, size), 1,
			func(ctx context.Context, w int, queries engine.Span, b *engine.Block) error {
				return p.listBlock(ctx, w, queries.First, ps, b, c)
			})
	})
	return j.Pairs(), cmp.Or(err, j.CheckScores())
}

// maxShortlisted bounds the number of contenders in a block of queries if k is large.
const maxShortlisted = 1 << 20

// predictBlock returns the number of queries in a block: at most size, in whole strips unless k is
// large. It is smaller if there are few queries, to give every thread work, or if k is large.
func predictBlock(size, strip, k, queries, threads int) int {
	block := (min(size, (queries+threads-1)/threads) + strip - 1) / strip * strip
	return max(1, min(block, maxShortlisted/k))
}

// listBlock adds the candidates of a slice to the lists of a block of queries that begins with
// query first. After the last slice it completes the lists.
func (p *predictor) listBlock(
	ctx context.Context, w, first int, ps engine.Pass, b *engine.Block, c engine.Candidates,
) error {
	lists, f, kept := &p.lists[w], c.Features(), p.kept[first:first+len(b.Queries)]
	lists.Open(b, f, kept)
	if err := c.Contend(ctx, w, b, lists); err != nil {
		return err
	}
	if f.Slice.Last() != ps.Candidates.Last() {
		lists.Keep(kept)
		return nil
	}
	for row := range b.Queries {
		best, err := lists.Best(ctx, row)
		if err != nil {
			return err
		}
		kept[row] = engine.Kept{}
		p.take(b.Worker, first+row, b.Queries[row].Query, best)
	}
	return nil
}

// predictions returns the predictions of a complete list.
func predictions(x *kg.Index, q kg.Query, best []engine.Contender) []Prediction {
	known := x.Answers(q)
	list := make([]Prediction, 0, len(best))
	for _, c := range best {
		_, isKnown := slices.BinarySearch(known.Entities, c.Entity)
		list = append(list, Prediction{c.Entity, c.Score, isKnown})
	}
	return list
}
