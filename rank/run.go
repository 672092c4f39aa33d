package rank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Options says how to rank. The zero value ranks both sides on all processors.
type Options struct {
	// Sides are the sides to rank, each once; an empty list means tail and head.
	Sides []kg.Side
	// Shard is the range of entities that compete with the targets; the zero value means all. Add
	// combines the ranks of several shards.
	Shard Range
	// Among restricts the candidates further, to lists; nil means no restriction. Run compares a
	// target with the candidates of its query even if the target is not one of them
	// (metrics.Restrictions.Excluded).
	Among *Candidates
	// Negatives gives every query of Run a list of candidates; nil means no lists. With lists,
	// Among and Engine must be nil, and Screen has no effect. Predict and Discover ignore the lists.
	Negatives *Negatives
	// Engine counts in place of the backend; nil means the backend. Package rank/gpu provides an
	// engine. The ranks do not depend on the engine. The backend still computes the reference
	// scores and, for most models, ψ and φ. An engine that fails may leave the ranking to the
	// processor.
	Engine Engine
	// Backend runs the kernels; nil means the best one of this machine.
	Backend *kernel.Backend
	// Threads is the number of goroutines that compute; 0 means GOMAXPROCS. Results do not depend
	// on it.
	Threads int
	// FeatureMemory bounds the memory for candidate features, in bytes; 0 means
	// DefaultFeatureMemory, or less if the machine has less memory (Fit). If the features of all
	// candidates need more, the candidates are ranked slice by slice. The device memory of an
	// Engine is a second bound, and the only one if FeatureMemory is 0 and the Engine computes the
	// features itself.
	FeatureMemory int64
	// Screen is the first stage for dot products, L1 distances, group norms and phases on the backend.
	// An integer screen that is not for the model's comparison (Screen.Fits) is an error. If the
	// features or the queries of a slice do not fit its integers, float32 replaces it (Stats.Screen).
	Screen Screen
	// Tolerances asks for additional ranks, in which candidates with nearly the target's score tie
	// with the target (Ranking.Near).
	Tolerances []Tolerance
	// Progress, if not nil, is called about five times a second from one goroutine.
	Progress func(Progress)

	adjust func(*cpuEngine) // for tests
	batch  int              // number of queries in a batch of Discover, for tests
}

// withDefaults replaces zero values with the defaults, except in Shard and FeatureMemory.
func (o Options) withDefaults() (Options, error) {
	if o.Threads < 0 {
		return o, fmt.Errorf("rank: %d threads: set Threads to at least 1, or to 0 for all processors", o.Threads)
	}
	if o.FeatureMemory < 0 {
		return o, fmt.Errorf("rank: %d bytes for features: set FeatureMemory to at least 1, or to 0 for the default",
			o.FeatureMemory)
	}
	for i, side := range o.Sides {
		if side > kg.Relation {
			return o, fmt.Errorf("rank: side %d is unknown: set Sides to kg.Tail, kg.Head or both", side)
		}
		if slices.Contains(o.Sides[:i], side) {
			return o, fmt.Errorf("rank: Sides contains %v twice, which would count its queries twice: give it once",
				side)
		}
	}
	for _, t := range o.Tolerances {
		if !(t.Absolute >= 0 && t.Relative >= 0 && t.Absolute+t.Relative < math.Inf(1)) {
			return o, fmt.Errorf("rank: tolerance %v + %v·|score|: both numbers must be finite and not negative",
				t.Absolute, t.Relative)
		}
	}
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	if len(o.Sides) == 0 {
		o.Sides = []kg.Side{kg.Tail, kg.Head}
	}
	if o.Backend != nil {
		return o, nil
	}
	var err error
	o.Backend, err = kernel.New()
	return o, err
}

// withoutCandidates is withDefaults for work whose candidates are not options. It keeps only the backend,
// the threads and the progress, because a job with candidates that do not suit the model panics.
func (o Options) withoutCandidates() (Options, error) {
	o, err := o.withDefaults()
	return Options{Backend: o.Backend, Threads: o.Threads, Progress: o.Progress}, err
}

