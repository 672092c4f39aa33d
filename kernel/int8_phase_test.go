package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/mquine/mquine/kernel"
)

// TestInt8PhasePanel requires that every tier computes the exact sums of sines and counts correctly.
func TestInt8PhasePanel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 28))
		checkCodes(t, b, b.Int8PhasePanels(),
			[]int{1, 2, 3, 4, 5, 7, 8, 31, 63, 64, 65, 66, 67, 68, 125, 127, 128, 129, 193, 257},
			[]func(int) uint32{
				func(int) uint32 { return rng.Uint32() },
				func(int) uint32 { return []uint32{0, 0x80808080, 0x7f7f7f7f, 0xff00ff00}[rng.IntN(4)] },
			},
			func(k, queries, candidates int, value func(int) uint32) *panelCase {
				return newInt8PhaseCase(t, rng, b, k, queries, candidates, value)
			})
	})
}

// TestInt8PhaseDifferences compares the score of every difference of two codes with its sine.
func TestInt8PhaseDifferences(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 28))
		for d := range 256 {
			code, place := rng.Uint32N(256), 8*rng.IntN(WordBytes)
			p := newInt8PhaseCase(t, rng, b, 1, 1, 1, func(int) uint32 { return 0 })
			p.q[0][0], p.e[0][0] = (code+uint32(d))%256<<place, code<<place
			p.pack()
			got, _ := p.run(nil)
			sine := 255 * math.Abs(math.Sin(math.Pi*float64(d)/256))
			assert.InDelta(t, sine, -got.Scores[0], 0.5001, "d = %d", d)
			assert.Equal(t, PhaseSine(uint8(d)), int32(-got.Scores[0]), "d = %d", d)
		}
	})
}

// TestInt8PhaseDrop requires that early exit does not change the counts, and that the scores of a
// skipped strip are upper bounds below ExitBelow.
func TestInt8PhaseDrop(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(3, 28))
		checkDrop(t, b, b.Int8PhasePanels(), func(k, queries int) *panelCase {
			return newInt8PhaseCase(t, rng, b, k, queries, b.NR, func(int) uint32 { return rng.Uint32() })
		}, func(k int) float32 {
			return float32(-162 * WordBytes * k * (1 + rng.IntN(8)) / 8) // 162 is the mean of the sines
		})
	})
}

// TestMaxInt8Phase checks that the largest sums are exact.
func TestMaxInt8Phase(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(4, 28))
		p := newInt8PhaseCase(t, rng, b, MaxInt8Phase, 1, 1, func(int) uint32 { return 0 })
		for i := range p.call.Panel {
			p.call.Panel[i] = 0x80808080
		}
		p.call.Panel[0] = 0x8080801f // sin(31π/256) is 95/255
		got, _ := p.run(nil)
		want := (MaxInt8Phase*WordBytes-1)*SineUnit + 95
		require.Equal(t, -float32(want), got.Scores[0])
		require.Equal(t, want, -int(got.Scores[0]))
	})
}
