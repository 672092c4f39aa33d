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

// Every tier gives the exact sums of products of coarse and fine codes, joins them alike and counts by them.
func TestInt16Panel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 16))
		mr := b.MR(Int16)
		random := func(int) float32 { return math.Float32frombits(rng.Uint32()) }
		largest := func(int) float32 { return math.Float32frombits([]uint32{0x7f7f7f7f, 0x81818181}[rng.IntN(2)]) }
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
				p := newPanelCase(t, rng, b, Int16, k, queries, candidates, value)
				got, better := p.run(nil)
				want := make([]float32, 0, len(got.Scores))
				for _, q := range p.q {
					for _, e := range p.e {
						want = append(want, kerneltest.TwinScore(Int16, q, e))
					}
				}
				kerneltest.SameBits(t, want, got.Scores[:len(want)], "k = %d", k)
				wantBetter, wantUndecided := p.countPlainly(got.Scores)
				require.Equal(t, wantBetter, better, "k = %d: better", k)
				require.Equal(t, wantUndecided, append([]uint64{}, got.Undecided[:2*got.Pairs]...), "k = %d: undecided", k)
			}
		}
		p := newPanelCase(t, rng, b, Int16, 320, 2*mr, b.NR, random)
		tile, better := b.NewTile(len(p.q), int(p.rows[len(p.q)])), make([]int32, p.rows[len(p.q)]+1)
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			b.Panel(Int16, tile, p.packedQueries, p.packedPanel, 320, p.rows, p.ends, better, p.valid, nil)
		}))
	})
}

// Sums of the largest products and the most terms stay in the range of int32.
func TestMaxInt16(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 16))
		const k = MaxInt16 / 32 * 32
		for _, word := range []uint32{0x7f7f7f7f, 0x81818181} { // 127, −127
			p := newPanelCase(t, rng, b, Int16, k, 1, 1, func(int) float32 { return math.Float32frombits(word) })
			for i := range p.packedPanel {
				p.packedPanel[i] = math.Float32frombits(0x7f7f7f7f)
			}
			p.e[0] = p.packedPanel[:k]
			got, _ := p.run(nil)
			require.Less(t, int64(k/2)*2*WordBytes*127*127, int64(math.MaxInt32))
			require.Equal(t, kerneltest.TwinScore(Int16, p.q[0], p.e[0]), got.Scores[0])
		}
	})
}

// Tiles keep their values while goroutines share threads, which signals and the collector interrupt.
func TestInt16PanelParallel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		kerneltest.SkipWithout(t, b, FeatureAMX)
		rng := rand.New(rand.NewPCG(3, 16))
		p := newPanelCase(t, rng, b, Int16, 256, 8*b.MR(Int16), b.NR, func(int) float32 { return math.Float32frombits(rng.Uint32()) })
		want, _ := p.run(nil)
		var wrong atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					tile, better := b.NewTile(len(p.q), int(p.rows[len(p.q)])), make([]int32, p.rows[len(p.q)]+1)
					b.Panel(Int16, tile, p.packedQueries, p.packedPanel, p.k, p.rows, p.ends, better, p.valid, nil)
					if n := len(p.q) * b.NR; !slices.Equal(want.Scores[:n], tile.Scores[:n]) {
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

func TestPackTiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 16))
	for _, k := range []int{16, 32, 80} {
		for _, n := range []int{1, 7, 16} {
			const rows, spare = 20, 3
			table, dst := kerneltest.Guarded[float32](t, rows*(k+spare)), kerneltest.Guarded[float32](t, 16*k)
			for i := range table {
				table[i] = rng.Float32() + 1
			}
			ids := make([]int32, n)
			for i := range ids {
				ids[i] = rng.Int32N(rows)
			}
			PackTiles(dst, table, k+spare, ids, k)
			for i := range 16 {
				for t2 := range k {
					want := float32(0)
					if i < n {
						want = table[int(ids[i])*(k+spare)+t2]
					}
					require.Equal(t, want, dst[t2/16*256+16*i+t2%16])
				}
			}
		}
	}
}
