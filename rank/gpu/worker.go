package gpu

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank/internal/engine"
)

// worker counts for one block at a time on one device.
type worker struct {
	*ranking
	// part is the device's part of a buffer, and block is the block of queries to count.
	part  *part
	f     *engine.Features
	block *engine.Block

	stream *stream
	in     *cuda.Pinned // staging memory for uploads
	out    *cuda.Pinned // staging memory for downloads
	used   int64        // bytes of in that pending copies may still read
	// span and knownSpan are the most candidates and known answers for a launch. span is at most
	// mostSpan, and knownSpan at most knownChunk. An overflow of a list makes them smaller, and every
	// call of count doubles them, because the next block may leave fewer pairs.
	span, knownSpan int
	single          bool // screen the block in float32

	// These fields are device memory for the block: ψ, its operands for the tensor cores, the
	// targets with their intervals, and the results.
	psi, halves, scales, sizes, rows, pairRows, targetStart, targetRow *cuda.Memory
	thresholds, interval, answer, representative                       *cuda.Memory
	counts, list, unresolved, known                                    *cuda.Memory
	// These fields are device memory for constructing ψ of the block's queries and φ of remote
	// targets.
	queries, remote, remotePhi, remoteNorms, remoteSizes *cuda.Memory
	memory                                               []*cuda.Memory
}

const (
	// knownChunk is the largest number of known answers that are uploaded together.
	knownChunk = 1 << 15
	// pairChunk is the largest number of pairs that are downloaded together.
	pairChunk = 1 << 13
)

// These are offsets in worker.counts, in counters of 4 bytes: two counts for each target under each
// filter, and the lengths of the two lists.
const (
	betterAt     = 0
	equalAt      = engine.NumFilters * engine.BlockTargets
	listedAt     = 2 * engine.NumFilters * engine.BlockTargets
	unresolvedAt = listedAt + 1
	countsN      = unresolvedAt + 1
	countsBytes  = 4 * int64(countsN)
)

// workerPins returns the sizes of a worker's staging memory for uploads and for downloads, for vectors
// of length k.
func (e *Engine) workerPins(k int, x slicing) (in, out int64) {
	rows, targets := int64(e.blockQueries), int64(engine.BlockTargets)
	pair := int64(unsafe.Sizeof(cuda.Pair{}))
	in = rows*4 + targets*12 + 1024 + knownChunk*int64(unsafe.Sizeof(cuda.Known{}))
	if x.constructs {
		in += rows*int64(unsafe.Sizeof(cuda.Query{})) + targets*(pair+4) + targets/int64(e.remoteTargets)*32
	} else {
		in += rows*(4*int64(k)+int64(unsafe.Sizeof(cuda.PairRow{}))) + targets*16
	}
	return in, max(2*countsBytes, pairChunk*(pair+16))
}

// newWorker reserves a worker's memory for parts of the same shape as p. The caller must close the
// worker, even after an error.
func newWorker(r *ranking, p *part) (w *worker, err error) {
	w = &worker{ranking: r, span: r.mostSpan, knownSpan: knownChunk}
	if w.stream, err = newStream(p.device); err != nil {
		return w, err
	}
	k := pad(engine.WidestTower(r.job.Model))
	in, out := r.workerPins(k, r.slices)
	if w.in, err = p.device.Pin(in); err != nil {
		return w, err
	}
	if w.out, err = p.device.Pin(out); err != nil {
		return w, err
	}
	remote := 0
	if r.slices.constructs {
		remote = r.remoteTargets
	}
	for _, m := range w.pieces(k, remote) {
		if *m.to, err = p.device.Alloc(m.bytes); err != nil {
			return w, err
		}
		w.memory = append(w.memory, *m.to)
	}
	return w, nil
}

// piece is device memory to reserve.
type piece struct {
	to    **cuda.Memory
	bytes int64
}

