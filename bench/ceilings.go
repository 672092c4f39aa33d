package bench

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

// ceilings measures the machine's limits: operations on registers and reads from each level of
// memory, on one thread and on all threads.
func ceilings(s *suite) []Benchmark {
	var list []Benchmark
	counts := slices.Compact([]int{1, threads()})
	add := func(name string, quick bool, unit string, scale float64, threads int, c ceiling.Ceiling) {
		list = append(list, Benchmark{Name: name, Quick: quick, run: func(_ context.Context, b *testing.B) error {
			measureCeiling(b, c, threads, unit, scale)
			return nil
		}})
	}
	type loop struct {
		of      string
		ceiling ceiling.Ceiling
		flops   float64 // reported operations for each operation or term that the ceiling counts
	}
	for _, backend := range s.backends {
		loops := []loop{
			{"fma32", ceiling.Terms(backend, kernel.Dot), 2},
			{"l1", ceiling.Terms(backend, kernel.L1), kernel.L1.Flops()},
			{"phase", ceiling.Terms(backend, kernel.Phase), kernel.Phase.Flops()},
			{"hake", ceiling.Terms(backend, kernel.Hake), kernel.Hake.Flops()},
			{"boxe", ceiling.Terms(backend, kernel.BoxE), kernel.BoxE.Flops()},
			{"expressive", ceiling.Terms(backend, kernel.Expressive), kernel.Expressive.Flops()},
			{"fma64", ceiling.FMA64(backend), 1},
			{"muladd64", ceiling.MulAdd64(backend), 1},
			{"int8", ceiling.Int8(backend), 1},
			{"int8-l1", ceiling.Int8L1(backend), 1},
			{"int16-dot", ceiling.Int16Dot(backend), 1},
		}
		for _, c := range []kernel.Comparison{kernel.GroupNorm, kernel.GroupNormOf(4), kernel.GroupNormOf(20)} {
			loops = append(loops, loop{c.String(), ceiling.Terms(backend, c), c.Flops()},
				loop{"int16-" + c.String(), ceiling.Int16Norm(backend, c.Group()), c.Flops()})
		}
		if backend.HasInt8Phase() {
			loops = append(loops, loop{"int8-phase", ceiling.Int8Phase(backend), 2 * kernel.Phase.Flops()})
		}
		if backend.Features.Has(kernel.FeatureAMX) {
			loops = append(loops, loop{"int8-tiles", ceiling.Int8Tiles(backend), 1})
		}
		if backend.Features.Has(kernel.FeatureAVX512BF16) {
			loops = append(loops, loop{"bfloat16", ceiling.BFloat16(backend), 1})
		}
		if backend.Features.Has(kernel.FeatureAMXBF16) {
			loops = append(loops, loop{"bfloat16-tiles", ceiling.BFloat16Tiles(backend), 1})
		}
		for _, loop := range loops {
			for _, n := range counts {
				unit := "GFLOP/s"
				if strings.HasPrefix(loop.of, "int") {
					unit = "GOP/s"
				}
				add(name("Ceiling", "tier", backend.Tier, "of", loop.of, "threads", n),
					s.best(backend) && loop.of == "fma32", unit, loop.flops, n, loop.ceiling)
			}
		}
	}
	for level := range ceiling.NumLevels {
		for _, n := range counts {
			if size := level.Reading(n); size > 0 {
				add(name("Ceiling", "tier", s.backends[0].Tier, "of", "read-"+level.String(), "threads", n),
					n == 1, "GB/s", 1, n, ceiling.Read(s.backends[0], size))
			}
		}
	}
	return list
}

// measureCeiling reports the best rate of many short runs, because disturbances can only lower a
// rate.
func measureCeiling(b *testing.B, c ceiling.Ceiling, threads int, unit string, scale float64) {
	var run func() float64
	if threads == 1 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		l := newLimit(c)
		run = l.sample
	} else {
		all := c.Runner(threads)
		run = func() float64 { return all(2 * time.Millisecond) }
	}
	best := 0.0
	for b.Loop() {
		best = max(best, run())
	}
	b.ReportMetric(best*scale/1e9, unit)
}
