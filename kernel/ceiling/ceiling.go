// Package ceiling measures the limits of a machine: arithmetic on registers, and reads from each
// level of memory. Reports show the rates of kernels as shares of these ceilings. Start with
// Ceiling.Rate and the functions that return a Ceiling.
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

// Ceiling is a loop that does one kind of work as fast as a tier allows. Its rate is an upper bound
// on the rate of kernels that do the same work.
type Ceiling struct {
	// PerRound is the number of operations, terms or bytes in one round.
	PerRound float64
	prepare  func() func(rounds int)
}

// Loop returns a loop with its own memory, for one goroutine. A round takes well below a
// microsecond. The scheduler cannot interrupt a call of the loop.
func (c Ceiling) Loop() func(rounds int) { return c.prepare() }

// Rate runs the loop on the given number of threads for about d. It returns their total rate:
// operations, terms or bytes per second.
func (c Ceiling) Rate(threads int, d time.Duration) float64 { return c.Runner(threads)(d) }

// Runner prepares the loop for the given number of threads. Each call of the result runs the loop
// for about d and returns its total rate, as Rate does.
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
				// Run at least once: on a busy machine, the thread may start only after the time is
				// over.
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

// Terms returns the ceiling of c's panels: a loop with only their arithmetic, on registers. Its
// rate is the number of terms of scores per second. A term of Dot is a multiply-add, so the ceiling
// in operations per second is twice this rate.
func Terms(b *kernel.Backend, c kernel.Comparison) Ceiling {
	loop, terms := b.Peak(c)
	return Ceiling{float64(terms), onRegisters(loop, operands32)}
}

// DistanceTerms returns the ceilings for the scores and the gradients of a distance, in terms per
// second (see linalg.Backend.DistancePeaks).
func DistanceTerms(b *linalg.Backend, kind linalg.DistanceKind) (scores, gradients Ceiling) {
	s, g := b.DistancePeaks(kind)
	return ofPeak(s), ofPeak(g)
}

// RegionTerms returns the ceilings for the scores and the gradients of a kind of regions, in terms
// per second (see linalg.Backend.RegionPeaks).
func RegionTerms(b *linalg.Backend, kind linalg.RegionKind) (scores, gradients Ceiling) {
	s, g := b.RegionPeaks(kind)
	return ofPeak(s), ofPeak(g)
}

func ofPeak(p linalg.Peak) Ceiling { return Ceiling{float64(p.Terms), onRegisters(p.Loop, operands32)} }

// FMA64 returns the ceiling of MatMulFMA, and of Pair with Dot: fused multiply-adds in float64,
// counted as two operations each.
func FMA64(b *kernel.Backend) Ceiling {
	l := loopsOf(b)
	return Ceiling{float64(l.sums), onRegisters(l.fma64, operands64)} // half as many sums, two operations each
}

// MulAdd64 returns the ceiling of MatMul: separate multiplications and additions in float64.
func MulAdd64(b *kernel.Backend) Ceiling {
	l := loopsOf(b)
	return Ceiling{float64(l.sums), onRegisters(l.mulAdd64, operands64)}
}

// Int8 returns the ceiling of dot products of unsigned and signed bytes, summed in int32, with two
// operations per product. It uses VNNI if the backend does (kernel.Backend.HasVNNI).
func Int8(b *kernel.Backend) Ceiling {
	l := loopsOf(b)
	return Ceiling{2 * 4 * float64(l.sums), onRegisters(l.int8, operandsInt8)}
}

// Int8L1 returns the ceiling of L1 distances of unsigned bytes (kernel.Backend.Int8L1Panels), with two
// operations per pair of bytes: the distance and its addition to a sum.
func Int8L1(b *kernel.Backend) Ceiling {
	l := loopsOf(b)
	return Ceiling{2 * 4 * float64(l.sums), onRegisters(l.int8L1, operandsInt8)}
}

// Int8Phase returns the ceiling of distances of one-byte phases (kernel.Backend.Int8PhasePanels). Its
// rate is the number of pairs of phases per second.
func Int8Phase(b *kernel.Backend) Ceiling {
	loop, terms := b.Int8PhasePeak()
	return Ceiling{kernel.WordBytes * float64(terms), onRegisters(loop, operands32)}
}

