package rank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Relations ranks the relation of each triple (h, r, t) among all relations, as the answer to
// (h, ?, t). Candidates are ordered by the reference scores of their triples as answers to
// (h, r', ?), so a model with reciprocal relations uses the direct relation. The filters remove
// relations that complete (h, ?, t) to a triple of x, except r itself. The ranks have the side
// kg.Relation and the order of the triples. x must suit m as for Run. Of the options, Relations uses
// the backend, the threads and the progress. Verify a mapped checkpoint as Run's comment describes.
func Relations(
	ctx context.Context, m model.Model, x *kg.Index, triples []kg.Triple, o Options,
) (_ *Ranking, err error) {
	defer fault.Guard().Catch(&err)
	if err := checkIndex(m, x); err != nil {
		return nil, err
	}
	if o, err = o.withoutCandidates(); err != nil {
		return nil, err
	}
	start := time.Now()
	targets, err := referenceScores(ctx, m, triples, kg.Tail, o)
	if err != nil {
		return nil, err
	}
	r := relationRanker{index: x, targets: targets, ranks: make([]Rank, len(triples))}
	for i, t := range triples {
		r.ranks[i] = Rank{Triple: t, Side: kg.Relation}
	}
	order, relations := byHead(triples), m.Config().Relations
	chunks := (len(order) + relationChunk - 1) / relationChunk
	var done atomic.Int64
	defer o.relationProgress(start, len(triples)*relations, &done)()
	j := o.job(m, engine.Plan{})
	workers := engine.NewWorkers(j)
	err = engine.Parallel(ctx, o.Threads, relations*chunks, func(ctx context.Context, w, item int) error {
		relation, chunk := int32(item/chunks), item%chunks
		of := order[chunk*relationChunk : min((chunk+1)*relationChunk, len(order))]
		err := r.count(ctx, workers.Get(w), relation, of)
		done.Add(int64(len(of)))
		return err
	})
	if err = cmp.Or(err, j.CheckScores()); err != nil {
		return nil, err
	}
	elapsed := time.Since(start)
	return &Ranking{Ranks: r.ranks, Stats: Stats{
		Queries: len(triples), UniqueQueries: countPairs(triples), Pairs: int64(len(triples)) * int64(relations),
		Screen: OnlyReference, Rank: elapsed, Decide: elapsed,
		Rescored: Rescored{Reference: int64(len(triples)) * int64(relations-1)},
	}}, nil
}

// relationChunk is the number of triples that a goroutine scores with one relation.
const relationChunk = 1024

// byHead returns the indices of triples, ordered by head, because the workers compute each query of
// consecutive triples once.
func byHead(triples []kg.Triple) []int32 {
	order := ascending(len(triples))
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(cmp.Compare(triples[i].Head, triples[j].Head), cmp.Compare(i, j))
	})
	return order
}

// relationProgress calls o.Progress at intervals, until the returned function is called. total is
// the number of pairs of a triple and a relation, and done is the number of finished pairs.
func (o *Options) relationProgress(start time.Time, total int, done *atomic.Int64) (stop func()) {
	if o.Progress == nil || total == 0 {
		return func() {}
	}
	return tick(func() {
		n := done.Load()
		o.Progress(Progress{Done: n, Total: int64(total), Compared: n, Referenced: n, Elapsed: time.Since(start)})
	})
}

// countPairs returns the number of distinct pairs of head and tail.
func countPairs(triples []kg.Triple) int {
	pairs := make(map[[2]int32]struct{}, len(triples))
	for _, t := range triples {
		pairs[[2]int32{t.Head, t.Tail}] = struct{}{}
	}
	return len(pairs)
}

// relationRanker fills in the counts of ranks.
type relationRanker struct {
	index   *kg.Index
	targets []float64 // the reference score of each triple

	mu    sync.Mutex // guards ranks
	ranks []Rank
}

// count compares a relation with the relations of the triples with the given numbers.
func (r *relationRanker) count(ctx context.Context, w model.Worker, relation int32, of []int32) error {
	type change struct {
		rank          int32
		better, equal int32
		removed       uint8
	}
	changes := make([]change, 0, len(of))
	for n, i := range of {
		if n%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t := r.ranks[i].Triple
		c := change{rank: i}
		if relation != t.Relation {
			score := w.Reference(kg.Query{Side: kg.Tail, Relation: relation, Anchor: t.Head}, t.Tail)
			switch target := r.targets[i]; {
			case score > target:
				c.better = 1
			case score == target:
				c.equal = 1
			}
			c.removed = filtersOf[r.index.Splits(kg.Triple{Head: t.Head, Relation: relation, Tail: t.Tail})]
		}
		changes = append(changes, c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		k := &r.ranks[c.rank]
		for f := range NumFilters {
			if c.removed>>f&1 == 0 {
				k.Better[f] += c.better
				k.Equal[f] += c.equal
				k.Candidates[f]++
			}
		}
	}
	return nil
}

// checkIndex returns an error if x is not the index of a graph with as many entities and relations as
// the model.
func checkIndex(m model.Model, x *kg.Index) error {
	if m == nil {
		return errNoModel
	}
	if x == nil {
		return errNoIndex
	}
	c := m.Config()
	if entities, relations := x.Sizes(); entities != c.Entities || relations != c.Relations {
		return fmt.Errorf("rank: the index has %d entities and %d relations, but the model has %d and %d: "+
			"index the graph with the model's identifiers (kg.Graph.Relabel)",
			entities, relations, c.Entities, c.Relations)
	}
	return nil
}

var (
	errNoIndex = errors.New("rank: the index is nil: make one with kg.NewIndex")
	errNoModel = errors.New("rank: the model is nil: open one with checkpoint.Open, or make one with model.New")
)

// checkTriples returns an error if a triple is outside the model.
func checkTriples(m model.Model, triples []kg.Triple) error {
	c := m.Config()
	for _, t := range triples {
		if !within(t, c.Entities, c.Relations) {
			return fmt.Errorf("rank: triple %v is outside the model's %d entities and %d relations",
				t, c.Entities, c.Relations)
		}
	}
	return nil
}

// within reports whether the identifiers of a triple are below the given numbers of entities and
// relations.
func within(t kg.Triple, entities, relations int) bool {
	return t.Head >= 0 && t.Tail >= 0 && t.Relation >= 0 &&
		int(t.Head) < entities && int(t.Tail) < entities && int(t.Relation) < relations
}
