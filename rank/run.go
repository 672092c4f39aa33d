package rank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Options says how to rank. Its zero value ranks both sides with all of the machine's processors.
type Options struct {
	// Sides are the sides to ask for; nil means tail and head.
	Sides []kg.Side
	// Backend runs the kernels; nil means the best one of this machine.
	Backend *kernel.Backend
	// Devices, if there are any, count instead of the backend, which still makes the reference scores,
	// and the features and the queries of most models.
	Devices []*cuda.Device
	// Threads is the number of goroutines that compute; 0 means as many as Go runs at a time (GOMAXPROCS).
	// Results do not depend on it.
	Threads int
	// FeatureMemory bounds the memory for candidate features in bytes; candidates that need more
	// are ranked slice by slice. 0 means DefaultFeatureMemory, or less where there is less (Fit). With Devices, it
	// bounds what they hold, as their own memory does.
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

// DefaultFeatureMemory is the bound of feature memory unless Options says otherwise.
const DefaultFeatureMemory = 1 << 30

// Progress is how far a ranking has come.
type Progress struct {
	// Done of Total pairs of a distinct query and a candidate are counted.
	Done, Total int64
	// Compared is Done in pairs of a true answer and a candidate, of which Undecided were left to
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
	// Pack is the time for features and panels, Rank all the rest from the first query on. Decide is
	// the part of Rank for what the first stage left undecided, as a mean over the threads.
	Pack, Rank, Decide time.Duration
	// Dropped is the share of the terms of all comparisons that early exit passed over.
	Dropped float64
}

// Rescored counts pairs of a truth and another candidate.
type Rescored struct {
	// Int8 pairs were left by the bytes of a panel, and decided by two bytes a number or went on.
	Int8 int64 `json:"int8"`
	// Float64 pairs were decided from the stored features with float64 accumulation, or went on.
	Float64 int64 `json:"float64"`
	// Reference pairs were decided by their reference scores.
	Reference int64 `json:"reference"`
}

// blockSizes returns the most queries in a block, and the most entries of their ψ, by rows and
// packed.
func blockSizes(m model.Model, b *kernel.Backend, screen Screen) (queries, terms, strips int) {
	towers := []model.Tower{m.Tower(kg.Tail), m.Tower(kg.Head)}
	for _, t := range towers {
		n := b.Panels(t.Compare).QueryBlock(t.Phi)
		strips = max(strips, n*t.Phi)
		for _, c := range screen.codeFormats(t, b) {
			n = max(n, c.panels(b).QueryBlock(c.layout(t.Phi).terms))
		}
		queries, terms = max(queries, n), max(terms, n*pairPad(t.Phi))
	}
	for _, t := range towers {
		for _, c := range screen.codeFormats(t, b) {
			strips = max(strips, c.strips(c.layout(t.Phi), queries, c.panels(b).MR))
		}
	}
	return queries, terms, strips
}

// sliceSize is the number of candidates whose features are in memory at a time.
func sliceSize(m model.Model, o Options) int {
	limit := o.FeatureMemory
	if limit == 0 {
		limit = DefaultFeatureMemory
	}
	n := int(min(limit/featureBytes(widestTower(m)), math.MaxInt32)) / o.Backend.NR * o.Backend.NR
	return max(1, min(max(n, o.Backend.NR), m.Config().Entities))
}

func widestTower(m model.Model) int { return max(m.Tower(kg.Tail).Phi, m.Tower(kg.Head).Phi) }

// Run ranks the true answers of triples among all entities of m, on the sides asked, under every
// filter at once. Known answers come from x, in m's identifiers. The ranks are exact: they follow
// the model's reference scores, for every backend and number of threads (docs/numerics.md). They are the
// ranks of a checkpoint only if its Verify returns no error afterwards.
func Run(ctx context.Context, m model.Model, x *kg.Index, triples []kg.Triple, o Options) (_ *Ranking, err error) {
	defer fault.Guard().Catch(&err)
	if err := checkTowers(m); err != nil {
		return nil, err
	}
	o, err = Fit(m, len(triples), o)
	if err != nil {
		return nil, err
	}
	c := m.Config()
	res := &Ranking{Ranks: make([]Rank, 0, len(o.Sides)*len(triples))}
	for _, s := range o.Sides {
		for _, t := range triples {
			if t.Head < 0 || t.Tail < 0 || t.Relation < 0 || int(t.Head) >= c.Entities || int(t.Tail) >= c.Entities || int(t.Relation) >= c.Relations {
				return nil, fmt.Errorf("rank: triple %v is outside the model's %d entities and %d relations", t, c.Entities, c.Relations)
			}
			res.Ranks = append(res.Ranks, Rank{Triple: t, Side: s})
		}
	}
	p := newPlan(m, res.Ranks)
	res.Stats.Queries, res.Stats.UniqueQueries = len(res.Ranks), p.unique
	if len(p.queries) == 0 {
		return res, nil
	}

	packing := time.Now()
	reps, err := representatives(ctx, m, o.Threads)
	if err != nil {
		return nil, err
	}
	r := newRun(m, x, o, p)
	r.reps, r.ranks = reps, res.Ranks
	r.screen = o.Screen
	if len(o.Devices) > 0 {
		r.screen = Float32Screen
	}
	res.Stats.Pack = time.Since(packing)
	if o.Progress != nil {
		defer r.report(o.Progress)()
	}
	if len(o.Devices) > 0 {
		d, err := newDeviceRun(r, o)
		if err != nil {
			return nil, err
		}
		defer d.close()
		res.Stats.Screen = Float32Screen
		if err := d.eachSlice(ctx, o, &res.Stats, deviceBlock, d.block); err != nil {
			return nil, err
		}
	} else if err := r.eachSlice(ctx, o, &res.Stats, r.sweep); err != nil {
		return nil, err
	}
	res.Stats.Rescored = Rescored{r.coarse.Load(), r.undecided.Load(), r.referenced.Load()}
	return res, nil
}

// run is one ranking.
type run struct {
	model   model.Model
	index   *kg.Index
	backend *kernel.Backend
	screen  Screen
	reps    []int32
	plan    *plan
	phases  *phases
	// onDevices: the backend counts nothing. constructs: nor does it make φ and ψ, with kappa in the slack.
	onDevices, constructs bool
	kappa                 float64

	mu    sync.Mutex // guards ranks
	ranks []Rank

	total                                         int64
	done, compared, coarse, undecided, referenced atomic.Int64
}

// newRun prepares a run over the queries of p.
func newRun(m model.Model, x *kg.Index, o Options, p *plan) *run {
	return &run{model: m, index: x, backend: o.Backend, screen: Float32Screen, plan: p,
		total: int64(len(p.queries)) * int64(m.Config().Entities)}
}

// eachSlice calls sweep for every pass and every slice of the candidates, with their features.
func (r *run) eachSlice(ctx context.Context, o Options, stats *Stats, sweep func(context.Context, *crew, pass, *features) error) error {
	start := time.Now()
	r.phases = newPhases(ctx)
	defer pprof.SetGoroutineLabels(ctx)
	candidates, size := r.model.Config().Entities, sliceSize(r.model, o)
	f := newFeatures(r, widestTower(r.model), size)
	c := &crew{run: r, features: f, sweepers: make([]*sweeper, o.Threads), workers: make([]model.Worker, o.Threads)}
	for _, ps := range r.plan.passes {
		f.tower = ps.tower
		for first := 0; first < candidates; first += size {
			if err := f.fill(ctx, c, ps, first, min(size, candidates-first)); err != nil {
				return err
			}
			filled := time.Now()
			stats.Pack += filled.Sub(start)
			if ps.first == 0 && first == 0 {
				stats.Screen = f.screen.name()
			} else if stats.Screen != f.screen.name() {
				stats.Screen = AutoScreen
			}
			if err := sweep(ctx, c, ps, f); err != nil {
				return err
			}
			start = time.Now()
			stats.Rank += start.Sub(filled)
		}
	}
	var strips, dropped int64
	for _, s := range c.sweepers {
		if s != nil {
			stats.Decide += s.deciding / time.Duration(o.Threads)
			strips += s.panel.Strips
			dropped += s.panel.Dropped
		}
	}
	stats.Dropped = float64(dropped) / float64(max(strips, 1))
	return nil
}

// crew holds the sweepers of a ranking and their workers, one for each goroutine, made when there is work
// for it.
type crew struct {
	run      *run
	features *features
	sweepers []*sweeper // nil on devices, which have their own
	workers  []model.Worker
}

func (c *crew) worker(w int) model.Worker {
	if c.workers[w] == nil {
		c.workers[w] = c.run.model.NewWorker(c.run.backend)
	}
	return c.workers[w]
}

func (c *crew) member(w int) *sweeper {
	if c.sweepers[w] == nil {
		c.sweepers[w] = newSweeper(c.run, c.features, c.worker(w))
	}
	return c.sweepers[w]
}

// report calls f about five times a second until the function that it returns is called.
func (r *run) report(f func(Progress)) (stop func()) {
	start := time.Now()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				f(Progress{r.done.Load(), r.total, r.compared.Load(), r.undecided.Load(), r.referenced.Load(), time.Since(start)})
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// sweep ranks the queries of a pass against the candidates of f.
func (r *run) sweep(ctx context.Context, c *crew, ps pass, f *features) error {
	var items []item
	queries := r.plan.queries
	block := f.screen.panels().QueryBlock(f.screen.terms())
	for at := ps.first; at < ps.last; {
		to := at + 1
		for to < ps.last && to-at < block && queries[to].last-queries[at].first <= maxBlockTruths {
			to++
		}
		items = append(items, item{first: at, last: to, toPanel: f.panelCount()})
		at = to
	}
	// Few queries: split the candidates, so that every thread has work.
	if parts := min((4*len(c.sweepers)+len(items)-1)/len(items), f.panelCount()); parts > 1 && len(c.sweepers) > 1 {
		whole := items
		items = nil
		for _, it := range whole {
			for i := range parts {
				part := it
				part.fromPanel, part.toPanel = it.toPanel*i/parts, it.toPanel*(i+1)/parts
				items = append(items, part)
			}
		}
	}
	return kernel.Parallel(ctx, len(c.sweepers), len(items), func(w, i int) {
		c.member(w).sweep(ctx, items[i], f.first == 0 && items[i].fromPanel == 0)
	})
}

// item is the work between two looks at the queue: a block of queries against some panels.
type item struct {
	first, last        int // queries
	fromPanel, toPanel int
}
