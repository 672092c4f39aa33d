package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/dustin/go-humanize"
)

// Info describes a device.
type Info struct {
	// Index is the number of the device, from 0, in the order of the driver (CUDA_VISIBLE_DEVICES).
	Index int
	Name  string
	// Capability is the compute capability times ten: 86 for 8.6.
	Capability int
	// Memory is the size of the device memory in bytes.
	Memory int64
	// Multiprocessors is the number of SMs. SharedMemory is the most shared memory that a thread
	// block can have, in bytes.
	Multiprocessors, SharedMemory int
	// Driver is the CUDA version that the driver supports, such as "12.4".
	Driver string
}

// Usable returns an error that says why the kernels cannot run on the device, or nil if they can.
func (i Info) Usable() error {
	if i.Capability < MinCapability {
		return fmt.Errorf("cuda: GPU %d (%s) is too old: it has compute capability %d.%d "+
			"and mquine needs %d.%d (Ampere) or later", i.Index, i.Name, i.Capability/10, i.Capability%10,
			MinCapability/10, MinCapability%10)
	}
	return nil
}

// These are values of CUdevice_attribute.
const (
	attributeMultiprocessors   = 16
	attributeCapabilityMajor   = 75
	attributeCapabilityMinor   = 76
	attributeSharedMemoryOptin = 97
)

// List describes all devices. It returns an error if there is no driver, the driver is too old, or
// it finds no device.
func List() ([]Info, error) {
	l, err := open()
	if err != nil {
		return nil, err
	}
	return l.list()
}

func (l *library) list() ([]Info, error) {
	var n, version int32
	if r := l.DeviceGetCount(&n); r != success {
		return nil, l.failed("cuDeviceGetCount", r)
	}
	if n == 0 {
		return nil, l.noGPU()
	}
	if r := l.DriverGetVersion(&version); r != success {
		return nil, l.failed("cuDriverGetVersion", r)
	}
	infos := make([]Info, n)
	for i := range infos {
		var device, major, minor, processors, shared int32
		var name [256]byte
		var memory uint64
		r := l.DeviceGet(&device, int32(i)) // not below, where Go may read device before this call
		for _, r := range []result{
			r,
			l.DeviceGetName(&name[0], int32(len(name)-1), device),
			l.DeviceAttribute(&major, attributeCapabilityMajor, device),
			l.DeviceAttribute(&minor, attributeCapabilityMinor, device),
			l.DeviceAttribute(&processors, attributeMultiprocessors, device),
			l.DeviceAttribute(&shared, attributeSharedMemoryOptin, device),
			l.DeviceTotalMem(&memory, device),
		} {
			if r != success {
				return nil, l.failed(fmt.Sprintf("reading the properties of GPU %d", i), r)
			}
		}
		infos[i] = Info{Index: i, Name: goString(&name[0]), Capability: int(10*major + minor), Memory: int64(memory),
			Multiprocessors: int(processors), SharedMemory: int(shared), Driver: versionString(version)}
	}
	return infos, nil
}

// Device is an open device. Its methods, and the methods of the objects that it creates, may be
// called from any goroutine. The methods of a Stream and of the events that it records may be called
// by only one goroutine at a time.
type Device struct {
	Info
	lib    *library
	handle int32
	calls  chan call
	quit   chan struct{} // closed by Close
	ended  chan struct{} // closed when the goroutine has ended
	close  sync.Once
	// broken is the error that made the context unusable. Only the goroutine of serve touches it.
	broken error

	loading sync.Mutex         // guards modules
	modules map[string]*module // by family
}

type call struct {
	do   func() error
	done chan error
}

// ErrClosed is the error of calls to a closed device.
var ErrClosed = errors.New("cuda: the device is closed")

