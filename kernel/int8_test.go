package kernel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// TestInt8Panel requires that every tier computes the exact sums of products of codes and counts
// correctly.
func TestInt8Panel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 8))
		checkCodes(t, b, b.Int8Panels(),
			[]int{1, 2, 3, 4, 5, 7, 8, 31, 64, 127, 128, 129, 132, 255, 256, 257, 371},
			[]func(int) uint32{
				func(int) uint32 { return rng.Uint32() },
				func(int) uint32 { return []uint32{0x7f7f7f7f, 0x80808080, 0xffffffff}[rng.IntN(3)] },
			},
			func(k, queries, candidates int, value func(int) uint32) *panelCase {
				return newInt8Case(t, rng, b, k, queries, candidates, value)
			})
	})
}

// TestMaxInt8 checks that sums at the limits of int32 are exact, and that sums over MaxInt8 words
// fit in int32.
func TestMaxInt8(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 8))
		for _, word := range []uint32{0x7f7f7f7f, 0x81818181} { // 127, −127
			p := newInt8Case(t, rng, b, MaxInt8, 1, 1, func(int) uint32 { return word })
			for i := range p.call.Panel {
				p.call.Panel[i] = 0xffffffff
			}
			got, _ := p.run(nil)
			want := int64(MaxInt8) * WordBytes * 127 * 255
			require.LessOrEqual(t, want, int64(math.MaxInt32))
			if word != 0x7f7f7f7f {
				want = -want
			}
			require.Equal(t, float32(want), got.Scores[0])
		}
	})
}

// TestCodeInt8 compares the codes, their sums and their bounds with the definitions.
func TestCodeInt8(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	for _, n := range []int{4, 8, 16, 352, 1488} {
		for _, scale := range []float64{1, 40, 127.0 / 3, 1000, 1e30, 1e-30} {
			for _, offset := range []uint8{0, 128} {
				x := make([]float64, n)
				for i := range x {
					x[i] = rng.NormFloat64()
				}
				codes := [2][]uint8{make([]uint8, n), make([]uint8, n)}
				got := CodeInt8(codes[0], codes[1], x, 1/scale, offset)
				var sums [2]int32
				rest := slices.Clone(x)
				for k, unit := range []float64{1, Fine} {
					back := make([]float64, n)
					for i := range x {
						c := float64(int8(codes[k][i] - offset))
						require.LessOrEqual(t, math.Abs(c), 127.0)
						if v := rest[i] * scale * unit; math.Abs(v) < 127 {
							require.LessOrEqual(t, math.Abs(v-c), 0.5+1e-9)
						} else {
							require.Equal(t, math.Copysign(127, v), c)
						}
						sums[k] += int32(c)
						back[i] = c / scale / unit
					}
					floats.Sub(rest, back)
					norm, residual := got.Norm, got.Residual
					if k == 1 {
						norm, residual = got.FineNorm, got.FineResidual
					}
					for _, bound := range [][2]float64{{floats.Norm(back, 2), norm}, {floats.Norm(rest, 2), residual}} {
						require.LessOrEqual(t, bound[0], bound[1]*(1+1e-12))
						require.LessOrEqual(t, bound[1], bound[0]*(1+1e-8)+1e-14)
					}
				}
				require.Equal(t, sums, [2]int32{got.Sum, got.FineSum})
			}
		}
	}
}

func TestPairInt8(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(4, 8))
		for _, n := range []int{64, 128, 192, 768} {
			for _, count := range []int{1, 2, 255, 256, 257, 600} {
				const rows = 9
				stride := n + 64*(count%2)
				x, table := kerneltest.Guarded[uint32](t, n), kerneltest.Guarded[uint32](t, rows*stride-(stride-n))
				for _, words := range [][]uint32{x, table} {
					for i := range words {
						words[i] = rng.Uint32()
						if count == 600 {
							words[i] = []uint32{0x7f7f7f7f, 0x80808080, 0xffffffff}[rng.IntN(3)]
						}
					}
				}
				ids, out := kerneltest.Guarded[int32](t, count), kerneltest.Guarded[int32](t, count)
				for i := range ids {
					ids[i] = int32(rng.IntN(rows))
				}
				b.PairInt8(out, x, table, stride, ids)
				for i, id := range ids {
					want := int32(0)
					for t, v := range Codes(x) {
						want += int32(int8(v)) * int32(Codes(table[int(id)*stride:][:n])[t])
					}
					require.Equal(t, want, out[i])
				}
			}
		}
	})
}
