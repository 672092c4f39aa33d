package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// result is CUresult in the driver's ABI.
type result int32

const (
	success             result = 0
	outOfMemory         result = 2
	stubLibrary         result = 34
	deviceUnavailable   result = 46
	noDevice            result = 100
	invalidImage        result = 200
	noBinary            result = 209
	eccUncorrectable    result = 214
	invalidPTX          result = 218
	unsupportedPTX      result = 222
	notReady            result = 600
	illegalAddress      result = 700
	launchOutOfResource result = 701
	launchFailed        result = 719
)

// deviceptr is an address in device memory.
type deviceptr uint64

// library holds the functions of the driver that the package calls. The tags are their names in the
// ABI.
type library struct {
	path string

	Init             func(flags uint32) result          `cuda:"cuInit"`
	DriverGetVersion func(version *int32) result        `cuda:"cuDriverGetVersion"`
	GetErrorName     func(r result, name **byte) result `cuda:"cuGetErrorName"`
	GetErrorString   func(r result, text **byte) result `cuda:"cuGetErrorString"`

	DeviceGetCount  func(n *int32) result                              `cuda:"cuDeviceGetCount"`
	DeviceGet       func(device *int32, ordinal int32) result          `cuda:"cuDeviceGet"`
	DeviceGetName   func(name *byte, size, device int32) result        `cuda:"cuDeviceGetName"`
	DeviceAttribute func(value *int32, attribute, device int32) result `cuda:"cuDeviceGetAttribute"`
	DeviceTotalMem  func(bytes *uint64, device int32) result           `cuda:"cuDeviceTotalMem_v2"`

	PrimaryRetain  func(context *uintptr, device int32) result `cuda:"cuDevicePrimaryCtxRetain"`
	PrimaryRelease func(device int32) result                   `cuda:"cuDevicePrimaryCtxRelease_v2"`
	SetCurrent     func(context uintptr) result                `cuda:"cuCtxSetCurrent"`

	MemGetInfo func(free, total *uint64) result                           `cuda:"cuMemGetInfo_v2"`
	MemAlloc   func(p *deviceptr, bytes uint64) result                    `cuda:"cuMemAlloc_v2"`
	MemFree    func(p deviceptr) result                                   `cuda:"cuMemFree_v2"`
	HostAlloc  func(p *unsafe.Pointer, bytes uint64, flags uint32) result `cuda:"cuMemHostAlloc"`
	HostFree   func(p unsafe.Pointer) result                              `cuda:"cuMemFreeHost"`

	CopyTo   func(dst deviceptr, src unsafe.Pointer, n uint64, s uintptr) result `cuda:"cuMemcpyHtoDAsync_v2"`
	CopyFrom func(dst unsafe.Pointer, src deviceptr, n uint64, s uintptr) result `cuda:"cuMemcpyDtoHAsync_v2"`
	Set8     func(dst deviceptr, v byte, n uint64, s uintptr) result             `cuda:"cuMemsetD8Async"`

	StreamCreate  func(s *uintptr, flags uint32) result `cuda:"cuStreamCreate"`
	StreamDestroy func(s uintptr) result                `cuda:"cuStreamDestroy_v2"`

	EventCreate  func(event *uintptr, flags uint32) result `cuda:"cuEventCreate"`
	EventDestroy func(event uintptr) result                `cuda:"cuEventDestroy_v2"`
	EventRecord  func(event, s uintptr) result             `cuda:"cuEventRecord"`
	EventQuery   func(event uintptr) result                `cuda:"cuEventQuery"`

	ModuleLoad func(
		m *uintptr, image *byte, n uint32, keys *int32, values *uintptr,
	) result `cuda:"cuModuleLoadDataEx"`
	ModuleFunction func(f *uintptr, m uintptr, name *byte) result `cuda:"cuModuleGetFunction"`

	FuncSetAttribute func(f uintptr, attribute, value int32) result `cuda:"cuFuncSetAttribute"`

	LaunchKernel func(
		f uintptr, gx, gy, gz, bx, by, bz, shared uint32, s uintptr, params, extra *unsafe.Pointer,
	) result `cuda:"cuLaunchKernel"`
}

// errNoDriver is returned if the driver's library cannot be opened.
var errNoDriver = errors.New("cuda: no NVIDIA driver")

// errNoGPU is returned if the driver finds no GPU.
var errNoGPU = errors.New("cuda: no NVIDIA GPU")

const defaultLibrary = "libcuda.so.1"

// libraries holds the open libraries by path. They stay open.
var libraries struct {
	sync.Mutex
	byPath map[string]*library
}

// open returns the initialised driver. After an error, the next call tries again.
func open() (*library, error) {
	path := os.Getenv(LibraryEnv)
	if path == "" {
		path = defaultLibrary
	}
	libraries.Lock()
	defer libraries.Unlock()
	if l := libraries.byPath[path]; l != nil {
		return l, nil
	}
	l := &library{path: path}
	if err := l.load(); err != nil {
		return nil, err
	}
	switch r := l.Init(0); r {
	case success:
	case noDevice:
		return nil, l.noGPU()
	case stubLibrary:
		return nil, fmt.Errorf("cuda: %s is a stub for linking, not a driver: "+
			"install the NVIDIA driver or set %s to its library", path, LibraryEnv)
	default:
		return nil, fmt.Errorf("%w: restart the machine if its driver has been upgraded", l.failed("cuInit", r))
	}
	var version int32
	if r := l.DriverGetVersion(&version); r != success {
		return nil, l.failed("cuDriverGetVersion", r)
	}
	if version < MinDriver {
		return nil, fmt.Errorf("cuda: the driver %s is too old: it supports CUDA %s "+
			"and mquine needs CUDA %s or later (NVIDIA driver 520)", path, versionString(version),
			versionString(MinDriver))
	}
	if libraries.byPath == nil {
		libraries.byPath = map[string]*library{}
	}
	libraries.byPath[path] = l
	return l, nil
}

func versionString(v int32) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

func (l *library) noGPU() error {
	return fmt.Errorf("%w: the driver %s finds none: check CUDA_VISIBLE_DEVICES, which may hide the GPUs",
		errNoGPU, l.path)
}

// failed returns the error of a call whose result is not success.
func (l *library) failed(call string, r result) error {
	return errors.New("cuda: " + l.failure(call, r))
}

// failure describes a call whose result is not success.
func (l *library) failure(call string, r result) string {
	text := func(get func(result, **byte) result) string {
		var p *byte
		if get(r, &p) != success || p == nil {
			return ""
		}
		return goString(p)
	}
	name, meaning := text(l.GetErrorName), text(l.GetErrorString)
	if name == "" {
		name = "unknown error"
	}
	if meaning != "" {
		meaning = ", " + meaning
	}
	return fmt.Sprintf("%s failed: %s (%d%s)", call, name, r, meaning)
}

// goString copies a C string.
func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
