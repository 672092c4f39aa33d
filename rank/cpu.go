package rank

import (
	"context"
	"math"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// cpuEngine counts on the processor. It holds one slice of the candidates at a time, so it
// implements both engine.Engine and engine.Candidates.
type cpuEngine struct {
	job      *engine.Job
	asked    Screen   // from Options
	used     []Screen // so far
	features *features
	costs    costs
	estimate func(*screenSample, screen) leftovers
	options  []option        // for the slice
	loaded   finished        // when the slice was loaded
	workers  *engine.Workers // of Load
	sweepers []*sweeper      // by goroutine
}

func newCPUEngine(j *engine.Job, screen Screen) *cpuEngine {
	return &cpuEngine{
		job: j, asked: screen, features: newFeatures(j, cpuSlice(j)),
		costs: costsOf(j.Backend), estimate: (*screenSample).leftovers,
		workers: engine.NewWorkers(j), sweepers: make([]*sweeper, j.Threads),
	}
}

// cpuSlice returns the largest number of candidates whose features fit into memory together.
func cpuSlice(j *engine.Job) int {
	nr := j.Backend.NR
	n := int(min(j.FeatureMemory/featureBytes(engine.WidestTower(j.Model)), math.MaxInt32)) / nr * nr
	return max(1, min(max(n, nr), j.Most))
}

func (e *cpuEngine) Slices() (size, buffers int) { return cpuSlice(e.job), 1 }

func (e *cpuEngine) Room() (queries, entries int) {
	queries, entries, _ = blockSizes(e.job.Model, e.job.Backend, e.asked)
	return queries, entries
}

// blockSizes returns the largest number of queries in a block, and the largest numbers of ψ entries
// and of words in strips that these queries need.
func blockSizes(m model.Model, b *kernel.Backend, asked Screen) (queries, entries, strips int) {
	towers := []model.Tower{m.Tower(kg.Tail), m.Tower(kg.Head)}
	for _, t := range towers {
		n := b.Panels(t.Compare).QueryBlock(t.Psi)
		strips = max(strips, n*t.Psi)
		for _, c := range asked.formatsFor(t, b) {
			n = max(n, c.panels(b, t.Compare).QueryBlock(c.layout(t).terms))
		}
		queries, entries = max(queries, n), max(entries, n*engine.PsiStride(t))
	}
	for _, t := range towers {
		for _, c := range asked.formatsFor(t, b) {
			strips = max(strips, c.strips(c.layout(t), queries, c.panels(b, t.Compare).MR))
		}
	}
	return queries, entries, strips
}

// Load computes φ of the candidates, chooses a screen for them and packs their panels.
func (e *cpuEngine) Load(ctx context.Context, _ int, p engine.Pass, slice engine.Set) (engine.Candidates, error) {
	f := e.features
	if err := f.Fill(ctx, e.job, e.workers, p, slice); err != nil {
		return nil, err
	}
	f.OrderTerms()
	var err error
	if e.options, err = e.newOptions(ctx, p); err != nil {
		return nil, err
	}
	e.loaded = e.finished()
	return e, e.use(ctx, e.cheapest(engine.Span{First: p.First, Last: p.Last}))
}

// use packs the panels for a screen.
func (e *cpuEngine) use(ctx context.Context, s screen) error {
	f := e.features
	f.use(s)
	if !slices.Contains(e.used, s.name()) {
		e.used = append(e.used, s.name())
	}
	key, err := s.sortKey(ctx, e.job)
	if err != nil {
		return err
	}
	f.SortBy(key)
	f.boundGroups()
	return s.pack(ctx, e.job)
}

func (e *cpuEngine) Features() *engine.Features { return &e.features.Features }
func (e *cpuEngine) QueryBlock() int            { return e.features.queryBlock() }
func (e *cpuEngine) Strip() int                 { return e.features.screen.panels().MR }
func (e *cpuEngine) MostParts() int             { return e.features.panelCount() }

func (e *cpuEngine) Count(ctx context.Context, worker int, b *engine.Block) error {
	return e.sweeper(worker).count(ctx, b)
}

func (e *cpuEngine) Contend(ctx context.Context, worker int, b *engine.Block, lists *engine.Lists) error {
	return e.sweeper(worker).contend(ctx, b, lists)
}

// sweeper returns a goroutine's scratch memory.
func (e *cpuEngine) sweeper(worker int) *sweeper {
	if e.sweepers[worker] == nil {
		e.sweepers[worker] = newSweeper(e.job, e.features, e.asked)
	}
	return e.sweepers[worker]
}

func (*cpuEngine) Close() error { return nil }
