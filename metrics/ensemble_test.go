package metrics

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// The weights that FitEnsemble finds give an MRR at least as high as equal weights and, with two
// members, as any weights on its coarse grid. They do not depend on the number of threads.
func TestFitEnsemble(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g, _, err := synth.Families(t.Context(), synth.Config{Seed: 1, Entities: 120, Train: 500, Valid: 60, Test: 20})
	require.NoError(t, err)
	index := kgtest.Index(t, g)
	var members []model.Member
	for i, name := range []string{"complex", "distmult", "mquine"} {
		c := model.Config{Model: name, Dim: 4, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
		m, err := model.Random(t.Context(), c, uint64(i))
		require.NoError(t, err)
		members = append(members, model.Member{Model: m, Weight: 9})
	}
	mrr := func(weights ...float64) float64 {
		var list []model.Member
		for i, w := range weights {
			m := members[i]
			m.Weight = w
			list = append(list, m)
		}
		m, err := model.NewEnsemble(list)
		require.NoError(t, err)
		r, err := rank.Run(t.Context(), m, index, g.Splits[kg.Valid], rank.Options{Backend: backends[0], Threads: 2})
		require.NoError(t, err)
		var sum float64
		for _, x := range r.Ranks {
			sum += 1 / (1 + float64(x.Better[rank.All]) + float64(x.Equal[rank.All])/2)
		}
		return sum / float64(len(r.Ranks))
	}
	for n := 2; n <= 3; n++ {
		var first []float64
		for threads := 1; threads <= 3; threads += 2 {
			calls, last := 0, 0
			weights, best, err := FitEnsemble(t.Context(), members[:n], index, g.Splits[kg.Valid], FitOptions{
				Rank: rank.Options{Backend: backends[0], Threads: threads},
				Progress: func(done, total int) {
					calls++
					assert.Equal(t, calls, done)
					last = total
				},
			})
			require.NoError(t, err)
			assert.Equal(t, calls, last, "the total is known in advance")
			assert.Equal(t, 1.0, weights[0])
			assert.InDelta(t, mrr(weights...), best, 1e-12)
			if first == nil {
				first = weights
			}
			assert.Equal(t, first, weights)
			if n == 2 {
				for e := -3.0; e <= 3; e++ {
					assert.GreaterOrEqual(t, best, mrr(1, math.Pow(4, e)))
				}
			}
			assert.GreaterOrEqual(t, best, mrr([]float64{1, 1, 1}[:n]...))
		}
	}
	assert.Equal(t, 9.0, members[0].Weight, "the caller's members do not change")
}
