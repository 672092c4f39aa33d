// Package ceiling measures what a machine can do at all: operations on registers and reading from each level of
// the memory. The rates of kernels are shown as shares of these ceilings.
package ceiling

import (
	"math"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
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

// Terms is the ceiling of a comparison's panels: its operations on registers alone, counted in terms of scores. That
// of Dot, a multiply-add or two operations a term, is the FMA ceiling.
func Terms(b *kernel.Backend, c kernel.Comparison) Ceiling {
	loop, terms := b.Peak(c)
	return Ceiling{float64(terms), onRegisters(loop, operands32)}
}

// DistanceTerms returns the ceilings of a distance's scores and gradients, in terms (linalg.Backend.DistancePeaks).
func DistanceTerms(b *linalg.Backend, kind linalg.DistanceKind) (scores, gradients Ceiling) {
	of := func(p linalg.Peak) Ceiling { return Ceiling{float64(p.Terms), onRegisters(p.Loop, operands32)} }
	s, g := b.DistancePeaks(kind)
	return of(s), of(g)
}

// FMA64 is the ceiling of MatMulFMA and of Pair's dot product: fused multiply-adds in float64, two operations each.
func FMA64(b *kernel.Backend) Ceiling {
	l := loopsOf(b)
	return Ceiling{float64(l.sums), onRegisters(l.fma64, operands64)} // half the sums, two operations each
}

// MulAdd64 is the ceiling of MatMul: multiplications and additions in float64.
func MulAdd64(b *kernel.Backend) Ceiling {
	l := loopsOf(b)
	return Ceiling{float64(l.sums), onRegisters(l.mulAdd64, operands64)}
}

// Int8 is the rate of products of bytes, unsigned by signed, added up in 32 bits: two operations each. It uses the
// VNNI instruction where the backend has the feature.
func Int8(b *kernel.Backend) Ceiling {
	l := loopsOf(b)
	return Ceiling{2 * 4 * float64(l.sums), onRegisters(l.int8, operandsInt8)}
}

// Int8Tiles is the rate of products of signed bytes on AMX tiles, added up in 32 bits: two operations each. The
// backend has to have FeatureAMX.
func Int8Tiles(b *kernel.Backend) Ceiling {
	return Ceiling{tileOperations, onRegisters(loopsOf(b).int8Tiles, operandsTiles)}
}

// BFloat16Tiles is the rate of products of bfloat16 numbers on AMX tiles, added up in float32: two operations each.
// The backend has to have FeatureBF16.
func BFloat16Tiles(b *kernel.Backend) Ceiling {
	return Ceiling{tileOperations / 2, onRegisters(loopsOf(b).bfloat16Tiles, operandsTiles)}
}

// tileOperations are the operations of a round of loops.int8Tiles: six products of tiles.
const tileOperations = 6 * 2 * 16 * 16 * 64

// loops are the measured loops of a backend that belong to no comparison. Those on tiles are nil without AMX.
type loops struct {
	fma64, mulAdd64                func(rounds int, x *float64)
	int8, int8Tiles, bfloat16Tiles func(rounds int, x *byte)
	// sums is the number of 32-bit sums that a round adds to, and twice the number of 64-bit sums.
	sums int
	read func(p *uint64, n int, out *uint64)
}

// onRegisters prepares a loop whose threads can share the operands that they load once.
func onRegisters[T any](loop func(int, *T), operands []T) func() func(int) {
	return func() func(int) { return func(n int) { loop(n, &operands[0]) } }
}

// Operands of ordinary size, different in every lane, of both signs but for unsigned bytes: the values matter, since
// multiplying zeros takes less power.
var (
	operands32    = fill(make([]float32, 80), func(i int) float32 { return float32(i%7-3)*0.37 + float32(i)*0.01 })
	operands64    = fill(make([]float64, 16), func(i int) float64 { return float64(operands32[i]) })
	operandsInt8  = fill(make([]byte, 3*64), func(i int) byte { return byte(i*37 + 11) })
	operandsTiles = fill(make([]byte, 2*16*64), func(i int) byte { return byte(i*37 + i/64*29 + 11) })
)

func fill[T any](x []T, value func(i int) T) []T {
	for i := range x {
		x[i] = value(i)
	}
	return x
}

// The portable loops are what Go makes of the same operations, on memory in the L1 cache.

// genericSums is the number of sums of 32 bits; there are half as many of 64 bits.
const genericSums = 16

var genericLoops = loops{
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
	sums: genericSums,
	read: sumWordsGeneric,
}
