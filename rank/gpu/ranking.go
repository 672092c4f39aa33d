package gpu

import (
	"cmp"
	"context"
	"math"
	"sync"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// slicing is how the candidates pass through the memory of devices: so many at a time, in one buffer if
// all fit, else in two, of which one is filled while the other's candidates are screened.
type slicing struct {
	size, buffers int
	// constructs: the devices make φ and ψ, with kappa in the slack.
	constructs bool
	kappa      float64
}

// pad is the length of a row of features on a device.
func pad(width int) int { return max(64, engine.PairPad(width)) }

// candidateBytes is what a device holds of a candidate: φ in float32 and fp16, and what belongs to it.
func candidateBytes(k int) int64 { return int64(6*k) + 64 }

// slice finds the slices for the devices' free memory and for the job's FeatureMemory.
func (e *Engine) slice(j *engine.Job) (slicing, error) {
	var x slicing
	var err error
	if x.kappa, x.constructs, err = constructs(j.Model, e.devices); err != nil {
		return x, err
	}
	candidates, k := j.Last-j.First, pad(engine.WidestTower(j.Model))
	far, held := 0, int64(0)
	if x.constructs {
		far = e.farTargets
		for _, t := range j.Model.Tensors() {
			held += 4 * int64(len(t))
		}
	}
	held += int64(j.Threads) * e.workerBytes(k, far)
	// fit is the number of candidates of a buffer.
	fit := func(buffers int64) (int, error) {
		most := j.FeatureMemory / int64(len(e.devices)) / candidateBytes(k) / buffers
		for _, d := range e.devices {
			free, err := d.Free()
			if err != nil {
				return 0, err
			}
			// A sixteenth is left for the driver, and two tiles are filled up. What fits no tile is for Alloc
			// to tell.
			most = min(most, max(cuda.CandidateTile, (free-free/16-held)/candidateBytes(k)/buffers-2*cuda.CandidateTile))
		}
		return int(min(max(most, 1)*int64(len(e.devices)), math.MaxInt32)), nil
	}
	all, err := fit(1)
	if err != nil {
		return x, err
	}
	x.size, x.buffers = candidates, 1
	if all >= candidates && (len(j.Passes) < 2 || all < 2*candidates) {
		return x, nil
	}
	half, err := fit(2)
	x.size, x.buffers = min(candidates, half), 2
	return x, err
}

// constructs tells whether devices make the model's φ and ψ from its parameters, which then lie in
// their memory, in at most half of what is free, and κ of the slack.
func constructs(m model.Model, devices []*cuda.Device) (kappa float64, ok bool, err error) {
	kappa, ok = model.SquareTowers(m)
	if !ok || m.Config().Dim > cuda.MaxTowerDim {
		return 0, false, nil
	}
	var bytes int64
	for _, t := range m.Tensors() {
		bytes += 4 * int64(len(t))
	}
	for _, d := range devices {
		free, err := d.Free()
		if err != nil {
			return 0, false, err
		}
		if bytes > free/2 {
			return 0, false, nil
		}
	}
	return kappa, true, nil
}

// ranking is a ranking on devices: an engine.Engine.
type ranking struct {
	*Engine
	slicing
	job     *engine.Job
	loaders *engine.Workers // of Load
	buffers []*buffer
	workers [][]*worker // by goroutine, by device
}

// buffer is room for a slice of the candidates on the devices, and the slice in it: engine.Candidates.
type buffer struct {
	ranking *ranking
	f       *engine.Features
	parts   []*part // by device
}

// newRanking reserves memory on the devices, all of it or none.
func newRanking(e *Engine, j *engine.Job) (_ *ranking, err error) {
	r := &ranking{Engine: e, job: j, loaders: engine.NewWorkers(j), workers: make([][]*worker, j.Threads)}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	defer fault.Guard().Catch(&err)
	if r.slicing, err = e.slice(j); err != nil {
		return nil, err
	}
	room := (r.size + len(e.devices) - 1) / len(e.devices)
	room = (room+cuda.CandidateTile-1)/cuda.CandidateTile*cuda.CandidateTile + cuda.CandidateTile
	for i := range r.slicing.buffers {
		b := &buffer{ranking: r, f: engine.NewFeatures(engine.WidestTower(j.Model), r.size, !r.constructs)}
		r.buffers = append(r.buffers, b)
		for k, device := range e.devices {
			p := &part{ranking: r, device: device, room: room}
			b.parts = append(b.parts, p)
			if i > 0 {
				first := r.buffers[0].parts[k]
				p.screens, p.stages, p.towers, p.tensors = first.screens, first.stages, first.towers, first.tensors
			}
			if err := p.reserve(); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// Close waits for the devices and gives everything back.
func (r *ranking) Close() error {
	for _, workers := range r.workers {
		for _, w := range workers {
			w.close()
		}
	}
	for _, b := range r.buffers {
		for _, p := range b.parts {
			p.close()
		}
	}
	return nil
}

func (r *ranking) Slices() (size, buffers int) { return r.size, r.slicing.buffers }

func (r *ranking) Room() (queries, entries int) {
	if r.constructs {
		return blockQueries, 0
	}
	return blockQueries, blockQueries * engine.PairPad(engine.WidestTower(r.job.Model))
}

// Load makes the features of a slice, or what the devices need to make them, and brings it to the devices.
func (r *ranking) Load(ctx context.Context, i int, p engine.Pass, first, n int) (engine.Candidates, error) {
	b := r.buffers[i]
	if r.constructs {
		if err := r.measureRows(ctx, b.f, p, first, n); err != nil {
			return nil, err
		}
	} else if err := b.f.Fill(ctx, r.job, r.loaders, p, first, n); err != nil {
		return nil, err
	}
	b.f.SortBy(b.f.Norms)
	b.f.OrderTerms()
	operands := b.balance(p)
	var mu sync.Mutex
	var failed error
	err := kernel.Parallel(ctx, len(b.parts), len(b.parts), func(_, i int) {
		if err := b.parts[i].upload(ctx, b.f, operands, i, len(b.parts)); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = cmp.Or(failed, err)
		}
	})
	return b, cmp.Or(failed, err)
}

// measureRows makes norms of the entities' parameters the ones to order the candidates by, where devices make φ: any
// order will do.
func (r *ranking) measureRows(ctx context.Context, f *engine.Features, p engine.Pass, first, n int) error {
	f.Tower, f.First, f.N = p.Tower, first, n
	table, width := r.job.Model.Tensors()[0], model.Triangle(r.job.Model.Config().Dim)
	const each = 256
	return kernel.Parallel(ctx, r.job.Threads, (n+each-1)/each, func(_, item int) {
		for i := item * each; i < min((item+1)*each, n); i++ {
			f.Norms[i] = fmath.Norm(table[(first+i)*width:][:width])
		}
	})
}

// operands are the factors of the tensor cores' operands, in the order of terms: μ, and the weight of each term with its
// inverse (engine.Balance).
type operands struct {
	mean, factor, inverse []float32
}

// balance returns the operands for the candidates and queries of a pass, from samples of both.
func (b *buffer) balance(p engine.Pass) operands {
	const candidates, queries, limit = 256, 64, 30
	f, j, w := b.f, b.ranking.job, b.ranking.loaders.Get(0)
	width, k := f.Tower.Phi, pad(f.Tower.Phi)
	out := operands{make([]float32, k), make([]float32, k), make([]float32, k)}
	for t := range k {
		out.factor[t], out.inverse[t] = 1, 1
	}
	if f.Tower.Compare != kernel.Dot {
		return out
	}
	var psi, phi [][]float32
	sizes, slacks := make([]float64, 1), make([]model.Slack, 1)
	for i := 0; i < f.N; i += (f.N + candidates - 1) / candidates {
		row := make([]float32, width)
		rows := model.Rows{Values: row, Width: width, Stride: width}
		w.Features(p.Side, p.Relation, []int32{int32(f.First + i)}, rows, sizes)
		phi = append(phi, row)
	}
	for i := p.First; i < p.Last; i += (p.Last - p.First + queries - 1) / queries {
		row, q := make([]float32, width), j.Queries[i]
		rows := model.Rows{Values: row, Width: width, Stride: width}
		w.Queries(q.Side, q.Relation, []int32{q.Anchor}, rows, slacks)
		psi = append(psi, row)
	}
	balance := engine.NewBalance(psi, phi, width)
	for at, t := range f.TermOrder {
		if m := float32(balance.Mean[t]); !math.IsInf(float64(m), 0) && !math.IsNaN(float64(m)) {
			out.mean[at] = m
		}
		e := min(max(balance.Exponent[t], -limit), limit)
		out.factor[at], out.inverse[at] = float32(math.Ldexp(1, e)), float32(math.Ldexp(1, -e))
	}
	return out
}

func (b *buffer) Features() *engine.Features { return b.f }
func (b *buffer) QueryBlock() int            { return blockQueries }
func (b *buffer) Strip() int                 { return cuda.QueryTile }
func (b *buffer) MostParts() int             { return 1 }

// Count counts the candidates of all devices, which work at once.
func (b *buffer) Count(ctx context.Context, goroutine int, block *engine.Block) error {
	workers, err := b.ranking.workersOf(goroutine, b, block)
	if err != nil {
		return err
	}
	if !b.ranking.constructs {
		if err := block.Compute(ctx, block.Worker, b.f.Tower, block.Queries); err != nil {
			return err
		}
		if err := block.BoundTargets(ctx, b.f); err != nil {
			return err
		}
	}
	for _, w := range workers {
		w.send()
	}
	for _, w := range workers {
		if err := w.count(ctx); err != nil {
			return err
		}
		if err := w.subtractKnown(ctx); err != nil {
			return err
		}
	}
	b.ranking.job.Progress.Done.Add(int64(len(block.Queries)) * int64(b.f.N))
	b.ranking.job.Progress.Compared.Add(int64(len(block.Targets)) * int64(b.f.N))
	return nil
}

// Contend adds the candidates of all devices to the lists.
func (b *buffer) Contend(ctx context.Context, goroutine int, block *engine.Block, lists *engine.Lists) error {
	workers, err := b.ranking.workersOf(goroutine, b, block)
	if err != nil {
		return err
	}
	if !b.ranking.constructs {
		if err := block.Compute(ctx, block.Worker, b.f.Tower, block.Queries); err != nil {
			return err
		}
	}
	for _, w := range workers {
		if err := w.contend(ctx, lists); err != nil {
			return err
		}
	}
	b.ranking.job.Progress.Done.Add(int64(len(block.Queries)) * int64(b.f.N))
	return nil
}

// workersOf returns a goroutine's workers, one for each device, for a block against the candidates of a buffer.
func (r *ranking) workersOf(goroutine int, b *buffer, block *engine.Block) ([]*worker, error) {
	for len(r.workers[goroutine]) < len(b.parts) {
		w, err := newWorker(r, b.parts[len(r.workers[goroutine])])
		r.workers[goroutine] = append(r.workers[goroutine], w)
		if err != nil {
			return nil, err
		}
	}
	for i, w := range r.workers[goroutine] {
		w.part, w.f, w.block = b.parts[i], b.f, block
	}
	return r.workers[goroutine], nil
}
