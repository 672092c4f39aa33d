package rank

import (
	"cmp"
	"context"
	"errors"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// loaded is a slice of the candidates of a pass, in one of an engine's buffers.
type loaded struct {
	pass       engine.Pass
	buffer     int
	candidates engine.Candidates
}

// eachSlice calls do with every pass and every slice of the candidates. Where the engine has several buffers, slices are
// loaded ahead.
func eachSlice(
	ctx context.Context, j *engine.Job, e engine.Engine, stats *Stats,
	do func(context.Context, engine.Pass, engine.Candidates) error,
) error {
	j.Phases = engine.NewPhases(ctx)
	defer pprof.SetGoroutineLabels(ctx)
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	size, buffers := e.Slices()
	free, ready := make(chan int, buffers), make(chan loaded)
	for i := range buffers {
		free <- i
	}
	start := time.Now()
	var loader sync.WaitGroup
	defer loader.Wait()
	defer cancel(nil)
	loader.Go(func() {
		defer close(ready)
		if err := loadSlices(inner, j, e, size, free, ready); err != nil {
			cancel(err)
		}
	})
	for s := range ready {
		filled := time.Now()
		stats.Pack += filled.Sub(start)
		if err := do(inner, s.pass, s.candidates); err != nil {
			cancel(err)
			break
		}
		free <- s.buffer
		start = time.Now()
		stats.Rank += start.Sub(filled)
	}
	return cmp.Or(ctx.Err(), context.Cause(inner))
}

// loadSlices loads slice after slice into free buffers.
func loadSlices(
	ctx context.Context, j *engine.Job, e engine.Engine, size int, free <-chan int, ready chan<- loaded,
) (err error) {
	defer fault.Guard().Catch(&err)
	for _, p := range j.Passes {
		for first := j.First; first < j.Last; first += size {
			s := loaded{pass: p}
			select {
			case s.buffer = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			if s.candidates, err = e.Load(ctx, s.buffer, p, first, min(size, j.Last-first)); err != nil {
				return err
			}
			select {
			case ready <- s:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// parallel is kernel.Parallel for work that can fail: the first error ends it.
func parallel(ctx context.Context, threads, n int, do func(ctx context.Context, worker, item int) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := kernel.Parallel(inner, threads, n, func(w, i int) {
		if err := do(inner, w, i); err != nil {
			cancel(err)
		}
	})
	if cause := context.Cause(inner); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
