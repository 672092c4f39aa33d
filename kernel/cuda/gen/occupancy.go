//go:build linux && amd64

package main

import "github.com/mquine/mquine/kernel/cuda/internal/shape"

// multiprocessor holds the limits of an SM: warps, thread blocks, and bytes of shared memory (CUDA
// C++ Programming Guide, compute capabilities).
type multiprocessor struct {
	warps, blocks, shared int
}

var multiprocessors = map[string]multiprocessor{
	"sm_80": {64, 32, 164 << 10}, // A100
	"sm_86": {48, 16, 100 << 10}, // RTX 30
	"sm_89": {48, 24, 100 << 10}, // RTX 40
	"sm_90": {64, 32, 228 << 10}, // H100
}

// fit returns the number of thread blocks with the given registers per thread and bytes of shared
// memory that fit on an SM. An SM has four partitions, each with a quarter of the 65,536 registers and
// of the warps. A warp's registers are allocated in units of 256. Shared memory is allocated in units
// of 128 bytes; the driver keeps 1 KiB per thread block.
func (m multiprocessor) fit(registers, shared int) int {
	const warps = shape.Threads / 32
	perWarp := max(1, (32*registers+255)/256) * 256
	byRegisters := 65536 / 4 / perWarp * 4 / warps
	byShared := m.shared / ((shared + 1024 + 127) / 128 * 128)
	return min(m.blocks, m.warps/warps, byRegisters, byShared)
}

// atLeast returns how many thread blocks of a kernel must fit on an SM. It returns 2 for kernels
// that need a second block to compute while the first one waits, on the cards that use these
// kernels.
func atLeast(kernel, arch string) int {
	switch {
	case kernel == "count_half_128" && multiprocessors[arch].shared > 100<<10, kernel == "count_half_128_small":
		return 2
	}
	return 1
}