// Engine is hardware that ranks instead of the processor. Only packages of this module can implement it.
// Its method String names the hardware.
type Engine = engine.Provider

// Tolerance is a distance between printed scores (model.Model.Score) up to which a candidate ties
// with a target: |s − s*| ≤ Absolute + Relative·|s*|, where s is the candidate's score and s* the
// target's. Its fields are
//
//	Absolute float64
//	Relative float64
type Tolerance = engine.Tolerance

// Range holds the entities First ≤ e < Last. The zero value means all entities.
type Range struct{ First, Last int }

// Resolve returns the options that Run and Predict use, with defaults in place of zero values,
// except in FeatureMemory. The Engine of the result has passed its test for models like m, or is
// nil if the processor takes its place. Run and Predict call Resolve themselves.
func (o Options) Resolve(ctx context.Context, m model.Model) (Options, error) {
	o, err := o.withDefaults()
	if err != nil {
		return o, err
	}
	if m == nil {
		return o, errNoModel
	}
	n := m.Config().Entities
	if o.Shard == (Range{}) {
		o.Shard.Last = n
	}
	if r := o.Shard; r.First < 0 || r.First >= r.Last || r.Last > n {
		return o, fmt.Errorf("rank: shard %d to %d is not a range of the model's %d entities", r.First, r.Last, n)
	}
	if err := o.Among.check(m.Config()); err != nil {
		return o, err
	}
	compare := m.Tower(kg.Tail).Compare
	if o.Negatives == nil && o.Screen != Float32Screen && !o.Screen.Fits(compare) {
		return o, fmt.Errorf("rank: screen %v is not for model %s, which uses comparison %s: set Screen to AutoScreen",
			o.Screen, m.Config().Model, compare)
	}
	if o.Negatives != nil && (o.Among != nil || o.Engine != nil) {
		return o, errors.New("rank: the processor ranks among negatives, which are the only candidates: " +
			"set neither Among nor Engine")
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

// givesWay reports whether the processor takes the place of the engine after err.
func (o Options) givesWay(ctx context.Context, err error) bool {
	return err != nil && o.Engine != nil && ctx.Err() == nil && o.Engine.Fallback(err)
}

// job returns the job of a plan. The options are resolved.
func (o Options) job(m model.Model, p engine.Plan) *engine.Job {
	if o.Engine == nil {
		o.FeatureMemory = cmp.Or(o.FeatureMemory, DefaultFeatureMemory)
	}
	return &engine.Job{
		Model: m, Backend: o.Backend, Threads: o.Threads, Most: o.most(m),
		FeatureMemory: o.FeatureMemory, OnePass: o.Among == nil && model.DependenceOf(m) == model.OnEntity,
		Tolerances: o.Tolerances, Plan: p,
	}
}

// DefaultFeatureMemory is the bound on feature memory unless Options sets a different one.
const DefaultFeatureMemory = 1 << 30

// Progress is the state of a ranking that is running.
type Progress struct {
	// Done of Total pairs of a distinct query and a candidate have been counted, Earlier of them before
	// Discover resumed a search.
	Done, Earlier, Total int64
	// Compared is like Done but counts pairs of a target and a candidate. Of these pairs, Undecided
	// reached the float64 scores and Referenced reached the reference scores.
	Compared, Undecided, Referenced int64
	// Elapsed is the time since the ranking began.
	Elapsed time.Duration
}

// Ranking is the result of Run.
type Ranking struct {
	// Ranks holds the ranks of all triples, one side after the other, each in the order of the
	// triples.
	Ranks []Rank
	// Near holds, for each tolerance of the options, the ranks of the same targets when candidates
	// within the tolerance count as equal instead of better or worse.
	Near  [][]Rank
	Stats Stats
}

// Stats describes the work of a ranking.
type Stats struct {
	// Queries counts the queries over all sides, and UniqueQueries counts the distinct ones.
	Queries, UniqueQueries int
	// Pairs counts the pairs of a distinct query and a candidate or, among Negatives and for Relations,
	// the pairs of a target and a candidate.
	Pairs int64
	// Rescored counts, by stage, the pairs that earlier stages left undecided.
	Rescored Rescored
	// Screen is the arithmetic of the first stage, or AutoScreen if it changed during the ranking. If
	// the tensor cores of GPUs counted, its String is "fp16". Among Negatives, its String is "float64",
	// and for Relations, "reference".
	Screen Screen
	// Engine names the engine. It is empty if the processor counted.
	Engine string
	// Pack is the time that the ranking waited for features and panels, and Rank is the time from
	// the first query on, without Pack. Decide is the part of Rank for pairs that the first stage
	// left undecided, averaged over the threads. It is 0 if an engine counted.
	Pack, Rank, Decide time.Duration
	// Dropped is the share of all chains that early exit skipped. It is 0 if an engine counted.
	Dropped float64
}

// Rescored counts pairs of a target and a different candidate, by the stage that they reached.
type Rescored struct {
	// Int8 counts the pairs that the panels of the int8 screen left to the fine codes.
	Int8 int64 `json:"int8"`
	// Float64 counts the pairs that reached the float64 scores of the features.
	Float64 int64 `json:"float64"`
	// Reference counts the pairs that reached the reference scores.
	Reference int64 `json:"reference"`
}

// Run ranks the targets of triples among the candidates, on all sides of o and under every filter
// at once. The target of a triple is its entity on the ranked side. Known answers come from x, the
// index of a graph with m's identifiers (kg.Graph.Relabel). An index with other sizes is an error.
//
// The ranks are exact. They follow the model's reference scores, for any engine, backend and number
// of threads (docs/numerics.md). A reference score that is infinite or NaN is an error. If m reads a
// checkpoint from a mapped file, check afterwards with Checkpoint.Verify that the file has not
// changed.
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
	if err := cmp.Or(checkTowers(m), checkIndex(m, x)); err != nil {
		return nil, err
	}
	if o, err = Fit(ctx, m, len(triples), o); err != nil {
		return nil, err
	}
	all, err := newRanks(m, triples, o.Sides, 1+len(o.Tolerances))
	if err != nil {
		return nil, err
	}
	n := len(o.Sides) * len(triples)
	res := &Ranking{Ranks: all[:n:n]}
	for i := range o.Tolerances {
		res.Near = append(res.Near, all[(1+i)*n:(2+i)*n:(2+i)*n])
	}
	listed, err := o.Negatives.listed(m, triples, o.Sides)
	if err != nil {
		return nil, err
	}
	j := o.job(m, newPlan(m, o.sets(m), all, n, listed))
	res.Stats.Queries, res.Stats.UniqueQueries, res.Stats.Pairs = n, j.Unique, j.Pairs()
	if len(j.Queries) == 0 {
		return res, nil
	}
	if o.Progress != nil {
		defer report(j, o.Progress)()
	}
	r := ranker{index: x, ranks: all}
	if err := r.rank(ctx, j, o, &res.Stats); err != nil {
		return nil, err
	}
	return res, j.CheckScores()
}

// newRanks returns ranks with zero counts for triples on each side, repeated the given number of
// times.
func newRanks(m model.Model, triples []kg.Triple, sides []kg.Side, times int) ([]Rank, error) {
	if slices.Contains(sides, kg.Relation) {
		return nil, errors.New("rank: Run ranks entities: call Relations to rank relations")
	}
	if err := checkTriples(m, triples); err != nil {
		return nil, err
	}
	n := len(sides) * len(triples)
	ranks := make([]Rank, 0, times*n)
	for _, s := range sides {
		for _, t := range triples {
			ranks = append(ranks, Rank{Triple: t, Side: s})
		}
	}
	for range times - 1 {
		ranks = append(ranks, ranks[:n]...)
	}
	return ranks, nil
}

// ranker fills in the counts of ranks.
type ranker struct {
	index *kg.Index

	mu    sync.Mutex // guards ranks
	ranks []Rank
}

// rank counts all candidates and fills in stats.
func (r *ranker) rank(ctx context.Context, j *engine.Job, o Options, stats *Stats) (err error) {
	start := time.Now()
	if err := countCandidates(ctx, j, r.index, r.ranks); err != nil {
		return err
	}
	s, err := o.begin(ctx, j)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.engine.Close()) }()
	begun := time.Since(start)
	countSlice := func(ctx context.Context, p engine.Pass, c engine.Candidates) error {
		return r.countSlice(ctx, s, p, c)
	}
	if stats.Pack, stats.Rank, err = s.eachSlice(ctx, countSlice); err != nil {
		return err
	}
	stats.Pack += begun
	done := &j.Progress
	switch e := s.engine.(type) {
	case *cpuEngine:
		if len(e.used) == 1 {
			stats.Screen = e.used[0]
		}
	case *pairEngine:
		stats.Screen = Float64Pairs
	default:
		stats.Engine = o.Engine.String()
		switch half, single := done.Half.Load(), done.Single.Load(); {
		case half == 0:
			stats.Screen = Float32Screen
		case single == 0:
			stats.Screen = halfScreen
		}
	}
	stats.Rescored = Rescored{done.Coarse.Load(), done.Undecided.Load(), done.Referenced.Load()}
	stats.Decide = time.Duration(done.Deciding.Load() / int64(j.Threads))
	stats.Dropped = float64(done.Dropped.Load()) / float64(max(done.Strips.Load(), 1))
	return nil
}

