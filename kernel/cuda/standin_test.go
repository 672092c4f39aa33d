//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"context"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/cuda/internal/shape"
	"github.com/mquine/mquine/kernel/cuda/standin"
)

// useStandin makes the package use the stand-in until the end of the test, as in a new process. The
// test must close all devices.
func useStandin(t *testing.T) *standin.Driver {
	forget := func() {
		libraries.Lock()
		defer libraries.Unlock()
		clear(libraries.byPath)
	}
	f := standin.Use(t)
	forget()
	t.Cleanup(func() {
		_, contexts, _ := f.Held()
		assert.Zero(t, contexts, "contexts are left")
		forget()
	})
	return f
}

// TestArgumentSizes compares the sizes of arguments in Go and in C++. With a wrong size, a kernel would
// read past the end of its argument.
func TestArgumentSizes(t *testing.T) {
	f := useStandin(t)
	for name, size := range map[string]uintptr{
		"count_half_128": unsafe.Sizeof(Screen{}), "count_dot": unsafe.Sizeof(Screen{}),
		"decide_pairs": unsafe.Sizeof(Decide{}), "decide_known": unsafe.Sizeof(Decide{}),
		"score_targets": unsafe.Sizeof(Decide{}), "score_pairs": unsafe.Sizeof(Decide{}),
		"quantise": unsafe.Sizeof(Quantise{}), "prepare_rows": unsafe.Sizeof(Prepare{}),
		"construct_features": unsafe.Sizeof(Construct{}), "construct_queries": unsafe.Sizeof(ConstructQueries{}),
	} {
		assert.EqualValues(t, size, f.ArgumentSize(name), name)
	}
}

func TestList(t *testing.T) {
	f := useStandin(t)
	f.Set("devices", 2)
	infos, err := List()
	require.NoError(t, err)
	require.Len(t, infos, 2)
	assert.Equal(t, Info{Index: 1, Name: "Stand-in", Capability: 86, Memory: 4 << 30, Multiprocessors: 1,
		SharedMemory: 99 << 10, Driver: "12.4"}, infos[1])
}

// TestHalfVariant checks the variants for the sizes of shared memory that cards have.
func TestHalfVariant(t *testing.T) {
	for shared, want := range map[int]int{163 << 10: Half128, 99 << 10: Half128Small, 227 << 10: Half128} {
		assert.Equal(t, want, Info{SharedMemory: shared}.HalfVariant(), shared)
	}
}

// TestHalfError checks that the bound on the error grows with the number of terms and ends at infinity.
func TestHalfError(t *testing.T) {
	before := 0.0
	for k := 64; k <= 1<<30; k *= 2 {
		relative, _ := HalfError(k)
		require.GreaterOrEqual(t, relative, before, "%d terms", k)
		before = relative
	}
	assert.Equal(t, math.Inf(1), before)
}

func TestWhatIsMissing(t *testing.T) {
	f := useStandin(t)
	for _, c := range []struct {
		setting string
		value   int64
		want    string
	}{
		{"devices", 0, "finds none: check CUDA_VISIBLE_DEVICES, which may hide the GPUs"},
		{"driver", 11040, "is too old: it supports CUDA 11.4 and mquine needs CUDA 11.8 or later"},
		{"init", 999, "cuda: cuInit failed: CUDA_ERROR_UNKNOWN (999, as the test set it)"},
		{"init", 34, "is a stub for linking, not a driver"},
		{"init", 12345, "cuda: cuInit failed: unknown error (12345): restart the machine if its " +
			"driver has been upgraded"},
		{"capability", 75, "cuda: GPU 0 (Stand-in) is too old: it has compute capability 7.5 " +
			"and mquine needs 8.0 (Ampere) or later"},
	} {
		f.Set(c.setting, c.value)
		_, err := Open(0)
		assert.ErrorContains(t, err, c.want)
		f.Reset(c.setting)
	}
	_, err := Open(1)
	assert.EqualError(t, err, "cuda: there is no GPU 1: the driver finds 1, numbered from 0")
}

func TestOtherLibraries(t *testing.T) {
	t.Setenv(LibraryEnv, "/nowhere/libcuda.so.1")
	_, err := List()
	assert.ErrorContains(t, err, "cuda: no NVIDIA driver: /nowhere/libcuda.so.1")
	t.Setenv(LibraryEnv, "libc.so.6")
	_, err = List()
	assert.EqualError(t, err,
		"cuda: libc.so.6 has no function cuInit: it is not an NVIDIA driver or is older than CUDA 11.8")
}

