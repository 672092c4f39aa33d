//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// gpuEnv is the environment variable that makes tests run on a GPU, not only on the stand-in. The
// machine must have a GPU. scripts/gpu-check sets the variable.
const gpuEnv = "MQUINE_GPU"

func openGPU(t testing.TB) *rig {
	if os.Getenv(gpuEnv) == "" {
		t.Skip(gpuEnv + "=1 runs this on a GPU")
	}
	d, err := Open(0)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return newRig(t, d)
}

func TestGPUScreens(t *testing.T) { conformScreens(openGPU(t)) }

// TestGPUScreensOfHardOperands includes the width of MQuinE's features for d = 60, for which the stand-in
// takes a minute.
func TestGPUScreensOfHardOperands(t *testing.T) {
	r := openGPU(t)
	for _, width := range []int{288, 60 * 61} {
		conformHard(r, width)
	}
}

// TestGPUKernelsSpillNothing checks that the driver's compiler does not spill registers.
func TestGPUKernelsSpillNothing(t *testing.T) {
	r := openGPU(t)
	towers, err := NewTowers(r.d, MaxTowerDim)
	require.NoError(r.t, err)
	kernels := []*function{r.stages.pairs, r.stages.known, r.stages.targets, r.stages.scores, r.stages.quantise,
		r.stages.rows, towers.features, towers.queries}
	kernels = append(append(kernels, r.screens.half[:]...), r.screens.single[:]...)
	for _, k := range kernels {
		registers, local, static, err := k.usage()
		require.NoError(t, err)
		t.Logf("%s: %d registers, %d bytes of local memory, %d bytes of static shared memory", k.name, registers,
			local, static)
		require.Zero(t, local, k.name)
	}
}

// measuring holds the functions of the driver that only these tests call.
var measuring = sync.OnceValues(func() (f struct {
	EventElapsed  func(ms *float32, from, to uintptr) result            `cuda:"cuEventElapsedTime"`
	FuncAttribute func(value *int32, attribute int32, f uintptr) result `cuda:"cuFuncGetAttribute"`
}, err error) {
	l, err := open()
	if err == nil {
		err = load(l.path, &f)
	}
	return f, err
})

// usage returns the number of registers per thread, the bytes of local memory (spills) per thread,
// and the bytes of static shared memory per thread block.
func (k *function) usage() (registers, local, static int, err error) {
	f, err := measuring()
	if err != nil {
		return 0, 0, 0, err
	}
	// These are values of CUfunction_attribute.
	const funcRegisters, funcLocal, funcSharedStatic = 4, 3, 1
	var v [3]int32
	err = k.device.do(func() error {
		for i, a := range [...]int32{funcRegisters, funcLocal, funcSharedStatic} {
			if r := f.FuncAttribute(&v[i], a, k.handle); r != success {
				return k.device.failed("cuFuncGetAttribute("+k.name+")", r)
			}
		}
		return nil
	})
	return int(v[0]), int(v[1]), int(v[2]), err
}

