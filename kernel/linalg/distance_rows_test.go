package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/stretchr/testify/require"
)

// twinRowScore returns the score of a pair, computed as on every tier.
func twinRowScore(kind DistanceKind, q, e []float32) float32 {
	if size := kind.groups(); size > 0 {
		return twinGroups(size, q, e, twinRowScore)
	}
	var lanes [32]float32
	unit := kind.Group()
	for u := 0; u < len(q); u += unit {
		lane := &lanes[u/unit%32]
		switch kind {
		case DistanceL1:
			*lane -= fmath.Abs32(q[u] - e[u])
		case DistanceL2:
			*lane = fmath.FMA32(q[u]-e[u], q[u]-e[u], *lane)
		case DistanceGroupNorm:
			d0, d1 := q[u]-e[u], q[u+1]-e[u+1]
			square := fmath.FMA32(d1, d1, float32(d0*d0))
			y, p := twinInverse(square)
			*lane = fmath.FMA32(-float32(square*y), p, *lane)
		case DistancePhase:
			*lane -= fmath.Abs32(fmath.FMA32(q[u+1], e[u+1], float32(q[u]*e[u])))
		case DistanceProductNorm:
			v := fmath.FMA32(q[u+1], e[u+1], float32(q[u]*e[u]))
			*lane = fmath.FMA32(v, v, *lane)
		}
	}
	var eights [8]float32
	for l := range eights {
		eights[l] = (lanes[l] + lanes[l+16]) + (lanes[l+8] + lanes[l+24])
	}
	sum := ((eights[0] + eights[4]) + (eights[2] + eights[6])) + ((eights[1] + eights[5]) + (eights[3] + eights[7]))
	if kind.Root() {
		return -kerneltest.Sqrt32(sum)
	}
	return sum
}

// pairs holds a vector and listed rows between guard pages.
type pairs struct {
	x, dX, scores, g []float32
	y                Matrix
	rows             []int32
}

func newPairs(t testing.TB, rng *rand.Rand, n, k int, value func() float32) pairs {
	vector := func(n int, value func() float32) []float32 { return guardedMatrix(t, 1, n, n, value).Data }
	normal := func() float32 { return float32(rng.NormFloat64()) }
	p := pairs{
		x: vector(k, value), dX: vector(k, normal), g: vector(n, normal), scores: vector(n, normal),
		y: guardedMatrix(t, 1+n/2, k, k+rng.IntN(3), value), rows: make([]int32, n),
	}
	for i := range p.rows {
		p.rows[i] = rng.Int32N(int32(p.y.Rows))
	}
	return p
}

func requireSame(t *testing.T, want, got float32, format string, args ...any) {
	t.Helper()
	if math.Float32bits(want) != math.Float32bits(got) && (want == want || got == got) {
		require.Fail(t, fmt.Sprintf("want %g, got %g: ", want, got)+fmt.Sprintf(format, args...))
	}
}

// check compares scores and gradients with their twins, bit for bit.
func (p *pairs) check(t *testing.T, b *Backend, kind DistanceKind) {
	want := append([]float32(nil), p.dX...)
	b.DistanceScores(kind, p.scores, p.x, p.y, p.rows)
	for i, r := range p.rows {
		requireSame(t, twinRowScore(kind, p.x, p.y.Row(int(r))), p.scores[i], "score %d, %d coordinates", i, len(p.x))
	}
	b.AddDistanceGradient(kind, p.dX, p.g, p.x, p.y, p.rows)
	for u := range want {
		for from := 0; from < len(p.rows); from += ProductChunk {
			n := min(ProductChunk, len(p.rows)-from)
			if size := kind.groups(); size > 0 {
				want[u] += twinGroupGradient(size, u, p.x, n,
					func(i int) float32 { return p.g[from+i] },
					func(i int) []float32 { return p.y.Row(int(p.rows[from+i])) }, twinRowScore)
				continue
			}
			want[u] += twinGradient(kind, u, p.x, n,
				func(i int) float32 { return p.g[from+i] },
				func(i int) float32 { return p.scores[from+i] },
				func(i int) []float32 { return p.y.Row(int(p.rows[from+i])) })
		}
		requireSame(t, want[u], p.dX[u], "coordinate %d of %d, %d rows", u, len(p.x), len(p.rows))
	}
}

