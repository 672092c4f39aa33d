package kernel_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// panelFeatures are the features that panels of codes use, except for the features of tiers.
const panelFeatures = FeatureVNNI | FeatureVBMI | FeatureAMX | FeatureAVXVNNI

// eachBackend runs f on every tier of this machine, with and without panelFeatures.
func eachBackend(t *testing.T, f func(t *testing.T, b *Backend)) {
	kerneltest.Each(t, panelFeatures, f)
}

// eachComparison runs f for every comparison on every backend. Some sizes of groups divide the
// lengths of chains and rows, some do not, and one exceeds the length of a chain.
func eachComparison(t *testing.T, f func(t *testing.T, b *Backend, c Comparison)) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		for _, c := range append(Comparisons(), GroupNormOf(3), GroupNormOf(8), GroupNormOf(20), GroupNormOf(Chunk+5)) {
			t.Run(c.String(), func(t *testing.T) { f(t, b, c) })
		}
	})
}

// panelCase is a call of Score. Queries and candidates are vectors of k words.
type panelCase struct {
	t      testing.TB
	b      *Backend
	c      Comparison // the zero value for codes
	panels Panels
	twin   func(q, e []uint32) float32
	tiles  bool // the words of strips are in tiles
	units  bool // the words of strips and of the panel are in units
	// strips and queries are the numbers of strips and, without padding, of queries.
	strips, queries int
	q, e            [][]uint32 // queries by row and candidates by lane; padding is zero
	call            PanelCall  // without Counts and ExitBelow
}

