package gpu

import (
	"context"
	"unsafe"

	"github.com/mquine/mquine/kernel/cuda"
)

// stream is a queue of work for a device. After the first error it does nothing more, and wait
// returns the error.
type stream struct {
	queue *cuda.Stream
	event *cuda.Event
	err   error
}

func newStream(d *cuda.Device) (*stream, error) {
	queue, err := d.NewStream()
	if err != nil {
		return nil, err
	}
	event, err := d.NewEvent()
	if err != nil {
		_ = queue.Close()
		return nil, err
	}
	return &stream{queue: queue, event: event}, nil
}

// do queues work.
func (s *stream) do(queue func(*cuda.Stream) error) {
	if s.err == nil {
		s.err = queue(s.queue)
	}
}

// launch queues a kernel with one argument.
func launch[T any](s *stream, kernel func(*cuda.Stream, T) error, args T) {
	s.do(func(q *cuda.Stream) error { return kernel(q, args) })
}

// zero queues the clearing of device memory.
func (s *stream) zero(m *cuda.Memory, at, bytes int64) {
	s.do(func(q *cuda.Stream) error { return q.Fill(m, at, bytes, 0) })
}

// copyTo queues an upload from p, which must not change before wait returns.
func (s *stream) copyTo(dst *cuda.Memory, at int64, p *cuda.Pinned, from, bytes int64) {
	s.do(func(q *cuda.Stream) error { return q.CopyTo(dst, at, p, from, bytes) })
}

// copyFrom queues a download to p, which is complete once wait has returned.
func (s *stream) copyFrom(p *cuda.Pinned, to int64, m *cuda.Memory, at, bytes int64) {
	s.do(func(q *cuda.Stream) error { return q.CopyFrom(p, to, m, at, bytes) })
}

// record queues an event.
func (s *stream) record(e *cuda.Event) {
	s.do(func(q *cuda.Stream) error { return q.Record(e) })
}

// wait waits until the queue is empty. It returns the stream's first error, which may be ctx's.
func (s *stream) wait(ctx context.Context) error {
	s.record(s.event)
	if s.err == nil {
		s.err = s.event.Wait(ctx)
	}
	return s.err
}

// close waits for queued work, even after an error, and closes the stream.
func (s *stream) close() {
	if s == nil {
		return
	}
	if s.queue.Record(s.event) == nil {
		_ = s.event.Wait(context.Background())
	}
	_ = s.event.Close()
	_ = s.queue.Close()
}

// send uploads n values, which fill writes to p. The argument at is their byte offset in p. The
// result is the offset after them, rounded up to a multiple of 16.
func send[T any](s *stream, dst *cuda.Memory, p *cuda.Pinned, at int64, n int, fill func([]T)) int64 {
	var v T
	size := int64(unsafe.Sizeof(v)) * int64(n)
	fill(cuda.View[T](p, at, n))
	s.copyTo(dst, 0, p, at, size)
	return (at + size + 15) &^ 15
}
