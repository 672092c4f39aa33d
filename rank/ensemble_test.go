package rank

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/modeltest"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// ensembleOf returns an ensemble of models with parameters of a kind, and a function that adds up the
// scores of the models by definition. All members except the first have their entities and
// relations in a different order.
func ensembleOf(
	t *testing.T, g *kg.Graph, configs []model.Config, weights []float64, kind int,
) (m model.Model, score plausibility) {
	backend := kerneltest.Generic(t)
	rng := rand.New(rand.NewPCG(uint64(kind), 3))
	var members []model.Member
	var scores []plausibility
	for i, c := range configs {
		kinds := ranktest.VectorKinds
		if c.Model == "mquine" {
			kinds = ranktest.MatrixKinds
		}
		own := ranktest.ModelOf(t, c, uint64(kind+i), kinds[kind%len(kinds)])
		member := model.Member{Model: own, Weight: weights[i]}
		scorer := own.NewWorker(backend).Reference
		if c.Model == "mquine" {
			scorer = newBruteScorer(own)
		}
		if i > 0 {
			member.Entities, member.Relations = permutation(rng, c.Entities), permutation(rng, c.Relations)
		}
		members = append(members, member)
		scores = append(scores, func(q kg.Query, e int32) float64 {
			if i > 0 {
				q.Anchor, q.Relation, e = member.Entities[q.Anchor], member.Relations[q.Relation], member.Entities[e]
			}
			return scorer(q, e)
		})
	}
	m, err := model.NewEnsemble(members)
	require.NoError(t, err)
	return m, func(q kg.Query, e int32) (sum float64) {
		for i, f := range scores {
			sum += float64(weights[i] * f(q, e))
		}
		return sum
	}
}

func permutation(rng *rand.Rand, n int) (ids []int32) {
	for _, i := range rng.Perm(n) {
		ids = append(ids, int32(i))
	}
	return ids
}

// TestExactEnsembles checks that the ranks of an ensemble are the ranks by the weighted sums of its
// members' scores.
func TestExactEnsembles(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 9)), 150, 4, 600, 60, 60)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test][:30]
	config := func(name string, d int, reciprocal bool) model.Config {
		spec, err := model.Lookup(name)
		require.NoError(t, err)
		return spec.Initial(model.Config{
			Model: name, Dim: d, Entities: g.Entities.Len(), Relations: g.Relations.Len(), Reciprocal: reciprocal,
		})
	}
	for name, configs := range map[string][]model.Config{
		"complex, complex":   {config("complex", 20, true), config("complex", 7, false)},
		"mquine, complex":    {config("mquine", 7, false), config("complex", 9, true)},
		"cp, simple, rescal": {config("cp", 9, false), config("simple", 8, false), config("rescal", 5, false)},
		"tucker, mquine, distmult": {
			config("tucker", 6, true), config("mquine", 5, false), config("distmult", 33, false),
		},
		// The towers of ConvE differ by side, and φ of TransH depends on the relation.
		"conve, transh-l2": {ranktest.Config(t, "conve", 4, g), config("transh-l2", 6, false)},
	} {
		weights := []float64{0.37, 1, 2.5}[:len(configs)]
		for kind := range len(ranktest.VectorKinds) {
			m, score := ensembleOf(t, g, configs, weights, kind)
			modeltest.Shared(t, m, backends[len(backends)-1])
			want := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head}, score)
			for _, b := range backends {
				for _, o := range []Options{
					{Threads: 1}, {Threads: 3, FeatureMemory: 40 * featureBytes(m.Tower(kg.Tail).Phi)},
					{Threads: 2, Screen: Int8Screen}, {Threads: 2, Screen: Int16Screen},
				} {
					if sameTwin(b, o.Screen, m.Tower(kg.Tail).Compare) {
						continue
					}
					o.Backend = b
					got, err := Run(context.Background(), m, index, test, o)
					require.NoError(t, err)
					if !assert.Equal(t, want, got.Ranks, "%s, kind %d, %s, %d threads", name, kind, b.Tier, o.Threads) {
						return
					}
				}
			}
		}
	}
}