// since returns the device time from one event to another. Both must have passed.
func (e *Event) since(from *Event) (time.Duration, error) {
	f, err := measuring()
	if err != nil {
		return 0, err
	}
	var ms float32
	err = e.device.do(func() error {
		return e.device.check("cuEventElapsedTime", f.EventElapsed(&ms, from.handle, e.handle))
	})
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// peakArguments is the argument of the kernels in peak.cu.
type peakArguments struct {
	memory Pointer
	n      int64
	rounds int32
	_      int32
}

// timed repeats the work that launch queues and returns the shortest time, measured by the device's
// clock.
func (r *rig) timed(launch func() error) time.Duration {
	from, err := r.d.NewEvent()
	require.NoError(r.t, err)
	best := time.Duration(1<<63 - 1)
	for i := range 12 {
		r.s.Record(from)
		require.NoError(r.t, launch())
		r.wait()
		took, err := r.e.since(from)
		require.NoError(r.t, err)
		if i > 1 { // the first launches are a warm-up
			best = min(best, took)
		}
	}
	require.NoError(r.t, from.Close())
	return best
}

// ceilings returns the rates that have been measured so far, by name, in operations or bytes per
// second.
var ceilings = sync.OnceValue(func() map[string]float64 { return map[string]float64{} })

func (r *rig) ceiling(name string) float64 {
	if v, ok := ceilings()[name]; ok {
		return v
	}
	m, err := r.d.load("peak")
	require.NoError(r.t, err)
	k, err := m.function("peak_"+name, 256, 0)
	require.NoError(r.t, err)
	blocks := 8 * r.d.Multiprocessors
	a := peakArguments{rounds: 2000}
	warps := float64(blocks * 8)
	work := map[string]float64{
		"half": warps * 16 * 2 * 16 * 8 * 16, "tf32": warps * 16 * 2 * 16 * 8 * 8,
		"int8": warps * 16 * 2 * 16 * 8 * 32, "fma": warps * 32 * 64 * 2,
	}[name] * float64(a.rounds)
	bytes := int64(1024)
	if name == "copy" {
		a.n = 64 << 20
		bytes, work = 32*a.n, 32*float64(a.n)
	}
	memory, err := r.d.Alloc(bytes)
	require.NoError(r.t, err)
	require.NoError(r.t, r.s.Fill(memory, 0, bytes, 0))
	a.memory = memory.At(0)
	v := work / r.timed(func() error {
		launch(r.s, k, blocks, 1, a)
		return nil
	}).Seconds()
	require.NoError(r.t, memory.Free())
	ceilings()[name] = v
	return v
}

// timedBench times a launch for the benchmark. It reports the work per second, and this rate as a
// share of a ceiling.
func (r *rig) timedBench(b *testing.B, unit string, work float64, ceiling string, launch func() error) {
	var took time.Duration
	for b.Loop() {
		took = r.timed(launch)
	}
	rate := work / took.Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate/1e12, unit)
	b.ReportMetric(100*rate/r.ceiling(ceiling), "%of-"+ceiling)
	b.ReportMetric(float64(took.Microseconds()), "µs/launch")
}

