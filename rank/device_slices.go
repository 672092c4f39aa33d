package rank

import (
	"cmp"
	"context"
	"math"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/model"
)

// slicing is how the candidates pass through the memory of devices: so many at a time, in one buffer if
// all fit, else in two, of which one is filled while the other's candidates are screened.
type slicing struct {
	size, buffers int
	// constructs: the devices make φ and ψ, with kappa in the slack.
	constructs bool
	kappa      float64
}

// candidateBytes is what a device holds of a candidate: φ in float32 and fp16, and what belongs to it.
func candidateBytes(k int) int64 { return int64(6*k) + 64 }

// newSlicing finds the slices for the devices' free memory and for FeatureMemory. With passes, there
// are several kinds of features.
func newSlicing(m model.Model, o Options, passes bool) (slicing, error) {
	var x slicing
	var err error
	if x.kappa, x.constructs, err = constructs(m, o.Devices); err != nil {
		return x, err
	}
	entities, k := m.Config().Entities, devicePad(widestTower(m))
	far, held := 0, int64(0)
	if x.constructs {
		far = farTruths
		for _, t := range m.Tensors() {
			held += 4 * int64(len(t))
		}
	}
	held += int64(o.Threads) * laneBytes(k, far)
	// fit is the number of candidates of a buffer.
	fit := func(buffers int64) (int, error) {
		most := cmp.Or(o.FeatureMemory, DefaultFeatureMemory) / int64(len(o.Devices)) / candidateBytes(k) / buffers
		for _, d := range o.Devices {
			free, err := d.Free()
			if err != nil {
				return 0, err
			}
			// A sixteenth is left for the driver, and two tiles are filled up. What fits no tile is for Alloc
			// to tell.
			most = min(most, max(cuda.CandidateTile, (free-free/16-held)/candidateBytes(k)/buffers-2*cuda.CandidateTile))
		}
		return int(min(max(most, 1)*int64(len(o.Devices)), math.MaxInt32)), nil
	}
	all, err := fit(1)
	if err != nil {
		return x, err
	}
	x.size, x.buffers = entities, 1
	if all >= entities && (!passes || all < 2*entities) {
		return x, nil
	}
	half, err := fit(2)
	x.size, x.buffers = min(entities, half), 2
	return x, err
}

// slot is a buffer: a slice's features on the host, and each device's share of them.
type slot struct {
	f      *features
	shares []*share
}

// slice is a slice of the candidates in a pass, in a slot.
type slice struct {
	pass
	first, n int
	slot     *slot
}

// eachSlice ranks every pass and every slice of the candidates: do is called for every block of at most
// size queries, with the number of the goroutine. With two slots, slices are prepared ahead.
func (d *deviceRun) eachSlice(ctx context.Context, o Options, stats *Stats, size int, do func(context.Context, int, item, *slot) error) error {
	start := time.Now()
	inner, cancel := context.WithCancel(ctx)
	d.phases = newPhases(ctx)
	defer pprof.SetGoroutineLabels(ctx)
	free, ready := make(chan *slot, len(d.slots)), make(chan slice)
	for _, s := range d.slots {
		free <- s
	}
	var loader sync.WaitGroup
	defer loader.Wait()
	defer cancel()
	loader.Go(func() {
		defer close(ready)
		c := &crew{run: d.run, workers: make([]model.Worker, o.Threads)}
		for _, ps := range d.plan.passes {
			for first := 0; first < d.model.Config().Entities; first += d.slicing.size {
				s := slice{pass: ps, first: first, n: min(d.slicing.size, d.model.Config().Entities-first)}
				select {
				case s.slot = <-free:
				case <-inner.Done():
					return
				}
				if err := d.load(inner, c, s); err != nil {
					d.fail(err, cancel)
					return
				}
				select {
				case ready <- s:
				case <-inner.Done():
					return
				}
			}
		}
	})
	for s := range ready {
		loaded := time.Now()
		stats.Pack += loaded.Sub(start)
		items := d.blocksOf(s.pass, size)
		err := kernel.Parallel(inner, o.Threads, len(items), func(w, i int) {
			if err := do(inner, w, items[i], s.slot); err != nil {
				d.fail(err, cancel)
			}
		})
		if err != nil {
			d.fail(err, cancel)
		}
		free <- s.slot
		start = time.Now()
		stats.Rank += start.Sub(loaded)
	}
	d.queue.Lock()
	defer d.queue.Unlock()
	return cmp.Or(d.err, ctx.Err())
}

// load makes the features of a slice, or what the devices need for that, and brings it to them.
func (d *deviceRun) load(ctx context.Context, c *crew, s slice) (err error) {
	defer fault.Guard().Catch(&err)
	f := s.slot.f
	f.tower = s.tower
	if err := f.fill(ctx, c, s.pass, s.first, s.n); err != nil {
		return err
	}
	b := d.balance(s.pass, f, c.worker(0))
	var mu sync.Mutex
	var failed error
	err = kernel.Parallel(ctx, len(s.slot.shares), len(s.slot.shares), func(_, i int) {
		if err := s.slot.shares[i].upload(ctx, d.run, f, b, i, len(s.slot.shares)); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = cmp.Or(failed, err)
		}
	})
	return cmp.Or(failed, err)
}

// blocksOf splits the queries of a pass into blocks of at most size.
func (d *deviceRun) blocksOf(ps pass, size int) (items []item) {
	queries := d.plan.queries
	for at := ps.first; at < ps.last; {
		to := at + 1
		for to < ps.last && to-at < size && queries[to].last-queries[at].first <= maxBlockTruths {
			to++
		}
		items = append(items, item{first: at, last: to})
		at = to
	}
	return items
}
