package rank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
)

// lane is one goroutine's work on one device.
type lane struct {
	share  *share
	stream *cuda.Stream
	event  *cuda.Event
	in     *cuda.Pinned // what goes to the device, in parts
	out    *cuda.Pinned // what comes back
	used   int64        // bytes of in that copies are still to read
	span   int          // candidates of a launch whose list did not overflow
	single bool         // the block goes through the float32 screen
	begun  bool

	psi, halves, scales, sizes, rows, pairRows, first, row  *cuda.Memory
	ends, interval, answer, same, counts, list, rest, known *cuda.Memory
	// Where the device makes φ and ψ: the block's queries, and truths that are not among its candidates.
	asked, far, farPhi, farNorms, farSizes *cuda.Memory
	memory                                 []*cuda.Memory
}

const (
	// knownChunk is the number of known answers that go to a device at a time.
	knownChunk = 1 << 15
	// restChunk is the number of pairs that come back at a time.
	restChunk = 1 << 15
)

// farTruths is the number of truths that are not among a device's candidates whose φ it makes at a
// time. A test makes it smaller.
var farTruths = 512

// Where the counters lie in counts, in numbers of 4 bytes.
const (
	betterAt = 0
	equalAt  = int(NumFilters) * deviceTruths
	listedAt = 2 * int(NumFilters) * deviceTruths
	restedAt = listedAt + 1
	countsN  = restedAt + 1
)

// newLane reserves a lane's memory; close it also after an error.
func newLane(s *share, k int) (l *lane, err error) {
	l = &lane{share: s, span: math.MaxInt32}
	if l.stream, err = s.device.NewStream(); err != nil {
		return l, err
	}
	if l.event, err = s.device.NewEvent(); err != nil {
		return l, err
	}
	rows, truths := int64(deviceBlock), int64(deviceTruths)
	pair := int64(unsafe.Sizeof(cuda.Pair{}))
	in := rows*4 + truths*12 + 1024
	far := int64(0)
	if s.towers != nil {
		far = int64(farTruths)
		in += rows*int64(unsafe.Sizeof(cuda.Query{})) + truths*(pair+4) + truths/far*32
	} else {
		in += rows*(4*int64(k)+int64(unsafe.Sizeof(cuda.PairRow{}))) + truths*16
	}
	if l.in, err = s.device.Pin(max(in, knownChunk*int64(unsafe.Sizeof(cuda.Known{})))); err != nil {
		return l, err
	}
	if l.out, err = s.device.Pin(max(4*int64(countsN), restChunk*(pair+16))); err != nil {
		return l, err
	}
	for _, m := range l.pieces(k, int(far)) {
		if *m.to, err = s.device.Alloc(m.bytes); err != nil {
			return l, err
		}
		l.memory = append(l.memory, *m.to)
	}
	return l, nil
}

// piece is device memory to be reserved.
type piece struct {
	to    **cuda.Memory
	bytes int64
}

// pieces are the memory of a lane, whose device makes φ of so many far truths at a time.
func (l *lane) pieces(k, farTruths int) []piece {
	rows, truths, far, width := int64(deviceBlock), int64(deviceTruths), int64(farTruths), int64(k)
	pair := int64(unsafe.Sizeof(cuda.Pair{}))
	return []piece{
		{&l.psi, 4 * rows * width}, {&l.halves, 2 * rows * width}, {&l.scales, 4 * rows}, {&l.sizes, 24 * rows},
		{&l.rows, rows * int64(unsafe.Sizeof(cuda.Row{}))}, {&l.pairRows, rows * int64(unsafe.Sizeof(cuda.PairRow{}))},
		{&l.first, 4 * (rows + 1)}, {&l.row, 4 * truths}, {&l.ends, 8 * truths}, {&l.interval, 16 * truths}, {&l.answer, 4 * truths}, {&l.same, 4 * truths},
		{&l.counts, 4 * int64(countsN)}, {&l.list, int64(deviceList) * pair}, {&l.rest, int64(deviceList) * pair}, {&l.known, knownChunk * int64(unsafe.Sizeof(cuda.Known{}))},
		{&l.asked, rows * int64(unsafe.Sizeof(cuda.Query{}))}, {&l.far, 4 * far}, {&l.farPhi, 4 * far * width}, {&l.farNorms, 8 * far}, {&l.farSizes, 8 * far},
	}
}