// countSlice counts the candidates of a slice for the queries of a pass. The first queries may be a
// trial, after which the processor may change its screen.
func (r *ranker) countSlice(ctx context.Context, s *session, p engine.Pass, c engine.Candidates) error {
	rest := []engine.Span{{First: p.First, Last: p.Last}}
	if cpu, ok := c.(*cpuEngine); ok {
		var trial []engine.Span
		if trial, rest = cpu.splitTrial(rest[0]); len(trial) > 0 {
			if err := r.countSpans(ctx, s, trial, c, 1); err != nil {
				return err
			}
			if err := cpu.reconsider(ctx, rest); err != nil {
				return err
			}
		}
	}
	return r.countSpans(ctx, s, rest, c, 4)
}

// countSpans counts the candidates of a slice for spans of queries. If there are few blocks, it
// splits the candidates to give every thread enough work.
func (r *ranker) countSpans(
	ctx context.Context, s *session, spans []engine.Span, c engine.Candidates, perThread int,
) error {
	var blocks []engine.Span
	for _, span := range spans {
		blocks = append(blocks, s.job.Blocks(span, c.QueryBlock())...)
	}
	parts := 1
	if threads := s.job.Threads; threads > 1 {
		parts = max(1, min((perThread*threads+len(blocks)-1)/len(blocks), c.MostParts()))
	}
	return s.eachBlock(ctx, blocks, parts, func(ctx context.Context, w int, _ engine.Span, b *engine.Block) error {
		return r.countBlock(ctx, w, b, c)
	})
}

// countBlock counts the candidates of a slice for a block of queries and adds the counts to the
// ranks.
func (r *ranker) countBlock(ctx context.Context, w int, b *engine.Block, c engine.Candidates) error {
	b.Job.Phases.Enter(engine.KnownPhase)
	findKnown(b, c.Features(), r.index)
	if err := c.Count(ctx, w, b); err != nil {
		return err
	}
	b.Job.Phases.Enter(engine.DecidePhase)
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

// report calls f about five times a second until stop is called.
func report(j *engine.Job, f func(Progress)) (stop func()) {
	start := time.Now()
	total := j.Pairs()
	return tick(func() {
		p := &j.Progress
		f(Progress{
			Done: p.Done.Load(), Total: total, Compared: p.Compared.Load(),
			Undecided: p.Undecided.Load(), Referenced: p.Referenced.Load(), Elapsed: time.Since(start),
		})
	})
}

// tick calls f about five times a second, from one goroutine, until stop is called.
func tick(f func()) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				f()
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}