// Open opens the device with the given index. Call Close when done.
func Open(index int) (*Device, error) {
	l, err := open()
	if err != nil {
		return nil, err
	}
	infos, err := l.list()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(infos) {
		return nil, fmt.Errorf("cuda: there is no GPU %d: the driver finds %d, numbered from 0", index, len(infos))
	}
	if err := infos[index].Usable(); err != nil {
		return nil, err
	}
	d := &Device{
		Info: infos[index], lib: l,
		calls: make(chan call), quit: make(chan struct{}), ended: make(chan struct{}),
		modules: map[string]*module{},
	}
	started := make(chan error)
	go d.serve(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return d, nil
}

// serve makes all calls to the driver for the open device, on the one thread where its context is
// current.
func (d *Device) serve(started chan<- error) {
	// Give the thread back to the runtime at the end, without a context. The program may crash if a
	// thread that has made calls through purego ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(d.ended)
	var context uintptr
	if r := d.lib.DeviceGet(&d.handle, int32(d.Index)); r != success {
		started <- d.failed("cuDeviceGet", r)
		return
	}
	if r := d.lib.PrimaryRetain(&context, d.handle); r != success {
		started <- d.failed("cuDevicePrimaryCtxRetain", r)
		return
	}
	defer d.lib.PrimaryRelease(d.handle)
	if r := d.lib.SetCurrent(context); r != success {
		started <- d.failed("cuCtxSetCurrent", r)
		return
	}
	defer d.lib.SetCurrent(0)
	started <- nil
	for {
		select {
		case <-d.quit:
			return
		case c := <-d.calls:
			if d.broken != nil {
				c.done <- d.broken
			} else {
				c.done <- c.do()
			}
		}
	}
}

// DeviceError marks an error that a device or its driver caused.
type DeviceError struct{ Err error }

func (e *DeviceError) Error() string { return e.Err.Error() }
func (e *DeviceError) Unwrap() error { return e.Err }

// do runs f on the device's thread. Its errors are DeviceErrors.
func (d *Device) do(f func() error) error {
	c, err := call{f, make(chan error, 1)}, ErrClosed
	select {
	case d.calls <- c:
		err = <-c.done
	case <-d.ended:
	}
	if err != nil {
		return &DeviceError{err}
	}
	return nil
}

// Close ends the goroutine of the device and releases its context. Free all memory first. Methods
// called after Close return ErrClosed.
func (d *Device) Close() {
	d.close.Do(func() {
		close(d.quit)
		<-d.ended
	})
}

// check turns the result of a call into an error. It runs on the thread of the device.
func (d *Device) check(name string, r result) error {
	if r == success {
		return nil
	}
	return d.failed(name, r)
}

func (d *Device) failed(name string, r result) error {
	if r == outOfMemory {
		return d.full(name, 0)
	}
	text := fmt.Sprintf("cuda: GPU %d (%s): %s", d.Index, d.Name, d.lib.failure(name, r))
	// After an error of a kernel or of the device itself, every call fails. Keep the first error,
	// which explains the later ones.
	kernel := r >= illegalAddress && r <= launchFailed && r != launchOutOfResource
	if kernel || r == eccUncorrectable || r == deviceUnavailable {
		d.broken = fmt.Errorf("%s; this process can no longer use the GPU and discards its unfinished work", text)
		return d.broken
	}
	return errors.New(text)
}

// full returns the error of a call that needs more memory than the device has left. needed is the
// size of the allocation, or 0 if only the driver knows it.
func (d *Device) full(name string, needed int64) error {
	var free, total uint64
	if r := d.lib.MemGetInfo(&free, &total); r != success {
		free, total = 0, 0
	}
	return &MemoryError{Device: d.Info, Call: name, Needed: needed, Free: int64(free), Total: int64(total)}
}

// Free returns the number of free bytes of device memory.
func (d *Device) Free() (int64, error) {
	var free, total uint64
	err := d.do(func() error { return d.check("cuMemGetInfo", d.lib.MemGetInfo(&free, &total)) })
	return int64(free), err
}

// MemoryError is the error of a call for which the memory does not suffice.
type MemoryError struct {
	Device Info
	Call   string // the driver's function
	// Host is true if the memory of the host does not suffice, and false for the device's memory.
	Host bool
	// Needed is the size of the allocation in bytes, or 0 if only the driver knows it.
	Needed int64
	// Free and Total describe the device memory at the time, in bytes. They are 0 if they are unknown
	// or Host is true.
	Free, Total int64
}

func (e *MemoryError) Error() string {
	size := func(bytes int64) string { return humanize.IBytes(uint64(bytes)) }
	if e.Host {
		return fmt.Sprintf("cuda: the host, not GPU %d (%s), is out of memory: it cannot lock %s for transfers: "+
			"end other programs", e.Device.Index, e.Device.Name, size(e.Needed))
	}
	what := e.Call + " failed"
	switch {
	case e.Needed == 0 || e.Total == 0:
	case e.Free >= e.Needed: // in pieces, or freed in the meantime
		what = fmt.Sprintf("an allocation of %s failed, although %s of %s are free",
			size(e.Needed), size(e.Free), size(e.Total))
	default:
		what = fmt.Sprintf("an allocation needs %s, but only %s of %s are free",
			size(e.Needed), size(e.Free), size(e.Total))
	}
	return fmt.Sprintf("cuda: GPU %d (%s) is out of memory: %s: end other programs that use the GPU",
		e.Device.Index, e.Device.Name, what)
}
