package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// TestInt16DotPanel requires that every tier computes the exact sums of products of codes and counts
// correctly. Random codes of many words overflow int32; the twin then overflows, too.
func TestInt16DotPanel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 17))
		mr := b.Int16DotPanels().MR
		code := func() uint32 { return uint32(uint16(int16(rng.IntN(2*math.MaxInt16+1) - math.MaxInt16))) }
		words := map[string]func(int) uint32{
			"random": func(int) uint32 { return code() | code()<<16 },
			"small": func(int) uint32 {
				return uint32(uint16(rng.IntN(401)-200)) | uint32(uint16(rng.IntN(401)-200))<<16
			},
			"largest": func(int) uint32 {
				return []uint32{0x7fff7fff, 0x80018001, 0x80017fff}[rng.IntN(3)]
			},
		}
		for _, k := range []int{1, 2, 3, 4, 5, 7, 8, 31, 64, 127, 128, 129, 132, 255, 256, 257, 741} {
			for round := range 6 {
				strips := 1 + round%3
				queries, candidates := (strips-1)*mr+1+(round*5+k)%mr, 1+(round*7+k)%b.NR
				if round == 0 {
					queries, candidates = strips*mr, b.NR
				}
				kind := []string{"random", "small"}[round%2]
				if round == 5 {
					kind = "largest"
				}
				p := newInt16DotCase(t, rng, b, k, queries, candidates, words[kind])
				got, counts := p.run(nil)
				want := make([]float32, 0, len(got.Scores))
				for _, q := range p.q {
					for _, e := range p.e {
						want = append(want, p.twin(q, e))
					}
				}
				kerneltest.SameBits(t, want, got.Scores, "k = %d", k)
				wantCounts, wantUndecided := p.countPlainly(got.Scores)
				require.Equal(t, wantCounts, counts, "k = %d: counts", k)
				require.Equal(t, wantUndecided, append([]uint64{}, got.Undecided[:2*got.Pairs]...),
					"k = %d: undecided", k)
			}
		}
		p := newInt16DotCase(t, rng, b, 300, 2*mr, b.NR, words["small"])
		scratch := b.NewPanelScratch(len(p.q), len(p.call.Thresholds)/2)
		p.call.Counts = make([]int32, len(p.call.Thresholds)/2)
		assert.Zero(t, testing.AllocsPerRun(10, func() { p.panels.Score(scratch, &p.call) }))
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
				quantum := floats.Norm(x, 2) / (MaxInt16Dot - math.Sqrt(float64(n))/2 - 1)
				codes := make([]uint16, n)
				got := CodeInt16(codes, x, quantum)
				back, rest, norm := make([]float64, n), make([]float64, n), 0
				for i, c := range codes {
					c := int(int16(c))
					require.LessOrEqual(t, max(c, -c), math.MaxInt16)
					if v := x[i] / quantum; math.Abs(v) < math.MaxInt16 {
						require.LessOrEqual(t, math.Abs(v-float64(c)), 0.5+1e-9)
					} else {
						require.Equal(t, math.Copysign(math.MaxInt16, v), float64(c))
					}
					back[i], rest[i] = float64(c)*quantum, x[i]-float64(c)*quantum
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
