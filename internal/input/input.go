// Package input reads files, pipes and terminals so that cancelling a context immediately ends
// every wait: for the writer of a named pipe, for a keystroke, or for a file server that does not
// answer.
//
// The system cannot cancel an open or a read. Each of them therefore runs in a separate goroutine,
// which is abandoned if the context is cancelled. The goroutine ends with the system call or with
// the process.
package input

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

const (
	// chunkSize is the number of bytes per read. A Reader has two chunks: it fills one while the
	// caller uses the other.
	chunkSize = 1 << 16
	chunks    = 2
)

// Await calls f and returns its results. If ctx is cancelled first, Await immediately returns the
// context's error and leaves f running.
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

// Reader reads ahead in the background. Only one goroutine may use it.
type Reader struct {
	outer  context.Context
	ctx    context.Context // ends with outer or with Close
	cancel context.CancelFunc
	size   int64
	full   chan chunk
	free   chan []byte
	closed chan struct{}
	// chunk is the last chunk received, and rest is its unread part.
	chunk
	rest []byte
}

// chunk is the result of one read.
type chunk struct {
	data []byte
	err  error
}

// Open opens the file at path for reading. The caller must close the Reader.
func Open(ctx context.Context, path string) (*Reader, error) {
	size := int64(-1)
	// If the context is cancelled first, the garbage collector closes the file.
	file, err := Await(ctx, func() (*os.File, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		info, err := file.Stat()
		if err != nil {
			return file, nil // the first read reports an error
		}
		if info.IsDir() {
			file.Close()
			return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is a folder, not a file")}
		}
		if info.Mode().IsRegular() {
			size = info.Size()
		}
		return file, nil
	})
	if err != nil {
		return nil, err
	}
	return newReader(ctx, file, size), nil
}

// NewReader returns a Reader that reads from r. Nothing else may read from r. Close does not close
// r.
func NewReader(ctx context.Context, r io.Reader) *Reader { return newReader(ctx, io.NopCloser(r), -1) }

func newReader(ctx context.Context, from io.ReadCloser, size int64) *Reader {
	r := &Reader{
		outer: ctx, size: size,
		full: make(chan chunk, chunks), free: make(chan []byte, chunks), closed: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	for range chunks {
		r.free <- nil // fill allocates the chunk: most files need only one
	}
	go r.fill(from)
	return r
}

// fill reads chunks until an error, such as io.EOF, or until the Reader is closed.
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
		r.full <- chunk{buffer[:n], err} // never blocks: the channel has room for every chunk
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader. If the context is cancelled, Read returns the rest of the current
// chunk, then the context's error, unless reading had already ended.
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

// receive hands the last chunk back to fill and waits for the next one.
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

// Size returns the size in bytes that a regular file had when it was opened. It is negative for
// everything else.
func (r *Reader) Size() int64 { return r.size }

// Close stops reading. For a regular file, it waits until the file is closed, unless the context is
// cancelled. It does not wait for a pipe or a terminal, which is closed once the pending read
// returns.
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

// mostContents is the largest number of bytes that ReadAll returns. The files that the project reads whole
// are recipes, results and the like; other files are streams.
const mostContents = 256 << 20

var errTooLarge = errors.New("it has more than 256 MiB: check that it is the right file")

// ReadFile is like os.ReadFile but takes a context. A file with more than 256 MiB is an error.
func ReadFile(ctx context.Context, path string) ([]byte, error) {
	r, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	contents, err := ReadAll(r)
	if err == errTooLarge {
		err = &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return contents, err
}

// ReadAll is like io.ReadAll, but more than 256 MiB is an error.
func ReadAll(r io.Reader) ([]byte, error) {
	contents, err := io.ReadAll(io.LimitReader(r, mostContents+1))
	if len(contents) > mostContents {
		return nil, errTooLarge
	}
	return contents, err
}
