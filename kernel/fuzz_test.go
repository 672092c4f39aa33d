package kernel_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// fuzzedValues are ways to draw the coordinates of vectors.
var fuzzedValues = []func(rng *rand.Rand) float32{
	func(rng *rand.Rand) float32 { return float32(rng.NormFloat64()) },
	func(rng *rand.Rand) float32 { return float32(rng.IntN(3) - 1) }, // ties
	// These values nearly tie, with errors of one sign.
	func(rng *rand.Rand) float32 { return 0.3 * (1 + 0x1p-22*float32(rng.IntN(3))) },
	// These values have widely different magnitudes.
	func(rng *rand.Rand) float32 { return float32(math.Ldexp(rng.NormFloat64(), rng.IntN(60)-30)) },
	func(rng *rand.Rand) float32 { return float32(rng.NormFloat64() * 1e-21) }, // underflow
	func(rng *rand.Rand) float32 { return float32(rng.NormFloat64() * 1e18) },  // near overflow
	func(rng *rand.Rand) float32 { // all finite numbers
		v := math.Float32frombits(rng.Uint32())
		if v-v != 0 {
			return 0
		}
		return v
	},
}

// fuzzedComparison returns the comparison for a byte, which determines its kind and, for groups of
// any size, a size from 3 to 34.
func fuzzedComparison(b uint8) Comparison {
	all := Comparisons()
	kinds := uint8(len(all))
	c := all[b%kinds]
	if c.Kind() == KindGroupNormOf {
		c = GroupNormOf(3 + int(b/kinds))
	}
	return c
}

// FuzzPanel compares the panel counts of every tier with a brute-force computation in float64. Each
// byte of targets defines the score of a target, which equals a candidate's score, lies next to it,
// or is the best score. The byte also says whether the next target belongs to the same query.
func FuzzPanel(f *testing.F) {
	for _, c := range Comparisons() {
		for values := range fuzzedValues {
			f.Add(uint8(c.Kind()), uint16(40*values), uint8(5*values), uint8(9+8*values), uint8(values),
				uint64(c.Kind()), values%2 == 1, []byte("0123 tie, TIE & near tie"))
		}
		for values := range fuzzedValues {
			f.Add(uint8(c.Kind()), uint16(200), uint8(19), uint8(70), uint8(values), uint64(c.Kind()), true,
				slices.Repeat([]byte{2}, 20))
		}
		f.Add(uint8(c.Kind()), uint16(Chunk-1), uint8(19), uint8(96), uint8(1), uint64(7), true,
			[]byte{0, 128, 1, 129, 2, 130})
		f.Add(uint8(c.Kind()), uint16(299), uint8(0), uint8(0), uint8(2), uint64(8), false, []byte{255})
	}
	backends := kerneltest.Backends(f, panelFeatures)
	f.Fuzz(func(t *testing.T, comparison uint8, terms uint16, queries, candidates, values uint8, seed uint64,
		early bool, targets []byte) {
		c := fuzzedComparison(comparison)
		k := max(wholeGroups(c, (int(terms)%300+1)*min(c.Group(), 2)), c.Group())
		rng := rand.New(rand.NewPCG(seed, 9))
		draw := fuzzedValues[int(values)%len(fuzzedValues)]
		vectors := func(n, words int) [][]float32 {
			x := make([][]float32, n)
			for i := range x {
				x[i] = make([]float32, k*words)
				for t := range x[i] {
					x[i][t] = draw(rng)
				}
			}
			return x
		}
		psi, phi := c.Words()
		q, e := vectors(int(queries)%20+1, psi), vectors(int(candidates)%100+1, phi)
		for i := 1; i < len(e); i += 3 { // identical candidates, and queries that are candidates
			copy(e[i], e[i-1])
			nearest(c, q[i%len(q)], e[i])
		}
		for _, x := range q {
			admit(c, x, nil)
		}
		for _, x := range e {
			admit(c, nil, x)
		}
		score := make([][]float64, len(q))
		for i := range score {
			for _, x := range e {
				score[i] = append(score[i], kerneltest.PlainScore(c, q[i], x))
			}
		}
		at := make([][]float64, len(q)) // scores of the targets
		for n, i := 0, 0; n < min(len(targets), 100); n++ {
			b := int(targets[n])
			x := score[i][b%64%len(e)]
			switch b % 4 {
			case 0:
				x = math.Nextafter(x, math.Inf(1))
			case 1:
				x = math.Nextafter(x, math.Inf(-1))
			case 2: // the kernel skips most strips after the first chunks
				x = slices.Max(score[i])
			}
			at[i] = append(at[i], x)
			if b < 128 {
				i = (i + 1) % len(q)
			}
		}
		for _, b := range backends {
			checkCounts(t, b, c, q, e, score, at, early)
		}
	})
}

