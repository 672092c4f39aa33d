package kernel

import (
	"math"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Ceiling is a loop that does one thing as fast as a tier can, and so bounds what a kernel that has
// to do the same can reach.
type Ceiling struct {
	// PerRound is the number of operations, terms or bytes of one round.
	PerRound float64
	prepare  func() func(rounds int)
}

// Loop returns the loop for one goroutine, with memory of its own. Rounds take well below a
// microsecond, and a call cannot be interrupted.
func (c Ceiling) Loop() func(rounds int) { return c.prepare() }

// Rate runs the loop on the given number of threads for about the given time, and returns what they
// do together in a second.
func (c Ceiling) Rate(threads int, d time.Duration) float64 { return c.Runner(threads)(d) }

// Runner prepares the loop for threads and returns what measures its Rate, again and again.
func (c Ceiling) Runner(threads int) func(d time.Duration) float64 {
	loops := make([]func(int), threads)
	for t := range loops {
		loops[t] = c.Loop()
	}
	const call = 200 * time.Microsecond
	n := 1
	for {
		start := time.Now()
		loops[0](n)
		if time.Since(start) > call {
			break
		}
		n *= 2
	}
	return func(d time.Duration) float64 {
		rounds := make([]int, threads)
		start := time.Now()
		var wg sync.WaitGroup
		for t := range threads {
			wg.Go(func() {
				// Once at least: on a busy machine the thread may begin when the time is over.
				for {
					loops[t](n)
					rounds[t] += n
					if time.Since(start) >= d {
						return
					}
				}
			})
		}
		wg.Wait()
		elapsed := time.Since(start).Seconds()
		total := 0
		for _, r := range rounds {
			total += r
		}
		return float64(total) * c.PerRound / elapsed
	}
}

// Terms is the ceiling of a comparison's panels: its operations on registers alone, counted in terms
// of scores. That of Dot, a multiply-add or two operations a term, is the FMA ceiling.
func (b *Backend) Terms(c Comparison) Ceiling {
	k := b.comparer(c)
	return Ceiling{float64(k.peakTerms), onRegisters(k.peak, peakOperands[:])}
}

// FMA64 is the ceiling of MatMulFMA and of Pair's dot product: fused multiply-adds in float64, two
// operations each.
func (b *Backend) FMA64() Ceiling { return arithmetics[b.Tier].ceiling64(arithmetics[b.Tier].fma64) }

// MulAdd64 is the ceiling of MatMul: multiplications and additions in float64.
func (b *Backend) MulAdd64() Ceiling {
	return arithmetics[b.Tier].ceiling64(arithmetics[b.Tier].mulAdd64)
}

// Int8 is the rate of products of bytes, unsigned by signed, added up in 32 bits: two operations
// each, with the VNNI instruction where an AVX-512 processor has it.
func (b *Backend) Int8() Ceiling {
	a := arithmetics[b.Tier]
	return Ceiling{2 * float64(a.perRound) * 4, onRegisters(a.int8, peakBytes[:])}
}

// Int8Tiles is the rate of products of signed bytes on AMX tiles, added up in 32 bits: two operations each.
// It is there where FastInt16 is.
func (b *Backend) Int8Tiles() Ceiling {
	return Ceiling{tileOperations, onRegisters(tilePeak, peakTiles[:])}
}

// BFloat16Tiles is the rate of products of bfloat16 on AMX tiles, added up in float32: two operations each. It is
// there where HasSplitProducts is.
func (b *Backend) BFloat16Tiles() Ceiling {
	return Ceiling{tileOperations / 2, onRegisters(splitTilePeak, peakTiles[:])}
}

// tileOperations are those of a round of tilePeak: six products of tiles.
const tileOperations = 6 * 2 * 16 * 16 * 64

// arithmetic holds the loops of a tier that are not those of a comparison.
type arithmetic struct {
	fma64, mulAdd64 func(n int, x *float64)
	int8            func(n int, x *byte)
	// perRound is the number of sums of 32 bits that a round adds to, and twice that of 64 bits.
	perRound int
	sum      func(p *uint64, n int, out *uint64)
}

func (a arithmetic) ceiling64(loop func(int, *float64)) Ceiling {
	return Ceiling{float64(a.perRound), onRegisters(loop, peakOperands64[:])} // half the sums, two operations each
}

// onRegisters prepares a loop whose threads can share the operands that they load once.
func onRegisters[T any](loop func(int, *T), operands []T) func() func(int) {
	return func() func(int) { return func(n int) { loop(n, &operands[0]) } }
}

// Operands of ordinary size, different in every lane, of both signs but for unsigned bytes: the
// values matter, since multiplying zeros takes less power.
var (
	peakOperands   [64]float32
	peakOperands64 [16]float64
	peakBytes      [3 * 64]byte
	peakTiles      [2 * 16 * 64]byte
)

func init() {
	for i := range peakOperands {
		peakOperands[i] = float32(i%7-3)*0.37 + float32(i)*0.01
	}
	for i := range peakOperands64 {
		peakOperands64[i] = float64(peakOperands[i])
	}
	for i := range peakBytes {
		peakBytes[i] = byte(i*37 + 11)
	}
	for i := range peakTiles {
		peakTiles[i] = byte(i*37 + i/64*29 + 11)
	}
}

// The portable loops are what Go makes of the same operations, on memory in the L1 cache.

// genericSums is the number of sums of 32 bits; there are half as many of 64 bits.
const genericSums = 16

var genericArithmetic = arithmetic{
	fma64: func(n int, x *float64) {
		xs, sums := (*[genericSums]float64)(unsafe.Pointer(x)), [genericSums / 2]float64{}
		for range n {
			for i := range sums {
				sums[i] = math.FMA(xs[i], xs[len(sums)+i], sums[i])
			}
		}
		runtime.KeepAlive(sums)
	},
	mulAdd64: func(n int, x *float64) {
		xs, sums := (*[genericSums]float64)(unsafe.Pointer(x)), [genericSums / 2]float64{}
		for range n {
			for i := range sums {
				sums[i] += float64(xs[i] * xs[len(sums)+i])
			}
		}
		runtime.KeepAlive(sums)
	},
	int8: func(n int, x *byte) {
		xs, sums := (*[8 * genericSums]byte)(unsafe.Pointer(x)), [genericSums]int32{}
		for range n {
			for i := range sums {
				for j := 4 * i; j < 4*i+4; j++ {
					sums[i] += int32(xs[j]) * int32(int8(xs[4*genericSums+j]))
				}
			}
		}
		runtime.KeepAlive(sums)
	},
	perRound: genericSums,
	sum:      sumWordsGeneric,
}
