package gpu

import (
	"context"
	"math"
	"unsafe"

	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/rank/internal/engine"
)

// contend adds the candidates of the worker's part to the lists of the block's queries. To a screen, the threshold of a
// list is the lower end of a target that no candidate surpasses for certain: it counts none, and lists the candidates
// that may reach the threshold, for which the device has float64 scores at once. Screened are first few candidates, then
// each time as many as before in all, so that about k candidates of a launch reach the threshold that the ones before
// have set.
func (w *worker) contend(ctx context.Context, lists *engine.Lists) error {
	p, b := w.part, w.block
	w.sendQueries()
	// Intervals of 16 bytes take the place of the pairs that a ranking leaves to the reference.
	capacity := w.listRoom / 2
	span, most := cuda.CandidateTile, p.n // most: whose list did not overflow
	for from := 0; from < p.n; {
		n := min(span, p.n-from)
		for row := range b.Queries {
			b.Low[row], b.High[row] = lists.Threshold(row), math.Inf(1)
		}
		a := w.decide(from)
		a.Count, a.Scored = uint32(capacity), w.rest.At(0)
		w.sendIntervals(b.Low, b.High)
		w.prepareRows()
		w.screen(from, n, capacity)
		launch(w.stream, p.stages.Scores, a)
		w.stream.copyFrom(w.out, 0, w.counts, 4*int64(listedAt), 4)
		if err := w.wait(ctx); err != nil {
			return err
		}
		listed := int(cuda.View[uint32](w.out, 0, 1)[0])
		if listed > capacity {
			fewer, err := narrower(n, len(b.Queries), listed)
			if err != nil {
				return err
			}
			span, most = fewer, fewer
			continue
		}
		// Beyond the k of every query that the threshold is for.
		if float64(listed) > float64(len(b.Queries))*(tooMany*float64(n)+float64(lists.K)) && from > 0 {
			p.useSingle.Store(true)
		}
		if err := w.enter(ctx, lists, p.first+from, listed); err != nil {
			return err
		}
		from += n
		span = min(most, max(cuda.CandidateTile, from/cuda.CandidateTile*cuda.CandidateTile))
	}
	return nil
}

// enter adds the listed candidates, with positions from `from` on, to the lists.
func (w *worker) enter(ctx context.Context, lists *engine.Lists, from, listed int) error {
	const pair = int64(unsafe.Sizeof(cuda.Pair{}))
	for at := 0; at < listed; at += restChunk {
		n := min(restChunk, listed-at)
		w.stream.copyFrom(w.out, 0, w.list, int64(at)*pair, int64(n)*pair)
		w.stream.copyFrom(w.out, int64(n)*pair, w.rest, int64(at)*16, int64(n)*16)
		if err := w.wait(ctx); err != nil {
			return err
		}
		intervals := cuda.View[[2]float64](w.out, int64(n)*pair, n)
		for i, p := range cuda.View[cuda.Pair](w.out, 0, n) {
			err := lists.Add(ctx, int(p.Target), engine.Contender{
				Entity: w.f.Entity(from + int(p.Other)), Stage: engine.Rescored, Low: intervals[i][0], High: intervals[i][1],
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
