package rank

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Options says how to rank. Its zero value ranks both sides with all of the machine's processors.
type Options struct {
	// Sides are the sides to ask for; nil means tail and head.
	Sides []kg.Side
	// Candidates are the entities that compete with the targets; its zero value means all. The ranks of other ranges
	// can be added (Add).
	Candidates Range
	// Engine counts in place of the backend, for which it may fall back; nil means the backend, and so far rank/gpu has
	// the only other one. The backend still makes the reference scores, and the features and the queries of most models.
	Engine Engine
	// Backend runs the kernels; nil means the best one of this machine.
	Backend *kernel.Backend
	// Threads is the number of goroutines that compute; 0 means as many as Go runs at a time (GOMAXPROCS).
	// Results do not depend on it.
	Threads int
	// FeatureMemory bounds the memory for candidate features in bytes; candidates that need more
	// are ranked slice by slice. 0 means DefaultFeatureMemory, or less where there is less (Fit). With an Engine, it
	// bounds what that holds, as its own memory does.
	FeatureMemory int64
	// Screen is the first stage of dot products on the backend.
	Screen Screen
	// Progress, if not nil, is called now and then from one goroutine while ranking.
	Progress func(Progress)
}

// withDefaults replaces zero values by what they mean, but for FeatureMemory.
func (o Options) withDefaults() (Options, error) {
	if o.Threads < 0 {
		return o, fmt.Errorf("rank: Options asks for %d threads: ask for at least 1, or 0 for all processors", o.Threads)
	}
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	if o.Sides == nil {
		o.Sides = []kg.Side{kg.Tail, kg.Head}
	}
	if o.Backend != nil {
		return o, nil
	}
	tier, err := kernel.Best()
	if err != nil {
		return o, err
	}
	o.Backend, err = kernel.For(tier)
	return o, err
}

// Engine is what Options can rank with instead of the processor.
type Engine = engine.Provider

// Range is the entities First ≤ e < Last; its zero value is all of them.
type Range struct{ First, Last int }

// Resolve returns the options that Run and Predict use: without zero values, but for FeatureMemory, and with an engine
// that passed its test for models like m, or none if the processor is to take its place. They call it themselves.
func (o Options) Resolve(ctx context.Context, m model.Model) (Options, error) {
	o, err := o.withDefaults()
	if err != nil {
		return o, err
	}
	n := m.Config().Entities
	if o.Candidates == (Range{}) {
		o.Candidates.Last = n
	}
	if r := o.Candidates; r.First < 0 || r.First >= r.Last || r.Last > n {
		return o, fmt.Errorf("rank: candidates %d to %d are no range of the model's %d entities", r.First, r.Last, n)
	}
	if o.Engine == nil {
		return o, nil
	}
	err = o.Engine.Test(ctx, m, o.Backend, o.Threads)
	if o.givesWay(ctx, err) {
		o.Engine, err = nil, nil
	}
	return o, err
}

// givesWay tells whether the processor takes the place of an engine that failed with err.
func (o Options) givesWay(ctx context.Context, err error) bool {
	return err != nil && o.Engine != nil && ctx.Err() == nil && o.Engine.Fallback(err)
}

// job is a ranking with resolved options.
func (o Options) job(m model.Model, p engine.Plan) *engine.Job {
	last := cmp.Or(o.Candidates.Last, m.Config().Entities)
	return &engine.Job{
		Model: m, Backend: o.Backend, Threads: o.Threads, First: o.Candidates.First, Last: last,
		FeatureMemory: cmp.Or(o.FeatureMemory, DefaultFeatureMemory), Plan: p,
	}
}

// start makes the engine of a job.
func (o Options) start(j *engine.Job) (engine.Engine, error) {
	if o.Engine != nil {
		return o.Engine.Start(j)
	}
	return newCPUEngine(j, o.Screen), nil
}

