package kernel

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eachBackend runs f on every tier of this machine.
func eachBackend(t *testing.T, f func(t *testing.T, b *Backend)) {
	all, err := Available()
	require.NoError(t, err)
	for _, b := range all {
		t.Run(b.Tier.String(), func(t *testing.T) { f(t, b) })
	}
}

// special values that a kernel must carry through as float32 arithmetic does.
var special = []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, math.MaxFloat32, -math.MaxFloat32, 1 + 0x1p-23}

type panelCase struct {
	k, strips     int
	queries, e    []float32
	rows          []int32
	ends          []float32
	valid         uint64
	width, height int
}

// newPanelCase fills strips of queries and a panel; the last strip has only some queries, the panel
// only some candidates.
func newPanelCase(rng *rand.Rand, b *Backend, k, strips, queries, candidates int, specials bool) panelCase {
	c := panelCase{k: k, strips: strips, height: strips * b.MR, width: b.NR, valid: uint64(1)<<candidates - 1,
		queries: guarded[float32](strips * k * b.MR), e: guarded[float32](k * b.NR), rows: guarded[int32](strips*b.MR + 1)}
	value := func() float32 {
		if specials && rng.IntN(20) == 0 {
			return special[rng.IntN(len(special))]
		}
		return float32(rng.NormFloat64())
	}
	for t := range k {
		for i := range queries {
			c.queries[(i/b.MR*k+t)*b.MR+i%b.MR] = value()
		}
		for j := range candidates {
			c.e[t*b.NR+j] = value()
		}
	}
	truths := 0
	for i := range c.height {
		c.rows[i] = int32(truths)
		if i < queries {
			truths += rng.IntN(4)
		}
	}
	c.rows[c.height] = int32(truths)
	c.ends = guarded[float32](2 * truths)
	// Ends around the scores themselves, so that ties and both orders occur.
	scores := c.twinScores(b)
	for i := range c.height {
		for t := c.rows[i]; t < c.rows[i+1]; t++ {
			at := scores[i*b.NR+rng.IntN(candidates)]
			lo, hi := at, at
			switch rng.IntN(5) {
			case 0:
				lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
			case 1:
				hi = math.Nextafter32(at, float32(math.Inf(1)))
			case 2:
				lo, hi = at-1, at+0.5
			}
			c.ends[2*t], c.ends[2*t+1] = lo, hi
		}
	}
	return c
}

// twinScores returns the scores that the assembly must give.
func (c panelCase) twinScores(b *Backend) []float32 {
	scores := make([]float32, c.height*b.NR)
	for from := 0; from < c.k; from += Chunk {
		dotPanelTwin(b.MR, b.NR, &c.queries[from*b.MR], c.k*b.MR, &c.e[from*b.NR], min(Chunk, c.k-from), c.strips, &scores[0], from, nil, nil, nil, nil, 0)
	}
	return scores
}

// query and candidate return the terms of one of them.
func (c panelCase) query(b *Backend, i int) []float32 {
	x := make([]float32, c.k)
	for t := range x {
		x[t] = c.queries[(i/b.MR*c.k+t)*b.MR+i%b.MR]
	}
	return x
}

func (c panelCase) candidate(b *Backend, j int) []float32 {
	x := make([]float32, c.k)
	for t := range x {
		x[t] = c.e[t*b.NR+j]
	}
	return x
}

// The assembly equals its twin bit for bit; the generic kernel keeps the bound and counts its own
// scores like everyone.
func TestDotPanel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 1))
		for _, k := range []int{1, 2, 3, 4, 5, 7, 8, 31, 64, 127, 128, 129, 132, 255, 256, 257, 1482} {
			for round := range 12 {
				strips := 1 + round%3
				queries, candidates := (strips-1)*b.MR+1+(round*5+k)%b.MR, 1+(round*7+k)%b.NR
				if round == 0 {
					queries, candidates = strips*b.MR, b.NR
				}
				c := newPanelCase(rng, b, k, strips, queries, candidates, round%3 == 2)
				truths := int(c.rows[c.height])
				got := b.NewTile(c.height, truths)
				for i := range got.Scores {
					got.Scores[i] = float32(math.NaN()) // poison
				}
				better := guarded[int32](truths)
				for i := range better {
					better[i] = 7
				}
				b.DotPanel(got, c.queries, c.e, k, c.rows, c.ends, better, c.valid, c.e)

				if b.Tier == Generic {
					checkBound(t, b, c, got.Scores)
				} else {
					requireBits(t, c.twinScores(b), got.Scores, "k = %d", k)
				}
				wantBetter, wantUndecided := countPlainly(c, got.Scores)
				require.Equal(t, wantBetter, append([]int32{}, better...), "k = %d: better", k)
				require.Equal(t, wantUndecided, append([]uint64{}, got.Undecided[:2*got.Pairs]...), "k = %d: undecided", k)
			}
		}
	})
}