// pieces lists the device memory of a worker, for vectors of length k. The device computes φ of
// remoteTargets targets at a time.
func (w *worker) pieces(k, remoteTargets int) []piece {
	rows, targets := int64(w.blockQueries), int64(engine.BlockTargets)
	remote, width := int64(remoteTargets), int64(k)
	pair, room := int64(unsafe.Sizeof(cuda.Pair{})), int64(w.listRoom)
	return []piece{
		{&w.psi, 4 * rows * width}, {&w.halves, 2 * rows * width}, {&w.scales, 4 * rows}, {&w.sizes, 24 * rows},
		{&w.rows, rows * int64(unsafe.Sizeof(cuda.Row{}))}, {&w.pairRows, rows * int64(unsafe.Sizeof(cuda.PairRow{}))},
		{&w.targetStart, 4 * (rows + 1)}, {&w.targetRow, 4 * targets}, {&w.thresholds, 8 * targets},
		{&w.interval, 16 * targets},
		{&w.answer, 4 * targets}, {&w.representative, 4 * targets},
		{&w.counts, countsBytes}, {&w.list, room * pair}, {&w.unresolved, room * pair},
		{&w.known, knownChunk * int64(unsafe.Sizeof(cuda.Known{}))},
		{&w.queries, rows * int64(unsafe.Sizeof(cuda.Query{}))},
		{&w.remote, 4 * remote}, {&w.remotePhi, 4 * remote * width}, {&w.remoteNorms, 8 * remote},
		{&w.remoteSizes, 8 * remote},
	}
}

// workerBytes returns the device memory of a worker in bytes.
func (e *Engine) workerBytes(k, remoteTargets int) (sum int64) {
	w := worker{ranking: &ranking{Engine: e}}
	for _, p := range w.pieces(k, remoteTargets) {
		sum += p.bytes
	}
	return sum
}

// close waits for the device and frees the memory.
func (w *worker) close() {
	w.stream.close()
	for _, m := range w.memory {
		_ = m.Free()
	}
	_ = w.in.Free()
	_ = w.out.Free()
}

// wait waits for the stream. It returns the stream's first error.
func (w *worker) wait(ctx context.Context) error {
	w.used = 0
	return w.stream.wait(ctx)
}

// put uploads n values, which it gets from fill.
func put[T any](w *worker, dst *cuda.Memory, n int, fill func([]T)) {
	w.used = send(w.stream, dst, w.in, w.used, n, fill)
}

// send uploads the block's queries and targets. The next wait may return an error of the upload.
func (w *worker) send(ctx context.Context) error {
	w.sendQueries()
	targets := w.block.Targets
	put(w, w.answer, len(targets), func(v []int32) {
		for t := range v {
			v[t] = targets[t].Answer
		}
	})
	put(w, w.representative, len(targets), func(v []int32) {
		for t := range v {
			v[t] = w.job.Rep(targets[t].Answer)
		}
	})
	if w.slices.constructs {
		w.scoreTargets()
		if len(w.job.Tolerances) > 0 {
			if err := w.widenIntervals(ctx); err != nil {
				return err
			}
		}
	} else {
		w.sendIntervals(w.block.Low, w.block.High)
	}
	w.prepareRows()
	return nil
}

// widenIntervals widens the intervals of targets with a tolerance, on the processor.
func (w *worker) widenIntervals(ctx context.Context) error {
	b := w.block
	targets := len(b.Targets)
	w.stream.copyFrom(w.out, 0, w.interval, 0, 16*int64(targets))
	if err := w.wait(ctx); err != nil {
		return err
	}
	intervals := cuda.View[float64](w.out, 0, 2*targets)
	for t := range targets {
		b.Low[t], b.High[t] = intervals[2*t], intervals[2*t+1]
	}
	b.Widen()
	w.sendIntervals(b.Low, b.High)
	return nil
}

// padded returns n, rounded up to whole tiles of queries.
func padded(n int) int { return (n + cuda.QueryTile - 1) / cuda.QueryTile * cuda.QueryTile }

