package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// eager returns costs for which integer screens are worthwhile in small rankings if they leave no
// pairs undecided, and far too expensive if they leave any.
func eager() costs {
	c := costs{fine: pairCosts{1e6, 0}, rescored: pairCosts{1e6, 0}, most: math.Inf(1)}
	c.screens[Float32Screen].pair.pair, c.distances[Float32Screen].pair.pair = 1, 1
	c.groups[Float32Screen].pair.pair = 1
	return c
}

// TestScreenChanges checks that the ranks do not depend on the screen, even if it changes because
// the panels leave more pairs undecided than was estimated.
func TestScreenChanges(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 21))
	g := ranktest.Graph(rng, 150, 12, 600, 60, 1200)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	models := []string{"distmult", "transe-l1", "rotate", "mquine"}
	if testing.Short() {
		models = models[:3]
	}
	for _, name := range models {
		kind := ranktest.VectorKinds[2] // few distinct rows
		if name == "mquine" {
			kind = ranktest.MatrixKinds[0] // random
		}
		m := ranktest.Model(t, name, 5, g, 3, kind)
		want := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head}, m.NewWorker(backends[len(backends)-1]).Reference)
		for _, b := range backends {
			if len(AutoScreen.formatsFor(m.Tower(kg.Tail), b)) == 0 {
				continue // always in float32
			}
			for _, o := range []Options{
				{Threads: 1}, {Threads: 3}, {Threads: 2, FeatureMemory: 60 * featureBytes(engine.WidestTower(m))},
			} {
				o.Backend = b
				o.adjust = func(e *cpuEngine) {
					e.costs = eager()
					e.estimate = func(*screenSample, screen) leftovers { return leftovers{} }
				}
				got, err := Run(t.Context(), m, index, test, o)
				require.NoError(t, err)
				name := fmt.Sprintf("%s, %s, %d threads", name, b.Tier, o.Threads)
				assert.Equal(t, AutoScreen, got.Stats.Screen, "%s: the screen did not change", name)
				if !assert.Equal(t, want, got.Ranks, name) {
					return
				}
			}
		}
	}
}

// TestCheapestScreen checks the choice between float32 and int8. Int8 saves time for each pair, but
// it costs time for packing and for each pair that it leaves undecided.
func TestCheapestScreen(t *testing.T) {
	for _, c := range []struct {
		queries, width int
		fine           float64
		want           Screen
	}{
		{20_000, 200, 0.02, Int8Screen},
		{20_000, 200, 0.04, Float32Screen},
		{20_000, 1000, 0.05, Int8Screen},
		{20_000, 1000, 0.25, Float32Screen},
		{20_000, 40, 0.02, Float32Screen},
		{100, 200, 0, Float32Screen},
		{2000, 200, 0, Int8Screen},
	} {
		f := &features{}
		f.N, f.Tower.Compare, f.Tower.Phi = 14541, kernel.Dot, c.width
		queries := make([]engine.Query, c.queries) // two targets for each
		for i := range queries {
			queries[i].First, queries[i].Last = int32(2*i), int32(2*i+2)
		}
		e := &cpuEngine{
			job: &engine.Job{Plan: engine.Plan{Queries: queries}}, features: f, costs: halfWidthCosts,
			options: []option{{screen: &float32Screen{}}, {screen: &int8Screen{}, left: leftovers{fine: c.fine}}},
		}
		all := engine.Span{Last: c.queries}
		assert.Equal(t, c.want, e.cheapest(all).name(), "%+v", c)
		f.screen = e.options[1].screen // packed already
		want := c.want
		if c.queries == 100 {
			want = Int8Screen
		}
		assert.Equal(t, want, e.cheapest(all).name(), "%+v", c)
	}
}