// BenchmarkGPUStart measures what a process does once: it opens the GPU and loads the kernels. The
// driver compiles them if they are not in its cache.
func BenchmarkGPUStart(b *testing.B) {
	if os.Getenv(gpuEnv) == "" {
		b.Skip(gpuEnv + "=1 runs this on a GPU")
	}
	var open, load time.Duration
	for b.Loop() {
		start := time.Now()
		d, err := Open(0)
		require.NoError(b, err)
		open = time.Since(start)
		newRig(b, d)
		load = time.Since(start) - open
		d.Close()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(1e3*open.Seconds(), "open-ms")
	b.ReportMetric(1e3*load.Seconds(), "load-ms")
}

func BenchmarkGPUCeiling(b *testing.B) {
	for _, name := range []string{"fma", "half", "tf32", "int8", "copy"} {
		b.Run("unit="+name, func(b *testing.B) {
			r := openGPU(b)
			for b.Loop() {
				delete(ceilings(), name)
				r.ceiling(name)
			}
			b.ReportMetric(0, "ns/op")
			unit := "TFLOP/s"
			switch name {
			case "int8":
				unit = "TOP/s"
			case "copy":
				unit = "TB/s"
			}
			b.ReportMetric(r.ceiling(name)/1e12, unit)
		})
	}
}

// BenchmarkGPUScreen measures the screens. The operands are normal numbers, because the power that
// a card draws, and hence its clock, depends on them.
func BenchmarkGPUScreen(b *testing.B) {
	for _, s := range []struct{ queries, candidates, width int }{{512, 14541, 1482}, {2048, 14541, 1482},
		{2048, 40943, 342}, {2048, 123182, 342}} {
		k := devicePadding(s.width)
		work := 2 * float64(s.queries) * float64(s.candidates) * float64(k)
		name := fmt.Sprintf("q=%d/e=%d/f=%d", s.queries, s.candidates, s.width)
		for variant, v := range []string{"half_128", "half_128_small"} {
			b.Run("kernel="+v+"/"+name, func(b *testing.B) {
				r := openGPU(b)
				a := r.benchScreen(s.queries, s.candidates, k, true)
				r.timedBench(b, "TFLOP/s", work, "half",
					func() error { return r.screens.Half(r.s, variant, a, s.queries) })
			})
		}
		for _, c := range supported() {
			b.Run("kernel=single_"+c.String()+"/"+name, func(b *testing.B) {
				r := openGPU(b)
				a := r.benchScreen(s.queries, s.candidates, k, false)
				r.timedBench(b, "TFLOP/s", work, "fma", func() error { return r.screens.Single(r.s, c, a, s.queries) })
			})
		}
	}
}

func devicePadding(width int) int { return max(64, (width+31)/32*32) }

// benchScreen returns random operands with one target per query and few candidates near it, so
// scoring and counting take all the time. Distances do not use early exit, because no candidate is
// certainly worse.
func (r *rig) benchScreen(queries, candidates, k int, half bool) Screen {
	rng := rand.New(rand.NewPCG(9, 9))
	rowsQ, rowsE := roundUpTo(queries, QueryTile), roundUpTo(candidates, CandidateTile)
	operand := func(n int) *Memory {
		if half {
			v := make([]uint16, n*k)
			for i := range v {
				v[i] = uint16(rng.Uint32())&0x83ff | 0x3800
			}
			return up(r, v)
		}
		v := make([]float32, n*k)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return up(r, v)
	}
	rows, first, ends, scales := make([]Row, rowsQ), make([]int32, rowsQ+1), make([]float32, 2*queries),
		make([]float32, rowsE)
	for q := range rows {
		rows[q].Scale, rows[q].Low = 1, -1e30
	}
	for q := range queries {
		first[q+1] = int32(q + 1)
		ends[2*q], ends[2*q+1] = -0.001, 0.001
	}
	for q := queries; q < rowsQ; q++ {
		first[q+1] = first[q]
	}
	for e := range scales {
		scales[e] = 1
	}
	const room = 4 << 20
	return Screen{
		Psi: operand(rowsQ).At(0), Phi: operand(rowsE).At(0), Rows: up(r, rows).At(0),
		Blocks: up(r, make([]CandidateBlock, rowsE/BlockCandidates)).At(0),
		Scales: up(r, scales).At(0), TargetStart: up(r, first).At(0), Ends: up(r, ends).At(0),
		Better: up(r, make([]int32, queries)).At(0),
		List:   up(r, make([]Pair, room)).At(0), Listed: up(r, make([]uint32, 1)).At(0), Capacity: room, K: int32(k),
		Candidates: int32(candidates), Limit: 1e30,
	}
}

// TestPeakKernels checks on the stand-in that the ceilings' kernels can be called.
func TestPeakKernels(t *testing.T) {
	f, d := openStandin(t)
	require.EqualValues(t, unsafe.Sizeof(peakArguments{}), f.ArgumentSize("peak_copy"))
	r := newRig(t, d)
	m, err := d.load("peak")
	require.NoError(t, err)
	for _, name := range []string{"fma", "half", "tf32", "int8"} {
		k, err := m.function("peak_"+name, 256, 0)
		require.NoError(t, err)
		memory := up(r, make([]byte, 64))
		launch(r.s, k, 1, 1, peakArguments{memory: memory.At(0), rounds: 1})
		r.wait()
	}
	k, err := m.function("peak_copy", 256, 0)
	require.NoError(t, err)
	v := make([]int32, 8*300)
	for i := range v {
		v[i] = int32(i)
	}
	memory := up(r, v)
	launch(r.s, k, 1, 1, peakArguments{memory: memory.At(0), n: 300})
	require.Equal(t, v[:1200], down[int32](r, memory, 2400)[1200:])
}
