package rank

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/model"
)

// Ranking on GPUs (docs/decisions/0006). The devices share the candidates. A goroutine prepares a
// block of queries as for the CPU: ψ and the intervals of the truths. Every device then screens its
// candidates, decides what the screen leaves by float64 scores, and judges the known answers; what
// is still undecided comes back for the reference. Unfiltered counts and the known answers to
// take out of them are each exact by themselves, whatever stage decided.

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
	shares []*share
	lanes  [][]*lane // by goroutine, by device
	blocks []*sweeper
	queue  sync.Mutex // guards err
	err    error
}

// share is a device and its part of the candidates in memory: positions first ≤ p < first+n.
type share struct {
	device   *cuda.Device
	stream   *cuda.Stream
	event    *cuda.Event
	screens  *cuda.Screens
	stages   *cuda.Stages
	room     int // candidates
	first, n int
	k        int
	half     bool // quantised for the tensor cores
	// useSingle is set when the tensor cores decide too little.
	useSingle                                 atomic.Bool
	staging                                   *cuda.Pinned
	phi, halves, scales, sizes, sizes3, norms *cuda.Memory
	entity, same, centre, factor, inverse     *cuda.Memory
	blocksHalf, blocksSingle                  *cuda.Memory
	mean                                      []float64
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
	k := devicePad(widestTower(r.model))
	room := (sliceSize(r.model, o) + len(o.Devices) - 1) / len(o.Devices)
	room = (room+cuda.CandidateTile-1)/cuda.CandidateTile*cuda.CandidateTile + cuda.CandidateTile
	for _, device := range o.Devices {
		s := &share{device: device, room: room}
		d.shares = append(d.shares, s)
		if s.stream, err = device.NewStream(); err != nil {
			return nil, err
		}
		if s.event, err = device.NewEvent(); err != nil {
			return nil, err
		}
		if s.screens, err = cuda.NewScreens(device); err != nil {
			return nil, err
		}
		if s.stages, err = cuda.NewStages(device); err != nil {
			return nil, err
		}
		if s.staging, err = device.Pin(max(stagingBytes, int64(24*room))); err != nil {
			return nil, err
		}
		blocks := int64(room / cuda.BlockCandidates)
		for _, m := range []struct {
			to    **cuda.Memory
			bytes int64
		}{
			{&s.phi, 4 * int64(room) * int64(k)}, {&s.halves, 2 * int64(room) * int64(k)}, {&s.scales, 4 * int64(room)}, {&s.sizes3, 24 * int64(room)},
			{&s.norms, 8 * int64(room)}, {&s.sizes, 8 * int64(room)}, {&s.entity, 4 * int64(room)}, {&s.same, 4 * int64(room)},
			{&s.centre, 4 * int64(k)}, {&s.factor, 4 * int64(k)}, {&s.inverse, 4 * int64(k)},
			{&s.blocksHalf, int64(unsafe.Sizeof(cuda.Block{})) * blocks}, {&s.blocksSingle, int64(unsafe.Sizeof(cuda.Block{})) * blocks},
		} {
			if *m.to, err = device.Alloc(m.bytes); err != nil {
				return nil, err
			}
			s.memory = append(s.memory, *m.to)
		}
	}
	return d, nil
}

const stagingBytes = 8 << 20

// close waits for the devices and gives everything back.
func (d *deviceRun) close() {
	for _, lanes := range d.lanes {
		for _, l := range lanes {
			l.close()
		}
	}
	for _, s := range d.shares {
		for _, m := range s.memory {
			_ = m.Free()
		}
		_ = s.staging.Free()
		if s.event != nil {
			_ = s.event.Close()
		}
		if s.stream != nil {
			_ = s.stream.Close()
		}
	}
}