// laneBytes is the device memory of a lane.
func laneBytes(k, farTruths int) (sum int64) {
	for _, p := range new(lane).pieces(k, farTruths) {
		sum += p.bytes
	}
	return sum
}

// close waits for what is under way and gives everything back.
func (l *lane) close() {
	if l.begun {
		_ = l.wait(context.Background())
	}
	for _, m := range l.memory {
		_ = m.Free()
	}
	_ = l.in.Free()
	_ = l.out.Free()
	if l.event != nil {
		_ = l.event.Close()
	}
	if l.stream != nil {
		_ = l.stream.Close()
	}
}

// wait waits for all that was asked of the stream.
func (l *lane) wait(ctx context.Context) error {
	l.begun = true
	if err := l.stream.Record(l.event); err != nil {
		return err
	}
	if err := l.event.Wait(ctx); err != nil {
		return err
	}
	l.used = 0
	return nil
}

// put copies n values that fill writes to device memory.
func put[T any](l *lane, dst *cuda.Memory, n int, fill func([]T)) error {
	l.begun = true
	var err error
	l.used, err = send(l.stream, dst, l.in, l.used, n, fill)
	return err
}

// send brings the block's queries and truths to the device.
func (l *lane) send(s *sweeper) error {
	truths := len(s.truths)
	err := cmp.Or(
		l.sendQueries(s),
		put(l, l.answer, truths, func(v []int32) {
			for t := range v {
				v[t] = s.truths[t].answer
			}
		}),
		put(l, l.same, truths, func(v []int32) {
			for t := range v {
				v[t] = s.rep(s.truths[t].answer)
			}
		}),
	)
	if err != nil {
		return err
	}
	if s.constructs {
		err = l.scoreTruths(s)
	} else {
		err = l.sendIntervals(s)
	}
	return cmp.Or(err, l.prepareRows(s))
}

// padded is a number of queries in whole tiles.
func padded(n int) int { return (n + cuda.QueryTile - 1) / cuda.QueryTile * cuda.QueryTile }

// sendQueries brings the block's queries, with the numbers of their truths.
func (l *lane) sendQueries(s *sweeper) error {
	n, rows, truths, k := len(s.queries), padded(len(s.queries)), len(s.truths), l.share.k
	l.single = !l.share.half || l.share.useSingle.Load()
	err := cmp.Or(
		put(l, l.first, rows+1, func(v []int32) {
			copy(v, s.rows[:n+1])
			for i := n; i <= rows; i++ {
				v[i] = int32(truths)
			}
		}),
		put(l, l.row, truths, func(v []int32) { copy(v, s.rowOf) }),
		l.stream.Fill(l.psi, int64(4*n*k), int64(4*(rows-n)*k), 0),
	)
	if err != nil {
		return err
	}
	if s.constructs {
		err = l.constructPsi(s)
	} else {
		err = l.sendPsi(s)
	}
	if err != nil || l.single {
		return err
	}
	return cmp.Or(
		l.stream.Fill(l.halves, int64(2*n*k), int64(2*(rows-n)*k), 0),
		l.share.stages.Quantise(l.stream, cuda.Quantise{Rows: l.psi.At(0), Factor: l.share.inverse.At(0), Out: l.halves.At(0), Scales: l.scales.At(0),
			Sizes: l.sizes.At(0), N: int32(n), Width: int32(s.f.tower.Phi), Stride: int32(k), K: int32(k)}),
	)
}

// sendPsi copies ψ.
func (l *lane) sendPsi(s *sweeper) error {
	k := l.share.k
	return cmp.Or(
		put(l, l.psi, len(s.queries)*k, func(v []float32) {
			for i := range s.queries {
				permute(v[i*k:(i+1)*k], s.row(i), s.f.orderOf)
			}
		}),
		put(l, l.pairRows, len(s.queries), func(v []cuda.PairRow) {
			for i := range v {
				v[i] = cuda.PairRow{Norm: s.norms[i], Slack: s.slacks[i]}
			}
		}),
	)
}

