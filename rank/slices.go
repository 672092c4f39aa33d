package rank

import (
	"cmp"
	"context"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/rank/internal/engine"
)

// session is a ranking or a prediction that is running, with its engine.
type session struct {
	job    *engine.Job
	engine engine.Engine
	blocks []*engine.Block // by goroutine
}

// begin starts the engine of a job. The caller must close the session.
func (o Options) begin(ctx context.Context, j *engine.Job) (_ *session, err error) {
	if j.Representatives, err = engine.FindRepresentatives(ctx, j); err != nil {
		return nil, err
	}
	s := &session{job: j, blocks: make([]*engine.Block, j.Threads)}
	if j.Listed != nil {
		s.engine = newPairEngine(j)
		return s, nil
	}
	if o.Engine == nil {
		e := newCPUEngine(j, o.Screen)
		if o.adjust != nil {
			o.adjust(e)
		}
		s.engine = e
		return s, nil
	}
	s.engine, err = o.Engine.Start(j)
	return s, err
}

// loadedSlice is a slice of the candidates of a pass in one of an engine's buffers.
type loadedSlice struct {
	pass       engine.Pass
	buffer     int
	candidates engine.Candidates
}

// eachSlice calls do for every slice of the candidates of every pass. If the engine has several
// buffers, the next slice is loaded while do runs. eachSlice returns the time spent waiting for
// slices and the time spent in do.
func (s *session) eachSlice(
	ctx context.Context, do func(context.Context, engine.Pass, engine.Candidates) error,
) (waiting, working time.Duration, err error) {
	s.job.Phases = engine.NewPhases(ctx)
	defer pprof.SetGoroutineLabels(ctx)
	inner, cancel := context.WithCancelCause(ctx)
	size, buffers := s.engine.Slices()
	free, ready := make(chan int, buffers), make(chan loadedSlice)
	for i := range buffers {
		free <- i
	}
	start := time.Now()
	var loader sync.WaitGroup
	defer loader.Wait()
	defer cancel(nil)
	loader.Go(func() {
		defer close(ready)
		if err := s.loadSlices(inner, size, free, ready); err != nil {
			cancel(err)
		}
	})
	for slice := range ready {
		loaded := time.Now()
		waiting += loaded.Sub(start)
		if err := do(inner, slice.pass, slice.candidates); err != nil {
			cancel(err)
			break
		}
		free <- slice.buffer
		start = time.Now()
		working += start.Sub(loaded)
	}
	return waiting, working, cmp.Or(ctx.Err(), context.Cause(inner))
}

// loadSlices loads one slice after another into free buffers.
func (s *session) loadSlices(
	ctx context.Context, size int, free <-chan int, ready chan<- loadedSlice,
) (err error) {
	defer fault.Guard().Catch(&err)
	for _, p := range s.job.Passes {
		for first := 0; first < p.Candidates.Len(); first += size {
			slice := loadedSlice{pass: p}
			some := p.Candidates.Slice(first, min(size, p.Candidates.Len()-first))
			select {
			case slice.buffer = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			if slice.candidates, err = s.engine.Load(ctx, slice.buffer, p, some); err != nil {
				return err
			}
			select {
			case ready <- slice:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// eachBlock calls do for every block and each of its parts, on the job's threads. worker is the
// number of the goroutine.
func (s *session) eachBlock(
	ctx context.Context, blocks []engine.Span, parts int,
	do func(ctx context.Context, worker int, queries engine.Span, b *engine.Block) error,
) error {
	return engine.Parallel(ctx, s.job.Threads, len(blocks)*parts, func(ctx context.Context, w, i int) error {
		if s.blocks[w] == nil {
			s.blocks[w] = engine.NewBlock(s.job, s.engine)
		}
		b, queries := s.blocks[w], blocks[i/parts]
		b.Begin(queries)
		b.Part, b.Parts = i%parts, parts
		return do(ctx, w, queries, b)
	})
}
