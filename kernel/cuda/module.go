package cuda

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"
)

// module is a family of kernels, compiled for a device.
type module struct {
	device *Device
	name   string
	handle uintptr
	// dynamic is the most dynamic shared memory that each kernel may have so far, in bytes. Only the
	// device's thread touches it.
	dynamic map[string]int
}

// These are values of CUjit_option.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
)

// compile lets the driver compile PTX. Errors contain the given name and, if the driver rejects the
// PTX, its log.
func (d *Device) compile(name string, ptx []byte) (*module, error) {
	image := append(bytes.Clone(ptx), 0)
	log := make([]byte, 8192)
	m := &module{device: d, name: name, dynamic: map[string]int{}}
	err := d.do(func() error {
		keys := []int32{jitErrorLog, jitErrorLogSize}
		values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
		r := d.lib.ModuleLoad(&m.handle, &image[0], uint32(len(keys)), &keys[0], &values[0])
		runtime.KeepAlive(log)
		if r == success {
			return nil
		}
		err := d.failed("loading kernels "+name, r)
		if r == unsupportedPTX {
			err = fmt.Errorf("%w; the driver is older than CUDA %s", err, versionString(MinDriver))
		}
		if r == invalidPTX || r == noBinary || r == invalidImage {
			if n := bytes.IndexByte(log, 0); n > 0 {
				err = fmt.Errorf("%w; log of the driver: %s", err, bytes.TrimSpace(log[:n]))
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// function is a kernel of a module. It has one parameter, a structure.
type function struct {
	device *Device
	name   string
	handle uintptr
	// threads is the number of threads in a thread block, and shared is the number of bytes of
	// dynamic shared memory.
	threads, shared int
}

// funcMaxDynamic is a value of CUfunction_attribute.
const funcMaxDynamic = 8

// function returns the kernel with the given name. The kernel runs in thread blocks with the given
// number of threads and the given number of bytes of dynamic shared memory.
func (m *module) function(name string, threads, shared int) (*function, error) {
	k := &function{device: m.device, name: name, threads: threads, shared: shared}
	cname := append([]byte(name), 0)
	err := m.device.do(func() error {
		if r := m.device.lib.ModuleFunction(&k.handle, m.handle, &cname[0]); r != success {
			return m.device.failed("cuModuleGetFunction("+name+")", r)
		}
		// A thread block has more than 48 KiB of static and dynamic shared memory only on request.
		// The request holds for all who use the module, so it must not become smaller.
		if shared <= m.dynamic[name] {
			return nil
		}
		r := m.device.lib.FuncSetAttribute(k.handle, funcMaxDynamic, int32(shared))
		if r == success {
			m.dynamic[name] = shared
		}
		return m.device.check("cuFuncSetAttribute("+name+")", r)
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// launch runs the kernel on a grid of x × y thread blocks. args is the kernel's argument.
func launch[T any](s *Stream, k *function, x, y int, args T) {
	if x <= 0 || y <= 0 {
		return
	}
	s.note(func() error {
		params := []unsafe.Pointer{unsafe.Pointer(&args)}
		r := s.device.lib.LaunchKernel(k.handle, uint32(x), uint32(y), 1, uint32(k.threads), 1, 1,
			uint32(k.shared), s.handle, &params[0], nil)
		if r == success {
			return nil
		}
		return s.device.failed(fmt.Sprintf("launching %s on %d × %d thread blocks", k.name, x, y), r)
	})
}