// numbers returns the float32 values whose bit patterns are words.
func numbers(words []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// newComparisonCase returns a case with float32 values. value draws a coordinate.
func newComparisonCase(
	t testing.TB, rng *rand.Rand, b *Backend, c Comparison, k, queries, candidates int, value func(t int) float32,
) *panelCase {
	p := &panelCase{t: t, b: b, c: c, panels: b.Panels(c)}
	p.twin = func(q, e []uint32) float32 { return kerneltest.TwinScore(c, numbers(q), numbers(e)) }
	p.draw(rng, k, queries, candidates, func(t int) uint32 { return math.Float32bits(value(t)) })
	return p
}

// newInt8Case and newInt16Case return cases with codes. value draws a word.
func newInt8Case(
	t testing.TB, rng *rand.Rand, b *Backend, k, queries, candidates int, value func(t int) uint32,
) *panelCase {
	p := &panelCase{t: t, b: b, panels: b.Int8Panels(), twin: kerneltest.TwinInt8}
	p.draw(rng, k, queries, candidates, value)
	return p
}

func newInt16Case(
	t testing.TB, rng *rand.Rand, b *Backend, k, queries, candidates int, value func(t int) uint32,
) *panelCase {
	p := &panelCase{t: t, b: b, panels: b.Int16Panels(), twin: kerneltest.TwinInt16, tiles: true}
	p.draw(rng, k, queries, candidates, value)
	return p
}

// checkCodes requires that panels of codes have the same scores as their twin, bit for bit, count correctly,
// and do not allocate, for whole and incomplete strips and panels. newCase returns a case of these panels
// whose words come from one of kinds. The last kind, of extreme words, is used least.
func checkCodes(
	t *testing.T, b *Backend, panels Panels, ks []int, kinds []func(t int) uint32,
	newCase func(k, queries, candidates int, value func(t int) uint32) *panelCase,
) {
	mr, usual := panels.MR, kinds[:len(kinds)-1]
	for _, k := range ks {
		for round := range 6 {
			strips := 1 + round%3
			queries, candidates := (strips-1)*mr+1+(round*5+k)%mr, 1+(round*7+k)%b.NR
			if round == 0 {
				queries, candidates = strips*mr, b.NR
			}
			kind := usual[round%len(usual)]
			if round == 5 {
				kind = kinds[len(usual)]
			}
			p := newCase(k, queries, candidates, kind)
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
			require.Equal(t, wantUndecided, append([]uint64{}, got.Undecided[:2*got.Pairs]...), "k = %d: undecided", k)
		}
	}
	p := newCase(300, 2*mr, b.NR, usual[0])
	scratch := b.NewPanelScratch(len(p.q), len(p.call.Thresholds)/2)
	p.call.Counts = make([]int32, len(p.call.Thresholds)/2)
	assert.Zero(t, testing.AllocsPerRun(10, func() { p.panels.Score(scratch, &p.call) }))
}

// newInt16DotCase returns a case with two-byte codes. value draws a word.
func newInt16DotCase(
	t testing.TB, rng *rand.Rand, b *Backend, k, queries, candidates int, value func(t int) uint32,
) *panelCase {
	p := &panelCase{t: t, b: b, panels: b.Int16DotPanels(), twin: kerneltest.TwinInt16Dot}
	p.draw(rng, k, queries, candidates, value)
	return p
}

// newInt8L1Case returns a case with units of codes. value draws a word.
func newInt8L1Case(
	t testing.TB, rng *rand.Rand, b *Backend, k, queries, candidates int, value func(t int) uint32,
) *panelCase {
	p := &panelCase{t: t, b: b, panels: b.Int8L1Panels(), twin: kerneltest.TwinInt8L1, units: true}
	p.draw(rng, k, queries, candidates, value)
	return p
}

// newInt8PhaseCase returns a case with one-byte phases. value draws a word.
func newInt8PhaseCase(
	t testing.TB, rng *rand.Rand, b *Backend, k, queries, candidates int, value func(t int) uint32,
) *panelCase {
	p := &panelCase{t: t, b: b, panels: b.Int8PhasePanels(), twin: kerneltest.TwinInt8Phase}
	p.draw(rng, k, queries, candidates, value)
	return p
}

// draw draws queries, candidates and targets, and packs the queries into strips and the candidates
// into a panel. The last strip and the panel may be incomplete.
func (p *panelCase) draw(rng *rand.Rand, k, queries, candidates int, value func(t int) uint32) {
	mr, nr := p.panels.MR, p.panels.NR
	p.strips, p.queries = (queries+mr-1)/mr, queries
	p.call.K, p.call.ValidLanes = k, uint64(1)<<candidates-1
	psi, phi := p.panels.Words()
	vectors := func(n, used, words int) [][]uint32 {
		x := make([][]uint32, n)
		for i := range x {
			x[i] = make([]uint32, k*words)
			for t := range x[i] {
				if i < used {
					x[i][t] = value(t)
				}
			}
		}
		return x
	}
	p.q, p.e = vectors(p.strips*mr, queries, psi), vectors(nr, candidates, phi)
	p.admit()
	starts := kerneltest.Guarded[int32](p.t, p.strips*mr+1)
	targets := 0
	for i := range p.q {
		starts[i] = int32(targets)
		if i < queries {
			targets += rng.IntN(4)
		}
	}
	starts[len(p.q)] = int32(targets)
	p.call.TargetStart, p.call.Thresholds = starts, kerneltest.Guarded[float32](p.t, 2*targets)
	p.pack()
	p.checkPackStrip()
	// Thresholds are near scores, so ties and both orders occur.
	for i := range p.q {
		for t := starts[i]; t < starts[i+1]; t++ {
			at := p.twin(p.q[i], p.e[rng.IntN(candidates)])
			lo, hi := at, at
			switch rng.IntN(5) {
			case 0:
				lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
			case 1:
				hi = math.Nextafter32(at, float32(math.Inf(1)))
			case 2:
				lo, hi = at-1, at+0.5
			}
			p.call.Thresholds[2*t], p.call.Thresholds[2*t+1] = lo, hi
		}
	}
}

func (p *panelCase) pack() {
	mr, nr, k := p.panels.MR, p.panels.NR, len(p.q[0])
	p.call.Strips = kerneltest.Guarded[uint32](p.t, len(p.q)*k)
	p.call.Panel = kerneltest.Guarded[uint32](p.t, len(p.e[0])*nr)
	chunk := PanelChunk(p.panels, p.call.K) * k / p.call.K
	for from := 0; from < k; from += chunk {
		length := min(chunk, k-from)
		for i := 0; i < len(p.q); i += mr {
			rows := make([][]uint32, mr)
			for r := range rows {
				rows[r] = p.q[i+r][from : from+length]
			}
			strip := p.call.Strips[from*len(p.q)+i*length:]
			if p.units {
				packUnitsPlainly(strip, rows)
				continue
			}
			for r, row := range rows {
				for t, v := range row {
					at := t*mr + r
					if p.tiles { // complete rows of a tile
						at = t/16*16*mr + 16*r + t%16
					}
					strip[at] = v
				}
			}
		}
	}
	if p.units {
		packUnitsPlainly(p.call.Panel, p.e)
		return
	}
	for j, e := range p.e {
		for t, v := range e {
			p.call.Panel[t*nr+j] = v
		}
	}
}

// run calls Score with guarded memory, after it has poisoned the memory for scores. Counts start at 7.
func (p *panelCase) run(exitBelow []float32) (scratch *PanelScratch, counts []int32) {
	targets := int(p.call.TargetStart[len(p.q)])
	scratch = NewPanelScratchOf(p.panels, p.strips, targets,
		func(n int) []float32 { return kerneltest.Guarded[float32](p.t, n) },
		func(n int) []uint64 { return kerneltest.Guarded[uint64](p.t, n) },
		func(n int) []uint8 { return kerneltest.Guarded[uint8](p.t, n) })
	kerneltest.Poison(scratch.Scores)
	call := p.call
	call.ExitBelow, call.Ahead, call.Counts = exitBelow, call.Panel, kerneltest.Guarded[int32](p.t, targets)
	for i := range call.Counts {
		call.Counts[i] = 7
	}
	p.panels.Score(scratch, &call)
	return scratch, append([]int32{}, call.Counts...)
}

// TestPanel requires that the scores of the assembly equal its twin's bit for bit, or are within
// the error bound if there is no twin, and that the counts are correct.
func TestPanel(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		rng := rand.New(rand.NewPCG(1, 1))
		mr := b.Panels(c).MR
		for _, k := range []int{1, 2, 3, 4, 5, 6, 7, 8, 31, 64, 126, 127, 128, 129, 130, 132, 255, 256, 257, 258,
			1482} {
			if k = wholeGroups(c, k); k == 0 || k > 1000 && c.Kind() == KindGroupNormOf {
				continue
			}
			for round := range 9 {
				strips := 1 + round%3
				queries, candidates := (strips-1)*mr+1+(round*5+k)%mr, 1+(round*7+k)%b.NR
				if round == 0 {
					queries, candidates = strips*mr, b.NR
				}
				p := newComparisonCase(t, rng, b, c, k, queries, candidates, func(int) float32 {
					if round%3 == 2 && rng.IntN(20) == 0 {
						return kerneltest.Special[rng.IntN(len(kerneltest.Special))]
					}
					return float32(rng.NormFloat64())
				})
				got, counts := p.run(nil)
				p.checkBound(t, got.Scores)
				if b.Tier != Generic && kerneltest.HasTwin(c) {
					want := make([]float32, 0, len(got.Scores))
					for _, q := range p.q {
						for _, e := range p.e {
							want = append(want, p.twin(q, e))
						}
					}
					kerneltest.SameBits(t, want, got.Scores, "k = %d", k)
				}
				wantCounts, wantUndecided := p.countPlainly(got.Scores)
				require.Equal(t, wantCounts, counts, "k = %d: counts", k)
				require.Equal(t, wantUndecided, append([]uint64{}, got.Undecided[:2*got.Pairs]...),
					"k = %d: undecided", k)
			}
		}
	})
}

