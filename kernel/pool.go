package kernel

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/mquine/mquine/internal/fault"
)

// Parallel calls work(worker, item) for every item from 0 to items−1 on at most workers goroutines.
// It hands out items in ascending order. worker is the number of the goroutine that makes the call.
// Parallel returns ctx's error if ctx is cancelled before Parallel returns, even if work was called
// for all items, because these calls may have stopped early. If work faults on a mapped file because
// another program truncated the file, Parallel stops and returns that fault as an error.
func Parallel(ctx context.Context, workers, items int, work func(worker, item int)) error {
	return NewPool(min(workers, items)).Run(ctx, items, work)
}

// Pool is a worker pool that repeats Parallel without allocating. It runs one job at a time.
type Pool struct {
	next  atomic.Int64
	items int
	work  func(worker, item int)
	ctx   context.Context
	wg    sync.WaitGroup
	mu    sync.Mutex // guards fault
	fault error      // the fault of an item on a mapped file
	// others are the bodies of the workers other than the calling goroutine.
	others []func()
}

// NewPool returns a pool of workers. The goroutine that calls Run is the first worker.
func NewPool(workers int) *Pool {
	p := &Pool{}
	for w := 1; w < workers; w++ {
		p.others = append(p.others, func() {
			p.runWorker(w)
			p.wg.Done()
		})
	}
	return p
}

// Workers returns the number of workers.
func (p *Pool) Workers() int { return len(p.others) + 1 }

// Run is like Parallel but uses the workers of the pool.
func (p *Pool) Run(ctx context.Context, items int, work func(worker, item int)) error {
	p.ctx, p.items, p.work = ctx, items, work
	p.next.Store(0)
	for _, f := range p.others[:max(0, min(len(p.others), items-1))] {
		p.wg.Add(1)
		go f()
	}
	p.runWorker(0)
	p.wg.Wait()
	err := cmp.Or(p.fault, ctx.Err())
	p.ctx, p.work, p.fault = nil, nil, nil
	return err
}

// runWorker takes items until none is left. If an item faults on a mapped file, runWorker leaves no
// further items to any worker.
func (p *Pool) runWorker(worker int) {
	if err := p.takeItems(worker); err != nil {
		p.next.Store(int64(p.items))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fault = err
	}
}

func (p *Pool) takeItems(worker int) (err error) {
	defer fault.Guard().Catch(&err)
	for p.ctx.Err() == nil {
		item := int(p.next.Add(1)) - 1
		if item >= p.items {
			break
		}
		p.work(worker, item)
	}
	return nil
}
