package rank

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/model"
)

// Ranking on GPUs (docs/decisions/0006). The devices share the candidates. A block of queries has its
// ψ and the intervals of its truths from the goroutine that sends it, as for the CPU, or where the
// model allows from the device itself. Every device then screens its candidates, decides what the
// screen leaves by float64 scores, and judges the known answers; what is still undecided comes back
// for the reference. Unfiltered counts and the known answers to take out of them are each exact by
// themselves, whatever stage decided.

const (
	// deviceBlock and deviceTruths bound a block of queries.
	deviceBlock  = 512
	deviceTruths = maxBlockTruths + maxTruths
	// tooMany is the share of undecided pairs from which the float32 screen takes over.
	tooMany = 1.0 / 16
)

// deviceList is the room for undecided pairs: no less than a tile of candidates and a block of queries
// can leave, 256 · deviceTruths. A test makes it smaller.
var deviceList = 5 << 18

// deviceRun is a ranking on devices.
type deviceRun struct {
	*run
	slicing slicing
	slots   []*slot
	lanes   [][]*lane // by goroutine, by device
	blocks  []*sweeper
	queue   sync.Mutex // guards err
	err     error
}

// share is a device and its part of the candidates in memory: positions first ≤ p < first+n.
type share struct {
	device   *cuda.Device
	stream   *cuda.Stream
	event    *cuda.Event
	staged   [2]*cuda.Event // a half of staging is copied
	screens  *cuda.Screens
	stages   *cuda.Stages
	towers   *cuda.Towers // nil where the host makes φ and ψ
	room     int          // candidates
	first, n int
	k        int
	half     bool // quantised for the tensor cores
	// useSingle is set when the tensor cores decide too little.
	useSingle                                 atomic.Bool
	staging                                   *cuda.Pinned
	phi, halves, scales, sizes, sizes3, norms *cuda.Memory
	entity, same, centre, factor, inverse     *cuda.Memory
	blocksHalf, blocksSingle                  *cuda.Memory
	tensors                                   [4]*cuda.Memory // the model's, with towers
	memory                                    []*cuda.Memory
}

// devicePad is the length of a row of features on a device.
func devicePad(width int) int { return max(64, pairPad(width)) }

