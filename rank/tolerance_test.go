package rank

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// bruteForceNear is bruteForce with a tolerance. It compares the printed scores of all candidates.
func bruteForceNear(m model.Model, g *kg.Graph, triples []kg.Triple, tolerance Tolerance, w model.Worker) []Rank {
	known := map[kg.Triple]kg.SplitSet{}
	for s, split := range g.Splits {
		for _, t := range split {
			known[t] |= kg.Set(kg.Split(s))
		}
	}
	var ranks []Rank
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		for _, t := range triples {
			r := Rank{Triple: t, Side: side}
			q, answer := t.Query(side)
			target := w.Reference(q, answer)
			middle := m.Score(target)
			for e := range int32(m.Config().Entities) {
				other := t
				if side == kg.Tail {
					other.Tail = e
				} else {
					other.Head = e
				}
				reference := w.Reference(q, e)
				width := tolerance.Absolute + float64(tolerance.Relative*math.Abs(middle))
				near := reference == target || math.Abs(m.Score(reference)-middle) <= width
				for f := range NumFilters {
					switch {
					case e == answer:
						r.Candidates[f]++
						continue
					case known[other]&f.Splits() != 0:
						continue
					case near:
						r.Equal[f]++
					case reference > target:
						r.Better[f]++
					}
					r.Candidates[f]++
				}
			}
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// TestTolerances checks that ranks with tolerances agree with a plain comparison of printed scores,
// on every tier and screen, in slices and on several threads. Tolerances must not change the exact
// ranks.
func TestTolerances(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 33))
	g := ranktest.Graph(rng, 90, 3, 400, 40, 20)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	tolerances := []Tolerance{{Absolute: 1e-5, Relative: 1e-4}, {Relative: 0.1}, {Absolute: 0.3}, {}}
	moved := 0
	check := func(m model.Model, kind string) {
		w := m.NewWorker(backends[0])
		exact := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head}, w.Reference)
		var near [][]Rank
		for _, tolerance := range tolerances {
			near = append(near, bruteForceNear(m, g, test, tolerance, w))
		}
		require.Equal(t, exact, bruteForceNear(m, g, test, Tolerance{Absolute: -1}, w))
		if !assert.ObjectsAreEqual(exact, near[0]) {
			moved++
		}
		for _, b := range backends {
			for _, o := range []Options{
				{Threads: 1},
				{Threads: 3, Screen: Int8Screen, FeatureMemory: 25 * featureBytes(engine.WidestTower(m))},
				{Threads: 2, Screen: Int16Screen},
			} {
				if !o.Screen.Fits(m.Tower(kg.Tail).Compare) {
					o.Screen = AutoScreen
				}
				if sameTwin(b, o.Screen, m.Tower(kg.Tail).Compare) {
					continue
				}
				o.Backend, o.Tolerances = b, tolerances
				got, err := Run(t.Context(), m, index, test, o)
				require.NoError(t, err)
				c := m.Config().Model
				require.Equal(t, exact, got.Ranks, "%s, %s, %s", c, kind, b.Tier)
				for i, want := range near {
					require.Equal(t, want, got.Near[i], "%s, %s, %s, tolerance %+v", c, kind, b.Tier, tolerances[i])
				}
			}
		}
	}
	for _, kind := range ranktest.MatrixKinds {
		check(ranktest.Model(t, "mquine", 5, g, 3, kind), kind.Name)
	}
	for _, kind := range ranktest.VectorKinds {
		for _, c := range ranktest.VectorConfigs(8, g) {
			check(ranktest.ModelOf(t, c, 3, kind), kind.Name)
		}
	}
	assert.Greater(t, moved, 5, "the tolerance of LibKGE changes ranks of several checkpoints")
}

func TestTolerancesAreChecked(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(1, 1)), 10, 1, 20, 0, 5)
	m := ranktest.ModelOf(t, ranktest.VectorConfigs(2, g)[0], 1, ranktest.VectorKinds[0])
	for _, tolerance := range []Tolerance{{Absolute: -1}, {Relative: math.NaN()}, {Absolute: math.Inf(1)}} {
		o := Options{Tolerances: []Tolerance{tolerance}}
		_, err := Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test], o)
		assert.ErrorContains(t, err, "both numbers must be finite and not negative")
	}
}

// TestTolerancesStop checks that a ranking with tolerances stops at the next target if the context ends
// while it computes the scores that tie with a target.
func TestTolerancesStop(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 35)), 100, 1, 200, 10, 300)
	m := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	o := Options{Threads: 1, Screen: Float32Screen, Tolerances: []Tolerance{{Absolute: 1e-5}}}
	_, err := Run(ctx, &watched{Model: m, reference: func() { calls++; cancel() }}, kgtest.Index(t, g),
		g.Splits[kg.Test], o)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, calls)
}
