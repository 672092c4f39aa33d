package gpu

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/rank/internal/engine"
)

// slicing says how candidates pass through device memory: size candidates at a time, in one or two
// buffers. With two buffers, one is filled while the candidates in the other are screened. There is
// one buffer if all candidates fit into it and there is either a single pass or no room for a
// second buffer.
type slicing struct {
	size, buffers int
	// blocks is the number of blocks that the devices work on at a time.
	blocks int
	// constructs is true if the devices compute φ and ψ. kappa is then the κ of the model's slack.
	constructs bool
	kappa      float64
}

// blocks returns the largest number of blocks that the devices work on at a time if there is enough
// memory.
func (e *Engine) blocks(j *engine.Job) int {
	return min(j.Threads, e.mostBlocks*len(e.devices), e.passBlocks(j))
}

// passBlocks returns the largest number of blocks of a pass. Plans may lack passes, as Memory's may.
func (e *Engine) passBlocks(j *engine.Job) (most int) {
	size := e.blockQueries
	switch {
	case len(j.Passes) == 0 && j.Unique == 0:
		return math.MaxInt
	case len(j.Passes) == 0: // perhaps a prediction
		return (j.Unique + cuda.QueryTile - 1) / cuda.QueryTile
	case j.Predicts():
		size = cuda.QueryTile // blocks are small if there are few queries
	}
	for _, p := range j.Passes {
		most = max(most, len(j.Blocks(engine.Span{First: p.First, Last: p.Last}, size)))
	}
	return most
}

// pad returns the length of a row of features on a device.
func pad(width int) int { return max(64, engine.PairPad(width)) }

// candidateBytes returns the device memory for a candidate, in bytes: φ in float32 and fp16, norms,
// size and identifier.
func candidateBytes(k int) int64 { return int64(6*k) + 64 }

// slicing chooses slices that fit into the devices' free memory and the job's FeatureMemory. If all
// candidates do not fit, it chooses so few blocks that they use at most half of the memory: the
// number of blocks at a time multiplied by the size of the slices, and hence the speed, is then
// largest.
func (e *Engine) slicing(j *engine.Job) (slicing, error) {
	var x slicing
	var err error
	if x.kappa, x.constructs, err = constructs(j.Model, e.devices); err != nil {
		return x, err
	}
	candidates, k := j.Most, pad(engine.WidestTower(j.Model))
	remote, parameters := 0, int64(0)
	if x.constructs {
		remote, parameters = e.remoteTargets, tensorBytes(j.Model)
	}
	bound := j.FeatureMemory
	if bound == 0 {
		// If the devices compute φ, the host has no features that the default must bound.
		if bound = rank.DefaultFeatureMemory; x.constructs {
			bound = math.MaxInt64
		}
	}
	room := int64(math.MaxInt64) // for blocks and candidates, on each device
	for _, d := range e.devices {
		free, err := d.Free()
		if err != nil {
			return x, err
		}
		room = min(room, free-free/16-parameters) // a sixteenth stays free for the driver
	}
	x.blocks = e.blocks(j)
	perBlock := e.workerBytes(k, remote)
	// fit returns the number of candidates that fit into each of the given number of buffers.
	fit := func(buffers int64) int {
		most := bound / int64(len(e.devices)) / candidateBytes(k) / buffers
		// The space of two tiles stays free for padding. If less than a tile fits, Alloc fails.
		fits := (room-int64(x.blocks)*perBlock)/candidateBytes(k)/buffers - 2*cuda.CandidateTile
		most = min(most, max(cuda.CandidateTile, fits))
		return int(min(max(most, 1)*int64(len(e.devices)), math.MaxInt32))
	}
	if fit(1) < candidates {
		x.blocks = max(1, min(x.blocks, int(room/2/perBlock)))
	}
	all := fit(1)
	x.size, x.buffers = candidates, 1
	if onePass := j.OnePass || len(j.Passes) == 1; all >= candidates && (onePass || all < 2*candidates) {
		return x, nil
	}
	x.size, x.buffers = min(candidates, fit(2)), 2
	return x, nil
}

