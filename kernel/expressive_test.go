package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/mquine/mquine/kernel"
)

// TestExpressiveDecisions checks which pairs a panel of Expressive decides if x = |a − s φ| is
// within a few roundings of 1.
func TestExpressiveDecisions(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(46, 2))
		scores, left := 0, 0
		p := newComparisonCase(t, rng, b, Expressive, 1, 1, b.NR, func(int) float32 { return 0 })
		for range 3000 {
			a, s := float32(3*rng.NormFloat64()), float32(3*rng.NormFloat64())
			q := numbers(p.q[0])
			q[0], q[1], q[2] = a, s, 1
			for j := range p.e {
				edge := float32((float64(a) - 1) / float64(s))
				numbers(p.e[j])[0] = edge * (1 + 0x1p-23*float32(rng.IntN(9)-4))
			}
			p.pack()
			got, _ := p.run(nil)
			for j := range p.e {
				product := float64(s) * float64(numbers(p.e[j])[0]) // exact
				x := math.Abs(float64(a) - product)
				margin := 3 * U32 * (math.Abs(float64(a)) + math.Abs(product))
				if score := got.Scores[j]; score == score {
					scores++
					require.Greater(t, x, 1-margin)
					require.InDelta(t, -x*x, float64(score), 1e-5*x*x+4*margin)
				} else {
					left++
					require.LessOrEqual(t, x, 1+margin)
				}
			}
		}
		require.Positive(t, scores)
		require.Positive(t, left)
	})
}

// TestReciprocalError checks the bound on the error of the approximate reciprocal on this processor,
// for every significand of its argument (in the generic tier, for one in 61).
func TestReciprocalError(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		step := 1
		if b.Tier == Generic {
			step = 61
		}
		relative, _ := b.PanelError(BoxE, 1)
		panels := b.Panels(BoxE)
		psi, panel := make([]float32, 10*panels.MR), make([]float32, 2*b.NR)
		psi[0], psi[3*panels.MR] = 1, 1 // the score of candidate j is −1/(panel[j] + ½)
		bound := relative * BoxE.PsiNorm([]float32{1, 0, 0, 1, 0})
		call := PanelCall{
			K: 1, Strips: Words(psi), Panel: Words(panel), ValidLanes: 1, TargetStart: make([]int32, panels.MR+1),
		}
		scratch := b.NewPanelScratch(panels.MR, 0)
		worst := 0.0
		for at := 0; at < 1<<23; at += b.NR * step {
			for j := range b.NR { // 1 ≤ panel[j] + ½ < 2
				panel[j] = math.Float32frombits(0x3f800000+uint32(min(at+j, 1<<23-1))) - 0.5
			}
			panels.Score(scratch, &call)
			for j := range b.NR {
				worst = max(worst, math.Abs(float64(scratch.Scores[j])+1/(float64(panel[j])+0.5)))
			}
		}
		require.LessOrEqual(t, worst, bound)
		t.Logf("largest error %.3g, bound %.3g", worst, bound)
	})
}
