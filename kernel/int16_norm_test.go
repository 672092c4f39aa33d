package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// normGroups are numbers of coordinates in a group: of one and of several words, odd and even, and
// of more words than a chain.
var normGroups = []int{1, 2, 3, 4, 5, 7, 8, 20, 2*Chunk + 3}

// codeOf returns the two codes of a word.
func codeOf(word uint32) (low, high int) { return int(int16(word)), int(int16(word >> 16)) }

// codesDistance returns Σ‖x_g − y_g‖ for words of codes.
func codesDistance(x, y []uint32, group int) (sum float64) {
	words := Int16NormWords(group)
	for t := 0; t < len(x); t += words {
		squares := 0
		for u := t; u < t+words; u++ {
			a, b := codeOf(x[u])
			c, d := codeOf(y[u])
			squares += (a-c)*(a-c) + (b-d)*(b-d)
		}
		sum += math.Sqrt(float64(squares))
	}
	return sum
}

// newInt16NormCase returns a case with groups of codes. value draws a code, at most most in magnitude.
func newInt16NormCase(
	t testing.TB, rng *rand.Rand, b *Backend, group, groups, queries, candidates int, value func(most int) int,
) *panelCase {
	words := Int16NormWords(group)
	most := min(MostInt16Norm, int(MaxInt16Norm/math.Sqrt(float64(group))))
	p := &panelCase{t: t, b: b, panels: b.Int16NormPanels(group)}
	p.twin = func(q, e []uint32) float32 { return -float32(codesDistance(q, e, group)) }
	p.draw(rng, groups*words, queries, candidates, func(t int) uint32 {
		word := uint32(uint16(value(most)))
		if group%2 == 0 || t%words < words-1 {
			word |= uint32(uint16(value(most))) << 16
		}
		return word
	})
	return p
}

// checkNormBound requires that the scores are within the bound of the exact scores.
func checkNormBound(t *testing.T, p *panelCase, group int, scores []float32) {
	relative, absolute := p.b.Int16NormError(p.call.K/Int16NormWords(group), group)
	for i, q := range p.q {
		for j, e := range p.e {
			exact := codesDistance(q, e, group)
			bound := relative*exact + absolute + 1e-12*exact
			require.InDelta(t, -exact, float64(scores[i*p.b.NR+j]), bound, "score %d,%d", i, j)
		}
	}
}

// TestInt16NormPanel requires that every tier scores groups of codes within the bound, and counts
// correctly, for whole and incomplete strips and panels.
func TestInt16NormPanel(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 20))
		draws := map[string]func(most int) int{
			"random":  func(most int) int { return rng.IntN(2*most+1) - most },
			"largest": func(most int) int { return most - 2*most*rng.IntN(2) },
			"small":   func(int) int { return rng.IntN(3) - 1 },
			"equal":   func(most int) int { return most },
		}
		for _, group := range normGroups {
			mr := b.Int16NormPanels(group).MR
			for _, groups := range []int{1, 2, 3, 4, 5, 7, 8, 31, 64, 127, 128, 129, 130, 132, 257} {
				if groups*group > 1400 {
					continue
				}
				for round := range 6 {
					strips := 1 + round%3
					queries, candidates := (strips-1)*mr+1+(round*5+groups)%mr, 1+(round*7+groups)%b.NR
					if round == 0 {
						queries, candidates = strips*mr, b.NR
					}
					kind := []string{"random", "random", "small", "equal", "random", "largest"}[round]
					p := newInt16NormCase(t, rng, b, group, groups, queries, candidates, draws[kind])
					got, counts := p.run(nil)
					checkNormBound(t, p, group, got.Scores)
					wantCounts, wantUndecided := p.countPlainly(got.Scores)
					require.Equal(t, wantCounts, counts, "%d groups of %d: counts", groups, group)
					require.Equal(t, wantUndecided, append([]uint64{}, got.Undecided[:2*got.Pairs]...),
						"%d groups of %d: undecided", groups, group)
				}
			}
		}
		p := newInt16NormCase(t, rng, b, 4, 150, 2*b.Int16NormPanels(4).MR, b.NR, draws["random"])
		scratch := b.NewPanelScratch(len(p.q), len(p.call.Thresholds)/2)
		p.call.Counts = make([]int32, len(p.call.Thresholds)/2)
		assert.Zero(t, testing.AllocsPerRun(10, func() { p.panels.Score(scratch, &p.call) }))
	})
}

