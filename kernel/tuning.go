package kernel

import "github.com/klauspost/cpuid/v2"

// The constants of this file decide how fast the kernels are, and Chunk and PairWidth also how they round. The shapes
// of register tiles stand next to the kernels that have them: in the files of comparisons, and for codes in those of
// backends.
const (
	// Chunk is the number of coordinates that a panel adds up in one chain; the chains are added in order. Short chains
	// keep the error bound narrow (PanelError), and a chunk of a panel, 128 × 48 × 4 = 24 KiB at most, stays in the L1
	// cache while strip after strip passes over it. Chains of 256 gain up to 3% for short vectors and leave twice as
	// many undecided pairs (docs/decisions/0004-chains-of-128-terms.md).
	Chunk = 128

	// PairWidth is the multiple to which Pair's rows are padded with zeros: AVX-512's four accumulators of eight float64
	// numbers, enough to hide the latency of an addition. All tiers have 32 chains, so that they round alike.
	PairWidth = 32

	// mostPairs is the number of rows in one call of a pair kernel. The scheduler cannot interrupt assembly, and the
	// garbage collector waits for it: 256 rows of 1,504 terms from memory take a fraction of a millisecond.
	mostPairs = 256

	// mostQueries bounds the queries of a block where they have few words: each panel that comes from memory is then used
	// 512 times, and there are enough blocks for all goroutines.
	mostQueries = 512

	// defaultL2 is the size of the L2 cache, in bytes, where the processor does not tell it.
	defaultL2 = 1 << 20
)

// QueryBlock returns how many queries of k words to score against one panel after another: as many as fill half of the
// L2 cache, a multiple of MR. The other half is for the panel and the scores.
func (p Panels) QueryBlock(k int) int {
	l2 := cpuid.CPU.Cache.L2
	if l2 <= 0 {
		l2 = defaultL2
	}
	return max(min(l2/2/(4*max(k, 1)), mostQueries)/p.MR*p.MR, p.MR)
}
