package ceiling

import (
	"fmt"
	"unsafe"

	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/kernel"
)

// Level is a level of the memory hierarchy. The lowest level is the fastest.
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

// Reading returns how many bytes each thread reads repeatedly to measure level l on the given
// number of threads: half of the thread's share of a cache, or, for Memory, its share of several
// times the size of L3. It returns 0 if the processor does not report the cache, or if half of the
// thread's share of L3 is at most twice the size of L2.
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
			return 0 // L2 would hold a large part of it
		}
	case Memory:
		const least = 256 << 20
		size = max(4*c.L3, least) / threads
	}
	return max(size, 0) / readingRound * readingRound
}

// Holding returns the fastest level that holds the given number of bytes on one thread. If the
// processor does not report the size of a cache that might hold them, it returns the cache, whose
// Reading is 0.
func Holding(bytes int) Level {
	c := cpuid.CPU.Cache
	return holding(bytes, c.L1D, c.L2, c.L3)
}

func holding(bytes int, caches ...int) Level {
	for l, size := range caches {
		if size <= 0 || bytes <= size {
			return Level(l)
		}
	}
	return Memory
}

const (
	// readingRound is the number of bytes in a round. It is a multiple of the bytes that a round of
	// any kernel reads. readingMost is the largest number of bytes that a kernel reads in one call.
	readingRound = 4096
	readingMost  = 1 << 18
)

// Read returns the ceiling of code that reads the given number of bytes, a multiple of 4096, over
// and over. Its rate, in bytes per second, is the bandwidth of the memory level that holds that
// many bytes. A round is 4096 bytes.
func Read(b *kernel.Backend, bytes int) Ceiling {
	if bytes < readingRound || bytes%readingRound != 0 {
		panic(fmt.Sprintf("ceiling: Read: %d bytes are not a multiple of %d", bytes, readingRound))
	}
	return reading(bytes, loopsOf(b).read)
}

// reading returns the ceiling of the loop read, which adds the n words at p to sums. The words come
// from memory of the given number of bytes.
func reading(bytes int, read func(p *uint64, n int, sums *uint64)) Ceiling {
	return Ceiling{readingRound, func() func(int) {
		words := kernel.AlignedFloat64(bytes / 8)
		for i := range words {
			words[i] = float64(i) // until they are written, all pages share one page of zeros
		}
		at := 0
		var sums [8]uint64
		return func(rounds int) {
			for rounds > 0 {
				n := min(rounds*readingRound, bytes-at, readingMost)
				read((*uint64)(unsafe.Pointer(&words[at/8])), n/8, &sums[0])
				rounds -= n / readingRound
				at = (at + n) % bytes
			}
		}
	}}
}

// sumWordsGeneric adds n words to four sums, as the AVX2 kernel does.
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