func openStandin(t *testing.T) (*standin.Driver, *Device) {
	f := useStandin(t)
	d, err := Open(0)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return f, d
}

func TestMemory(t *testing.T) {
	f, d := openStandin(t)
	s, err := d.NewStream()
	require.NoError(t, err)
	e, err := d.NewEvent()
	require.NoError(t, err)
	m, err := d.Alloc(1000)
	require.NoError(t, err)
	p, err := d.Pin(2000)
	require.NoError(t, err)
	v := View[uint16](p, 0, 1000)
	for i := range v[:500] {
		v[i] = uint16(3 * i)
	}
	require.NoError(t, s.CopyTo(m, 0, p, 0, 1000))
	require.NoError(t, s.Fill(m, 10, 4, 0xab))
	require.NoError(t, s.CopyFrom(p, 1000, m, 0, 1000))
	s.Record(e)
	require.NoError(t, s.Flush())
	assert.Zero(t, v[501], "the device does nothing before Wait")
	require.NoError(t, e.Wait(context.Background()))
	for i := range 500 {
		want := uint16(3 * i)
		if i == 5 || i == 6 {
			want = 0xabab
		}
		require.Equal(t, want, v[500+i], i)
	}
	assert.ErrorIs(t, s.CopyTo(m, 1, p, 0, 1000), errRange)
	assert.ErrorIs(t, s.CopyFrom(p, 1001, m, 0, 1000), errRange)

	f.Set("memory", 1<<20)
	_, err = d.Alloc(1 << 20)
	var full *MemoryError
	require.ErrorAs(t, err, &full)
	const advice = ": end other programs that use the GPU"
	assert.EqualError(t, err, "cuda: GPU 0 (Stand-in) is out of memory: an allocation needs 1.0 MiB, "+
		"but only 1023 KiB of 1.0 MiB are free"+advice)
	f.Set("memory", 4<<30)
	f.Set("fail_alloc", 2)
	for i := range 3 {
		n, err := d.Alloc(64)
		if i == 1 {
			assert.EqualError(t, err, "cuda: GPU 0 (Stand-in) is out of memory: an allocation of 64 B failed, "+
				"although 4.0 GiB of 4.0 GiB are free"+advice)
		} else {
			assert.NoError(t, err)
		}
		assert.NoError(t, n.Free())
	}
	for setting, c := range map[string]struct {
		allocate func() error
		want     string
	}{
		"fail_stream": {func() error { _, err := d.NewStream(); return err },
			"cuda: GPU 0 (Stand-in) is out of memory: cuStreamCreate failed" + advice},
		"fail_event": {func() error { _, err := d.NewEvent(); return err },
			"cuda: GPU 0 (Stand-in) is out of memory: cuEventCreate failed" + advice},
		"fail_pin": {func() error { _, err := d.Pin(3 << 20); return err },
			"cuda: the host, not GPU 0 (Stand-in), is out of memory: it cannot lock 3.0 MiB for transfers: " +
				"end other programs"},
	} {
		f.Set(setting, 1)
		err := c.allocate()
		require.ErrorAs(t, err, &full, setting)
		assert.EqualError(t, err, c.want)
	}
	assert.NoError(t, m.Free())
	assert.NoError(t, m.Free(), "again")
	assert.NoError(t, p.Free())
	assert.NoError(t, e.Close())
	assert.NoError(t, s.Close())
	bytes, _, open := f.Held()
	assert.Zero(t, bytes)
	assert.Zero(t, open)
}

func TestCancelledWait(t *testing.T) {
	_, d := openStandin(t)
	s, err := d.NewStream()
	require.NoError(t, err)
	e, err := d.NewEvent()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Record(e)
	assert.ErrorIs(t, e.Wait(ctx), context.Canceled)
	assert.NoError(t, e.Wait(context.Background()))
	assert.NoError(t, e.Close())
	assert.NoError(t, s.Close())
}

