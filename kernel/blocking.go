package kernel

import "github.com/klauspost/cpuid/v2"

// QueryBlock returns how many queries of k terms to score against one panel after another: as
// many as fill half of the L2 cache, a multiple of MR.
func (b *Backend) QueryBlock(k int) int {
	l2 := cpuid.CPU.Cache.L2
	if l2 <= 0 {
		l2 = 1 << 20
	}
	const most = 512
	n := min(l2/2/(4*max(k, 1)), most) / b.MR * b.MR
	return max(n, b.MR)
}
