package kernel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// packUnitsPlainly packs rows as docs/kernels.md describes: among 16 rows, the even ones come first.
func packUnitsPlainly(dst []uint32, rows [][]uint32) {
	var order []int
	for first := 0; first < len(rows); first += 16 {
		for _, odd := range []int{0, 1} {
			for i := first; i < min(first+16, len(rows)); i++ {
				if i%2 == odd || len(rows) < 16 {
					order = append(order, i)
				}
			}
		}
	}
	for place, i := range order[:len(rows)] {
		if len(rows) < 16 {
			i = place
		}
		for t := 0; t < len(rows[i]); t += UnitWords {
			copy(dst[t*len(rows)+UnitWords*place:], rows[i][t:t+UnitWords])
		}
	}
}

// TestInt8L1Panel requires that every tier computes the exact distances of codes and counts
// correctly.
func TestInt8L1Panel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 18))
		checkCodes(t, b, b.Int8L1Panels(),
			[]int{1, 2, 3, 4, 5, 7, 8, 31, 63, 64, 65, 66, 67, 68, 125, 128, 129, 193, 257},
			[]func(int) uint32{
				func(int) uint32 { return rng.Uint32() },
				func(int) uint32 { return []uint32{0, 0xffffffff, 0xff00ff00}[rng.IntN(3)] },
			},
			func(k, queries, candidates int, value func(int) uint32) *panelCase {
				return newInt8L1Case(t, rng, b, k, queries, candidates, value)
			})
	})
}

// TestInt8L1Drop requires that early exit does not change the counts, and that the scores of a
// skipped strip are upper bounds below ExitBelow.
func TestInt8L1Drop(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 18))
		checkDrop(t, b, b.Int8L1Panels(), func(k, queries int) *panelCase {
			return newInt8L1Case(t, rng, b, k, queries, b.NR, func(int) uint32 { return rng.Uint32() })
		}, func(k int) float32 {
			return float32(-85 * 8 * k * (1 + rng.IntN(8)) / 8) // 85 is the mean distance of bytes
		})
	})
}

// checkDrop compares calls of panels with and without early exit. newCase returns a case with a full
// panel, and exit draws a score to exit below.
func checkDrop(
	t *testing.T, b *Backend, panels Panels, newCase func(k, queries int) *panelCase, exit func(k int) float32,
) {
	rng := rand.New(rand.NewPCG(5, 18))
	dropped := 0
	for round := range 40 {
		k, mr := 65+rng.IntN(300), panels.MR
		p := newCase(k, 5*mr-1)
		if round%2 == 0 { // the first strip matters
			copy(p.q[0], p.e[0])
			p.pack()
		}
		exitBelow := kerneltest.Guarded[float32](t, len(p.q))
		for i := range exitBelow {
			exitBelow[i] = exit(k)
			for t := p.call.TargetStart[i]; t < p.call.TargetStart[i+1]; t++ {
				p.call.Thresholds[2*t], p.call.Thresholds[2*t+1] = exitBelow[i], exitBelow[i]+40
			}
		}
		want, wantCounts := p.run(nil)
		got, counts := p.run(exitBelow)
		require.Equal(t, wantCounts, counts)
		require.Equal(t, want.Undecided[:2*want.Pairs], got.Undecided[:2*got.Pairs])
		for i, s := range got.Scores[:len(p.q)*b.NR] {
			if s != want.Scores[i] {
				dropped++
				require.GreaterOrEqual(t, s, want.Scores[i], "a score only falls")
				require.Less(t, s, exitBelow[i/b.NR], "an unfinished strip does not matter")
			}
		}
	}
	require.Positive(t, dropped)
}

// TestMaxInt8L1 checks that the largest sums are exact.
func TestMaxInt8L1(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(3, 18))
		p := newInt8L1Case(t, rng, b, MaxInt8L1, 1, 1, func(int) uint32 { return 0 })
		for i := range p.call.Panel {
			p.call.Panel[i] = 0xffffffff
		}
		p.call.Panel[0] = 0xfffffffe
		got, _ := p.run(nil)
		want := MaxInt8L1*255*8 - 1
		require.Equal(t, -float32(want), got.Scores[0])
		require.Equal(t, want, -int(got.Scores[0]))
	})
}

func TestPackUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 18))
	for _, width := range []int{2, 4, 16, 48} {
		for _, n := range []int{1, width/2 + 1, width} {
			const k, stride = 5, 13
			table, ids := make([]uint32, 60*stride), make([]int32, n)
			for i := range table {
				table[i] = rng.Uint32()
			}
			rows := make([][]uint32, width)
			for i := range rows {
				rows[i] = make([]uint32, k*UnitWords)
				if i < n {
					ids[i] = rng.Int32N(60)
					copy(rows[i], table[ids[i]*stride:])
				}
			}
			want, got := make([]uint32, k*UnitWords*width), make([]uint32, k*UnitWords*width)
			for i := range got {
				got[i] = 7
			}
			packUnitsPlainly(want, rows)
			PackUnits(got, table, stride, ids, k, width)
			require.Equal(t, want, got, "%d of %d", n, width)
		}
	}
	assert.Panics(t, func() { PackUnits(make([]uint32, 3), make([]uint32, 10), 2, []int32{0}, 1, 2) })
	assert.Panics(t, func() { PackUnits(make([]uint32, 8), make([]uint32, 10), 2, []int32{0, 1, 2}, 1, 2) })
}

func TestPairInt16L1(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(5, 18))
		for _, n := range []int{64, 128, 192, 768, MaxInt16L1 / 64 * 64} {
			for _, count := range []int{1, 2, 255, 256, 257, 600} {
				const rows = 9
				if n > 1000 && count > 2 {
					continue
				}
				stride := n + 64*(count%2)
				x, table := kerneltest.Guarded[uint32](t, n), kerneltest.Guarded[uint32](t, rows*stride-(stride-n))
				for _, words := range [][]uint32{x, table} {
					for i := range words {
						words[i] = rng.Uint32() & 0x7fff7fff
						if count == 2 {
							words[i] = 0x7fff7fff
						}
					}
				}
				if count == 2 {
					clear(x)
				}
				ids, out := kerneltest.Guarded[int32](t, count), kerneltest.Guarded[int32](t, count)
				for i := range ids {
					ids[i] = int32(rng.IntN(rows))
				}
				b.PairInt16L1(out, x, table, stride, ids)
				codes := Int16Codes(x)
				for i, id := range ids {
					want := 0
					for t, v := range Int16Codes(table[int(id)*stride:][:n]) {
						d := int(codes[t]) - int(v)
						want += max(d, -d)
					}
					require.Equal(t, want, int(out[i]))
				}
			}
		}
	})
}
