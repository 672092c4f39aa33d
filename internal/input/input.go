// Package input reads files, pipes and whatever else has a name so that a cancelled context ends
// every wait at once: for the writer of a named pipe, for a terminal, for a server that no longer
// answers.
//
// The system offers no way to take back an open or a read. Both run in a goroutine of their own,
// which a cancelled context leaves behind: it ends when the system call does, or with the process.
package input

import (
	"context"
	"io"
	"os"
)

const (
	// chunkSize is how much is read at a time, in bytes, and chunks how many of them a Reader has:
	// one is filled while another is used.
	chunkSize = 1 << 16
	chunks    = 2
)

// Await returns what f returns, or the context's error as soon as that is cancelled.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var (
		result, none T
		failed       error
	)
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, failed = f()
	}()
	select {
	case <-done:
		return result, failed
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Reader reads ahead in the background. It is for one goroutine.
type Reader struct {
	outer  context.Context
	ctx    context.Context // ends with outer or with Close
	cancel context.CancelFunc
	size   int64
	full   chan chunk
	free   chan []byte
	closed chan struct{}
	// chunk is what was received last, and rest what of it is still to be read.
	chunk
	rest []byte
}

// chunk is the result of one read.
type chunk struct {
	data []byte
	err  error
}

// Open opens a file for reading. The caller closes it.
func Open(ctx context.Context, path string) (*Reader, error) {
	size := int64(-1)
	// A file that is opened too late for anybody to want it is closed when it is collected.
	file, err := Await(ctx, func() (*os.File, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		return file, nil
	})
	if err != nil {
		return nil, err
	}
	return newReader(ctx, file, size), nil
}

// NewReader returns a Reader of r, which nothing else may read. Close does not close r.
func NewReader(ctx context.Context, r io.Reader) *Reader { return newReader(ctx, io.NopCloser(r), -1) }

func newReader(ctx context.Context, from io.ReadCloser, size int64) *Reader {
	r := &Reader{
		outer: ctx, size: size,
		full: make(chan chunk, chunks), free: make(chan []byte, chunks), closed: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	for range chunks {
		r.free <- nil // made when it is used: most files need one
	}
	go r.fill(from)
	return r
}

// fill reads chunk after chunk until there is an error, such as io.EOF, or nobody wants more.
func (r *Reader) fill(from io.ReadCloser) {
	defer close(r.closed)
	defer from.Close()
	for {
		var buffer []byte
		select {
		case buffer = <-r.free:
		case <-r.ctx.Done():
			return
		}
		if buffer == nil {
			buffer = make([]byte, chunkSize)
		}
		n, err := from.Read(buffer)
		r.full <- chunk{buffer[:n], err} // there is room for every buffer
		if err != nil {
			return
		}
	}
}

// Read returns the context's error once that is cancelled.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		r.receive()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// receive gives the last chunk back and waits for the next.
func (r *Reader) receive() {
	if r.data != nil {
		r.free <- r.data[:chunkSize]
	}
	r.chunk = chunk{err: r.ctx.Err()}
	if r.err != nil {
		return
	}
	select {
	case r.chunk = <-r.full:
		r.rest = r.data
	case <-r.ctx.Done():
		r.err = r.ctx.Err()
	}
}

// Size returns the size that a regular file had when it was opened, in bytes; it is negative for
// everything else.
func (r *Reader) Size() int64 { return r.size }

// Close ends the reading. A regular file is closed when it returns, unless the context is cancelled;
// everything else when the system has answered the last read, for which Close does not wait.
func (r *Reader) Close() error {
	r.cancel()
	if r.size >= 0 {
		select {
		case <-r.closed:
		case <-r.outer.Done():
		}
	}
	return nil
}

// ReadFile is os.ReadFile under a context.
func ReadFile(ctx context.Context, path string) ([]byte, error) {
	r, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