// DefaultFeatureMemory is the bound of feature memory unless Options says otherwise.
const DefaultFeatureMemory = 1 << 30

// Progress is how far a ranking has come.
type Progress struct {
	// Done of Total pairs of a distinct query and a candidate are counted.
	Done, Total int64
	// Compared is Done in pairs of a target and a candidate, of which Undecided were left to
	// the float64 stage and Referenced to the reference.
	Compared, Undecided, Referenced int64
	// Elapsed is the time since the ranking began.
	Elapsed time.Duration
}

// Ranking is the outcome of Run.
type Ranking struct {
	// Ranks holds, for each side asked, the ranks of all triples in their order.
	Ranks []Rank
	Stats Stats
}

// Stats says what a ranking cost.
type Stats struct {
	// Queries counts the ranked triples over all sides, UniqueQueries the distinct ones.
	Queries, UniqueQueries int
	// Rescored counts, by stage, the candidates that the stage before left undecided.
	Rescored Rescored
	// Screen is the arithmetic of the first stage, or AutoScreen where some candidates were screened
	// with one and some with another.
	Screen Screen
	// Engine names what counted, if not the processor.
	Engine string
	// Pack is the time for features and panels, Rank all the rest from the first query on. Decide is
	// the part of Rank for what the first stage left undecided, as a mean over the threads.
	Pack, Rank, Decide time.Duration
	// Dropped is the share of the terms of all comparisons that early exit passed over.
	Dropped float64
}

// Rescored counts pairs of a target and another candidate.
type Rescored struct {
	// Int8 pairs were left by the bytes of a panel, and decided by two bytes a number or went on.
	Int8 int64 `json:"int8"`
	// Float64 pairs were decided from the stored features with float64 accumulation, or went on.
	Float64 int64 `json:"float64"`
	// Reference pairs were decided by their reference scores.
	Reference int64 `json:"reference"`
}

// Run ranks the targets of triples, their true answers, among the candidates, on the sides asked, under every
// filter at once. Known answers come from x, in m's identifiers. The ranks are exact: they follow
// the model's reference scores, for every engine, backend and number of threads (docs/numerics.md). They are the
// ranks of a checkpoint only if its Verify returns no error afterwards.
func Run(ctx context.Context, m model.Model, x *kg.Index, triples []kg.Triple, o Options) (*Ranking, error) {
	ranking, err := run(ctx, m, x, triples, o)
	if o.givesWay(ctx, err) {
		o.Engine = nil
		return run(ctx, m, x, triples, o)
	}
	return ranking, err
}

func run(ctx context.Context, m model.Model, x *kg.Index, triples []kg.Triple, o Options) (_ *Ranking, err error) {
	defer fault.Guard().Catch(&err)
	if err := checkTowers(m); err != nil {
		return nil, err
	}
	if o, err = Fit(ctx, m, len(triples), o); err != nil {
		return nil, err
	}
	res := &Ranking{}
	if res.Ranks, err = newRanks(m, triples, o.Sides); err != nil {
		return nil, err
	}
	j := o.job(m, newPlan(m, res.Ranks))
	res.Stats.Queries, res.Stats.UniqueQueries = len(res.Ranks), j.Unique
	if len(j.Queries) == 0 {
		return res, nil
	}
	if o.Progress != nil {
		defer report(j, o.Progress)()
	}
	r := &ranker{job: j, index: x, ranks: res.Ranks, blocks: make([]*engine.Block, o.Threads)}
	return res, r.rank(ctx, o, &res.Stats)
}

// newRanks returns the ranks to be counted.
func newRanks(m model.Model, triples []kg.Triple, sides []kg.Side) ([]Rank, error) {
	c := m.Config()
	ranks := make([]Rank, 0, len(sides)*len(triples))
	for _, s := range sides {
		for _, t := range triples {
			if t.Head < 0 || t.Tail < 0 || t.Relation < 0 ||
				int(t.Head) >= c.Entities || int(t.Tail) >= c.Entities || int(t.Relation) >= c.Relations {
				return nil, fmt.Errorf("rank: triple %v is outside the model's %d entities and %d relations", t, c.Entities, c.Relations)
			}
			ranks = append(ranks, Rank{Triple: t, Side: s})
		}
	}
	return ranks, nil
}