// sendQueries uploads ψ of the block's queries, and which targets each query has.
func (w *worker) sendQueries() {
	b := w.block
	n, rows, targets, k := len(b.Queries), padded(len(b.Queries)), len(b.Targets), w.part.k
	w.single = !w.part.half || w.part.useSingle.Load()
	put(w, w.targetStart, rows+1, func(v []int32) {
		copy(v, b.TargetStart[:n+1])
		for i := n; i <= rows; i++ {
			v[i] = int32(targets)
		}
	})
	put(w, w.targetRow, targets, func(v []int32) { copy(v, b.Rows) })
	w.stream.zero(w.psi, int64(4*n*k), int64(4*(rows-n)*k))
	if w.slices.constructs {
		w.constructPsi()
	} else {
		w.sendPsi()
	}
	if w.single {
		return
	}
	w.stream.zero(w.halves, int64(2*n*k), int64(2*(rows-n)*k))
	launch(w.stream, w.part.stages.Quantise, cuda.Quantise{
		Rows: w.psi.At(0), Factor: w.part.inverse.At(0), Out: w.halves.At(0), Scales: w.scales.At(0),
		Sizes: w.sizes.At(0), N: int32(n), Width: int32(w.f.Tower.Phi), Stride: int32(k), K: int32(k),
	})
}

// sendPsi uploads ψ.
func (w *worker) sendPsi() {
	b, k := w.block, w.part.k
	put(w, w.psi, len(b.Queries)*k, func(v []float32) {
		for i := range b.Queries {
			permute(v[i*k:(i+1)*k], b.Row(i), w.f.TermOrder)
		}
	})
	put(w, w.pairRows, len(b.Queries), func(v []cuda.PairRow) {
		for i := range v {
			v[i] = cuda.PairRow{Norm: b.Norms[i], Slack: b.Slacks[i]}
		}
	})
}

// sendIntervals uploads the targets' intervals.
func (w *worker) sendIntervals(low, high []float64) {
	put(w, w.interval, 2*len(w.block.Targets), func(v []float64) {
		for t := range len(v) / 2 {
			v[2*t], v[2*t+1] = low[t], high[t]
		}
	})
}

// constructPsi computes ψ on the device.
func (w *worker) constructPsi() {
	p, queries := w.part, w.block.Queries
	put(w, w.queries, len(queries), func(v []cuda.Query) {
		for i, q := range queries {
			v[i] = cuda.Query{Anchor: q.Anchor, Relation: q.Relation}
			if q.Side == kg.Head {
				v[i].Side = 1
			}
		}
	})
	launch(w.stream, p.towers.Queries, cuda.ConstructQueries{
		Entities: p.tensors[0].At(0), Head: p.tensors[1].At(0), Tail: p.tensors[2].At(0), Cross: p.tensors[3].At(0),
		Queries: w.queries.At(0), Out: w.psi.At(0), Rows: w.pairRows.At(0), Kappa: w.slices.kappa,
		N: int32(len(queries)), Dim: int32(w.job.Model.Config().Dim), K: int32(p.k),
	})
}

// scoreTargets computes φ of remote targets and then the intervals of all targets, on the device.
func (w *worker) scoreTargets() {
	p, targets := w.part, w.block.Targets
	var local, remote []cuda.Pair
	for t, target := range targets {
		if at, ok := w.position(target.Answer); ok {
			local = append(local, cuda.Pair{Target: uint32(t), Other: uint32(at)})
		} else {
			remote = append(remote, cuda.Pair{Target: uint32(t), Other: uint32(len(remote) % w.remoteTargets)})
		}
	}
	a := w.decide(0)
	a.Scored = w.interval.At(0)
	score := func(list []cuda.Pair) {
		a.Count = uint32(len(list))
		put(w, w.list, len(list), func(v []cuda.Pair) { copy(v, list) })
		launch(w.stream, p.stages.Targets, a)
	}
	score(local)
	a.Phi, a.Norms, a.Sizes = w.remotePhi.At(0), w.remoteNorms.At(0), w.remoteSizes.At(0)
	for ; len(remote) > 0; remote = remote[min(w.remoteTargets, len(remote)):] {
		list := remote[:min(w.remoteTargets, len(remote))]
		put(w, w.remote, len(list), func(v []int32) {
			for i, pair := range list {
				v[i] = targets[pair.Target].Answer
			}
		})
		launch(w.stream, p.towers.Features, cuda.Construct{
			Entities: p.tensors[0].At(0), Entity: w.remote.At(0), Out: a.Phi, Norms: a.Norms, Sizes: a.Sizes,
			N: int32(len(list)), Dim: int32(w.job.Model.Config().Dim), K: int32(p.k),
		})
		score(list)
	}
}