// TestInt16NormVNNI requires that VNNI and AVX-VNNI do not change a score.
func TestInt16NormVNNI(t *testing.T) {
	kerneltest.Each(t, panelFeatures, func(t *testing.T, with *Backend) {
		if !with.HasVNNI() {
			t.Skip("no VNNI and no AVX-VNNI")
		}
		without, err := NewWithout(^with.Features | FeatureVNNI | FeatureAVXVNNI)
		require.NoError(t, err)
		require.Equal(t, with.Tier, without.Tier)
		for _, group := range normGroups {
			rng := rand.New(rand.NewPCG(uint64(group), 20))
			p := newInt16NormCase(t, rng, with, group, 9, 8, with.NR, func(most int) int { return rng.IntN(most) })
			want, _ := p.run(nil)
			p.b, p.panels = without, without.Int16NormPanels(group)
			got, _ := p.run(nil)
			kerneltest.SameBits(t, want.Scores[:8*with.NR], got.Scores[:8*with.NR], "groups of %d", group)
		}
	})
}

// TestInt16NormDrop requires that early exit does not change the counts, and that the scores of a
// skipped strip are upper bounds below ExitBelow.
func TestInt16NormDrop(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 20))
		for _, group := range []int{2, 4, 20} {
			dropped := 0
			for round := range 20 {
				groups, mr := 129+rng.IntN(300), b.Int16NormPanels(group).MR
				p := newInt16NormCase(
					t, rng, b, group, groups, 5*mr-1, b.NR, func(most int) int { return rng.IntN(most) })
				if round%2 == 0 { // the first strip matters
					copy(p.q[0], p.e[0])
					p.pack()
				}
				exitBelow := kerneltest.Guarded[float32](t, len(p.q))
				for i := range exitBelow {
					exitBelow[i] = p.twin(p.q[1], p.e[1]) * float32(1+rng.IntN(8)) / 8
					for t := p.call.TargetStart[i]; t < p.call.TargetStart[i+1]; t++ {
						p.call.Thresholds[2*t], p.call.Thresholds[2*t+1] = exitBelow[i], exitBelow[i]*0.99
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
	})
}

// TestInt16NormRoots checks the bound on the error of the roots, for many significands.
func TestInt16NormRoots(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		relative, absolute := b.Int16NormError(1, 2)
		p := newInt16NormCase(t, rand.New(rand.NewPCG(3, 20)), b, 2, 1, 1, b.NR, func(int) int { return 0 })
		worst := 0.0
		for first := 1; first+b.NR < MostInt16Norm; first += b.NR {
			for j := range p.e {
				p.e[j][0] = uint32(first+j)<<16 | uint32(first+j)
			}
			p.pack()
			got, _ := p.run(nil)
			for j, e := range p.e {
				exact := codesDistance(p.q[0], e, 2)
				worst = max(worst, math.Abs(exact+float64(got.Scores[j]))/(relative*exact+absolute))
			}
		}
		require.LessOrEqual(t, worst, 1.0)
		if b.Tier != Generic { // where the roundings of the sums are larger
			require.Greater(t, worst, 0.6)
		}
		t.Logf("%.3f of the bound", worst)
	})
}

// TestInt16NormSums checks the bound on the roundings of sums, with a large term and small ones that all
// round in the same direction by nearly half a unit in the last place. The roots of the generic tier are
// rounded correctly.
func TestInt16NormSums(t *testing.T) {
	b, err := For(Generic)
	require.NoError(t, err)
	const groups = Chunk / WordCodes
	p := newInt16NormCase(t, rand.New(rand.NewPCG(4, 20)), b, 2, groups, 1, 1, func(int) int { return 0 })
	p.q[0][0], p.e[0][0] = 16383|400<<16, uint32(uint16(0x10000-16383)) // a distance of just above 2¹⁵
	const unit = 0x1p-8                                                 // in the last place of the sums
	best, word := 0.0, uint32(0)
	for x := range 20 {
		for y := range 20 {
			root := math.Sqrt(float64(x*x + y*y))
			if part := math.Mod(root, unit) / unit; part < 0.5 && part > best {
				best, word = part, uint32(x)|uint32(y)<<16
			}
		}
	}
	for u := range p.q[0][1:] {
		p.q[0][1+u] = word
	}
	p.pack()
	got, _ := p.run(nil)
	relative, absolute := b.Int16NormError(groups, 2)
	exact := codesDistance(p.q[0], p.e[0], 2)
	ratio := math.Abs(exact+float64(got.Scores[0])) / (relative*exact + absolute)
	require.LessOrEqual(t, ratio, 1.0)
	require.Greater(t, ratio, 0.85)
	t.Logf("%.3f of the bound", ratio)
}
