package ceiling

import (
	"fmt"
	"unsafe"

	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/kernel"
)

// Level is a level of the memory, the fastest first.
type Level uint8

const (
	L1Cache Level = iota
	L2Cache
	L3Cache
	Memory
	// NumLevels is the number of levels.
	NumLevels
)

// String returns "l1", "l2", "l3" or "dram".
func (l Level) String() string {
	if l < NumLevels {
		return [...]string{"l1", "l2", "l3", "dram"}[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Reading returns how many bytes each of the given number of threads reads again and again to
// measure a level: half of what it has of a cache, and far more than all caches for Memory. It is 0
// where the processor does not tell that it has the cache.
func (l Level) Reading(threads int) int {
	c := cpuid.CPU.Cache
	var size int
	switch l {
	case L1Cache:
		size = c.L1D / 2
	case L2Cache:
		size = c.L2 / 2
	case L3Cache:
		size = c.L3 / 2 / threads
		if size <= 2*c.L2 {
			return 0 // what is read would rather be in the cache above
		}
	case Memory:
		const least = 256 << 20
		size = max(4*c.L3, least) / threads
	}
	return max(size, 0) / readingStep * readingStep
}

const (
	// readingStep is a multiple of what the kernels add up in a round, readingMost what they read in
	// one call.
	readingStep = 4096
	readingMost = 1 << 18
)

// Read is the ceiling of everything that has to read the given number of bytes, a multiple of 4096,
// once in each pass: its rate, in bytes a second, is the bandwidth of the level of the memory that
// holds so many. A round is 4096 bytes.
func Read(b *kernel.Backend, bytes int) Ceiling {
	if bytes < readingStep || bytes%readingStep != 0 {
		panic(fmt.Sprintf("ceiling: Read: %d bytes are no multiple of %d", bytes, readingStep))
	}
	return reading(bytes, loopsOf(b).read)
}

// reading returns the ceiling of a loop that reads n words from p on and adds them to sums.
func reading(bytes int, read func(p *uint64, n int, sums *uint64)) Ceiling {
	return Ceiling{readingStep, func() func(int) {
		words := kernel.AlignedFloat64(bytes / 8)
		for i := range words {
			words[i] = float64(i) // a page that was never written to has no memory of its own
		}
		at := 0
		var sums [8]uint64
		return func(rounds int) {
			for rounds > 0 {
				n := min(rounds*readingStep, bytes-at, readingMost)
				read((*uint64)(unsafe.Pointer(&words[at/8])), n/8, &sums[0])
				rounds -= n / readingStep
				at = (at + n) % bytes
			}
		}
	}}
}

// sumWordsGeneric adds to four sums, as the AVX2 kernel does.
func sumWordsGeneric(p *uint64, n int, out *uint64) {
	words, sums := unsafe.Slice(p, n), unsafe.Slice(out, 4)
	var s [4]uint64
	for ; len(words) >= 4; words = words[4:] {
		s[0] += words[0]
		s[1] += words[1]
		s[2] += words[2]
		s[3] += words[3]
	}
	for i, v := range s {
		sums[i] += v
	}
}