// Int16Dot returns the ceiling of dot products of signed two-byte codes, summed in int32
// (kernel.Backend.Int16DotPanels), with two operations per product.
func Int16Dot(b *kernel.Backend) Ceiling {
	loop, terms := b.Int16DotPeak()
	return Ceiling{2 * float64(terms), onRegisters(loop, operands32)}
}

// Int16Norm returns the ceiling of group norms of two-byte codes (kernel.Backend.Int16NormPanels) in
// groups of the given number of coordinates: a loop with only their arithmetic, on registers. Its rate
// is the number of coordinates per second.
func Int16Norm(b *kernel.Backend, group int) Ceiling {
	loop, terms := b.Int16NormPeak(group)
	return Ceiling{float64(terms), onRegisters(loop, operands32)}
}

// Int8Tiles returns the ceiling of dot products of signed bytes on AMX tiles, summed in int32, with
// two operations per product. The backend must have FeatureAMX.
func Int8Tiles(b *kernel.Backend) Ceiling {
	return Ceiling{tileOperations, onRegisters(loopsOf(b).int8Tiles, operandsTiles)}
}

// BFloat16 returns the ceiling of dot products of bfloat16 values in vector registers, summed in
// float32, with two operations per product. The backend must have FeatureAVX512BF16.
func BFloat16(b *kernel.Backend) Ceiling {
	l := loopsOf(b)
	return Ceiling{2 * 2 * float64(l.sums), onRegisters(l.bfloat16, operandsBFloat16)}
}

// BFloat16Tiles returns the ceiling of dot products of bfloat16 values on AMX tiles, summed in
// float32, with two operations per product. The backend must have FeatureAMXBF16.
func BFloat16Tiles(b *kernel.Backend) Ceiling {
	return Ceiling{tileOperations / 2, onRegisters(loopsOf(b).bfloat16Tiles, operandsTiles)}
}

// tileOperations is the number of operations in a round of loops.int8Tiles, which computes six
// products of tiles.
const tileOperations = 6 * 2 * 16 * 16 * 64

// loops holds a backend's loops that do not belong to a comparison. int8Tiles is nil without
// FeatureAMX, bfloat16 is nil without FeatureAVX512BF16, and bfloat16Tiles is nil without FeatureAMXBF16.
type loops struct {
	fma64, mulAdd64                                  func(rounds int, x *float64)
	int8, int8L1, int8Tiles, bfloat16, bfloat16Tiles func(rounds int, x *byte)
	// sums is the number of 32-bit sums that a round updates. A round of a 64-bit loop updates half
	// as many.
	sums int
	read func(p *uint64, n int, out *uint64)
}

// onRegisters returns the prepare function of a loop. All threads share the operands because each
// thread loads them only once.
func onRegisters[T any](loop func(int, *T), operands []T) func() func(int) {
	return func() func(int) { return func(n int) { loop(n, &operands[0]) } }
}

// The operands have ordinary magnitudes, differ between lanes and, except for unsigned bytes, have
// both signs. The values affect the speed: multiplying zeros draws less power, so the processor runs
// faster.
var (
	operands32       = fill(make([]float32, 80), func(i int) float32 { return float32(i%7-3)*0.37 + float32(i)*0.01 })
	operands64       = fill(make([]float64, 16), func(i int) float64 { return float64(operands32[i]) })
	operandsInt8     = fill(make([]byte, 3*64), func(i int) byte { return byte(i*37 + 11) })
	operandsBFloat16 = fill(make([]byte, 2*64), func(i int) byte {
		return byte(math.Float32bits(operands32[i/2]) >> (16 + 8*(i%2)))
	})
	operandsTiles = fill(make([]byte, 2*16*64), func(i int) byte { return byte(i*37 + i/64*29 + 11) })
)

func fill[T any](x []T, value func(i int) T) []T {
	for i := range x {
		x[i] = value(i)
	}
	return x
}

// genericSums is the number of 32-bit sums in genericLoops. There are half as many 64-bit sums.
const genericSums = 16

// genericLoops do the operations of the assembly in Go, on memory in the L1 cache.
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
	int8L1: func(n int, x *byte) {
		xs, sums := (*[8 * genericSums]byte)(unsafe.Pointer(x)), [genericSums]int32{}
		for range n {
			for i := range sums {
				for j := 4 * i; j < 4*i+4; j++ {
					d := int32(xs[j]) - int32(xs[4*genericSums+j])
					sums[i] += max(d, -d)
				}
			}
		}
		runtime.KeepAlive(sums)
	},
	sums: genericSums,
	read: sumWordsGeneric,
}
