package atomicfile

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"
)

// patience is how long a writer that was cancelled still waits for the reader of a pipe. A slow reader thus gets a
// last message.
const patience = time.Second

// Patient returns a writer to w, which may be a pipe that nothing reads. If a Write still waits a second after the
// context is cancelled, it returns the context's error and leaves the write to w in the background. Later Writes then
// return the same error at once.
func Patient(ctx context.Context, w io.Writer) io.Writer { return &patient{ctx: ctx, w: w} }

type patient struct {
	ctx context.Context
	w   io.Writer

	mu        sync.Mutex
	abandoned error
}

func (p *patient) Unwrap() io.Writer { return p.w }

func (p *patient) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned != nil {
		return 0, p.abandoned
	}
	data = bytes.Clone(data) // the caller may reuse its buffer while an abandoned write still reads this one
	n, err := await(p.ctx, func() (int, error) { return p.w.Write(data) })
	if err != nil && err == p.ctx.Err() {
		p.abandoned = err
	}
	return n, err
}

// await returns the results of f. A second after ctx is cancelled, it stops waiting for them.
func await[T any](ctx context.Context, f func() (T, error)) (result T, err error) {
	type results struct {
		result T
		err    error
	}
	done := make(chan results, 1)
	go func() {
		result, err := f()
		done <- results{result, err}
	}()
	select {
	case r := <-done:
		return r.result, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r.result, r.err
	case <-time.After(patience):
		return result, ctx.Err()
	}
}