// ranker counts for a ranking.
type ranker struct {
	job    *engine.Job
	index  *kg.Index
	blocks []*engine.Block // by goroutine

	mu    sync.Mutex // guards ranks
	ranks []Rank
}

// rank fills the ranks, and says in stats what it cost.
func (r *ranker) rank(ctx context.Context, o Options, stats *Stats) (err error) {
	start := time.Now()
	j := r.job
	if j.Representatives, err = engine.FindRepresentatives(ctx, j.Model, j.Threads); err != nil {
		return err
	}
	if err := countCandidates(ctx, j, r.index, r.ranks); err != nil {
		return err
	}
	e, err := o.start(j)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, e.Close()) }()
	stats.Pack = time.Since(start)
	if err := eachSlice(ctx, j, e, stats, func(ctx context.Context, p engine.Pass, c engine.Candidates) error {
		return r.countSlice(ctx, e, p, c)
	}); err != nil {
		return err
	}
	stats.Screen = Float32Screen
	if cpu, ok := e.(*cpuEngine); ok {
		stats.Screen = cpu.used
	} else {
		stats.Engine = o.Engine.String()
	}
	done := &j.Progress
	stats.Rescored = Rescored{done.Coarse.Load(), done.Undecided.Load(), done.Referenced.Load()}
	stats.Decide = time.Duration(done.Deciding.Load() / int64(j.Threads))
	stats.Dropped = float64(done.Dropped.Load()) / float64(max(done.Strips.Load(), 1))
	return nil
}

// countSlice counts the candidates of a slice for the queries of a pass.
func (r *ranker) countSlice(ctx context.Context, e engine.Engine, p engine.Pass, c engine.Candidates) error {
	ends := r.job.SplitQueries(p, c.QueryBlock())
	parts := 1
	if r.job.Threads > 1 { // few queries: the candidates are split, so that every thread has work
		parts = max(1, min((4*r.job.Threads+len(ends)-1)/len(ends), c.MostParts()))
	}
	return parallel(ctx, r.job.Threads, len(ends)*parts, func(ctx context.Context, w, i int) error {
		if r.blocks[w] == nil {
			r.blocks[w] = engine.NewBlock(r.job, e)
		}
		b, first := r.blocks[w], p.First
		if i >= parts {
			first = ends[i/parts-1]
		}
		b.Begin(first, ends[i/parts])
		b.Part, b.Parts = i%parts, parts
		return r.countBlock(ctx, w, b, c)
	})
}

// countBlock counts the candidates of a slice for a block of queries: what filters remove is found, the engine counts,
// reference scores decide what it left, and the counts are added to the ranks.
func (r *ranker) countBlock(ctx context.Context, w int, b *engine.Block, c engine.Candidates) error {
	r.job.Phases.Enter(engine.KnownPhase)
	findKnown(b, c.Features(), r.index)
	if err := c.Count(ctx, w, b); err != nil {
		return err
	}
	r.job.Phases.Enter(engine.DecidePhase)
	if b.Decide(ctx); ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, target := range b.Targets {
		r.ranks[target.Rank].add(b.Counts[t].Better, b.Counts[t].Equal)
	}
	return nil
}

// report calls f about five times a second until the function that it returns is called.
func report(j *engine.Job, f func(Progress)) (stop func()) {
	start := time.Now()
	quit := make(chan struct{})
	total := int64(len(j.Queries)) * int64(j.Last-j.First)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				p := &j.Progress
				f(Progress{p.Done.Load(), total, p.Compared.Load(), p.Undecided.Load(), p.Referenced.Load(), time.Since(start)})
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}
