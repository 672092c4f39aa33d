package kernel

import "github.com/klauspost/cpuid/v2"

// QueryBlock returns how many queries of k terms to score against one panel after another: as
// many as fill half of the L2 cache, a multiple of MR(c).
func (b *Backend) QueryBlock(c Comparison, k int) int {
	l2 := cpuid.CPU.Cache.L2
	if l2 <= 0 {
		l2 = 1 << 20
	}
	const most = 512
	mr := b.MR(c)
	return max(min(l2/2/(4*max(k, 1)), most)/mr*mr, mr)
}