// TestDistanceRows requires that scores and gradients of pairs equal their twins' bit for bit on
// every tier. The numbers of coordinates have every remainder modulo the size of a round, and the
// operands lie between guard pages.
func TestDistanceRows(t *testing.T) {
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		rng := rand.New(rand.NewPCG(5, uint64(kind)))
		value := func() float32 {
			if rng.IntN(8) == 0 {
				return float32(rng.IntN(3) - 1)
			}
			return float32(rng.NormFloat64())
		}
		check := func(n, k int, value func() float32) {
			p := newPairs(t, rng, n, k, value)
			p.check(t, b, kind)
		}
		for k := 0; k <= 2*maxRound+2; k += kind.Group() {
			check(rng.IntN(6), k, value)
		}
		for _, n := range []int{1, ProductChunk - 1, ProductChunk, ProductChunk + 1, 2*ProductChunk + 3} {
			check(n, max(kind.Group(), 2)*(1+rng.IntN(20)), value)
		}
		check(3, 1000/kind.Group()*kind.Group(), value)
		for _, n := range []int{fewRows - 1, fewRows, fewRows + 1, ProductChunk + fewRows + 1} {
			check(n, 200/kind.Group()*kind.Group(), value) // a kernel takes few of these rows at a time
		}
		for range 30 {
			check(1+rng.IntN(5), max(kind.Group(), 2)*(1+rng.IntN(50)), func() float32 {
				if rng.IntN(10) == 0 {
					return kerneltest.Special[rng.IntN(len(kerneltest.Special))]
				}
				return value()
			})
		}
	})
}

// TestDistanceRowsAndBlocks requires that, for the same scores, the gradients of pairs equal the
// results of Distance.Gradients bit for bit. It also requires that the errors of the pairs' scores are
// within the bounds for their chains.
func TestDistanceRowsAndBlocks(t *testing.T) {
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		rng := rand.New(rand.NewPCG(6, uint64(kind)))
		for _, n := range []int{7, ProductChunk + 50} {
			const m = 3
			k := 190 / kind.Group() * kind.Group()
			x := newDistanceBlock(t, rng, m, n, k, func() float32 { return float32(rng.NormFloat64()) })
			rows := make([]int32, n)
			for j := range rows {
				rows[j] = int32(j)
			}
			dPsi, dPhi := NewMatrix(m, k), NewMatrix(n, k)
			for i := range m {
				b.DistanceScores(kind, x.s.Row(i), x.psi.Row(i), x.phi, rows)
				b.AddDistanceGradient(kind, dPsi.Row(i), x.g.Row(i), x.psi.Row(i), x.phi, rows)
				for j, s := range x.s.Row(i) {
					q, e := widen(x.psi.Row(i)), widen(x.phi.Row(j))
					want, size := float64Distance(kind, q, e), errorScale(kind, q, e)
					require.InDelta(t, want, s, size*kernel.Gamma(k/32+16, kernel.U32), "score %d,%d", i, j)
				}
			}
			for j := range n {
				column := make([]float32, m)
				for i := range column {
					column[i] = x.g.Row(i)[j]
				}
				b.AddDistanceGradient(kind, dPhi.Row(j), column, x.phi.Row(j), x.psi, []int32{0, 1, 2})
			}
			require.NoError(t, b.NewDistance(kind, 2).Gradients(t.Context(), x.dPsi, x.dPhi, x.g, x.s, x.psi, x.phi))
			if kind.groups() > 0 { // the scores of the groups differ by rounding errors
				for i := range m {
					require.InDeltaSlice(t, x.dPsi.Row(i), dPsi.Row(i), 1e-3, "gradient of query %d", i)
				}
				for j := range n {
					require.InDeltaSlice(t, x.dPhi.Row(j), dPhi.Row(j), 1e-3, "gradient of feature %d", j)
				}
				continue
			}
			for i := range m {
				require.Equal(t, x.dPsi.Row(i), dPsi.Row(i), "gradient of query %d", i)
			}
			for j := range n {
				require.Equal(t, x.dPhi.Row(j), dPhi.Row(j), "gradient of feature %d", j)
			}
		}
	})
}

func TestDistanceRowsPanic(t *testing.T) {
	b, y := generic(t), NewMatrix(2, 4)
	x, one := make([]float32, 4), make([]float32, 1)
	require.Panics(t, func() { b.DistanceScores(DistanceL1, one, x[:3], y, []int32{0}) }, "vectors that do not fit")
	require.Panics(t, func() { b.DistanceScores(DistanceL1, one, x, y, []int32{0, 1}) }, "scores that do not fit")
	require.Panics(t, func() { b.DistanceScores(DistancePhase, one, x[:3], NewMatrix(2, 3), []int32{0}) },
		"half a pair")
	require.Panics(t, func() { b.AddDistanceGradient(DistanceL1, x[:3], one, x, y, []int32{0}) },
		"a gradient that does not fit")
	for _, row := range []int32{-1, 2} {
		require.Panics(t, func() { b.AddDistanceGradient(DistanceL1, x, one, x, y, []int32{row}) }, "row %d", row)
	}
}

func TestDistanceRowsDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties pools")
	}
	eachDistance(t, func(t *testing.T, b *Backend, kind DistanceKind) {
		p := newPairs(t, rand.New(rand.NewPCG(1, 1)), 300, 60, func() float32 { return 1 })
		require.Zero(t, testing.AllocsPerRun(20, func() {
			b.DistanceScores(kind, p.scores, p.x, p.y, p.rows)
			b.AddDistanceGradient(kind, p.dX, p.g, p.x, p.y, p.rows)
		}))
	})
}