// countPlainly computes the counts from the scores by their definition. Counts start at 7.
func (p *panelCase) countPlainly(scores []float32) (counts []int32, undecided []uint64) {
	counts, undecided = []int32{}, []uint64{}
	for i := range p.q {
		for t := p.call.TargetStart[i]; t < p.call.TargetStart[i+1]; t++ {
			count, mask := int32(7), uint64(0)
			for j := range p.e {
				if p.call.ValidLanes>>j&1 == 0 {
					continue
				}
				switch s := scores[i*p.b.NR+j]; {
				case s > p.call.Thresholds[2*t+1]:
					count++
				case s < p.call.Thresholds[2*t]:
				default:
					mask |= 1 << j
				}
			}
			counts = append(counts, count)
			if mask != 0 {
				undecided = append(undecided, uint64(t), mask)
			}
		}
	}
	return counts, undecided
}

// admit replaces numbers that must not be negative with their absolute values.
func admit(c Comparison, psi, phi []float32) {
	if c != BoxE {
		return
	}
	for i := 0; i < len(psi); i += 5 {
		psi[i] = float32(math.Abs(float64(psi[i])))
	}
	for i, v := range phi {
		phi[i] = float32(math.Abs(float64(v)))
	}
}

func (p *panelCase) admit() {
	for _, q := range p.q {
		admit(p.c, numbers(q), nil)
	}
	for _, e := range p.e {
		admit(p.c, nil, numbers(e))
	}
}

