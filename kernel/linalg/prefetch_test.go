package linalg

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// TestPrefetcher checks that a Prefetcher does not change the bits of products. It also checks that
// the given number of products empties the queue and never touches the memory after the queued
// operands.
func TestPrefetcher(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(4, 7))
		normal := func() float32 { return float32(rng.NormFloat64()) }
		for _, d := range []int{1, 8, 9, 38, 40} {
			p := b.NewPrefetcher()
			x, y := small(t, d, d, normal), small(t, d, d, normal)
			want, got := small(t, d, d, constant(0)), small(t, d, d, constant(0))
			b.MatMul32(want, x, y, Matrix{})
			for _, products := range []int{1, 3} {
				rows := [][]float32{nil, kerneltest.Guarded[float32](t, 1), kerneltest.Guarded[float32](t, 741),
					kerneltest.Guarded[float32](t, 1482)}
				round := func() {
					for _, r := range rows {
						p.Add(r)
					}
					p.SpreadOver(products, d)
					for range products - 1 {
						p.MatMul32(got, x, y, Matrix{})
					}
					if products > 1 && b.Tier != kernel.Generic && len(p.queue) == 0 {
						t.Errorf("d = %d: nothing is left for the last of %d products", d, products)
					}
					p.MatMul32(got, x, y, Matrix{})
				}
				round()
				kerneltest.SameBits(t, want.Data, got.Data, "d = %d", d)
				require.Empty(t, p.queue, "d = %d, %d products", d, products)
				require.Zero(t, p.lines)
				require.Zero(t, testing.AllocsPerRun(2, round))
			}
			p.Add(x.Data)
			p.Reset()
			require.Empty(t, p.queue)
			require.Zero(t, p.lines)
		}
	})
}