// position returns the position of an entity in the part. ok is false if the part does not contain
// the entity.
func (w *worker) position(entity int32) (at int, ok bool) {
	position := w.f.Position(entity)
	at = position - w.part.first
	return at, position >= 0 && at >= 0 && at < w.part.n
}

// prepareRows computes the bands and thresholds of the screen on the device.
func (w *worker) prepareRows() {
	p, c := w.part, w.f.Tower.Compare
	a := cuda.Prepare{
		Psi: w.psi.At(0), Queries: w.pairRows.At(0), TargetStart: w.targetStart.At(0), Interval: w.interval.At(0),
		Rows: w.rows.At(0), Ends: w.thresholds.At(0), N: int32(len(w.block.Queries)),
		Padded: int32(padded(len(w.block.Queries))), K: int32(p.k), Compare: int32(c.Kind()),
		Centring: 2 * kernel.Gamma(p.k+1, kernel.U64),
	}
	a.Rounding, a.Subnormal = c.InputError(w.f.Tower.Phi)
	if w.single {
		a.Relative, a.Absolute = cuda.SingleError(c, p.k)
		a.Relative *= engine.Outward
	} else {
		a.Relative, a.Absolute = cuda.HalfError(p.k)
		a.Centre, a.Scales, a.Sizes = p.centre.At(0), w.scales.At(0), w.sizes.At(0)
	}
	launch(w.stream, p.stages.Rows, a)
}

// decide returns the argument of the float64 stage for the part's candidates from the given
// position on.
func (w *worker) decide(from int) cuda.Decide {
	p, c := w.part, w.f.Tower.Compare
	at := func(m *cuda.Memory, size int) cuda.Pointer { return m.At(int64(from) * int64(size)) }
	a := cuda.Decide{
		Psi: w.psi.At(0), Phi: at(p.phi, 4*p.k), Rows: w.pairRows.At(0), Norms: at(p.norms, 8), Sizes: at(p.sizes, 8),
		Entity: at(p.entity, 4), Same: at(p.representative, 4), TargetStart: w.targetStart.At(0),
		TargetRow: w.targetRow.At(0), Interval: w.interval.At(0),
		Answer: w.answer.At(0), AnswerSame: w.representative.At(0),
		Better: w.counts.At(4 * int64(betterAt)), Equal: w.counts.At(4 * int64(equalAt)),
		List: w.list.At(0), Listed: w.counts.At(4 * int64(listedAt)), Known: w.known.At(0),
		Rest: w.unresolved.At(0), Rested: w.counts.At(4 * int64(unresolvedAt)),
		Room: uint32(w.listRoom), Count: uint32(w.listRoom), K: int32(p.k), Compare: int32(c.Kind()),
		Targets: int32(len(w.block.Targets)), Relative: c.PairError(p.k),
	}
	a.Rounding, a.Subnormal = c.InputError(w.f.Tower.Phi)
	return a
}

