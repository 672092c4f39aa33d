package gpu

import (
	"context"
	"unsafe"

	"github.com/mquine/mquine/kernel/cuda"
)

// stream is a queue of work for a device whose first error stays: what is asked of it later is not done, and wait
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

// do asks something of the queue.
func (s *stream) do(ask func(*cuda.Stream) error) {
	if s.err == nil {
		s.err = ask(s.queue)
	}
}

// launch starts a kernel of one argument.
func launch[T any](s *stream, kernel func(*cuda.Stream, T) error, args T) {
	if s.err == nil {
		s.err = kernel(s.queue, args)
	}
}

// zero clears device memory.
func (s *stream) zero(m *cuda.Memory, at, bytes int64) {
	if s.err == nil {
		s.err = s.queue.Fill(m, at, bytes, 0)
	}
}

// copyTo copies to device memory from p, which must keep it until wait.
func (s *stream) copyTo(dst *cuda.Memory, at int64, p *cuda.Pinned, from, bytes int64) {
	if s.err == nil {
		s.err = s.queue.CopyTo(dst, at, p, from, bytes)
	}
}

// copyFrom copies device memory to p, which has it after wait.
func (s *stream) copyFrom(p *cuda.Pinned, to int64, m *cuda.Memory, at, bytes int64) {
	if s.err == nil {
		s.err = s.queue.CopyFrom(p, to, m, at, bytes)
	}
}

// record puts an event behind all that was asked.
func (s *stream) record(e *cuda.Event) {
	if s.err == nil {
		s.err = s.queue.Record(e)
	}
}

// wait returns when all that was asked is done, or the first error. After ctx's error the stream is not used again.
func (s *stream) wait(ctx context.Context) error {
	s.record(s.event)
	if s.err == nil {
		s.err = s.event.Wait(ctx)
	}
	return s.err
}

// close waits for what is under way, even after an error, and gives the stream back.
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

// send copies n values that fill writes to device memory through p, of which it uses the bytes from at on, and returns
// the first byte behind them.
func send[T any](s *stream, dst *cuda.Memory, p *cuda.Pinned, at int64, n int, fill func([]T)) int64 {
	var v T
	size := int64(unsafe.Sizeof(v)) * int64(n)
	fill(cuda.View[T](p, at, n))
	s.copyTo(dst, 0, p, at, size)
	return (at + size + 15) &^ 15
}
