package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	. "github.com/mquine/mquine/kernel"
)

// TestInt16DotPanel requires that every tier computes the exact sums of products of codes and counts
// correctly. Random codes of many words overflow int32; the twin then overflows, too.
func TestInt16DotPanel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 17))
		codes := func(largest int) func(int) uint32 {
			code := func() uint32 { return uint32(uint16(rng.IntN(2*largest+1) - largest)) }
			return func(int) uint32 { return code() | code()<<16 }
		}
		checkCodes(t, b, b.Int16DotPanels(),
			[]int{1, 2, 3, 4, 5, 7, 8, 31, 64, 127, 128, 129, 132, 255, 256, 257, 741},
			[]func(int) uint32{
				codes(math.MaxInt16), codes(200),
				func(int) uint32 { return []uint32{0x7fff7fff, 0x80018001, 0x80017fff}[rng.IntN(3)] },
			},
			func(k, queries, candidates int, value func(int) uint32) *panelCase {
				return newInt16DotCase(t, rng, b, k, queries, candidates, value)
			})
	})
}

// TestMaxInt16Dot checks that the sums of products of vectors with the largest norm are exact.
func TestMaxInt16Dot(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 17))
		for _, sign := range []int{1, -1} {
			x := []int{32766, 32766, 417, 14, 1, 1, 1, 0}
			norm := 0
			for _, v := range x {
				norm += v * v
			}
			require.Equal(t, MaxInt16Dot*MaxInt16Dot, norm)
			at := 0
			p := newInt16DotCase(t, rng, b, len(x)/2, 1, 1, func(i int) uint32 {
				at++
				y, z := x[2*i], x[2*i+1]
				if at > len(x)/2 { // the candidate
					y, z = sign*y, sign*z
				}
				return uint32(uint16(int16(y))) | uint32(uint16(int16(z)))<<16
			})
			got, _ := p.run(nil)
			require.Equal(t, float32(sign*norm), got.Scores[0])
		}
	})
}

// TestCodeInt16 compares the codes and their bounds with the definitions.
func TestCodeInt16(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 17))
	for _, n := range []int{1, 2, 16, 352, 1488} {
		for _, scale := range []float64{1, 1e30, 1e-30} {
			for _, spike := range []float64{1, 1e3} {
				x := make([]float64, n)
				for i := range x {
					x[i] = rng.NormFloat64() * scale
				}
				x[0] *= spike
				step := floats.Norm(x, 2) / (MaxInt16Dot - math.Sqrt(float64(n))/2 - 1)
				codes := make([]uint16, n)
				got := CodeInt16(codes, x, step)
				back, rest, norm := make([]float64, n), make([]float64, n), 0
				for i, c := range codes {
					c := int(int16(c))
					require.LessOrEqual(t, max(c, -c), math.MaxInt16)
					if v := x[i] / step; math.Abs(v) < math.MaxInt16 {
						require.LessOrEqual(t, math.Abs(v-float64(c)), 0.5+1e-9)
					} else {
						require.Equal(t, math.Copysign(math.MaxInt16, v), float64(c))
					}
					back[i], rest[i] = float64(c)*step, x[i]-float64(c)*step
					norm += c * c
				}
				require.LessOrEqual(t, norm, MaxInt16Dot*MaxInt16Dot)
				require.InEpsilon(t, floats.Norm(back, 2), got.Norm, 1e-8)
				require.GreaterOrEqual(t, got.Norm, floats.Norm(back, 2))
				require.InEpsilon(t, floats.Norm(rest, 2), got.Residual, 1e-6)
				require.GreaterOrEqual(t, got.Residual, floats.Norm(rest, 2))
			}
		}
	}
}