// member returns the sweeper and the lanes of a goroutine.
func (d *deviceRun) member(w int, f *features) (*sweeper, []*lane, error) {
	if d.blocks[w] == nil {
		width := widestTower(d.model)
		d.blocks[w] = &sweeper{
			run: d.run, f: f, worker: d.model.NewWorker(d.backend),
			psi: kernel.AlignedFloat32(deviceBlock * pairPad(width)), norms: make([]float64, deviceBlock), slacks: make([]model.Slack, deviceBlock),
			rowOf: make([]int32, deviceTruths), rows: make([]int32, deviceBlock+1),
			low: make([]float64, deviceTruths), high: make([]float64, deviceTruths), better: make([]int32, deviceTruths), tally: make([]tally, deviceTruths),
			reference: make([]float64, deviceTruths), scored: make([]bool, deviceTruths),
			phi: kernel.AlignedFloat32(pairPad(width)), scores: make([]float64, 1),
		}
		for _, s := range d.shares {
			l, err := newLane(s, devicePad(width))
			d.lanes[w] = append(d.lanes[w], l)
			if err != nil {
				return nil, nil, err
			}
		}
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

// sweep ranks the queries of a pass against the candidates of f.
func (d *deviceRun) sweep(ctx context.Context, c *crew, ps pass, f *features) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	factor := d.balance(ps, f, c.member(0).worker)
	err := kernel.Parallel(inner, len(d.shares), len(d.shares), func(_, i int) {
		s := d.shares[i]
		s.first, s.n = f.n*i/len(d.shares), f.n*(i+1)/len(d.shares)-f.n*i/len(d.shares)
		if err := s.upload(inner, d.run, f, factor); err != nil {
			d.fail(err, cancel)
		}
	})
	if d.err != nil {
		return d.err
	}
	if err != nil {
		return err
	}
	var items []item
	queries := d.plan.queries
	for at := ps.first; at < ps.last; {
		to := at + 1
		for to < ps.last && to-at < deviceBlock && queries[to].last-queries[at].first <= maxBlockTruths {
			to++
		}
		items = append(items, item{first: at, last: to})
		at = to
	}
	err = kernel.Parallel(inner, len(d.lanes), len(items), func(w, i int) {
		if err := d.block(inner, w, items[i], f); err != nil {
			d.fail(err, cancel)
		}
	})
	if d.err != nil {
		return d.err
	}
	return err
}

// balance returns a power of two for each term (in the order of f.orderOf) that brings φ's and ψ's
// entries to one size, from samples of both: the product of the norms, and with it the screen's
// band, becomes small. Any powers are right.
func (d *deviceRun) balance(ps pass, f *features, w model.Worker) []float32 {
	width := f.tower.Width
	factor := make([]float32, devicePad(width))
	for t := range factor {
		factor[t] = 1
	}
	if f.tower.Compare != kernel.Dot {
		return factor
	}
	spread, mean, query := make([]float64, width), make([]float64, width), make([]float64, width)
	const sample = 1024
	n := 0.0
	for i := 0; i < f.n; i += (f.n + sample - 1) / sample {
		n++
		for t, v := range f.row(int32(i))[:width] {
			delta := float64(v) - mean[t]
			mean[t] += delta / n
			spread[t] += delta * (float64(v) - mean[t])
		}
	}
	psi := make([]float32, width)
	count := ps.last - ps.first
	for i := 0; i < count; i += (count + 63) / 64 {
		w.Query(d.plan.queries[ps.first+i].Query, psi)
		for t, v := range psi {
			query[t] += float64(v) * float64(v)
		}
	}
	for at, t := range f.orderOf {
		// In the square: the quotient of the sizes.
		if e := math.Round(math.Log2(query[t]/spread[t]) / 4); math.Abs(e) <= 30 {
			factor[at] = float32(math.Ldexp(1, int(e)))
		}
	}
	return factor
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

// upload brings the share's features to its device, in the order of ‖φ‖.
func (s *share) upload(ctx context.Context, r *run, f *features, factor []float32) error {
	width := f.tower.Width
	s.k = devicePad(width)
	s.half = f.tower.Compare == kernel.Dot
	s.useSingle.Store(false)
	rowBytes := int64(4 * s.k)
	if err := s.stream.Fill(s.phi, int64(s.n)*rowBytes, min(s.phi.Bytes()-int64(s.n)*rowBytes, cuda.CandidateTile*rowBytes), 0); err != nil {
		return err
	}
	perCopy := max(1, int(int64(stagingBytes)/rowBytes))
	for at := 0; at < s.n; at += perCopy {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n := min(perCopy, s.n-at)
		view := cuda.View[float32](s.staging, 0, n*s.k)
		for i := range n {
			permute(view[i*s.k:(i+1)*s.k], f.row(f.order[s.first+at+i]), f.orderOf)
		}
		if err := s.stream.CopyTo(s.phi, int64(at)*rowBytes, s.staging, 0, int64(n)*rowBytes); err != nil {
			return err
		}
		if err := s.sync(); err != nil {
			return err
		}
	}
	at := int64(0)
	var err error
	step := func(next int64, e error) {
		at = next
		err = cmp.Or(err, e)
	}
	order := f.order[s.first : s.first+s.n]
	step(send(s.stream, s.norms, s.staging, at, s.n, func(v []float64) {
		for i, row := range order {
			v[i] = f.norms[row]
		}
	}))
	step(send(s.stream, s.sizes, s.staging, at, s.n, func(v []float64) {
		for i, row := range order {
			v[i] = f.sizes[row]
		}
	}))
	step(send(s.stream, s.entity, s.staging, at, s.n, func(v []int32) {
		for i, row := range order {
			v[i] = row + int32(f.first)
		}
	}))
	step(send(s.stream, s.same, s.staging, at, s.n, func(v []int32) {
		for i, row := range order {
			v[i] = row + int32(f.first)
			if r.reps != nil {
				v[i] = r.reps[v[i]]
			}
		}
	}))
	if err = cmp.Or(err, s.sync()); err != nil {
		return err
	}
	blocks := make([]cuda.Block, s.room/cuda.BlockCandidates)
	for i, row := range order {
		b := &blocks[i/cuda.BlockCandidates]
		n := kernel.RoundUp32(f.norms[row])
		b.B[3], b.Norm, b.Size = max(b.B[3], n), max(b.Norm, n), max(b.Size, kernel.RoundUp32(f.sizes[row]))
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
	return s.quantise(f, order, blocks, factor)
}

// permute writes the entries of row in the order of terms, and zeros behind them.
func permute(dst, row []float32, terms []int32) {
	for at, t := range terms {
		dst[at] = row[t]
	}
	clear(dst[len(terms):])
}

// quantise makes the operands of the tensor cores: centred on the mean of the candidates and
// balanced.
func (s *share) quantise(f *features, order []int32, blocks []cuda.Block, factor []float32) error {
	width := f.tower.Width
	mean := make([]float64, width)
	for _, row := range order {
		for t, v := range f.row(row)[:width] {
			mean[t] += float64(v)
		}
	}
	s.mean = make([]float64, s.k)
	for at, t := range f.orderOf {
		if m := float32(mean[t] / float64(max(1, len(order)))); !math.IsInf(float64(m), 0) && !math.IsNaN(float64(m)) {
			s.mean[at] = float64(m)
		}
	}
	at := int64(0)
	var err error
	step := func(next int64, e error) {
		at = next
		err = cmp.Or(err, e)
	}
	step(send(s.stream, s.centre, s.staging, at, s.k, func(v []float32) {
		for i, m := range s.mean {
			v[i] = float32(m)
		}
	}))
	step(send(s.stream, s.factor, s.staging, at, s.k, func(v []float32) { copy(v, factor) }))
	step(send(s.stream, s.inverse, s.staging, at, s.k, func(v []float32) {
		for i, x := range factor[:s.k] {
			v[i] = 1 / x
		}
	}))
	if err != nil {
		return err
	}
	rowBytes := int64(2 * s.k)
	if err := s.stream.Fill(s.halves, int64(s.n)*rowBytes, min(s.halves.Bytes()-int64(s.n)*rowBytes, cuda.CandidateTile*rowBytes), 0); err != nil {
		return err
	}
	if err := s.stream.Fill(s.scales, 0, s.scales.Bytes(), 0); err != nil {
		return err
	}
	err = s.stages.Quantise(s.stream, cuda.Quantise{Rows: s.phi.At(0), Centre: s.centre.At(0), Factor: s.factor.At(0), Out: s.halves.At(0), Scales: s.scales.At(0),
		Sizes: s.sizes3.At(0), N: int32(s.n), Width: int32(width), Stride: int32(s.k), K: int32(s.k)})
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
func (d *deviceRun) block(ctx context.Context, w int, it item, f *features) error {
	s, lanes, err := d.member(w, f)
	if err != nil {
		return err
	}
	if !s.prepare(ctx, it) {
		return ctx.Err()
	}
	known := s.knownAnswers(f.first == 0)
	for _, l := range lanes {
		if err := l.send(ctx, s); err != nil {
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
	s.done.Add(int64(len(s.queries)) * int64(f.n))
	s.compared.Add(int64(len(s.truths)) * int64(f.n))
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
