package rank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/mquine/mquine/kernel/cuda"
)

// Predictions on GPUs. To a screen, the threshold of a query's list is the lower end of a truth that no
// candidate surpasses for certain: it counts none, and lists the candidates that may reach the
// threshold, for which the device has float64 scores at once. Screened are first few candidates, then
// each time as many as before in all, so that about k candidates of a launch reach the threshold that
// the ones before have set.

// addThresholds gives every query one truth, whose interval is the threshold.
func (p *plan) addThresholds() {
	p.truths = make([]truth, len(p.queries))
	for i := range p.queries {
		p.queries[i].first, p.queries[i].last = int32(i), int32(i+1)
		p.truths[i].answer = -1
	}
}

// devicePredictor finds the best k candidates on devices.
type devicePredictor struct {
	*deviceRun
	p *predictor
}

// predict makes all lists.
func (d *devicePredictor) predict(ctx context.Context, o Options) error {
	return d.eachSlice(ctx, o, new(Stats), max(1, min(deviceBlock, maxShortlisted/d.p.k)), d.block)
}

// block lets the candidates of all devices compete for the lists of a block of queries.
func (d *devicePredictor) block(ctx context.Context, w int, it item, sl *slot) error {
	s, lanes, err := d.member(w, sl)
	if err != nil {
		return err
	}
	s.begin(it)
	if !d.constructs && !s.computePsi(ctx) {
		return ctx.Err()
	}
	d.p.open(s, &d.p.scratch[w], it.first)
	for _, l := range lanes {
		if err := d.compete(ctx, s, &d.p.scratch[w], l); err != nil {
			return err
		}
	}
	if !d.p.close(ctx, s, &d.p.scratch[w], it.first) {
		return ctx.Err()
	}
	s.done.Add(int64(len(s.queries)) * int64(s.f.n))
	return nil
}

// compete is block for the candidates of one device.
func (d *devicePredictor) compete(ctx context.Context, s *sweeper, scratch *predictScratch, l *lane) error {
	sh, queries := l.share, len(s.queries)
	if err := l.sendQueries(s); err != nil {
		return err
	}
	// Intervals of 16 bytes take the place of the pairs that a ranking leaves to the reference.
	capacity := deviceList / 2
	span, most := cuda.CandidateTile, sh.n // most: whose list did not overflow
	for from := 0; from < sh.n; {
		n := min(span, sh.n-from)
		for row := range s.queries {
			s.low[row], s.high[row] = scratch.lists[row].threshold, math.Inf(1)
		}
		a := l.decide(s, from)
		a.Count, a.Scored = uint32(capacity), l.rest.At(0)
		err := cmp.Or(
			l.sendIntervals(s), l.prepareRows(s), l.screen(s, from, n, capacity), sh.stages.Scores(l.stream, a),
			l.stream.CopyFrom(l.out, 0, l.counts, 4*int64(listedAt), 4), l.wait(ctx),
		)
		if err != nil {
			return err
		}
		listed := int(cuda.View[uint32](l.out, 0, 1)[0])
		if listed > capacity {
			if n <= cuda.CandidateTile {
				return fmt.Errorf("rank: %d candidates and %d queries left %d undecided pairs, more than there are", n, queries, listed)
			}
			most = max(cuda.CandidateTile, n/2/cuda.CandidateTile*cuda.CandidateTile)
			span = most
			continue
		}
		// Beyond the k of every query that the threshold is for.
		if float64(listed) > float64(queries)*(tooMany*float64(n)+float64(d.p.k)) && from > 0 {
			sh.useSingle.Store(true)
		}
		if err := d.enter(ctx, s, scratch, l, from, listed); err != nil {
			return err
		}
		from += n
		span = min(most, max(cuda.CandidateTile, from/cuda.CandidateTile*cuda.CandidateTile))
	}
	return nil
}

// enter adds the listed candidates, with positions from `from` on, to the lists.
func (d *devicePredictor) enter(ctx context.Context, s *sweeper, scratch *predictScratch, l *lane, from, listed int) error {
	const pair = int64(unsafe.Sizeof(cuda.Pair{}))
	for at := 0; at < listed; at += restChunk {
		n := min(restChunk, listed-at)
		err := cmp.Or(
			l.stream.CopyFrom(l.out, 0, l.list, int64(at)*pair, int64(n)*pair),
			l.stream.CopyFrom(l.out, int64(n)*pair, l.rest, int64(at)*16, int64(n)*16),
			l.wait(ctx),
		)
		if err != nil {
			return err
		}
		intervals := cuda.View[[2]float64](l.out, int64(n)*pair, n)
		for i, p := range cuda.View[cuda.Pair](l.out, 0, n) {
			e := s.f.order[l.share.first+from+int(p.Other)] + int32(s.f.first)
			c := contender{entity: e, stage: rescored, low: intervals[i][0], high: intervals[i][1]}
			if !d.p.add(ctx, s, scratch, int(p.Truth), c) {
				return ctx.Err()
			}
		}
	}
	return nil
}