// TestCheapestScreenByWidth checks the choice for 22,850 queries of FB15k-237, for which the benchmark ScreenChoice
// found these screens fastest on processors with half-width and with full-width AVX-512 (docs/performance.md).
func TestCheapestScreenByWidth(t *testing.T) {
	queries := make([]engine.Query, 22_850)
	for i := range queries {
		queries[i].First, queries[i].Last = int32(i*40_932/len(queries)), int32((i+1)*40_932/len(queries))
	}
	for _, c := range []struct {
		name       string
		compare    kernel.Comparison
		width      int
		codes      screen
		left       leftovers
		half, full Screen
	}{
		{"RotatE k = 400, random", kernel.GroupNorm, 800, &int16NormScreen{}, leftovers{rescored: 0.0035},
			Int16Screen, Float32Screen},
		{"TransE-L1 d = 400, random", kernel.L1, 400, &int8L1Screen{}, leftovers{fine: 0.089},
			Int8Screen, Float32Screen},
		{"TransE-L1 d = 400, trained", kernel.L1, 400, &int8L1Screen{}, leftovers{fine: 0.012},
			Int8Screen, Int8Screen},
	} {
		f := &features{}
		f.N, f.Tower.Compare, f.Tower.Phi = 14541, c.compare, c.width
		e := &cpuEngine{
			job: &engine.Job{Plan: engine.Plan{Queries: queries}}, features: f, costs: halfWidthCosts,
			options: []option{{screen: &float32Screen{}}, {screen: c.codes, left: c.left}},
		}
		all := engine.Span{Last: len(queries)}
		assert.Equal(t, c.half, e.cheapest(all).name(), c.name)
		e.costs = fullWidthCosts
		assert.Equal(t, c.full, e.cheapest(all).name(), c.name)
	}
}

// TestWorthSampling checks that a sample is not worthwhile if too many threads would wait for it.
func TestWorthSampling(t *testing.T) {
	for threads, want := range map[int]bool{1: true, 4: true, 4096: false} {
		f := &features{}
		f.N, f.Tower.Compare, f.Tower.Phi = 14541, kernel.Dot, 1000
		e := &cpuEngine{job: &engine.Job{Threads: threads}, features: f, costs: halfWidthCosts}
		assert.Equal(t, want, e.worthSampling([]*codeFormat{&int8Format}, 20_000), threads)
		assert.False(t, e.worthSampling([]*codeFormat{&int8Format}, 20), threads)
	}
}

// TestTrialCoversQueries checks that a trial consists of blocks of trialBlock queries, about a
// sixteenth of all queries in total. Together, the trial and the rest must cover each query once.
func TestTrialCoversQueries(t *testing.T) {
	e := &cpuEngine{features: &features{screen: &int8Screen{}}, options: make([]option, 2)}
	for _, n := range []int{1, 1023, 1024, 1025, 5000, 23456} {
		trial, rest := e.splitTrial(engine.Span{First: 7, Last: 7 + n})
		assert.Len(t, trial, n/(16*trialBlock))
		times := make([]int, 7+n)
		for _, span := range slices.Concat(trial, rest) {
			for i := span.First; i < span.Last; i++ {
				times[i]++
			}
		}
		assert.Equal(t, slices.Concat(make([]int, 7), slices.Repeat([]int{1}, n)), times)
		for _, span := range trial {
			assert.Equal(t, trialBlock, span.Last-span.First)
		}
	}
	e.features.screen = &float32Screen{}
	trial, _ := e.splitTrial(engine.Span{Last: 5000})
	assert.Empty(t, trial)
}

// TestLeftoversOfSample checks that the estimated leftovers are close to the counted ones, for
// random models and for models whose entities are in clusters.
func TestLeftoversOfSample(t *testing.T) {
	b := kerneltest.Best(t)
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
		{"transe-l1", 64, ranktest.VectorKinds[0]},
		{"rotate", 40, ranktest.VectorKinds[0]},
		{"distmult", 64, ranktest.Kind{Name: "spread", Fill: func(rng *rand.Rand, _ model.Config, ts [][]float32) {
			for i := range ts[0] { // the first entries decide most pairs
				ts[0][i] = float32(rng.NormFloat64() * 100 / (1 + float64(i%64)*float64(i%64)))
			}
			ranktest.Normal(rng, ts[1], 0.3)
		}}},
	} {
		m := ranktest.Model(t, c.model, c.d, g, 4, c.kind)
		for _, asked := range []Screen{Int8Screen, Int16Screen} {
			if !asked.Fits(m.Tower(kg.Tail).Compare) {
				continue
			}
			ranks, err := newRanks(m, g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head}, 1)
			require.NoError(t, err)
			e := loadAll(t, m, b, asked, ranks, m.Config().Entities)
			sample, err := newScreenSample(t.Context(), e, e.job.Passes[0])
			require.NoError(t, err)
			require.NoError(t, sample.compare(t.Context(), 2))
			estimate := sample.leftovers(e.features.screen)
			o := Options{Backend: b, Screen: asked}
			ranking, err := Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test], o)
			require.NoError(t, err)
			pairs := float64(ranking.Stats.Queries) * float64(m.Config().Entities)
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