// constructs reports whether the devices compute φ and ψ from the model's parameters, and returns κ
// of the slack. They do if the model has matrix towers (model.MatrixTowers) of a dimension up to
// cuda.MaxTowerDim, and if the parameters need at most half of the free memory of each device.
func constructs(m model.Model, devices []*cuda.Device) (kappa float64, ok bool, err error) {
	kappa, ok = model.MatrixTowers(m)
	if !ok || m.Config().Dim > cuda.MaxTowerDim {
		return 0, false, nil
	}
	bytes := tensorBytes(m)
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

// tensorBytes returns the size of the model's parameters in bytes.
func tensorBytes(m model.Model) (bytes int64) {
	for _, t := range m.Tensors() {
		bytes += 4 * int64(len(t))
	}
	return bytes
}

// ranking is the engine.Engine of one ranking.
type ranking struct {
	*Engine
	slices  slicing
	job     *engine.Job
	loaders *engine.Workers // of Load
	buffers []*buffer
	// free holds the teams that do not work on a block. recruiting ends when teams has all teams and
	// free has received them.
	free       chan *team
	teams      []*team
	recruiting sync.WaitGroup
}

// team is one worker for each device. A team works on one block at a time.
type team struct {
	workers []*worker
	err     error // the team cannot work because its memory could not be reserved
}

// recruit creates the teams. It runs while the features are loaded. If the memory of a device or of
// the host does not suffice for a team, because other programs use it, the teams before it do the work.
func (r *ranking) recruit() {
	for i := range cap(r.free) {
		t := &team{}
		for _, p := range r.buffers[0].parts {
			w, err := newWorker(r, p)
			t.workers = append(t.workers, w)
			if t.err = err; err != nil {
				break
			}
		}
		var full *cuda.MemoryError
		if i > 0 && errors.As(t.err, &full) {
			t.close()
			return
		}
		r.teams = append(r.teams, t)
		r.free <- t
	}
}

// close waits for the devices and frees the team's memory.
func (t *team) close() {
	for _, w := range t.workers {
		w.close()
	}
}

// buffer is device memory for a slice of the candidates, and the engine.Candidates of the slice in
// it.
type buffer struct {
	ranking *ranking
	f       *engine.Features
	parts   []*part // by device
}

// newRanking reserves device memory, after Engine.enter. If it fails, it frees everything.
func newRanking(e *Engine, j *engine.Job) (_ *ranking, err error) {
	r := &ranking{Engine: e, job: j, loaders: engine.NewWorkers(j)}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	defer fault.Guard().Catch(&err)
	if r.slices, err = e.slicing(j); err != nil {
		return nil, err
	}
	r.free = make(chan *team, r.slices.blocks)
	room := e.partRoom(r.slices)
	for i := range r.slices.buffers {
		f := engine.NewFeatures(engine.WidestTower(j.Model), r.slices.size, !r.slices.constructs)
		b := &buffer{ranking: r, f: f}
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
	r.recruiting.Go(r.recruit)
	return r, nil
}

// Close waits for the devices and frees their memory.
func (r *ranking) Close() error {
	defer r.leave()
	r.recruiting.Wait()
	for _, t := range r.teams {
		t.close()
	}
	for _, b := range r.buffers {
		for _, p := range b.parts {
			p.close()
		}
	}
	return nil
}

func (r *ranking) Slices() (size, buffers int) { return r.slices.size, r.slices.buffers }

func (r *ranking) Room() (queries, entries int) {
	return r.room(engine.WidestTower(r.job.Model), r.slices)
}

// room is Room for vectors of the given width.
func (e *Engine) room(width int, x slicing) (queries, entries int) {
	if x.constructs {
		return e.blockQueries, 0
	}
	return e.blockQueries, e.blockQueries * engine.PairPad(width)
}

// partRoom returns the number of candidates for which a part has room, in whole tiles.
func (e *Engine) partRoom(x slicing) int {
	room := (x.size + len(e.devices) - 1) / len(e.devices)
	return (room+cuda.CandidateTile-1)/cuda.CandidateTile*cuda.CandidateTile + cuda.CandidateTile
}

// Load computes the features of a slice and uploads them. If the devices construct φ, it uploads
// their inputs instead.
func (r *ranking) Load(ctx context.Context, i int, p engine.Pass, slice engine.Set) (engine.Candidates, error) {
	b := r.buffers[i]
	if r.slices.constructs {
		if err := r.measureRows(ctx, b.f, p, slice); err != nil {
			return nil, err
		}
	} else if err := b.f.Fill(ctx, r.job, r.loaders, p, slice); err != nil {
		return nil, err
	}
	b.f.SortBy(b.f.Norms)
	b.f.OrderTerms()
	operands, err := b.balance(ctx, p)
	if err != nil {
		return nil, err
	}
	err = engine.Parallel(ctx, len(b.parts), len(b.parts), func(ctx context.Context, _, i int) error {
		return b.parts[i].upload(ctx, b.f, operands, i, len(b.parts))
	})
	return b, err
}

// measureRows sets the norms to norms of the entities' parameters, for devices that construct φ.
// The norms only determine the order of the candidates, so any values are correct.
func (r *ranking) measureRows(ctx context.Context, f *engine.Features, p engine.Pass, slice engine.Set) error {
	f.Use(p, slice)
	table, width := r.job.Model.Tensors()[0], model.Triangle(r.job.Model.Config().Dim)
	return engine.InChunks(ctx, r.job.Threads, f.N, 256, func(_, from, to int) {
		for i := from; i < to; i++ {
			f.Norms[i] = fmath.Norm(table[int(slice.Entity(i))*width:][:width])
		}
	})
}

// operands holds the factors of the tensor cores' operands, in the order of terms: μ, and the
// weight of each term with the inverse of the weight (engine.Balance).
type operands struct {
	mean, factor, inverse []float32
}

// balance returns the operands for the candidates and queries of a pass, from samples of both.
func (b *buffer) balance(ctx context.Context, p engine.Pass) (operands, error) {
	const candidates, queries, limit = 256, 64, 30
	f, j := b.f, b.ranking.job
	width, k := f.Tower.Phi, pad(f.Tower.Phi)
	out := operands{make([]float32, k), make([]float32, k), make([]float32, k)}
	for t := range k {
		out.factor[t], out.inverse[t] = 1, 1
	}
	if f.Tower.Compare != kernel.Dot {
		return out, nil
	}
	// sample returns the rows that compute writes for at most the given number of items, evenly
	// spaced in first ≤ i < last.
	sample := func(first, last, most int, compute func(w model.Worker, i int, row model.Rows)) ([][]float32, error) {
		step := (last - first + most - 1) / most
		rows := make([][]float32, (last-first+step-1)/step)
		return rows, engine.InChunks(ctx, j.Threads, len(rows), 1, func(worker, at, _ int) {
			rows[at] = make([]float32, width)
			row := model.Rows{Values: rows[at], Width: width, Stride: width}
			compute(b.ranking.loaders.Get(worker), first+at*step, row)
		})
	}
	phi, err := sample(0, f.N, candidates, func(w model.Worker, i int, row model.Rows) {
		w.Features(p.Side, p.Relation, []int32{f.Slice.Entity(i)}, row, make([]float64, 1))
	})
	if err != nil {
		return out, err
	}
	psi, err := sample(p.First, p.Last, queries, func(w model.Worker, i int, row model.Rows) {
		q := j.Queries[i]
		w.Queries(q.Side, q.Relation, []int32{q.Anchor}, row, make([]model.Slack, 1))
	})
	if err != nil {
		return out, err
	}
	balance := engine.NewBalance(psi, phi, width)
	for at, t := range f.TermOrder {
		if m := float32(balance.Mean[t]); !math.IsInf(float64(m), 0) && !math.IsNaN(float64(m)) {
			out.mean[at] = m
		}
		e := min(max(balance.Exponent[t], -limit), limit)
		out.factor[at], out.inverse[at] = float32(math.Ldexp(1, e)), float32(math.Ldexp(1, -e))
	}
	return out, nil
}

func (b *buffer) Features() *engine.Features { return b.f }
func (b *buffer) QueryBlock() int            { return b.ranking.blockQueries }
func (b *buffer) Strip() int                 { return cuda.QueryTile }
func (b *buffer) MostParts() int             { return 1 }

// Count counts the candidates of all devices. While it waits for the counts of a device, the next
// devices already prepare theirs.
func (b *buffer) Count(ctx context.Context, _ int, block *engine.Block) error {
	if err := b.prepare(ctx, block); err != nil {
		return err
	}
	if !b.ranking.slices.constructs {
		if err := block.BoundTargets(ctx, b.f); err != nil {
			return err
		}
	}
	progress := &b.ranking.job.Progress
	err := b.withTeam(ctx, block, func(workers []*worker) error {
		for i, w := range workers {
			if err := w.send(ctx); err != nil {
				return err
			}
			if i > 0 { // count starts the first
				w.stream.start()
			}
		}
		for _, w := range workers {
			if err := w.count(ctx); err != nil {
				return err
			}
			if w.single {
				progress.Single.Add(1)
			} else {
				progress.Half.Add(1)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	progress.Done.Add(int64(len(block.Queries)) * int64(b.f.N))
	progress.Compared.Add(int64(len(block.Targets)) * int64(b.f.N))
	return nil
}

// Contend adds candidates to the lists one device at a time, because each device raises the
// thresholds for the next.
func (b *buffer) Contend(ctx context.Context, _ int, block *engine.Block, lists *engine.Lists) error {
	if err := b.prepare(ctx, block); err != nil {
		return err
	}
	err := b.withTeam(ctx, block, func(workers []*worker) error {
		for _, w := range workers {
			if err := w.contend(ctx, lists); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.ranking.job.Progress.Done.Add(int64(len(block.Queries)) * int64(b.f.N))
	return nil
}

// prepare computes ψ of a block, unless the devices do.
func (b *buffer) prepare(ctx context.Context, block *engine.Block) error {
	if b.ranking.slices.constructs {
		return nil
	}
	return block.ComputeVectors(ctx, b.f)
}

// withTeam waits for a free team and calls work with its workers whose devices have candidates, ready
// for the block. After an error, the team does not become free again, because its devices may still
// read its memory.
func (b *buffer) withTeam(ctx context.Context, block *engine.Block, work func([]*worker) error) error {
	var t *team
	select {
	case t = <-b.ranking.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.err != nil {
		return t.err
	}
	var workers []*worker
	for i, w := range t.workers {
		if w.part, w.f, w.block = b.parts[i], b.f, block; w.part.n > 0 {
			workers = append(workers, w)
		}
	}
	if err := work(workers); err != nil {
		return err
	}
	b.ranking.free <- t
	return nil
}