// screen starts the screen for n of the part's candidates, from the given position on. capacity
// bounds the undecided pairs.
func (w *worker) screen(from, n, capacity int) {
	p := w.part
	at := func(m *cuda.Memory, size int) cuda.Pointer { return m.At(int64(from) * int64(size)) }
	blocks := int64(from/cuda.BlockCandidates) * int64(unsafe.Sizeof(cuda.CandidateBlock{}))
	a := cuda.Screen{
		Psi: w.psi.At(0), Phi: at(p.phi, 4*p.k), Rows: w.rows.At(0), Blocks: p.blocksSingle.At(blocks),
		TargetStart: w.targetStart.At(0), Ends: w.thresholds.At(0), Better: w.counts.At(4 * int64(betterAt)),
		List: w.list.At(0), Listed: w.counts.At(4 * int64(listedAt)), Capacity: uint32(capacity),
		K: int32(p.k), Candidates: int32(n), Limit: float32(w.f.Tower.Compare.Limit()),
	}
	w.stream.zero(w.counts, 0, countsBytes)
	queries := len(w.block.Queries)
	if w.single {
		w.stream.do(func(s *cuda.Stream) error { return p.screens.Single(s, w.f.Tower.Compare, a, queries) })
		return
	}
	a.Psi, a.Phi, a.Scales, a.Blocks = w.halves.At(0), at(p.halves, 2*p.k), at(p.scales, 4), p.blocksHalf.At(blocks)
	w.stream.do(func(s *cuda.Stream) error { return p.screens.Half(s, p.device.HalfVariant(), a, queries) })
}

// narrower returns the number of candidates to screen next after the list for n candidates has
// overflowed.
func narrower(n, queries, listed int) (int, error) {
	if n <= cuda.CandidateTile {
		return 0, &cuda.DeviceError{Err: fmt.Errorf("rank: a GPU left %d undecided pairs of %d candidates and %d "+
			"queries, which is impossible", listed, n, queries)}
	}
	return max(cuda.CandidateTile, n/2/cuda.CandidateTile*cuda.CandidateTile), nil
}