func TestModules(t *testing.T) {
	_, d := openStandin(t)
	_, err := d.compile("nonsense", []byte("no PTX"))
	assert.ErrorContains(t, err,
		"cuda: GPU 0 (Stand-in): loading kernels nonsense failed: CUDA_ERROR_INVALID_PTX")
	assert.ErrorContains(t, err, "; log of the driver: ptxas fatal: no .version")
	m, err := d.load("quantise")
	require.NoError(t, err)
	_, err = m.function("count_dot", 256, 0)
	assert.ErrorContains(t, err, "cuModuleGetFunction(count_dot) failed: CUDA_ERROR_NOT_FOUND")
	_, err = m.function("quantise", 256, 1<<20)
	assert.ErrorContains(t, err, "cuFuncSetAttribute(quantise)")
}

// TestSharedMemoryOnlyGrows checks that a kernel keeps the shared memory that an earlier user of its
// module has requested.
func TestSharedMemoryOnlyGrows(t *testing.T) {
	_, d := openStandin(t)
	r := newRig(t, d)
	m, err := d.load("construct")
	require.NoError(t, err)
	again, err := d.load("construct")
	require.NoError(t, err)
	require.Same(t, m, again, "a device compiles a family once")
	_, large := shape.Towers(MaxTowerDim)
	require.Greater(t, large, 48<<10, "more than a thread block has without a request")
	towers, err := NewTowers(d, MaxTowerDim)
	require.NoError(t, err)
	_, err = NewTowers(d, 3)
	require.NoError(t, err)
	k := devicePadding(MaxTowerDim * (MaxTowerDim + 1))
	square := up(r, make([]float32, MaxTowerDim*MaxTowerDim))
	towers.Queries(r.s, ConstructQueries{
		Entities: square.At(0), Head: square.At(0), Tail: square.At(0), Cross: square.At(0),
		Queries: up(r, make([]Query, 1)).At(0), Out: up(r, make([]float32, k)).At(0),
		Rows: up(r, make([]PairRow, 1)).At(0), N: 1, Dim: MaxTowerDim, K: int32(k),
	})
	r.wait()
}

// TestFlush checks that a stream keeps its work until it is flushed, and forgets the work after a
// call that fails.
func TestFlush(t *testing.T) {
	f, d := openStandin(t)
	r := newRig(t, d)
	m := up(r, make([]byte, 64))
	require.NoError(t, r.s.Fill(m, 0, 64, 1))
	r.stages.Quantise(r.s, Quantise{N: 1})
	require.NoError(t, r.s.Fill(m, 0, 64, 2))
	f.Set("fail_launch", 1)
	require.ErrorContains(t, r.s.Flush(), "launching quantise on 1 × 1 thread blocks failed")
	f.Reset("fail_launch")
	require.NoError(t, r.s.Flush(), "nothing is left")
	require.Equal(t, byte(1), down[byte](r, m, 64)[63], "the work before the failed call, but not after it")

	e, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, r.s.Fill(m, 0, 64, 3))
	r.s.Record(e)
	require.NoError(t, e.Wait(t.Context()), "flushes the stream")
	require.Equal(t, byte(3), down[byte](r, m, 64)[0])
	require.NoError(t, e.Close())
}

func TestLostDevice(t *testing.T) {
	f, d := openStandin(t)
	s, err := d.NewStream()
	require.NoError(t, err)
	e, err := d.NewEvent()
	require.NoError(t, err)
	stages, err := NewStages(d)
	require.NoError(t, err)
	f.Set("fail_launch", 1)
	stages.Quantise(s, Quantise{N: 1})
	s.Record(e)
	assert.EqualError(t, s.Flush(), "cuda: GPU 0 (Stand-in): launching quantise on 1 × 1 thread blocks failed: "+
		"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701, as the test set it)")
	f.Set("lose", 1)
	stages.Quantise(s, Quantise{N: 1})
	s.Record(e)
	err = e.Wait(context.Background())
	assert.ErrorContains(t, err, "CUDA_ERROR_ILLEGAL_ADDRESS")
	assert.ErrorContains(t, err, "this process can no longer use the GPU and discards its unfinished work")
	_, again := d.Alloc(16)
	assert.Equal(t, err, again, "every call returns the reason")
	f.Set("lose", 0)
}

func TestClosedDevice(t *testing.T) {
	useStandin(t)
	d, err := Open(0)
	require.NoError(t, err)
	d.Close()
	d.Close()
	_, err = d.Alloc(16)
	assert.ErrorIs(t, err, ErrClosed)
}