// checkCounts widens the scores at[i] of the targets to intervals, by b's error bound. Candidates that
// Score counts must be better than the target, and candidates that Score neither counts nor leaves
// undecided must be worse. No candidate may be missing.
func checkCounts(t *testing.T, b *Backend, c Comparison, q, e [][]float32, score, at [][]float64, early bool) {
	panels := b.Panels(c)
	psi, _ := c.Words()
	mr, k := panels.MR, len(q[0])/psi
	strips := (len(q) + mr - 1) / mr
	padded := func(x [][]float32, n int) (words [][]uint32) {
		for _, v := range x {
			words = append(words, Words(v))
		}
		for len(words) < n {
			words = append(words, make([]uint32, len(x[0])))
		}
		return words
	}
	relative, absolute := b.PanelError(c, k)
	relative += 4 * Gamma(k+8, U64) // the error of the brute-force computation
	for first := 0; first < len(e); first += b.NR {
		lanes := e[first:min(first+b.NR, len(e))]
		p := &panelCase{t: t, b: b, c: c, panels: panels, strips: strips, q: padded(q, strips*mr),
			e: padded(lanes, b.NR)}
		p.call.K, p.call.ValidLanes = k, uint64(1)<<len(lanes)-1
		p.pack()
		p.call.TargetStart = kerneltest.Guarded[int32](t, strips*mr+1)
		exitBelow := kerneltest.Guarded[float32](t, strips*mr)
		largest := 0.0
		for _, x := range lanes {
			largest = max(largest, c.PhiNorm(x))
		}
		var ends []float32
		for i := range p.q {
			p.call.TargetStart[i] = int32(len(ends) / 2)
			exitBelow[i] = float32(math.Inf(1))
			if i >= len(q) {
				continue
			}
			norm := c.PsiNorm(q[i])
			for _, x := range at[i] {
				lo, hi := x-absolute, x+absolute
				if c.Products() {
					lo, hi = lo-relative*norm*largest, hi+relative*norm*largest
				}
				if c.Distance() {
					lo, hi = lo+x*relative, hi-x*relative
				}
				if c.MayOverflow(norm, largest) {
					lo, hi = math.Inf(-1), math.Inf(1)
				}
				ends = append(ends, RoundDown32(lo), RoundUp32(hi))
				exitBelow[i] = min(exitBelow[i], ends[len(ends)-2])
			}
		}
		p.call.TargetStart[len(p.q)] = int32(len(ends) / 2)
		p.call.Thresholds = kerneltest.Guarded[float32](t, len(ends))
		copy(p.call.Thresholds, ends)
		if !early {
			exitBelow = nil
		}
		scratch, counts := p.run(exitBelow)
		open := make([]uint64, len(counts))
		for n := range scratch.Pairs {
			open[scratch.Undecided[2*n]] = scratch.Undecided[2*n+1]
		}
		for i := range q {
			for n, x := range at[i] {
				target := int(p.call.TargetStart[i]) + n
				require.Zero(t, open[target]&^p.call.ValidLanes, "%s: lanes without candidates", b.Tier)
				count, want, doubtful := int(counts[target])-7, 0, false
				for lane := range lanes {
					s, undecided := score[i][first+lane], open[target]>>lane&1 == 1
					doubtful = doubtful || math.IsNaN(s) && !undecided
					if s > x && !undecided {
						want++
					}
					require.False(t, s == x && !undecided, "%s: query %d, candidate %d ties with %g and is decided",
						b.Tier, i, first+lane, x)
				}
				if doubtful { // the panel decided a pair of Expressive near the boundary
					continue
				}
				require.Equal(t, want, count,
					"%s, %s, k = %d: better than %g for query %d among candidates %d to %d, %d undecided",
					b.Tier, c, k, x, i, first, first+len(lanes)-1, bits.OnesCount64(open[target]))
			}
		}
	}
}

// FuzzPair compares the float64 scores of every tier with the portable kernels' bit for bit, and
// with a brute-force computation.
func FuzzPair(f *testing.F) {
	for _, c := range Comparisons() {
		for values := range fuzzedValues {
			f.Add(uint8(c.Kind()), uint8(values), uint8(3*values), uint8(40*values), uint8(values), uint64(c.Kind()))
		}
	}
	backends := kerneltest.Backends(f, panelFeatures)
	f.Fuzz(func(t *testing.T, comparison, groups, rows, count, values uint8, seed uint64) {
		c := fuzzedComparison(comparison)
		psi, phi := c.Words()
		n, height := (int(groups)%12+1)*PairWidth, int(rows)%20+1
		stride := n*phi + int(rows)%2*PairWidth
		rng := rand.New(rand.NewPCG(seed, 10))
		draw := fuzzedValues[int(values)%len(fuzzedValues)]
		x, table := kerneltest.Guarded[float32](t, n*psi), kerneltest.Guarded[float32](t, (height-1)*stride+n*phi)
		for i := range x {
			x[i] = draw(rng)
		}
		for i := range table {
			table[i] = draw(rng)
		}
		admit(c, x, table)
		ids := kerneltest.Guarded[int32](t, int(count)%300+1)
		for i := range ids {
			ids[i] = int32(rng.IntN(height))
		}
		want := make([]float64, len(ids))
		kerneltest.Generic(t).Pair(c, want, x, table, stride, ids)
		for _, b := range backends {
			got := kerneltest.Guarded[float64](t, len(ids))
			b.Pair(c, got, x, table, stride, ids)
			require.Equal(t, bitsOf(want), bitsOf(got), b.Tier)
		}
		for i, id := range ids {
			whole := wholeGroups(c, n)
			row := table[int(id)*stride:][:whole*phi]
			exact := kerneltest.PlainScore(c, x[:whole*psi], row)
			measure := 0.0
			if c.Products() {
				measure = c.PsiNorm(x) * c.PhiNorm(row)
			}
			if c.Distance() {
				measure += math.Abs(exact)
			}
			if math.IsNaN(exact) {
				continue
			}
			require.LessOrEqual(t, math.Abs(want[i]-exact), (c.PairError(n)+2*Gamma(n+8, U64))*measure)
		}
	})
}

// bitsOf returns the bits of numbers, so NaN equals itself.
func bitsOf(x []float64) (bits []uint64) {
	for _, v := range x {
		bits = append(bits, math.Float64bits(v))
	}
	return bits
}
