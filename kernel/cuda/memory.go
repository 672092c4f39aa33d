package cuda

import (
	"errors"
	"fmt"
	"unsafe"
)

// Pointer is an address in device memory, for use in arguments of kernels. 0 means no memory.
type Pointer = deviceptr

// Memory is an allocation of device memory.
type Memory struct {
	device *Device
	at     deviceptr
	bytes  int64
}

// Alloc allocates device memory with undefined contents. It returns a *MemoryError if there is not
// enough.
func (d *Device) Alloc(bytes int64) (*Memory, error) {
	m := &Memory{device: d, bytes: max(bytes, 16)}
	err := d.do(func() error {
		r := d.lib.MemAlloc(&m.at, uint64(m.bytes))
		if r == outOfMemory {
			return d.full("cuMemAlloc", m.bytes)
		}
		return d.check("cuMemAlloc", r)
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Free waits until the device has finished all work, and then frees the memory. It does nothing if m
// is nil or already freed.
func (m *Memory) Free() error {
	if m == nil || m.at == 0 {
		return nil
	}
	at := m.at
	m.at = 0
	return m.device.do(func() error { return m.device.check("cuMemFree", m.device.lib.MemFree(at)) })
}

// Bytes returns the size of the memory in bytes.
func (m *Memory) Bytes() int64 { return m.bytes }

// At returns the address of the byte at the given offset, or 0 if m is nil.
func (m *Memory) At(offset int64) Pointer {
	if m == nil {
		return 0
	}
	return m.at + deviceptr(offset)
}

// Pinned is page-locked host memory. A device can copy to and from it asynchronously.
type Pinned struct {
	device *Device
	bytes  []byte
}

// Pin allocates zeroed page-locked memory. It returns a *MemoryError if the host has not enough.
func (d *Device) Pin(bytes int64) (*Pinned, error) {
	p := &Pinned{device: d}
	var at unsafe.Pointer
	err := d.do(func() error {
		const portable = 1 // pinned for every context
		r := d.lib.HostAlloc(&at, uint64(max(bytes, 16)), portable)
		if r == outOfMemory {
			return &MemoryError{Device: d.Info, Call: "cuMemHostAlloc", Host: true, Needed: bytes}
		}
		return d.check("cuMemHostAlloc", r)
	})
	if err != nil {
		return nil, err
	}
	p.bytes = unsafe.Slice((*byte)(at), max(bytes, 16))
	clear(p.bytes)
	return p, nil
}

// Free frees the memory. Afterwards, do not use the slices that View has returned.
func (p *Pinned) Free() error {
	if p == nil || p.bytes == nil {
		return nil
	}
	at := unsafe.Pointer(&p.bytes[0])
	p.bytes = nil
	return p.device.do(func() error { return p.device.check("cuMemFreeHost", p.device.lib.HostFree(at)) })
}

// View returns the n values of type T at a byte offset of p. T must not contain Go pointers.
func View[T any](p *Pinned, offset int64, n int) []T {
	var v T
	size := int64(unsafe.Sizeof(v))
	if offset < 0 || offset%int64(unsafe.Alignof(v)) != 0 || offset+int64(n)*size > int64(len(p.bytes)) {
		panic(fmt.Sprintf("cuda: View: %d values of %d bytes at offset %d of %d bytes", n, size, offset, len(p.bytes)))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(p.bytes[offset:]))), n)
}

var errRange = errors.New("cuda: a copy is outside its memory")

// CopyTo copies n bytes from page-locked memory to the device. They must not change until the
// device has finished the copy.
func (s *Stream) CopyTo(dst *Memory, to int64, src *Pinned, from, n int64) error {
	if n < 0 || to < 0 || from < 0 || to+n > dst.bytes || from+n > int64(len(src.bytes)) {
		return errRange
	}
	if n > 0 {
		s.note(func() error {
			return s.device.check("cuMemcpyHtoDAsync",
				s.device.lib.CopyTo(dst.at+deviceptr(to), unsafe.Pointer(&src.bytes[from]), uint64(n), s.handle))
		})
	}
	return nil
}

// CopyFrom copies n bytes from the device to page-locked memory.
func (s *Stream) CopyFrom(dst *Pinned, to int64, src *Memory, from, n int64) error {
	if n < 0 || to < 0 || from < 0 || from+n > src.bytes || to+n > int64(len(dst.bytes)) {
		return errRange
	}
	if n > 0 {
		s.note(func() error {
			return s.device.check("cuMemcpyDtoHAsync",
				s.device.lib.CopyFrom(unsafe.Pointer(&dst.bytes[to]), src.at+deviceptr(from), uint64(n), s.handle))
		})
	}
	return nil
}

// Fill sets n bytes of device memory to value.
func (s *Stream) Fill(dst *Memory, to, n int64, value byte) error {
	if n < 0 || to < 0 || to+n > dst.bytes {
		return errRange
	}
	if n > 0 {
		s.note(func() error {
			return s.device.check("cuMemsetD8Async",
				s.device.lib.Set8(dst.at+deviceptr(to), value, uint64(n), s.handle))
		})
	}
	return nil
}