// nearest sets q to a query whose distance from e is 0.
func nearest(c Comparison, q, e []float32) {
	if c != Hake {
		copy(q, e)
		return
	}
	for t := range len(e) / 3 {
		q[4*t], q[4*t+1] = e[3*t+1], -e[3*t]
		q[4*t+2], q[4*t+3] = e[3*t+2], 1
	}
}

// TestDrop requires that early exit does not change the counts. Early exit may change a score only
// if both the old and the new score are below ExitBelow, and must count nothing for a skipped
// strip.
func TestDrop(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		if !Falling(c) {
			t.Skip("scores may rise")
		}
		rng := rand.New(rand.NewPCG(11, 1))
		dropped := 0
		for round := range 60 {
			k := max(wholeGroups(c, 2*(1+rng.IntN(400))), c.Group())
			p := newComparisonCase(t, rng, b, c, k, 3*b.Panels(c).MR-1, b.NR,
				func(int) float32 { return float32(rng.NormFloat64()) })
			for i := range p.q { // a few queries are near candidates, so their strips matter
				if round%2 == 0 && i%(2*b.Panels(c).MR) == 0 {
					nearest(c, numbers(p.q[i]), numbers(p.e[0]))
				}
			}
			p.pack()
			for t := range len(p.call.Thresholds) / 2 {
				end := p.twin(p.q[0], p.e[0]) * float32(rng.Float64())
				p.call.Thresholds[2*t], p.call.Thresholds[2*t+1] = end-0.25, end+0.25
			}
			exitBelow := kerneltest.Guarded[float32](t, len(p.q))
			for i := range exitBelow {
				exitBelow[i] = float32(math.Inf(1))
				for t := p.call.TargetStart[i]; t < p.call.TargetStart[i+1]; t++ {
					exitBelow[i] = min(exitBelow[i], p.call.Thresholds[2*t])
				}
			}
			want, wantCounts := p.run(nil)
			got, counts := p.run(exitBelow)
			require.Equal(t, wantCounts, counts)
			require.Equal(t, want.Undecided[:2*want.Pairs], got.Undecided[:2*got.Pairs])
			for i, s := range got.Scores[:len(p.q)*b.NR] {
				if s != want.Scores[i] && (s == s || want.Scores[i] == want.Scores[i]) {
					dropped++
					require.GreaterOrEqual(t, s, want.Scores[i], "a score only falls")
					require.Less(t, s, exitBelow[i/b.NR], "an unfinished strip does not matter")
				}
			}
		}
		require.Positive(t, dropped)
	})
}

// checkBound requires that finite scores differ from the exact scores by at most the bound. It
// checks a sample of the pairs.
func (p *panelCase) checkBound(t *testing.T, scores []float32) {
	relative, absolute := p.b.PanelError(p.c, p.call.K)
	for i, q := range p.q {
		for j, e := range p.e {
			if p.call.K > 8 && (7*i+3*j+p.call.K)%23 != 0 {
				continue // math/big is slow
			}
			exact, measure, finite := kerneltest.ExactScore(p.c, numbers(q), numbers(e))
			if !finite || measure >= ProductLimit {
				continue
			}
			diff, _ := exact.Sub(exact, big.NewFloat(float64(scores[i*p.b.NR+j]))).Float64()
			require.LessOrEqual(t, math.Abs(diff), relative*measure+absolute, "k = %d, score %d,%d", p.call.K, i, j)
		}
	}
}

// TestPanelError checks that the errors of scores are within their bounds, for sums with heavy
// cancellation, for tiny sums, and for long sums of terms with one sign.
func TestPanelError(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		rng := rand.New(rand.NewPCG(5, 1))
		for _, k := range []int{2, 40, 256, 300, 1482} {
			k = max(wholeGroups(c, k), c.Group())
			for _, scale := range []float32{1, 1e-21, 1e-38, 1e18, 0} {
				p := newComparisonCase(t, rng, b, c, k, b.Panels(c).MR, b.NR, func(t int) float32 {
					if scale == 0 {
						return 0.3
					}
					return float32(rng.NormFloat64()) * scale
				})
				for i := range p.q {
					q := numbers(p.q[i])
					for t := 1; t < len(q); t += 2 { // pairs of terms nearly cancel
						if scale != 0 {
							q[t] = -q[t-1] * (1 + 0x1p-20)
						}
					}
				}
				for j := range p.e {
					q, e := numbers(p.q[0]), numbers(p.e[j])
					for t := 1; t < len(e); t += 2 {
						e[t] = e[t-1]
					}
					if j%2 == 0 { // near the query, with all differences of one sign
						for t := range e {
							e[t] = q[t] * (1 + 0x1p-19*float32(rng.Float64()))
						}
					}
				}
				p.admit()
				p.pack()
				got, _ := p.run(nil)
				p.checkBound(t, got.Scores)
			}
		}
	})
}