// newDeviceRun reserves what the ranking needs on the devices; close gives it back, also after an
// error.
func newDeviceRun(r *run, o Options) (_ *deviceRun, err error) {
	d := &deviceRun{run: r, lanes: make([][]*lane, o.Threads), blocks: make([]*sweeper, o.Threads)}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	defer fault.Guard().Catch(&err)
	if d.slicing, err = newSlicing(r.model, o, len(r.plan.passes) > 1); err != nil {
		return nil, err
	}
	r.onDevices, r.constructs, r.kappa = true, d.slicing.constructs, d.slicing.kappa
	room := (d.slicing.size + len(o.Devices) - 1) / len(o.Devices)
	room = (room+cuda.CandidateTile-1)/cuda.CandidateTile*cuda.CandidateTile + cuda.CandidateTile
	for i := range d.slicing.buffers {
		to := &slot{f: newFeatures(r, widestTower(r.model), d.slicing.size)}
		d.slots = append(d.slots, to)
		for j, device := range o.Devices {
			s := &share{device: device, room: room}
			to.shares = append(to.shares, s)
			if i > 0 {
				first := d.slots[0].shares[j]
				s.screens, s.stages, s.towers, s.tensors = first.screens, first.stages, first.towers, first.tensors
			}
			if err = s.reserve(r); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// reserve makes what a share needs on its device: with kernels and the model's parameters, unless it has
// those of another.
func (s *share) reserve(r *run) (err error) {
	if s.stream, err = s.device.NewStream(); err != nil {
		return err
	}
	for _, e := range []**cuda.Event{&s.event, &s.staged[0], &s.staged[1]} {
		if *e, err = s.device.NewEvent(); err != nil {
			return err
		}
	}
	room, k := int64(s.room), int64(devicePad(widestTower(r.model)))
	if s.staging, err = s.device.Pin(max(stagingBytes, 24*room)); err != nil {
		return err
	}
	block := int64(unsafe.Sizeof(cuda.Block{}))
	for _, m := range []struct {
		to    **cuda.Memory
		bytes int64
	}{
		{&s.phi, 4 * room * k}, {&s.halves, 2 * room * k}, {&s.scales, 4 * room}, {&s.sizes3, 24 * room},
		{&s.norms, 8 * room}, {&s.sizes, 8 * room}, {&s.entity, 4 * room}, {&s.same, 4 * room},
		{&s.centre, 4 * k}, {&s.factor, 4 * k}, {&s.inverse, 4 * k},
		{&s.blocksHalf, block * (room / cuda.BlockCandidates)}, {&s.blocksSingle, block * (room / cuda.BlockCandidates)},
	} {
		if *m.to, err = s.device.Alloc(m.bytes); err != nil {
			return err
		}
		s.memory = append(s.memory, *m.to)
	}
	if s.screens != nil {
		return nil
	}
	if s.screens, err = cuda.NewScreens(s.device); err != nil {
		return err
	}
	if s.stages, err = cuda.NewStages(s.device); err != nil {
		return err
	}
	if r.constructs {
		return s.sendModel(r.model)
	}
	return nil
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

// entityRow returns the parameters of an entity of a model whose φ devices make.
func (r *run) entityRow(e int) []float32 {
	width := model.Triangle(r.model.Config().Dim)
	return r.model.Tensors()[0][e*width:][:width]
}

// sendModel brings the model's parameters to the device, and the kernels that make φ and ψ from them.
func (s *share) sendModel(m model.Model) (err error) {
	if s.towers, err = cuda.NewTowers(s.device, m.Config().Dim); err != nil {
		return err
	}
	for i, t := range m.Tensors() {
		if s.tensors[i], err = s.device.Alloc(4 * int64(len(t))); err != nil {
			return err
		}
		s.memory = append(s.memory, s.tensors[i])
		err = s.feed(context.Background(), s.tensors[i], len(t), 4, func(part []float32, from int) { copy(part, t[from:]) })
		if err != nil {
			return err
		}
	}
	return nil
}

const stagingBytes = 8 << 20

// close waits for the devices and gives everything back.
func (d *deviceRun) close() {
	for _, lanes := range d.lanes {
		for _, l := range lanes {
			l.close()
		}
	}
	for _, slot := range d.slots {
		for _, s := range slot.shares {
			s.close()
		}
	}
}

func (s *share) close() {
	for _, m := range s.memory {
		_ = m.Free()
	}
	_ = s.staging.Free()
	for _, e := range []*cuda.Event{s.event, s.staged[0], s.staged[1]} {
		if e != nil {
			_ = e.Close()
		}
	}
	if s.stream != nil {
		_ = s.stream.Close()
	}
}

// member returns the sweeper and the lanes of a goroutine, for the candidates in a slot.
func (d *deviceRun) member(w int, sl *slot) (*sweeper, []*lane, error) {
	if d.blocks[w] == nil {
		width := widestTower(d.model)
		rows := deviceBlock
		if d.constructs {
			rows = 0
		}
		d.blocks[w] = &sweeper{
			run: d.run, worker: d.model.NewWorker(d.backend),
			psi: kernel.AlignedFloat32(rows * pairPad(width)), norms: make([]float64, deviceBlock), slacks: make([]model.Slack, deviceBlock),
			rowOf: make([]int32, deviceTruths), rows: make([]int32, deviceBlock+1),
			low: make([]float64, deviceTruths), high: make([]float64, deviceTruths), better: make([]int32, deviceTruths), tally: make([]tally, deviceTruths),
			reference: make([]float64, deviceTruths), scored: make([]bool, deviceTruths),
			phi: kernel.AlignedFloat32(pairPad(width)), scores: make([]float64, 1),
		}
		for _, s := range sl.shares {
			l, err := newLane(s, devicePad(width))
			d.lanes[w] = append(d.lanes[w], l)
			if err != nil {
				return nil, nil, err
			}
		}
	}
	d.blocks[w].f = sl.f
	for i, l := range d.lanes[w] {
		l.share = sl.shares[i]
	}
	return d.blocks[w], d.lanes[w], nil
}

// fail keeps the first error and ends the ranking.
func (d *deviceRun) fail(err error, cancel context.CancelFunc) {
	d.queue.Lock()
	defer d.queue.Unlock()
	if d.err == nil && !errors.Is(err, context.Canceled) {
		d.err = err
	}
	cancel()
}

// balance is what the tensor cores' operands are made with, by position in f.orderOf: μ, and a power of
// two for each term.
type balance struct {
	mean, factor, inverse []float32
}

// balance finds the mean of the candidates, and the powers that bring φ's and ψ's entries to one size,
// from samples of both: the product of the norms, and with it the screen's band, becomes small. Any
// mean and any powers are right.
func (d *deviceRun) balance(ps pass, f *features, w model.Worker) balance {
	width, k := f.tower.Phi, devicePad(f.tower.Phi)
	b := balance{make([]float32, k), make([]float32, k), make([]float32, k)}
	for t := range k {
		b.factor[t], b.inverse[t] = 1, 1
	}
	if f.tower.Compare != kernel.Dot {
		return b
	}
	spread, mean, query := make([]float64, width), make([]float64, width), make([]float64, width)
	const sample = 256
	n := 0.0
	row := make([]float32, width)
	vector := model.Rows{Values: row, Width: width, Stride: width}
	sizes, slacks := make([]float64, 1), make([]model.Slack, 1)
	for i := 0; i < f.n; i += (f.n + sample - 1) / sample {
		n++
		w.Features(ps.side, ps.relation, []int32{int32(f.first + i)}, vector, sizes)
		for t, v := range row {
			delta := float64(v) - mean[t]
			mean[t] += delta / n
			spread[t] += delta * (float64(v) - mean[t])
		}
	}
	count := ps.last - ps.first
	for i := 0; i < count; i += (count + 63) / 64 {
		q := d.plan.queries[ps.first+i]
		w.Queries(q.Side, q.Relation, []int32{q.Anchor}, vector, slacks)
		for t, v := range row {
			query[t] += float64(v) * float64(v)
		}
	}
	for at, t := range f.orderOf {
		if m := float32(mean[t]); !math.IsInf(float64(m), 0) && !math.IsNaN(float64(m)) {
			b.mean[at] = m
		}
		// In the square: the quotient of the sizes.
		if e := math.Round(math.Log2(query[t]/spread[t]) / 4); math.Abs(e) <= 30 {
			b.factor[at], b.inverse[at] = float32(math.Ldexp(1, int(e))), float32(math.Ldexp(1, -int(e)))
		}
	}
	return b
}

// send copies values to device memory through p, of which it uses the bytes from at on, and returns
// the first byte behind them.
func send[T any](s *cuda.Stream, dst *cuda.Memory, p *cuda.Pinned, at int64, n int, fill func([]T)) (int64, error) {
	var v T
	size := int64(unsafe.Sizeof(v)) * int64(n)
	fill(cuda.View[T](p, at, n))
	return (at + size + 15) &^ 15, s.CopyTo(dst, 0, p, at, size)
}

// sync waits for all that was asked of the share's stream.
func (s *share) sync() error {
	if err := s.stream.Record(s.event); err != nil {
		return err
	}
	return s.event.Wait(context.Background()) // short: what is asked is bounded by the staging memory
}

// feed copies n rows of rowBytes each to dst, which fill writes. While some are copied, the next are
// written.
func (s *share) feed(ctx context.Context, dst *cuda.Memory, n int, rowBytes int64, fill func(part []float32, from int)) error {
	const half = stagingBytes / 2
	each := max(1, int(half/rowBytes))
	for at, turn := 0, 0; at < n; at, turn = at+each, 1-turn {
		if err := cmp.Or(ctx.Err(), s.staged[turn].Wait(context.Background())); err != nil {
			return err
		}
		bytes := int64(min(each, n-at)) * rowBytes
		fill(cuda.View[float32](s.staging, int64(turn*half), int(bytes/4)), at)
		if err := cmp.Or(s.stream.CopyTo(dst, int64(at)*rowBytes, s.staging, int64(turn*half), bytes), s.stream.Record(s.staged[turn])); err != nil {
			return err
		}
	}
	return s.sync()
}

// upload brings what a share knows of its candidates to its device, in the order of the features: part
// i of n of them.
func (s *share) upload(ctx context.Context, r *run, f *features, b balance, i, n int) error {
	s.first, s.n = f.n*i/n, f.n*(i+1)/n-f.n*i/n
	s.k = devicePad(f.tower.Phi)
	s.half = f.tower.Compare == kernel.Dot
	s.useSingle.Store(false)
	order := f.order[s.first : s.first+s.n]
	at, err := send(s.stream, s.entity, s.staging, 0, s.n, func(v []int32) {
		for i, row := range order {
			v[i] = row + int32(f.first)
		}
	})
	if err != nil {
		return err
	}
	_, err = send(s.stream, s.same, s.staging, at, s.n, func(v []int32) {
		for i, row := range order {
			v[i] = row + int32(f.first)
			if r.reps != nil {
				v[i] = r.reps[v[i]]
			}
		}
	})
	if err = cmp.Or(err, s.sync(), s.clearPadding(s.phi, int64(4*s.k))); err != nil {
		return err
	}
	fill := s.sendFeatures
	if s.towers != nil {
		fill = s.construct
	}
	norms, sizes, err := fill(ctx, r, f, order)
	if err != nil {
		return err
	}
	blocks := make([]cuda.Block, s.room/cuda.BlockCandidates)
	for i := range order {
		b := &blocks[i/cuda.BlockCandidates]
		n := kernel.RoundUp32(norms[i])
		b.B[3], b.Norm, b.Size = max(b.B[3], n), max(b.Norm, n), max(b.Size, kernel.RoundUp32(sizes[i]))
	}
	if _, err = send(s.stream, s.blocksSingle, s.staging, 0, len(blocks), func(v []cuda.Block) { copy(v, blocks) }); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	if !s.half {
		return nil
	}
	return s.quantise(f, blocks, b)
}

// clearPadding zeroes what fills up the last tile behind the candidates' rows.
func (s *share) clearPadding(m *cuda.Memory, rowBytes int64) error {
	at := int64(s.n) * rowBytes
	return s.stream.Fill(m, at, min(m.Bytes()-at, cuda.CandidateTile*rowBytes), 0)
}

// sendFeatures copies φ from the host, and returns ‖φ‖ and the sizes by position.
func (s *share) sendFeatures(ctx context.Context, _ *run, f *features, order []int32) (norms, sizes []float64, err error) {
	err = s.feed(ctx, s.phi, s.n, int64(4*s.k), func(part []float32, from int) {
		for i := range len(part) / s.k {
			permute(part[i*s.k:(i+1)*s.k], f.row(order[from+i]), f.orderOf)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	norms, sizes = make([]float64, s.n), make([]float64, s.n)
	for i, row := range order {
		norms[i], sizes[i] = f.norms[row], f.sizes[row]
	}
	at, err := send(s.stream, s.norms, s.staging, 0, s.n, func(v []float64) { copy(v, norms) })
	if err != nil {
		return nil, nil, err
	}
	_, err = send(s.stream, s.sizes, s.staging, at, s.n, func(v []float64) { copy(v, sizes) })
	return norms, sizes, cmp.Or(err, s.sync())
}

// construct makes φ on the device, and returns ‖φ‖ and the sizes by position.
func (s *share) construct(_ context.Context, r *run, _ *features, _ []int32) (norms, sizes []float64, err error) {
	bytes := int64(8 * s.n)
	err = cmp.Or(
		s.towers.Features(s.stream, cuda.Construct{Entities: s.tensors[0].At(0), Entity: s.entity.At(0), Out: s.phi.At(0), Norms: s.norms.At(0), Sizes: s.sizes.At(0),
			N: int32(s.n), Dim: int32(r.model.Config().Dim), K: int32(s.k)}),
		s.stream.CopyFrom(s.staging, 0, s.norms, 0, bytes),
		s.stream.CopyFrom(s.staging, bytes, s.sizes, 0, bytes),
		s.sync(),
	)
	if err != nil {
		return nil, nil, err
	}
	return slices.Clone(cuda.View[float64](s.staging, 0, s.n)), slices.Clone(cuda.View[float64](s.staging, bytes, s.n)), nil
}

// permute writes the entries of row in the order of terms, and zeros behind them.
func permute(dst, row []float32, terms []int32) {
	for at, t := range terms {
		dst[at] = row[t]
	}
	clear(dst[len(terms):])
}

// quantise makes the operands of the tensor cores: centred and balanced.
func (s *share) quantise(f *features, blocks []cuda.Block, b balance) error {
	at := int64(0)
	var err error
	for _, v := range []struct {
		to   *cuda.Memory
		from []float32
	}{{s.centre, b.mean}, {s.factor, b.factor}, {s.inverse, b.inverse}} {
		if at, err = send(s.stream, v.to, s.staging, at, s.k, func(to []float32) { copy(to, v.from) }); err != nil {
			return err
		}
	}
	if err := s.clearPadding(s.halves, int64(2*s.k)); err != nil {
		return err
	}
	if err := s.stream.Fill(s.scales, 0, s.scales.Bytes(), 0); err != nil {
		return err
	}
	err = s.stages.Quantise(s.stream, cuda.Quantise{Rows: s.phi.At(0), Centre: s.centre.At(0), Factor: s.factor.At(0), Out: s.halves.At(0), Scales: s.scales.At(0),
		Sizes: s.sizes3.At(0), N: int32(s.n), Width: int32(f.tower.Phi), Stride: int32(s.k), K: int32(s.k)})
	if err != nil {
		return err
	}
	if err := s.sync(); err != nil { // centre and factors are in the staging memory until now
		return err
	}
	if err := s.stream.CopyFrom(s.staging, 0, s.sizes3, 0, int64(24*s.n)); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	for i, v := range cuda.View[[3]float64](s.staging, 0, s.n) {
		b := &blocks[i/cuda.BlockCandidates]
		if i%cuda.BlockCandidates == 0 {
			b.Norm = 0
		}
		for j := range v {
			b.B[j] = max(b.B[j], kernel.RoundUp32(v[j]))
		}
		b.Norm = b.B[0]
	}
	if _, err = send(s.stream, s.blocksHalf, s.staging, 0, len(blocks), func(v []cuda.Block) { copy(v, blocks) }); err != nil {
		return err
	}
	return s.sync()
}

// block ranks a block of queries on all devices.
func (d *deviceRun) block(ctx context.Context, w int, it item, sl *slot) error {
	s, lanes, err := d.member(w, sl)
	if err != nil {
		return err
	}
	if s.begin(it); !d.constructs && !s.compute(ctx) {
		return ctx.Err()
	}
	known := s.knownAnswers(s.f.first == 0)
	for _, l := range lanes {
		if err := l.send(s); err != nil {
			return err
		}
	}
	for _, l := range lanes {
		if err := l.count(ctx, s); err != nil {
			return err
		}
		if err := l.judge(ctx, s, known); err != nil {
			return err
		}
	}
	s.decideByReference(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.addCounts()
	s.done.Add(int64(len(s.queries)) * int64(s.f.n))
	s.compared.Add(int64(len(s.truths)) * int64(s.f.n))
	return nil
}

// knownAnswers lists the known answers of the block's queries among the candidates in memory, with
// positions in the order of ‖φ‖. With count, it also counts what the filters leave.
func (s *sweeper) knownAnswers(count bool) []cuda.Known {
	var list []cuda.Known
	for row, q := range s.queries {
		known := s.index.Answers(q.Query)
		var removed [NumFilters]int32
		for i, e := range known.Entities {
			filters := filtersOf[known.Splits[i]]
			for fl := range NumFilters {
				removed[fl] += int32(filters >> fl & 1)
			}
			if at := int(e) - s.f.first; at >= 0 && at < s.f.n && filters != 0 {
				list = append(list, cuda.Known{Row: uint32(row), Position: uint32(s.f.place[at]), Filters: uint32(filters)})
			}
		}
		if count {
			s.countCandidates(q, known, removed)
		}
	}
	return list
}

// judged compares a candidate with a truth by their reference scores.
func (s *sweeper) judged(t int32, entity int32) (better, equal bool) {
	q := s.queries[s.rowOf[t]].Query
	if !s.scored[t] {
		s.reference[t], s.scored[t] = s.worker.Reference(q, s.truths[t].answer), true
	}
	score := s.worker.Reference(q, entity)
	return score > s.reference[t], score == s.reference[t]
}
