package kernel_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// TestInt16Panel requires that every tier computes the exact sums of products of coarse and fine
// codes, combines them in the same way and counts correctly.
func TestInt16Panel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 16))
		mr := b.Int16Panels().MR
		random := func(int) uint32 { return rng.Uint32() }
		largest := func(int) uint32 { return []uint32{0x7f7f7f7f, 0x81818181}[rng.IntN(2)] }
		for _, k := range []int{32, 64, 96, 128, 160, 256, 288, 768} {
			for round := range 6 {
				strips := 1 + round%3
				queries, candidates := (strips-1)*mr+1+(round*5+k/32)%mr, 1+(round*7+k/32)%b.NR
				if round == 0 {
					queries, candidates = strips*mr, b.NR
				}
				value := random
				if round == 5 {
					value = largest
				}
				p := newInt16Case(t, rng, b, k, queries, candidates, value)
				got, counts := p.run(nil)
				want := make([]float32, 0, len(got.Scores))
				for _, q := range p.q {
					for _, e := range p.e {
						want = append(want, p.twin(q, e))
					}
				}
				kerneltest.SameBits(t, want, got.Scores[:len(want)], "k = %d", k)
				wantCounts, wantUndecided := p.countPlainly(got.Scores)
				require.Equal(t, wantCounts, counts, "k = %d: counts", k)
				require.Equal(t, wantUndecided, append([]uint64{}, got.Undecided[:2*got.Pairs]...),
					"k = %d: undecided", k)
			}
		}
		p := newInt16Case(t, rng, b, 320, 2*mr, b.NR, random)
		scratch := b.NewPanelScratch(len(p.q), len(p.call.Thresholds)/2)
		p.call.Counts = make([]int32, len(p.call.Thresholds)/2)
		assert.Zero(t, testing.AllocsPerRun(10, func() { p.panels.Score(scratch, &p.call) }))
	})
}

// TestMaxInt16 checks that sums of the largest products over the largest number of words fit in
// int32.
func TestMaxInt16(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 16))
		const k = MaxInt16 / 32 * 32
		for _, word := range []uint32{0x7f7f7f7f, 0x81818181} { // 127, −127
			p := newInt16Case(t, rng, b, k, 1, 1, func(int) uint32 { return word })
			for i := range p.call.Panel {
				p.call.Panel[i] = 0x7f7f7f7f
			}
			p.e[0] = p.call.Panel[:k]
			got, _ := p.run(nil)
			require.Less(t, int64(k/2)*2*WordBytes*127*127, int64(math.MaxInt32))
			require.Equal(t, p.twin(p.q[0], p.e[0]), got.Scores[0])
		}
	})
}

// TestInt16PanelParallel checks that AMX tiles keep their values while goroutines share threads and
// are interrupted by signals and the garbage collector.
func TestInt16PanelParallel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		kerneltest.SkipWithout(t, b, FeatureAMX)
		rng := rand.New(rand.NewPCG(3, 16))
		p := newInt16Case(t, rng, b, 256, 8*b.Int16Panels().MR, b.NR, func(int) uint32 { return rng.Uint32() })
		want, _ := p.run(nil)
		var wrong atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					scratch, call := b.NewPanelScratch(len(p.q), len(p.call.Thresholds)/2), p.call
					call.Counts = make([]int32, len(p.call.Thresholds)/2)
					p.panels.Score(scratch, &call)
					if n := len(p.q) * b.NR; !slices.Equal(want.Scores[:n], scratch.Scores[:n]) {
						wrong.Add(1)
					}
				}
			})
		}
		for range 20 {
			runtime.GC()
		}
		wg.Wait()
		require.Zero(t, wrong.Load())
	})
}
