package gpu

import (
	"context"
	"math"
	"unsafe"

	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/rank/internal/engine"
)

// contend adds the candidates of the worker's part to the lists of the block's queries. For each
// list, it passes the screen a target whose interval begins at the list's threshold and has no
// upper end. The screen then counts no candidate as better and lists the candidates that may reach
// the threshold. Afterwards the device computes their float64 scores.
//
// The first launch screens one tile. Each later launch screens as many candidates as all launches
// before it together, so about k of them reach a query's threshold.
func (w *worker) contend(ctx context.Context, lists *engine.Lists) error {
	p, b := w.part, w.block
	w.sendQueries()
	capacity := w.listRoom / 2 // w.unresolved holds intervals of 16 bytes here, not pairs of 8
	span, most := cuda.CandidateTile, w.mostSpan
	for from := 0; from < p.n; {
		n := min(span, p.n-from)
		for row := range b.Queries {
			b.Low[row], b.High[row] = lists.Threshold(row), math.Inf(1)
		}
		a := w.decide(from)
		a.Count, a.Scored = uint32(capacity), w.unresolved.At(0)
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
		// For each query, about k candidates reach the threshold with any screen.
		if float64(listed) > float64(len(b.Queries))*(maxUndecided*float64(n)+float64(lists.K)) && from > 0 {
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

// enter adds listed candidates to the lists. A listed pair contains the position of the candidate
// minus from.
func (w *worker) enter(ctx context.Context, lists *engine.Lists, from, listed int) error {
	const pair = int64(unsafe.Sizeof(cuda.Pair{}))
	for at := 0; at < listed; at += pairChunk {
		n := min(pairChunk, listed-at)
		w.stream.copyFrom(w.out, 0, w.list, int64(at)*pair, int64(n)*pair)
		w.stream.copyFrom(w.out, int64(n)*pair, w.unresolved, int64(at)*16, int64(n)*16)
		if err := w.wait(ctx); err != nil {
			return err
		}
		intervals := cuda.View[[2]float64](w.out, int64(n)*pair, n)
		for i, p := range cuda.View[cuda.Pair](w.out, 0, n) {
			err := lists.Add(ctx, int(p.Target), engine.Contender{
				Entity: w.f.Entity(from + int(p.Other)), Stage: engine.Rescored, Low: intervals[i][0],
				High: intervals[i][1],
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
