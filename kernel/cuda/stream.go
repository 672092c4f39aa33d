package cuda

import (
	"context"
	"time"
)

// Stream is a queue of work for a device. The device executes a stream's work in order, and
// different streams concurrently.
//
// CopyTo, CopyFrom, Fill, Record and the kernels only note the work. Flush, or waiting for an event
// of the stream, passes it to the driver, because changing to the device's thread for every call
// would take longer than the calls. Only one goroutine at a time may use a stream and the events that
// it records.
type Stream struct {
	device *Device
	handle uintptr
	noted  []func() error
}

// NewStream returns a stream that does not wait for other streams.
func (d *Device) NewStream() (*Stream, error) {
	const nonBlocking = 1
	s := &Stream{device: d}
	err := d.do(func() error { return d.check("cuStreamCreate", d.lib.StreamCreate(&s.handle, nonBlocking)) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close destroys the stream and forgets work that has not been flushed. The device still finishes
// the other work.
func (s *Stream) Close() error {
	return s.device.do(func() error { return s.device.check("cuStreamDestroy", s.device.lib.StreamDestroy(s.handle)) })
}

// note adds a call to the work for the next flush.
func (s *Stream) note(call func() error) { s.noted = append(s.noted, call) }

// Flush passes the noted work to the driver. If a call fails, Flush returns its error and forgets the
// work after it, including events, which then count as passed.
func (s *Stream) Flush() error {
	return s.device.do(s.flush)
}

// flush is Flush on the device's thread.
func (s *Stream) flush() error {
	defer func() {
		clear(s.noted)
		s.noted = s.noted[:0]
	}()
	for _, call := range s.noted {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// Event marks a point in a stream.
type Event struct {
	device *Device
	handle uintptr
	stream *Stream // the stream that noted the event, or nil if passed has flushed it since
}

// NewEvent returns an event, which may be recorded repeatedly.
func (d *Device) NewEvent() (*Event, error) {
	e := &Event{device: d}
	err := d.do(func() error { return d.check("cuEventCreate", d.lib.EventCreate(&e.handle, 0)) })
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Close destroys the event.
func (e *Event) Close() error {
	return e.device.do(func() error { return e.device.check("cuEventDestroy", e.device.lib.EventDestroy(e.handle)) })
}

// Record puts the event at the end of the queue of s.
func (s *Stream) Record(e *Event) {
	e.stream = s
	s.note(func() error {
		return s.device.check("cuEventRecord", s.device.lib.EventRecord(e.handle, s.handle))
	})
}

// passed reports whether the device has finished all work before the event. It flushes the stream
// that recorded the event. If this flush or a kernel fails, passed returns the error.
func (e *Event) passed() (done bool, err error) {
	err = e.device.do(func() error {
		if s := e.stream; s != nil {
			e.stream = nil
			if err := s.flush(); err != nil {
				return err
			}
		}
		r := e.device.lib.EventQuery(e.handle)
		done = r == success
		if r == notReady {
			return nil
		}
		return e.device.check("a kernel or a copy", r)
	})
	return done, err
}

// Wait waits until the event has passed. If ctx is cancelled first, Wait returns ctx's error. The
// device continues its work even then, so wait again before touching memory that the work uses.
func (e *Event) Wait(ctx context.Context) error {
	pause := 5 * time.Microsecond
	for {
		done, err := e.passed()
		if done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, 200*time.Microsecond)
	}
}