// countPlainly counts from the scores by the definition, with counters that begin at 7.
func countPlainly(c panelCase, scores []float32) (better []int32, undecided []uint64) {
	better, undecided = []int32{}, []uint64{}
	for i := range c.height {
		for t := c.rows[i]; t < c.rows[i+1]; t++ {
			count, mask := int32(7), uint64(0)
			for j := range c.width {
				if c.valid>>j&1 == 0 {
					continue
				}
				switch s := scores[i*c.width+j]; {
				case s > c.ends[2*t+1]:
					count++
				case s < c.ends[2*t]:
				default:
					mask |= 1 << j
				}
			}
			better = append(better, count)
			if mask != 0 {
				undecided = append(undecided, uint64(t), mask)
			}
		}
	}
	return better, undecided
}

// checkBound compares finite scores with exact sums.
func checkBound(t *testing.T, b *Backend, c panelCase, scores []float32) {
	relative, absolute := DotError(c.k)
	for i := range c.height {
		for j := range c.width {
			exact, product, finite := exactDot(c.query(b, i), c.candidate(b, j))
			if !finite || product >= DotOverflow {
				continue
			}
			diff, _ := exact.Sub(exact, big.NewFloat(float64(scores[i*b.NR+j]))).Float64()
			require.LessOrEqual(t, math.Abs(diff), relative*product+absolute, "k = %d, score %d,%d", c.k, i, j)
		}
	}
}

// exactDot returns x·y, ‖x‖‖y‖ and whether both are finite.
func exactDot(x, y []float32) (sum *big.Float, product float64, finite bool) {
	sum = new(big.Float).SetPrec(2000)
	var xx, yy float64
	for i := range x {
		a, b := float64(x[i]), float64(y[i])
		if math.IsInf(a-a+b-b, 0) || math.IsNaN(a-a+b-b) {
			return nil, 0, false
		}
		sum.Add(sum, new(big.Float).SetPrec(2000).Mul(big.NewFloat(a), big.NewFloat(b)))
		xx, yy = xx+a*a, yy+b*b
	}
	return sum, math.Sqrt(xx) * math.Sqrt(yy), true
}

// The bound of every tier holds on sums with much cancellation, on tiny ones, and on long sums of
// one sign.
func TestDotError(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(5, 1))
		for _, k := range []int{1, 2, 40, 256, 300, 1482} {
			for _, scale := range []float32{1, 1e-21, 1e18, 0} {
				c := newPanelCase(rng, b, k, 1, b.MR, b.NR, false)
				for i := range c.queries {
					c.queries[i] *= scale
					if i/b.MR%2 == 1 { // terms that nearly cancel in pairs
						c.queries[i] = -c.queries[i-b.MR] * (1 + 0x1p-20)
					}
					if scale == 0 {
						c.queries[i] = 0.3
					}
				}
				for i := range c.e {
					c.e[i] *= scale
					if i/b.NR%2 == 1 {
						c.e[i] = c.e[i-b.NR]
					}
					if scale == 0 {
						c.e[i] = 0.7
					}
				}
				tile := b.NewTile(c.height, int(c.rows[c.height]))
				b.DotPanel(tile, c.queries, c.e, k, c.rows, c.ends, make([]int32, c.rows[c.height]), c.valid, nil)
				checkBound(t, b, c, tile.Scores)
			}
		}
	})
}

func requireBits(t *testing.T, want, got []float32, format string, args ...any) {
	t.Helper()
	for i := range want {
		w, g := math.Float32bits(want[i]), math.Float32bits(got[i])
		if w != g && !(want[i] != want[i] && got[i] != got[i]) {
			require.Fail(t, fmt.Sprintf("score %d: want %g (%#x), got %g (%#x): ", i, want[i], w, got[i], g)+fmt.Sprintf(format, args...))
		}
	}
}

func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	check := func(x, y, z float32) {
		got := fma32(x, y, z)
		sum := new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		sum.Add(sum, big.NewFloat(float64(z)))
		want, _ := sum.Float32()
		if want == 0 && got == 0 {
			return
		}
		require.Equal(t, want, got, "fma(%g, %g, %g)", x, y, z)
	}
	for range 200_000 {
		bits := func() float32 { return float32(rng.NormFloat64()) * float32(math.Ldexp(1, rng.IntN(80)-40)) }
		x, y := bits(), bits()
		check(x, y, bits())
		check(x, y, -x*y) // cancellation
		check(x, y, x*y*0x1p24)
		check(x*0x1p-80, y*0x1p-60, bits()*0x1p-110) // subnormal results
	}
	// A double rounding would round this tie up.
	check(1+0x1p-12, 1+0x1p-12, 0x1p-60)
}