// TestRootError checks the bound on the error of the approximate square root on this processor, for
// every significand (in the generic tier, for one in 61): √(x² + 0²) is x.
func TestRootError(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		step := 1
		if b.Tier == Generic {
			step = 61
		}
		relative, _ := b.PanelError(GroupNorm, 2)
		panels := b.Panels(GroupNorm)
		scratch, panel := b.NewPanelScratch(panels.MR, 0), make([]float32, 2*b.NR)
		call := PanelCall{
			K: 2, Strips: make([]uint32, 2*panels.MR), Panel: Words(panel), TargetStart: make([]int32, panels.MR+1),
		}
		var worst float64
		for at := 0; at < 1<<23; at += b.NR * step {
			for j := range b.NR {
				panel[j] = math.Float32frombits(0x3f800000 + uint32(min(at+j, 1<<23-1)))
			}
			panels.Score(scratch, &call)
			for j := range b.NR {
				worst = max(worst, math.Abs(float64(scratch.Scores[j])/float64(panel[j])+1))
			}
		}
		require.LessOrEqual(t, worst, relative)
		t.Logf("largest relative error %.3g, bound %.3g", worst, relative)
	})
}

func TestPair(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		rng := rand.New(rand.NewPCG(3, 3))
		for _, n := range []int{32, 64, 96, 352, 1504} {
			for _, count := range []int{1, 2, 3, 255, 256, 257, 600} {
				const rows = 9
				psi, phi := c.Words()
				stride := n*phi + 32*(count%2)
				x := kerneltest.Guarded[float32](t, n*psi)
				table := kerneltest.Guarded[float32](t, rows*stride-(stride-n*phi))
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				for i := range table {
					table[i] = float32(rng.NormFloat64() * 100)
				}
				admit(c, x, table)
				ids, out, want := kerneltest.Guarded[int32](t, count), kerneltest.Guarded[float64](t, count),
					make([]float64, count)
				for i := range ids {
					ids[i] = int32(rng.IntN(rows))
				}
				b.Pair(c, out, x, table, stride, ids)
				kerneltest.Generic(t).Pair(c, want, x, table, stride, ids)
				require.Equal(t, want, append([]float64{}, out...))
				whole := wholeGroups(c, n)
				row := table[int(ids[0])*stride:][:whole*phi]
				exact, measure, _ := kerneltest.ExactScore(c, x[:whole*psi], row)
				diff, _ := exact.Sub(exact, big.NewFloat(out[0])).Float64()
				require.LessOrEqual(t, math.Abs(diff), c.PairError(n)*measure, "the bound, against exact sums")
			}
		}
	})
}

// wholeGroups rounds k down to a multiple of c.Group().
func wholeGroups(c Comparison, k int) int { return k / c.Group() * c.Group() }

// padded returns a random d × d matrix with its padding, which ends at a guard page.
func padded(t testing.TB, rng *rand.Rand, d int) []float64 {
	ld := LD(d)
	m := kerneltest.Guarded[float64](t, ld*ld)
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
			x, y := padded(t, rng, d), padded(t, rng, d)
			c, fused, lower := kerneltest.Guarded[float64](t, ld*ld), kerneltest.Guarded[float64](t, ld*ld),
				kerneltest.Guarded[float64](t, ld*ld)
			b.MatMul(c, x, y, d)
			b.MatMulFMA(fused, x, y, d)
			b.MatMulFMALower(lower, x, y, d)
			few := (d + 1) / 2
			rows := kerneltest.Guarded[float64](t, LD(few)*ld)
			b.MatMulFMARows(rows, x, y, few, d)
			require.Equal(t, fused[:few*ld], rows[:few*ld], "d = %d: %d rows", d, few)
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
			p, q, x := padded(t, rng, d), padded(t, rng, d), padded(t, rng, d)
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
			require.Equal(t, want, b.Frobenius(p, q, x, d, kerneltest.Guarded[float64](t, ld)), "d = %d", d)
		}
	})
}

func TestPackRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 4))
	for _, width := range []int{4, 6, 14, 16, 32} {
		for n := range width + 1 {
			const k, stride, rows = 5, 8, 40
			table := make([]uint32, rows*stride)
			for i := range table {
				table[i] = rng.Uint32()
			}
			ids := make([]int32, n)
			for i := range ids {
				ids[i] = int32(rng.IntN(rows))
			}
			dst := kerneltest.Guarded[uint32](t, k*width)
			for i := range dst {
				dst[i] = 1
			}
			terms := []int32{3, 0, 7, 1, 5}
			PackRows(dst, table, stride, ids, terms, width)
			for i := range width {
				for tt := range k {
					want := uint32(0)
					if i < n {
						want = table[int(ids[i])*stride+int(terms[tt])]
					}
					require.Equal(t, want, dst[tt*width+i])
				}
			}
		}
	}
}

// checkPackStrip requires that PackStrip packs the strips of a case.
func (p *panelCase) checkPackStrip() {
	mr, k := p.panels.MR, len(p.q[0])
	const spare = 3
	table, terms := make([]uint32, len(p.q)*(k+spare)), make([]int32, k)
	for t := range table {
		table[t] = 9
	}
	for t := range terms {
		terms[t] = int32(t)
		if !p.tiles && !p.units {
			terms[t] = int32(k + spare - 1 - t) // the last word is first
		}
	}
	for i, q := range p.q { // the last row is first
		row := table[(len(p.q)-1-i)*(k+spare):]
		for t, v := range q {
			row[terms[t]] = v
		}
	}
	got := kerneltest.Guarded[uint32](p.t, len(p.call.Strips))
	for i := range got {
		got[i] = 7
	}
	for s := range p.strips {
		var ids []int32
		for i := s * mr; i < min((s+1)*mr, p.queries); i++ {
			ids = append(ids, int32(len(p.q)-1-i))
		}
		p.panels.PackStrip(got, s, p.strips, table, k+spare, ids, terms)
	}
	require.Equal(p.t, p.call.Strips, got, "PackStrip")
}

func TestPackStripChecks(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		p := b.Panels(GroupNorm)
		pack := func(room, s, n, ids, terms int) {
			strips, rows := make([]uint32, room*p.MR), make([]uint32, 100)
			p.PackStrip(strips, s, n, rows, 10, make([]int32, ids), make([]int32, terms))
		}
		pack(8, 1, 2, p.MR, 4)
		for _, x := range [][5]int{
			{7, 1, 2, p.MR, 4}, {8, 2, 2, 1, 4}, {8, -1, 2, 1, 4}, {8, 1, 2, 1, 3}, {8, 1, 2, p.MR + 1, 4},
		} {
			assert.Panics(t, func() { pack(x[0], x[1], x[2], x[3], x[4]) }, "%v", x)
		}
	})
}

// TestQueryBlock checks that blocks are whole strips of many queries, but not of too much memory.
func TestQueryBlock(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		p := b.Panels(c)
		for k := 1; k < 1<<24; k = 3*k/2 + 1 {
			n := p.QueryBlock(k)
			require.Zero(t, n%p.MR, k)
			require.Positive(t, n, k)
			require.LessOrEqual(t, n, 512, k)
			if 144*4*k <= 4<<20 {
				require.Greater(t, n, 144-p.MR, k)
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	eachComparison(t, func(t *testing.T, b *Backend, c Comparison) {
		rng := rand.New(rand.NewPCG(9, 4))
		k := max(wholeGroups(c, 64), c.Group())
		p := newComparisonCase(t, rng, b, c, k, 2*b.Panels(c).MR, b.NR, func(int) float32 { return 1 })
		scratch, vectors := b.NewPanelScratch(len(p.q), len(p.call.Thresholds)/2), numbers(p.call.Panel)
		p.call.Counts = make([]int32, len(p.call.Thresholds)/2)
		x, y, z := padded(t, rng, 18), padded(t, rng, 18), padded(t, rng, 18)
		ids, out, columns := []int32{0, 1}, make([]float64, 2), make([]float64, LD(18))
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			p.panels.Score(scratch, &p.call)
			psi, phi := c.Words()
			b.Pair(c, out, vectors[:32*psi], vectors, 32*phi, ids)
			b.MatMul(z, x, y, 18)
			b.MatMulFMA(z, x, y, 18)
			b.Frobenius(x, y, z, 18, columns)
		}))
	})
}

func TestRounding(t *testing.T) {
	for _, x := range []float64{0, 1, -1, 1 + 1e-12, -1 - 1e-12, 1e-50, -1e-50, 1e300, -1e300, math.MaxFloat32,
		math.Inf(1), math.Inf(-1), 0.1} {
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
