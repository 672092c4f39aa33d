package gpu

import (
	"context"
	"unsafe"

	"github.com/mquine/mquine/kernel/cuda"
)

// stream is a queue of work for a device, which begins to work with start or wait. After the first
// error, a stream does nothing more, and wait returns the error.
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

// do notes work that may be refused.
func (s *stream) do(note func(*cuda.Stream) error) {
	if s.err == nil {
		s.err = note(s.queue)
	}
}

// launch queues a kernel with one argument.
func launch[T any](s *stream, kernel func(*cuda.Stream, T), args T) {
	if s.err == nil {
		kernel(s.queue, args)
	}
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
	if s.err == nil {
		s.queue.Record(e)
	}
}

// start passes the queued work to the device.
func (s *stream) start() {
	if s.err == nil {
		s.err = s.queue.Flush()
	}
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
	s.queue.Record(s.event)
	_ = s.event.Wait(context.Background())
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