// sendIntervals copies the truths' intervals.
func (l *lane) sendIntervals(s *sweeper) error {
	return put(l, l.interval, 2*len(s.truths), func(v []float64) {
		for t := range s.truths {
			v[2*t], v[2*t+1] = s.low[t], s.high[t]
		}
	})
}

// constructPsi makes ψ on the device.
func (l *lane) constructPsi(s *sweeper) error {
	sh := l.share
	return cmp.Or(
		put(l, l.asked, len(s.queries), func(v []cuda.Query) {
			for i, q := range s.queries {
				v[i] = cuda.Query{Anchor: q.Anchor, Relation: q.Relation}
				if q.Side == kg.Head {
					v[i].Side = 1
				}
			}
		}),
		sh.towers.Queries(l.stream, cuda.ConstructQueries{Entities: sh.tensors[0].At(0), Head: sh.tensors[1].At(0), Tail: sh.tensors[2].At(0), Cross: sh.tensors[3].At(0),
			Queries: l.asked.At(0), Out: l.psi.At(0), Rows: l.pairRows.At(0), Kappa: s.kappa, N: int32(len(s.queries)), Dim: int32(s.model.Config().Dim), K: int32(sh.k)}),
	)
}

// scoreTruths makes the truths' intervals on the device, and φ of those that are not among its
// candidates.
func (l *lane) scoreTruths(s *sweeper) error {
	sh := l.share
	var near, far []cuda.Pair
	for t, tr := range s.truths {
		if p := s.position(tr.answer) - sh.first; p >= 0 && p < sh.n {
			near = append(near, cuda.Pair{Truth: uint32(t), Other: uint32(p)})
		} else {
			far = append(far, cuda.Pair{Truth: uint32(t), Other: uint32(len(far) % farTruths)})
		}
	}
	a := l.decide(s, 0)
	a.Scored = l.interval.At(0)
	score := func(list []cuda.Pair) error {
		a.Count = uint32(len(list))
		return cmp.Or(put(l, l.list, len(list), func(v []cuda.Pair) { copy(v, list) }), sh.stages.Truths(l.stream, a))
	}
	if err := score(near); err != nil {
		return err
	}
	a.Phi, a.Norms, a.Sizes = l.farPhi.At(0), l.farNorms.At(0), l.farSizes.At(0)
	for ; len(far) > 0; far = far[min(farTruths, len(far)):] {
		list := far[:min(farTruths, len(far))]
		err := cmp.Or(
			put(l, l.far, len(list), func(v []int32) {
				for i, p := range list {
					v[i] = s.truths[p.Truth].answer
				}
			}),
			sh.towers.Features(l.stream, cuda.Construct{Entities: sh.tensors[0].At(0), Entity: l.far.At(0), Out: a.Phi, Norms: a.Norms, Sizes: a.Sizes,
				N: int32(len(list)), Dim: int32(s.model.Config().Dim), K: int32(sh.k)}),
			score(list),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// position returns the place of an entity in the order of the candidates in memory, or a negative
// number.
func (s *sweeper) position(entity int32) int {
	if at := int(entity) - s.f.first; at >= 0 && at < s.f.n {
		return int(s.f.place[at])
	}
	return math.MinInt32
}

// prepareRows makes what the screen knows about the queries.
func (l *lane) prepareRows(s *sweeper) error {
	sh, c := l.share, s.f.tower.Compare
	a := cuda.Prepare{Psi: l.psi.At(0), Queries: l.pairRows.At(0), First: l.first.At(0), Interval: l.interval.At(0), Rows: l.rows.At(0), Ends: l.ends.At(0),
		N: int32(len(s.queries)), Padded: int32(padded(len(s.queries))), K: int32(sh.k), Compare: int32(c.Kind()), Centring: 2 * kernel.Gamma(sh.k+1, kernel.U64)}
	a.Rounding, a.Subnormal = s.f.tower.Compare.InputError(s.f.tower.Phi)
	if l.single {
		a.Relative, a.Absolute = cuda.SingleError(c, sh.k)
		a.Relative *= outward
	} else {
		a.Relative, a.Absolute = cuda.HalfError(sh.device.HalfVariant(), sh.k)
		a.Centre, a.Scales, a.Sizes = sh.centre.At(0), l.scales.At(0), l.sizes.At(0)
	}
	return sh.stages.Rows(l.stream, a)
}

// decide is the argument of the float64 stage for candidates from a position of the share on.
func (l *lane) decide(s *sweeper, from int) cuda.Decide {
	sh := l.share
	at := func(m *cuda.Memory, size int) cuda.Pointer { return m.At(int64(from) * int64(size)) }
	c := s.f.tower.Compare
	a := cuda.Decide{
		Psi: l.psi.At(0), Phi: at(sh.phi, 4*sh.k), Rows: l.pairRows.At(0), Norms: at(sh.norms, 8), Sizes: at(sh.sizes, 8),
		Entity: at(sh.entity, 4), Same: at(sh.same, 4), First: l.first.At(0), Row: l.row.At(0), Interval: l.interval.At(0),
		Answer: l.answer.At(0), AnswerSame: l.same.At(0), Better: l.counts.At(4 * int64(betterAt)), Equal: l.counts.At(4 * int64(equalAt)),
		List: l.list.At(0), Listed: l.counts.At(4 * int64(listedAt)), Known: l.known.At(0), Rest: l.rest.At(0), Rested: l.counts.At(4 * int64(restedAt)),
		Room: uint32(deviceList), Count: uint32(deviceList), K: int32(sh.k), Compare: int32(c.Kind()), Truths: int32(len(s.truths)),
		Relative: c.PairError(sh.k),
	}
	a.Rounding, a.Subnormal = s.f.tower.Compare.InputError(s.f.tower.Phi)
	return a
}

// screen begins the screening of n of the share's candidates from a position on.
func (l *lane) screen(s *sweeper, from, n, capacity int) error {
	sh := l.share
	at := func(m *cuda.Memory, size int) cuda.Pointer { return m.At(int64(from) * int64(size)) }
	blocks := int64(from/cuda.BlockCandidates) * int64(unsafe.Sizeof(cuda.Block{}))
	a := cuda.Screen{
		Psi: l.psi.At(0), Phi: at(sh.phi, 4*sh.k), Rows: l.rows.At(0), Blocks: sh.blocksSingle.At(blocks),
		First: l.first.At(0), Ends: l.ends.At(0), Better: l.counts.At(4 * int64(betterAt)), List: l.list.At(0), Listed: l.counts.At(4 * int64(listedAt)),
		Capacity: uint32(capacity), K: int32(sh.k), Candidates: int32(n), Limit: float32(s.f.tower.Compare.Limit()),
	}
	if err := l.stream.Fill(l.counts, 0, l.counts.Bytes(), 0); err != nil {
		return err
	}
	if l.single {
		return sh.screens.Single(l.stream, s.f.tower.Compare, a, len(s.queries))
	}
	a.Psi, a.Phi, a.Scales, a.Blocks = l.halves.At(0), at(sh.halves, 2*sh.k), at(sh.scales, 4), sh.blocksHalf.At(blocks)
	return sh.screens.Half(l.stream, sh.device.HalfVariant(), a, len(s.queries))
}

// count counts the share's candidates for every truth of the block.
func (l *lane) count(ctx context.Context, s *sweeper) error {
	sh := l.share
	for from := 0; from < sh.n; {
		n := min(l.span, sh.n-from)
		err := l.screen(s, from, n, deviceList)
		if err = cmp.Or(err, sh.stages.Pairs(l.stream, l.decide(s, from)), l.stream.CopyFrom(l.out, 0, l.counts, 0, l.counts.Bytes())); err != nil {
			return err
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
		counts := cuda.View[int32](l.out, 0, countsN)
		listed, rested := uint32(counts[listedAt]), uint32(counts[restedAt])
		if listed > uint32(deviceList) || rested > uint32(deviceList) {
			// Nothing of this launch counts.
			if n <= cuda.CandidateTile {
				return fmt.Errorf("rank: %d candidates and %d truths left %d undecided pairs, more than there are", n, len(s.truths), max(listed, rested))
			}
			l.span = max(cuda.CandidateTile, n/2/cuda.CandidateTile*cuda.CandidateTile)
			continue
		}
		if !l.single && float64(listed) > tooMany*float64(len(s.truths))*float64(n) && n > cuda.CandidateTile {
			sh.useSingle.Store(true)
		}
		itself := 0
		for t := range s.truths {
			s.tally[t].add(counts[betterAt+t], counts[equalAt+t])
			if p := s.position(s.truths[t].answer) - sh.first - from; p >= 0 && p < n {
				itself++
			}
		}
		s.undecided.Add(int64(listed) - int64(itself))
		err = l.rested(ctx, int(rested), func(p cuda.Pair) error {
			e := s.f.order[sh.first+from+int(p.Other)] + int32(s.f.first)
			s.pending = append(s.pending, candidate{s.rowOf[p.Truth], int32(p.Truth), s.rep(e), [NumFilters]uint8{1, 1, 1}})
			if len(s.pending) > maxPending {
				s.decideByReference(ctx)
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		from += n
	}
	return nil
}

// add counts under every filter.
func (t *tally) add(better, equal int32) {
	for f := range NumFilters {
		t.better[f] += better
		t.equal[f] += equal
	}
}

// rested calls f for each of the n pairs that the float64 stage left.
func (l *lane) rested(ctx context.Context, n int, f func(cuda.Pair) error) error {
	const size = int64(unsafe.Sizeof(cuda.Pair{}))
	for at := 0; at < n; at += restChunk {
		m := min(restChunk, n-at)
		if err := l.stream.CopyFrom(l.out, 0, l.rest, int64(at)*size, int64(m)*size); err != nil {
			return err
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
		for _, p := range cuda.View[cuda.Pair](l.out, 0, m) {
			if err := f(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge takes the known answers among the share's candidates out of the counts of every filter that
// removes them.
func (l *lane) judge(ctx context.Context, s *sweeper, all []cuda.Known) error {
	sh := l.share
	known := make([]cuda.Known, 0, len(all))
	for _, k := range all {
		if p := int(k.Position) - sh.first; p >= 0 && p < sh.n {
			k.Position = uint32(p)
			known = append(known, k)
		}
	}
	for chunk := knownChunk; len(known) > 0; {
		n := min(chunk, len(known))
		a := l.decide(s, 0)
		a.Count = uint32(n)
		err := cmp.Or(
			l.stream.Fill(l.counts, 0, l.counts.Bytes(), 0),
			put(l, l.known, n, func(v []cuda.Known) { copy(v, known) }),
			sh.stages.Known(l.stream, a),
			l.stream.CopyFrom(l.out, 0, l.counts, 0, l.counts.Bytes()),
		)
		if err != nil {
			return err
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
		counts := cuda.View[int32](l.out, 0, countsN)
		rested := uint32(counts[restedAt])
		if rested > uint32(deviceList) {
			chunk = max(1, n/2)
			continue
		}
		truths := len(s.truths)
		for t := range truths {
			for f := range NumFilters {
				s.tally[t].better[f] -= counts[betterAt+int(f)*truths+t]
				s.tally[t].equal[f] -= counts[equalAt+int(f)*truths+t]
			}
		}
		err = l.rested(ctx, int(rested), func(p cuda.Pair) error {
			k := known[p.Other]
			e := s.f.order[sh.first+int(k.Position)] + int32(s.f.first)
			better, equal := s.judged(int32(p.Truth), s.rep(e))
			for f := range NumFilters {
				if k.Filters>>f&1 == 0 {
					continue
				}
				if better {
					s.tally[p.Truth].better[f]--
				}
				if equal {
					s.tally[p.Truth].equal[f]--
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		known = known[n:]
	}
	return nil
}
