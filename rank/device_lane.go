package rank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
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
	memory                                                  []*cuda.Memory
}

const (
	// knownChunk is the number of known answers that go to a device at a time.
	knownChunk = 1 << 15
	// restChunk is the number of pairs that come back at a time.
	restChunk = 1 << 15
)

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
	in := 4*rows*int64(k) + rows*(int64(unsafe.Sizeof(cuda.PairRow{})+unsafe.Sizeof(cuda.Row{}))+8) + truths*(16+8+12) + 1024
	if l.in, err = s.device.Pin(max(in, knownChunk*int64(unsafe.Sizeof(cuda.Known{})))); err != nil {
		return l, err
	}
	if l.out, err = s.device.Pin(max(4*int64(countsN), restChunk*int64(unsafe.Sizeof(cuda.Pair{})), 28*rows)); err != nil {
		return l, err
	}
	pair := int64(unsafe.Sizeof(cuda.Pair{}))
	for _, m := range []struct {
		to    **cuda.Memory
		bytes int64
	}{
		{&l.psi, 4 * rows * int64(k)}, {&l.halves, 2 * rows * int64(k)}, {&l.scales, 4 * rows}, {&l.sizes, 24 * rows},
		{&l.rows, rows * int64(unsafe.Sizeof(cuda.Row{}))}, {&l.pairRows, rows * int64(unsafe.Sizeof(cuda.PairRow{}))},
		{&l.first, 4 * (rows + 1)}, {&l.row, 4 * truths}, {&l.ends, 8 * truths}, {&l.interval, 16 * truths}, {&l.answer, 4 * truths}, {&l.same, 4 * truths},
		{&l.counts, 4 * int64(countsN)}, {&l.list, int64(deviceList) * pair}, {&l.rest, int64(deviceList) * pair}, {&l.known, knownChunk * int64(unsafe.Sizeof(cuda.Known{}))},
	} {
		if *m.to, err = s.device.Alloc(m.bytes); err != nil {
			return l, err
		}
		l.memory = append(l.memory, *m.to)
	}
	return l, nil
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
func (l *lane) send(ctx context.Context, s *sweeper) error {
	sh, n, truths := l.share, len(s.queries), len(s.truths)
	rows := (n + cuda.QueryTile - 1) / cuda.QueryTile * cuda.QueryTile
	k := sh.k
	l.single = !sh.half || sh.useSingle.Load()
	err := cmp.Or(
		put(l, l.psi, rows*k, func(v []float32) {
			for i := range n {
				permute(v[i*k:(i+1)*k], s.row(i), s.f.orderOf)
			}
			clear(v[n*k:])
		}),
		put(l, l.pairRows, n, func(v []cuda.PairRow) {
			for i := range v {
				v[i] = cuda.PairRow{Norm: s.norms[i], Slack: s.slacks[i]}
			}
		}),
		put(l, l.first, rows+1, func(v []int32) {
			copy(v, s.rows[:n+1])
			for i := n; i <= rows; i++ {
				v[i] = int32(truths)
			}
		}),
		put(l, l.row, truths, func(v []int32) { copy(v, s.rowOf) }),
		put(l, l.interval, 2*truths, func(v []float64) {
			for t := range truths {
				v[2*t], v[2*t+1] = s.low[t], s.high[t]
			}
		}),
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
	var scales []float32
	var sizes [][3]float64
	if !l.single {
		// What the quantisation takes off decides the band.
		err := cmp.Or(
			l.stream.Fill(l.halves, 0, int64(2*rows*k), 0),
			sh.stages.Quantise(l.stream, cuda.Quantise{Rows: l.psi.At(0), Factor: sh.inverse.At(0), Out: l.halves.At(0), Scales: l.scales.At(0),
				Sizes: l.sizes.At(0), N: int32(n), Width: int32(s.f.tower.Width), Stride: int32(k), K: int32(k)}),
			l.stream.CopyFrom(l.out, 0, l.sizes, 0, int64(24*n)),
			l.stream.CopyFrom(l.out, int64(24*n), l.scales, 0, int64(4*n)),
		)
		if err != nil {
			return err
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
		sizes, scales = cuda.View[[3]float64](l.out, 0, n), cuda.View[float32](l.out, int64(24*n), n)
	}
	screenRows, ends := make([]cuda.Row, rows), make([]float32, 2*truths)
	for i := range n {
		if l.single {
			screenRows[i] = s.singleRow(i, k, ends)
		} else {
			screenRows[i] = s.halfRow(i, k, ends, sh, sizes[i], scales[i])
		}
	}
	return cmp.Or(
		put(l, l.rows, rows, func(v []cuda.Row) { copy(v, screenRows) }),
		put(l, l.ends, 2*truths, func(v []float32) { copy(v, ends) }),
	)
}

// deviceVariant is the tensor-core screen that rankings use.
const deviceVariant = cuda.Half128

// halfRow is what the tensor-core screen knows about a row, whose truths' ends it sets; norms are those
// of the balanced ψ, its rounding error, and the rounded one (docs/numerics.md, section 10).
func (s *sweeper) halfRow(row, k int, ends []float32, sh *share, norms [3]float64, scale float32) cuda.Row {
	relative, absolute := cuda.HalfError(deviceVariant, k)
	// ψ·μ, which the candidates' scores lack.
	shift, size := 0.0, 0.0
	psi := s.row(row)
	for at, t := range s.f.orderOf {
		p := float64(psi[t]) * sh.mean[at]
		shift += p
		size += math.Abs(p)
	}
	r := s.screenRow(row, absolute+2*kernel.Gamma(k+1, kernel.U64)*size)
	r.A[0], r.A[1], r.A[2] = kernel.RoundUp32(norms[1]*outward), kernel.RoundUp32(norms[2]*outward), kernel.RoundUp32(relative*norms[2]*outward)
	r.Norm, r.Scale = kernel.RoundUp32(norms[0]), scale
	s.screenEnds(row, &r, ends, func(lo, hi float64) (float64, float64) { return lo - shift, hi - shift })
	return r
}

// singleRow is the same for the float32 screens.
func (s *sweeper) singleRow(row, k int, ends []float32) cuda.Row {
	c := s.f.tower.Compare
	relative, absolute := cuda.SingleError(c, k)
	relative *= outward
	r := s.screenRow(row, absolute)
	r.Norm = kernel.RoundUp32(s.norms[row])
	if c.Distance() {
		for i := range r.S {
			r.S[i] = kernel.RoundUp32(s.slacks[row][i] * (1 + relative) * outward)
		}
		s.screenEnds(row, &r, ends, func(lo, hi float64) (float64, float64) { return lo*(1+relative) - absolute, hi*(1-relative) + absolute })
		return r
	}
	r.A[3] = kernel.RoundUp32(float64(r.A[3]) + relative*s.norms[row]*outward)
	s.screenEnds(row, &r, ends, func(lo, hi float64) (float64, float64) { return lo, hi })
	return r
}

// screenRow has the model's slack, an absolute error, and for a dot product the rounding of ψ and φ to
// float32, as sweeper.product has it.
func (s *sweeper) screenRow(row int, absolute float64) cuda.Row {
	var r cuda.Row
	if s.f.tower.Compare == kernel.Dot {
		tiny := 0x1p-149 * math.Sqrt(float64(s.f.tower.Width))
		r.A[3] = kernel.RoundUp32(((2*kernel.U32+kernel.U32*kernel.U32)*s.norms[row] + tiny) * outward)
		absolute += tiny * (s.norms[row] + 1)
	}
	for i, v := range s.slacks[row] {
		r.S[i] = kernel.RoundUp32(v * outward)
	}
	r.S[0] = kernel.RoundUp32((s.slacks[row][0] + absolute) * outward)
	return r
}

// screenEnds sets the ends of a row's truths, and the lowest.
func (s *sweeper) screenEnds(row int, r *cuda.Row, ends []float32, shape func(lo, hi float64) (float64, float64)) {
	r.Low = float32(math.Inf(1))
	for t := s.rows[row]; t < s.rows[row+1]; t++ {
		lo, hi := shape(s.low[t], s.high[t])
		margin := 8 * kernel.U64 * (math.Abs(s.low[t]) + math.Abs(s.high[t]) + math.Abs(lo) + math.Abs(hi))
		lo, hi = lo-margin, hi+margin
		if !(lo > math.Inf(-1) && hi < math.Inf(1)) {
			lo, hi = math.Inf(-1), math.Inf(1)
		}
		ends[2*t], ends[2*t+1] = kernel.RoundDown32(lo), kernel.RoundUp32(hi)
		r.Low = min(r.Low, ends[2*t])
	}
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
		Room: uint32(deviceList), Count: uint32(deviceList), K: int32(sh.k), Compare: int32(c), Truths: int32(len(s.truths)),
		Relative: kernel.PairError(c, sh.k),
	}
	if c == kernel.Dot {
		a.Rounding, a.Subnormal = 2*kernel.U32+kernel.U32*kernel.U32, 0x1p-149*math.Sqrt(float64(s.f.tower.Width))
	}
	return a
}

// limits are the norms' product, or sum, from which a screen may overflow.
func (l *lane) limit(c kernel.Comparison) float32 {
	switch c {
	case kernel.L1:
		return float32(math.Inf(1))
	case kernel.GroupNorm:
		return 1 << 60
	}
	return kernel.Overflow
}

// count counts the share's candidates for every truth of the block.
func (l *lane) count(ctx context.Context, s *sweeper) error {
	sh := l.share
	for from := 0; from < sh.n; {
		n := min(l.span, sh.n-from)
		screen := cuda.Screen{
			Psi: l.psi.At(0), Phi: sh.phi.At(int64(from) * int64(4*sh.k)), Rows: l.rows.At(0),
			Blocks: sh.blocksSingle.At(int64(from/cuda.BlockCandidates) * int64(unsafe.Sizeof(cuda.Block{}))),
			First:  l.first.At(0), Ends: l.ends.At(0), Better: l.counts.At(4 * int64(betterAt)), List: l.list.At(0), Listed: l.counts.At(4 * int64(listedAt)),
			Capacity: uint32(deviceList), K: int32(sh.k), Candidates: int32(n), Limit: l.limit(s.f.tower.Compare),
		}
		if err := l.stream.Fill(l.counts, 0, l.counts.Bytes(), 0); err != nil {
			return err
		}
		var err error
		if l.single {
			err = sh.screens.Single(l.stream, s.f.tower.Compare, screen, len(s.queries))
		} else {
			screen.Psi, screen.Phi, screen.Scales = l.halves.At(0), sh.halves.At(int64(from)*int64(2*sh.k)), sh.scales.At(4*int64(from))
			screen.Blocks = sh.blocksHalf.At(int64(from/cuda.BlockCandidates) * int64(unsafe.Sizeof(cuda.Block{})))
			err = sh.screens.Half(l.stream, deviceVariant, screen, len(s.queries))
		}
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
			if at := int(s.truths[t].answer) - s.f.first; at >= 0 && at < s.f.n {
				if p := int(s.f.place[at]) - sh.first - from; p >= 0 && p < n {
					itself++
				}
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
