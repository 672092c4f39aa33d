package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// eager returns costs for which integer screens are worthwhile in small rankings if they leave no
// pairs undecided, and far too expensive if they leave any.
func eager() costs {
	c := costs{fine: pairCosts{1e6, 0}, rescored: pairCosts{1e6, 0}, most: math.Inf(1)}
	c.screens[Float32Screen].pair.pair = 1
	return c
}

// The ranks do not depend on the screen, even if it changes because the panels leave more pairs
// undecided than was estimated.
func TestScreenChanges(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	const entities = 400
	tests := 1500
	if testing.Short() {
		tests = 1000
	}
	rng := rand.New(rand.NewPCG(7, 21))
	g := ranktest.Graph(rng, entities, 6, 2000, 100, tests)
	index, test := kg.NewIndex(g), g.Splits[kg.Test]
	wrong := map[Screen]leftovers{Float32Screen: {}, Int8Screen: {}, Int16Screen: {}} // all decide everything
	for _, name := range []string{"distmult", "mquine"} {
		kind := ranktest.VectorKinds[2] // few distinct rows
		if name == "mquine" {
			kind = ranktest.MatrixKinds[0] // random
		}
		m := ranktest.Model(t, name, 5, g, 3, kind)
		want := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head}, m.NewWorker(backends[len(backends)-1]).Reference)
		for _, b := range backends {
			for _, o := range []Options{
				{Threads: 1}, {Threads: 3}, {Threads: 2, FeatureMemory: 150 * featureBytes(engine.WidestTower(m))},
			} {
				changes := 0
				o.Backend = b
				o.adjust = func(e *cpuEngine) {
					e.costs = eager()
					e.estimate = func(_ *sample, x screen) leftovers { changes++; return wrong[x.name()] }
				}
				got, err := Run(t.Context(), m, index, test, o)
				require.NoError(t, err)
				name := fmt.Sprintf("%s, %s, %d threads", name, b.Tier, o.Threads)
				if b.Features.Has(kernel.FeatureVNNI) {
					assert.Equal(t, AutoScreen, got.Stats.Screen, "%s: the screen did not change", name)
					assert.Positive(t, got.Stats.Rescored.Int8, name)
				} else {
					assert.Equal(t, Float32Screen, got.Stats.Screen, name)
					assert.Zero(t, changes, name)
				}
				if !assert.Equal(t, want, got.Ranks, name) {
					return
				}
			}
		}
	}
}

// The estimated leftovers are close to the counted ones, for random models and for models whose
// entities are in clusters.
func TestLeftoversOfSample(t *testing.T) {
	b := someBackend(t)
	rng := rand.New(rand.NewPCG(7, 22))
	g := ranktest.Graph(rng, 4000, 5, 100, 10, 1500)
	for _, c := range []struct {
		model string
		d     int
		kind  ranktest.Kind
	}{
		{"distmult", 64, ranktest.VectorKinds[0]},
		{"complex", 100, ranktest.VectorKinds[0]},
		{"mquine", 12, ranktest.MatrixKinds[0]},
		{"distmult", 64, ranktest.Kind{Name: "spread", Fill: func(rng *rand.Rand, _ model.Config, ts [][]float32) {
			for i := range ts[0] { // the first entries decide most pairs
				ts[0][i] = float32(rng.NormFloat64() * 100 / (1 + float64(i%64)*float64(i%64)))
			}
			ranktest.Normal(rng, ts[1], 0.3)
		}}},
	} {
		m := ranktest.Model(t, c.model, c.d, g, 4, c.kind)
		for _, asked := range []Screen{Int8Screen, Int16Screen} {
			if asked == Int16Screen && !b.Features.Has(kernel.FeatureAMX) {
				continue // the portable kernels take a minute
			}
			ranks, err := newRanks(m, g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head})
			require.NoError(t, err)
			e := loadAll(t, m, b, asked, ranks, m.Config().Entities)
			sample, err := newSample(t.Context(), e, e.job.Passes[0])
			require.NoError(t, err)
			estimate := sample.leftovers(e.features.screen)
			ranking, err := Run(t.Context(), m, kg.NewIndex(g), g.Splits[kg.Test], Options{Backend: b, Screen: asked})
			require.NoError(t, err)
			pairs := float64(ranking.Stats.UniqueQueries) * float64(m.Config().Entities)
			counted := leftovers{
				float64(ranking.Stats.Rescored.Int8) / pairs, float64(ranking.Stats.Rescored.Float64) / pairs,
			}
			name := fmt.Sprintf("%s, %s, %s: %v, counted %v", c.model, c.kind.Name, asked, estimate, counted)
			t.Log(name)
			assert.InEpsilon(t, counted.fine+1e-9, estimate.fine+1e-9, 0.25, name)
			if counted.rescored > 1e-3 {
				assert.InEpsilon(t, counted.rescored, estimate.rescored, 0.5, name)
			}
		}
	}
}
