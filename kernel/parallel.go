package kernel

import (
	"context"
	"sync"
	"sync/atomic"
)

// Parallel calls work(worker, item) for every item from 0 to items−1 on up to workers
// goroutines, handing out items in ascending order; worker says which goroutine calls. It
// returns ctx's error if ctx was cancelled before every item was done.
func Parallel(ctx context.Context, workers, items int, work func(worker, item int)) error {
	workers = max(1, min(workers, items))
	var next atomic.Int64
	run := func(w int) {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= items {
				return
			}
			work(w, i)
		}
	}
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { run(w) })
	}
	run(0)
	wg.Wait()
	if int(next.Load()) < items || ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}
