//go:build linux && amd64

package main

import "github.com/mquine/mquine/kernel/cuda/internal/shape"

// multiprocessor is what an SM has for its blocks (CUDA C++ Programming Guide, compute
// capabilities).
type multiprocessor struct {
	warps, blocks, shared int
}

var multiprocessors = map[string]multiprocessor{
	"sm_80": {64, 32, 164 << 10}, // A100
	"sm_86": {48, 16, 100 << 10}, // RTX 30
	"sm_90": {64, 32, 228 << 10}, // H100
}

// fit returns how many blocks with so many registers a thread and bytes of shared memory an SM
// holds. A quarter of its 65,536 registers belongs to every fourth warp, in units of 256; shared
// memory comes in units of 128 bytes, of which the driver keeps 1 KiB a block.
func (m multiprocessor) fit(registers, shared int) int {
	const warps = shape.Threads / 32
	perWarp := max(1, (32*registers+255)/256) * 256
	byRegisters := 65536 / 4 / perWarp * 4 / warps
	byShared := m.shared / ((shared + 1024 + 127) / 128 * 128)
	return min(m.blocks, m.warps/warps, byRegisters, byShared)
}

// atLeast is how many blocks of a kernel an SM must hold, for the one to compute while the other
// waits, on the cards that the kernel is meant for.
func atLeast(kernel, arch string) int {
	switch {
	case kernel == "count_half_128" && arch != "sm_86", kernel == "count_half_128_small":
		return 2
	}
	return 1
}
