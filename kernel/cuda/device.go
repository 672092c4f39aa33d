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
	// Index is the device's number, from 0, as the driver counts them (CUDA_VISIBLE_DEVICES).
	Index int
	Name  string
	// Capability is the compute capability times ten: 86 for 8.6.
	Capability int
	// Memory is in bytes.
	Memory int64
	// Multiprocessors is the number of SMs, SharedMemory the most bytes of it for one block.
	Multiprocessors, SharedMemory int
	// Driver is the CUDA version that the driver supports, such as "12.4".
	Driver string
}

// Usable returns why the kernels cannot run on the device, or nil.
func (i Info) Usable() error {
	if i.Capability < MinCapability {
		return fmt.Errorf("cuda: GPU %d (%s) has compute capability %d.%d, too old: %d.%d or later is needed (Ampere)",
			i.Index, i.Name, i.Capability/10, i.Capability%10, MinCapability/10, MinCapability%10)
	}
	return nil
}

// Numbers of CUdevice_attribute.
const (
	attributeMultiprocessors   = 16
	attributeCapabilityMajor   = 75
	attributeCapabilityMinor   = 76
	attributeSharedMemoryOptin = 97
)

// List describes all devices. It fails where there is no driver, none that is new enough, or no
// device.
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
		return nil, fmt.Errorf("%w: %s is there, but finds none", ErrNoGPU, l.path)
	}
	if r := l.DriverGetVersion(&version); r != success {
		return nil, l.failed("cuDriverGetVersion", r)
	}
	infos := make([]Info, n)
	for i := range infos {
		var device, major, minor, processors, shared int32
		var name [256]byte
		var memory uint64
		for _, r := range []result{
			l.DeviceGet(&device, int32(i)),
			l.DeviceGetName(&name[0], int32(len(name)-1), device),
			l.DeviceAttribute(&major, attributeCapabilityMajor, device),
			l.DeviceAttribute(&minor, attributeCapabilityMinor, device),
			l.DeviceAttribute(&processors, attributeMultiprocessors, device),
			l.DeviceAttribute(&shared, attributeSharedMemoryOptin, device),
			l.DeviceTotalMem(&memory, device),
		} {
			if r != success {
				return nil, l.failed(fmt.Sprintf("asking for the properties of GPU %d", i), r)
			}
		}
		infos[i] = Info{Index: i, Name: goString(&name[0]), Capability: int(10*major + minor), Memory: int64(memory),
			Multiprocessors: int(processors), SharedMemory: int(shared), Driver: versionString(version)}
	}
	return infos, nil
}

// Device is an open device. Its methods, and those of what it hands out, may be called from any
// goroutine.
type Device struct {
	Info
	lib    *library
	handle int32
	calls  chan call
	quit   chan struct{} // closed by Close
	ended  chan struct{} // closed when the goroutine has ended
	close  sync.Once
	// broken is the error that made the context useless; only the serving goroutine touches it.
	broken error
}

type call struct {
	do   func() error
	done chan error
}

// ErrClosed is the error of calls to a device that was closed.
var ErrClosed = errors.New("cuda: the device is closed")

// Open opens the device with the given index. Close must be called in the end.
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
	d := &Device{Info: infos[index], lib: l, calls: make(chan call), quit: make(chan struct{}), ended: make(chan struct{})}
	started := make(chan error)
	go d.serve(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return d, nil
}

// serve makes all calls of the device, on a thread of its own where the context is current.
func (d *Device) serve(started chan<- error) {
	// The thread goes back to the runtime in the end, without a context: a thread that has made calls
	// through purego does not always survive its own end.
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

// do runs f on the device's thread.
func (d *Device) do(f func() error) error {
	c := call{f, make(chan error, 1)}
	select {
	case d.calls <- c:
		return <-c.done
	case <-d.ended:
		return ErrClosed
	}
}

// Close ends the device's goroutine and releases its context. What was allocated must have been
// freed before; methods called later return ErrClosed.
func (d *Device) Close() {
	d.close.Do(func() {
		close(d.quit)
		<-d.ended
	})
}

// check turns the result of a call into an error. It runs on the device's thread.
func (d *Device) check(name string, r result) error {
	if r == success {
		return nil
	}
	return d.failed(name, r)
}

func (d *Device) failed(name string, r result) error {
	err := fmt.Errorf("cuda: GPU %d (%s): %w", d.Index, d.Name, d.lib.failed(name, r))
	// After an error of a kernel or of the device itself every call fails: the first one explains it.
	if r >= illegalAddress && r <= launchFailed && r != launchOutOfResource || r == eccUncorrectable || r == deviceUnavailable {
		err = fmt.Errorf("%w; the GPU is lost to this process, and nothing that it computed since the last result was used", err)
		d.broken = err
	}
	return err
}

// Free returns the bytes of device memory that are free now.
func (d *Device) Free() (int64, error) {
	var free, total uint64
	err := d.do(func() error { return d.check("cuMemGetInfo", d.lib.MemGetInfo(&free, &total)) })
	return int64(free), err
}

// MemoryError is the error of an allocation that did not fit.
type MemoryError struct {
	Device      Info
	Needed      int64
	Free, Total int64 // at that moment
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("cuda: GPU %d (%s) is out of memory: %s are needed at once, %s of %s are free",
		e.Device.Index, e.Device.Name, humanize.IBytes(uint64(e.Needed)), humanize.IBytes(uint64(e.Free)), humanize.IBytes(uint64(e.Total)))
}
