package kernel

import "github.com/klauspost/cpuid/v2"

// The constants in this file determine the speed of the kernels; Chunk and PairWidth also determine
// how they round. The shapes of the microtiles are next to the kernels: in comparison_*.go, and for
// codes in backend_*.go.
const (
	// Chunk is the number of coordinates that a panel kernel adds up in one chain. The sums of the
	// chains are added in order. Short chains keep the error bound small (PanelError). A chunk of a
	// panel is at most 128 × 48 × 4 bytes = 24 KiB, which stays in the L1 cache while strip after
	// strip passes over it. Chains of 256 gain up to 3% for short vectors and leave twice as many
	// undecided pairs (docs/decisions/0004-chains-of-128-terms.md).
	Chunk = 128

	// chunkUnits is the number of units that a panel kernel for L1 distances of codes adds up before it
	// looks for an early exit. A chunk of a panel takes as much memory as a float32 chunk.
	chunkUnits = Chunk / UnitWords

	// PairWidth must divide the number of coordinates in the vectors of Pair, which are padded with
	// zeros. Four AVX-512 accumulators hold 32 float64 values and hide the latency of an addition.
	// All tiers add in 32 chains, so their roundings agree.
	PairWidth = 32

	// mostPairs is the largest number of rows in one call of a pair kernel. The scheduler cannot interrupt
	// assembly, and the garbage collector waits for it. Scoring 256 rows of 1,504 terms from memory
	// takes a fraction of a millisecond.
	mostPairs = 256

	// mostQueries bounds the number of queries in a block if queries are short. With 512 queries, a
	// panel from memory is used 512 times, and there are still enough blocks for all goroutines.
	mostQueries = 512

	// enoughQueries is the least number of queries in a block, unless their strips exceed mostStripBytes.
	// Every panel is loaded once per block from the L3 cache or from memory. With fewer queries, loading
	// panels takes longer than loading strips from the L3 cache, whose latency the processor's prefetching
	// hides.
	enoughQueries = 144

	// mostStripBytes bounds the strips of a block that do not fit into the L2 cache. The strips of all
	// threads share the L3 cache with the panels. The bound was measured with one and two threads and an L3
	// cache of 32 MiB.
	mostStripBytes = 4 << 20

	// fewestQueries is the number of queries in a block if each of them needs a large part of
	// mostStripBytes.
	fewestQueries = 36

	// defaultL2 is the assumed size of the L2 cache, in bytes, if the processor does not report it.
	defaultL2 = 1 << 20
)

// QueryBlock returns the number of queries of k words to score against one panel after another. It
// is a multiple of MR. The strips fill at most half of the L2 cache or, if they then have fewer than
// enoughQueries, mostStripBytes. The panel and the scores use the rest.
func (p Panels) QueryBlock(k int) int {
	l2 := cpuid.CPU.Cache.L2
	if l2 <= 0 {
		l2 = defaultL2
	}
	size := 4 * max(k, 1)
	queries := min(max(l2/2/size, min(enoughQueries, mostStripBytes/size), fewestQueries), mostQueries)
	return max(queries/p.MR, 1) * p.MR
}

// FullWidthAVX512 reports whether this is a processor of AMD that computes with 512 bits at once: Zen 5 in
// servers and desktops. Zen 4, and Zen 5 in some notebooks, compute with 256 bits twice. It is false for all
// other processors.
func FullWidthAVX512() bool {
	c := cpuid.CPU
	server, desktop := c.Model < 0x20, c.Model>>4 == 4
	return c.VendorID == cpuid.AMD && c.Family == 0x1a && (server || desktop)
}
