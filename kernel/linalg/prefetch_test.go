package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Products with an Ahead have the same bits, take what is wanted in as many of them as they were told,
// and never touch what lies behind it.
func TestAhead(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(4, 7))
		normal := func() float32 { return float32(rng.NormFloat64()) }
		for _, d := range []int{1, 8, 9, 38, 40} {
			a := b.NewAhead()
			x, y := small(d, d, normal), small(d, d, normal)
			want, got := small(d, d, constant(0)), small(d, d, constant(0))
			b.MatMul32(want, x, y, Matrix{})
			for _, products := range []int{1, 3} {
				rows := [][]float32{nil, guarded[float32](1), guarded[float32](741), guarded[float32](1482)}
				round := func() {
					for _, r := range rows {
						a.Want(r)
					}
					a.Over(products, d)
					for range products - 1 {
						a.MatMul32(got, x, y, Matrix{})
					}
					if products > 1 && b.Tier != Generic && len(a.wanted) == 0 {
						t.Errorf("d = %d: nothing is left for the last of %d products", d, products)
					}
					a.MatMul32(got, x, y, Matrix{})
				}
				round()
				requireBits(t, want.Data, got.Data, "d = %d", d)
				require.Empty(t, a.wanted, "d = %d, %d products", d, products)
				require.Zero(t, a.lines)
				require.Zero(t, testing.AllocsPerRun(2, round))
			}
			a.Want(x.Data)
			a.Forget()
			require.Empty(t, a.wanted)
			require.Zero(t, a.lines)
		}
	})
}
