package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// gonumBLAS scores with gonum's sgemm.
type gonumBLAS struct{ *job }

func (g gonumBLAS) about() string { return "gonum " + moduleVersion("gonum.org/v1/gonum") }

func (g gonumBLAS) score(c, q []float32, m int) error {
	gonum.Implementation{}.Sgemm(blas.NoTrans, blas.Trans, m, g.n, g.tower.Phi, 1, q, g.stride, g.phi, g.stride,
		0, c, g.n)
	return nil
}

// openBLAS scores with cblas_sgemm from Debian's libopenblas0.
type openBLAS struct {
	*job
	sgemm func(order, transA, transB, m, n, k int32, alpha float32, a unsafe.Pointer, lda int32,
		b unsafe.Pointer, ldb int32, beta float32, c unsafe.Pointer, ldc int32)
	name string
}

func loadOpenBLAS() (lib uintptr, err error) {
	if lib, err = purego.Dlopen("libopenblas.so.0", purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
		return 0, missing("OpenBLAS", "libopenblas0-pthread")
	}
	return lib, nil
}

func newOpenBLAS(j *job) (*openBLAS, error) {
	lib, err := loadOpenBLAS()
	if err != nil {
		return nil, err
	}
	o := &openBLAS{job: j}
	var setThreads func(int32)
	var config, core func() string
	purego.RegisterLibFunc(&o.sgemm, lib, "cblas_sgemm")
	purego.RegisterLibFunc(&setThreads, lib, "openblas_set_num_threads")
	purego.RegisterLibFunc(&config, lib, "openblas_get_config")
	purego.RegisterLibFunc(&core, lib, "openblas_get_corename")
	setThreads(int32(j.threads))
	o.name = config() + ", kernels for " + core()
	return o, nil
}

func (o *openBLAS) about() string { return o.name }

func (o *openBLAS) score(c, q []float32, m int) error {
	const rowMajor, noTrans, trans = 101, 111, 112
	stride, n := int32(o.stride), int32(o.n)
	o.sgemm(rowMajor, noTrans, trans, int32(m), n, int32(o.tower.Phi), 1, pointer(q), stride,
		pointer(o.phi), stride, 0, pointer(c), n)
	return nil
}

// oneDNN scores with dnnl_sgemm from Debian's libdnnl2.
type oneDNN struct {
	*job
	sgemm func(transA, transB byte, m, n, k int64, alpha float32, a unsafe.Pointer, lda int64,
		b unsafe.Pointer, ldb int64, beta float32, c unsafe.Pointer, ldc int64) int32
	name  string
	calls chan func()
}

// loadOneDNN loads oneDNN and OpenMP, on whose threads it runs.
func loadOneDNN() (lib, omp uintptr, err error) {
	if lib, err = purego.Dlopen("libdnnl.so.2", purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
		return 0, 0, missing("oneDNN", "libdnnl2")
	}
	if omp, err = purego.Dlopen("libgomp.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
		return 0, 0, missing("OpenMP", "libgomp1")
	}
	return lib, omp, nil
}

func newOneDNN(j *job) (*oneDNN, error) {
	lib, omp, err := loadOneDNN()
	if err != nil {
		return nil, err
	}
	o := &oneDNN{job: j}
	var version func() *[3]int32
	var setThreads func(int32)
	purego.RegisterLibFunc(&o.sgemm, lib, "dnnl_sgemm")
	purego.RegisterLibFunc(&version, lib, "dnnl_version")
	purego.RegisterLibFunc(&setThreads, omp, "omp_set_num_threads")
	v := version()
	o.name = fmt.Sprintf("oneDNN %d.%d.%d", v[0], v[1], v[2])
	// OpenMP keeps a pool of threads for each calling thread, so one thread makes all calls.
	o.calls = make(chan func())
	go makeCalls(o.calls, func() { setThreads(int32(j.threads)) })
	return o, nil
}

// makeCalls makes calls on one thread, which ends with the last call.
func makeCalls(calls <-chan func(), begin func()) {
	runtime.LockOSThread()
	begin()
	for call := range calls {
		call()
	}
}

func (o *oneDNN) close() { close(o.calls) }

func (o *oneDNN) about() string { return o.name }

func (o *oneDNN) score(c, q []float32, m int) error {
	status := make(chan int32)
	o.calls <- func() {
		stride, n := int64(o.stride), int64(o.n)
		status <- o.sgemm('N', 'T', int64(m), n, int64(o.tower.Phi), 1, pointer(q), stride,
			pointer(o.phi), stride, 0, pointer(c), n)
	}
	if s := <-status; s != 0 {
		return fmt.Errorf("dnnl_sgemm: status %d", s)
	}
	return nil
}

func pointer(x []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(x)) }

// missingError means that a rival is left out because a library is not installed.
type missingError struct{ what, install string }

func (e missingError) Error() string {
	return fmt.Sprintf("%s is not installed: install Debian's %s", e.what, e.install)
}

func missing(what, install string) error { return missingError{what, install} }