func TestPairDot(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(3, 3))
		for _, n := range []int{32, 64, 96, 352, 1504} {
			for _, count := range []int{1, 2, 3, 255, 256, 257, 600} {
				const rows = 9
				stride := n + 32*(count%2)
				x, table := guarded[float32](n), guarded[float32](rows*stride-(stride-n))
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				for i := range table {
					table[i] = float32(rng.NormFloat64() * 100)
				}
				ids, out, want := guarded[int32](count), guarded[float64](count), make([]float64, count)
				for i := range ids {
					ids[i] = int32(rng.IntN(rows))
				}
				b.PairDot(out, x, table, stride, ids)
				pairDotGeneric(&x[0], n, &table[0], stride, &ids[0], count, &want[0])
				require.Equal(t, want, append([]float64{}, out...))
				exact, product, _ := exactDot(x, table[int(ids[0])*stride:][:n])
				diff, _ := exact.Sub(exact, big.NewFloat(out[0])).Float64()
				require.LessOrEqual(t, math.Abs(diff), PairError(n)*product, "the bound, against exact sums")
			}
		}
	})
}

// padded returns a random d × d matrix in padded form, flush against guard pages.
func padded(rng *rand.Rand, d int) []float64 {
	ld := LD(d)
	m := guarded[float64](ld * ld)
	for i := range d {
		for j := range d {
			m[i*ld+j] = rng.NormFloat64() * math.Ldexp(1, rng.IntN(40)-20)
		}
	}
	return m
}

func TestMatMul(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(4, 4))
		for _, d := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 18, 24, 31, 35, 38, 64, 100} {
			ld := LD(d)
			x, y := padded(rng, d), padded(rng, d)
			c, fused, lower := guarded[float64](ld*ld), guarded[float64](ld*ld), guarded[float64](ld*ld)
			b.MatMul(c, x, y, d)
			b.MatMulFMA(fused, x, y, d)
			b.MatMulFMALower(lower, x, y, d)
			for i := range ld {
				for j := range ld {
					var separate, chain float64
					if i < d && j < d {
						for k := range d {
							p := x[i*ld+k] * y[k*ld+j]
							separate = float64(p) + separate
							chain = math.FMA(x[i*ld+k], y[k*ld+j], chain)
						}
					}
					require.Equal(t, separate, c[i*ld+j], "d = %d: %d,%d", d, i, j)
					require.Equal(t, chain, fused[i*ld+j], "d = %d: %d,%d", d, i, j)
					if j <= i {
						require.Equal(t, chain, lower[i*ld+j], "d = %d: %d,%d", d, i, j)
					}
				}
			}
		}
	})
}

func TestFrobenius(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(6, 4))
		for _, d := range []int{1, 2, 7, 8, 9, 18, 35, 38, 65} {
			ld := LD(d)
			p, q, x := padded(rng, d), padded(rng, d), padded(rng, d)
			var want float64
			for j := range d {
				var c float64
				for i := range d {
					v := (p[i*ld+j] - q[i*ld+j]) + x[i*ld+j]
					s := v * v
					c = float64(s) + c
				}
				want += c
			}
			require.Equal(t, want, b.Frobenius(p, q, x, d, guarded[float64](ld)), "d = %d", d)
		}
	})
}

func TestPackRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 4))
	for _, width := range []int{4, 6, 14, 16, 32} {
		for n := range width + 1 {
			const k, stride, rows = 5, 8, 40
			table := make([]float32, rows*stride)
			for i := range table {
				table[i] = float32(i + 1)
			}
			ids := make([]int32, n)
			for i := range ids {
				ids[i] = int32(rng.IntN(rows))
			}
			dst := guarded[float32](k * width)
			for i := range dst {
				dst[i] = -1
			}
			PackRows(dst, table, stride, ids, k, width)
			for i := range width {
				for tt := range k {
					want := float32(0)
					if i < n {
						want = table[int(ids[i])*stride+tt]
					}
					require.Equal(t, want, dst[tt*width+i])
				}
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(9, 4))
		c := newPanelCase(rng, b, 64, 2, 2*b.MR, b.NR, false)
		tile, better := b.NewTile(c.height, int(c.rows[c.height])), make([]int32, c.rows[c.height]+1)
		x, y, z := padded(rng, 18), padded(rng, 18), padded(rng, 18)
		ids, out, columns := []int32{0, 1}, make([]float64, 2), make([]float64, LD(18))
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			b.DotPanel(tile, c.queries, c.e, 64, c.rows, c.ends, better, c.valid, nil)
			b.PairDot(out, c.e[:64], c.e, 64, ids)
			b.MatMul(z, x, y, 18)
			b.MatMulFMA(z, x, y, 18)
			b.Frobenius(x, y, z, 18, columns)
		}))
	})
}

func TestRounding(t *testing.T) {
	for _, x := range []float64{0, 1, -1, 1 + 1e-12, -1 - 1e-12, 1e-50, -1e-50, 1e300, -1e300, math.MaxFloat32, math.Inf(1), math.Inf(-1), 0.1} {
		up, down := RoundUp32(x), RoundDown32(x)
		assert.GreaterOrEqual(t, float64(up), x)
		assert.LessOrEqual(t, float64(down), x)
		if float64(float32(x)) == x {
			assert.Equal(t, float32(x), up)
			assert.Equal(t, float32(x), down)
		} else if !math.IsInf(float64(up), 0) && !math.IsInf(float64(down), 0) {
			assert.Equal(t, up, math.Nextafter32(down, float32(math.Inf(1))), "neighbours of %g", x)
		}
	}
}