// count counts the part's candidates for every target of the block, and subtracts the known answers
// among them under the filters that remove them. Each turn of the loop waits for the device once.
func (w *worker) count(ctx context.Context) error {
	p, b := w.part, w.block
	known := w.knownAnswers()
	w.span, w.knownSpan = min(w.mostSpan, 2*w.span), min(knownChunk, 2*w.knownSpan)
	for from := 0; from < p.n || len(known) > 0; {
		n, m := min(w.span, p.n-from), min(w.knownSpan, len(known))
		if n > 0 {
			w.screen(from, n, w.listRoom)
			launch(w.stream, p.stages.Pairs, w.decide(from))
			w.stream.copyFrom(w.out, 0, w.counts, 0, countsBytes)
		}
		if m > 0 {
			w.scoreKnown(known[:m])
			w.stream.copyFrom(w.out, countsBytes, w.counts, 0, countsBytes)
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
		// If a list has overflowed, the launch is repeated with fewer candidates or known answers.
		var unresolved, unresolvedKnown int
		next, rest := from, known
		if n > 0 {
			r := w.results(0)
			if most := max(r.listed, r.unresolved); most > w.listRoom {
				var err error
				if w.span, err = narrower(n, len(b.Queries), most); err != nil {
					return err
				}
			} else {
				w.addScreened(r, from, n)
				next, unresolved = from+n, r.unresolved
			}
		}
		if m > 0 {
			if r := w.results(countsBytes); r.unresolved > w.listRoom {
				w.knownSpan = max(1, m/2)
			} else {
				w.subtractKnown(r)
				rest, unresolvedKnown = known[m:], r.unresolved
			}
		}
		// The results above share memory with the pairs below.
		err := w.eachPair(ctx, w.unresolved, unresolved, func(pair cuda.Pair) {
			w.addPending(pair.Target, p.first+from+int(pair.Other), [engine.NumFilters]int8{1, 1, 1})
		})
		if err != nil {
			return err
		}
		err = w.eachPair(ctx, w.list, unresolvedKnown, func(pair cuda.Pair) {
			k := known[pair.Other]
			var left [engine.NumFilters]int8
			for f := range left {
				left[f] = -int8(k.Filters >> f & 1)
			}
			w.addPending(pair.Target, p.first+int(k.Position), left)
		})
		if err != nil {
			return err
		}
		from, known = next, rest
	}
	return nil
}

// knownAnswers returns the known answers among the part's candidates.
func (w *worker) knownAnswers() []cuda.Known {
	p := w.part
	known := make([]cuda.Known, 0, len(w.block.Known))
	for _, k := range w.block.Known {
		if at := int(k.Position) - p.first; at >= 0 && at < p.n {
			known = append(known, cuda.Known{Row: uint32(k.Row), Position: uint32(at), Filters: uint32(k.Filters)})
		}
	}
	return known
}

// scoreKnown starts the float64 stage for known answers. The pairs that it leaves unresolved replace
// those in w.list, which the screen and its float64 stage no longer need.
func (w *worker) scoreKnown(known []cuda.Known) {
	a := w.decide(0)
	a.Count, a.Rest = uint32(len(known)), w.list.At(0)
	w.stream.zero(w.counts, 0, countsBytes)
	put(w, w.known, len(known), func(v []cuda.Known) { copy(v, known) })
	launch(w.stream, w.part.stages.Known, a)
}

// results are the counters of a launch, and the lengths of its two lists: the pairs that the screen
// left undecided, and the pairs that the float64 stage left unresolved.
type results struct {
	better, equal      []int32
	listed, unresolved int
}

// results returns the results that were downloaded to a byte offset of w.out.
func (w *worker) results(at int64) results {
	counts := cuda.View[int32](w.out, at, countsN)
	return results{counts[betterAt:equalAt], counts[equalAt:listedAt],
		int(uint32(counts[listedAt])), int(uint32(counts[unresolvedAt]))}
}

// addScreened adds the counts of n of the part's candidates, from the given position on.
func (w *worker) addScreened(r results, from, n int) {
	p, b := w.part, w.block
	if !w.single && float64(r.listed) > maxUndecided*float64(len(b.Targets))*float64(n) && n > cuda.CandidateTile {
		p.useSingle.Store(true)
	}
	itself := 0 // pairs of a target and itself
	for t, target := range b.Targets {
		b.Counts[t].Add(r.better[t], r.equal[t])
		if at, ok := w.position(target.Answer); ok && at >= from && at < from+n {
			itself++
		}
	}
	w.job.Progress.Undecided.Add(int64(r.listed - itself))
}

// subtractKnown subtracts known answers from the counts.
func (w *worker) subtractKnown(r results) {
	targets := len(w.block.Targets)
	for t := range targets {
		for f := range engine.NumFilters {
			w.block.Counts[t].Better[f] -= r.better[f*targets+t]
			w.block.Counts[t].Equal[f] -= r.equal[f*targets+t]
		}
	}
}

// addPending leaves a pair to the reference scores. left[f] is the number by which the count under
// filter f changes, as in engine.Pending.
func (w *worker) addPending(target uint32, position int, left [engine.NumFilters]int8) {
	b := w.block
	b.Pending = append(b.Pending, engine.Pending{
		Row: b.Rows[target], Target: int32(target), Entity: w.job.Rep(w.f.Entity(position)), Left: left,
	})
}

// eachPair calls f for each of the n pairs in a list on the device.
func (w *worker) eachPair(ctx context.Context, list *cuda.Memory, n int, f func(cuda.Pair)) error {
	const size = int64(unsafe.Sizeof(cuda.Pair{}))
	for at := 0; at < n; at += pairChunk {
		m := min(pairChunk, n-at)
		w.stream.copyFrom(w.out, 0, list, int64(at)*size, int64(m)*size)
		if err := w.wait(ctx); err != nil {
			return err
		}
		for _, p := range cuda.View[cuda.Pair](w.out, 0, m) {
			f(p)
		}
		if w.block.DecideMany(ctx); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
