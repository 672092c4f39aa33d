package kernel

import "context"

// Parallel calls work(worker, item) for every item from 0 to items−1 on up to workers
// goroutines, handing out items in ascending order; worker says which goroutine calls. It
// returns ctx's error if ctx was cancelled before every item was done. A fault in a mapped file that
// work reads, because another program truncated the file, ends the work and is the error.
func Parallel(ctx context.Context, workers, items int, work func(worker, item int)) error {
	return newTeam(min(workers, items)).run(ctx, items, work)
}
