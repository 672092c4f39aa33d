package rank

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// TestScores checks that the results of Scores equal the scores computed from the tensors entry by
// entry, on every tier and on both sides.
func TestScores(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(4, 1)), 60, 4, 900, 0, 0)
	m := ranktest.Model(t, "mquine", 7, g, 3, ranktest.MatrixKinds[0])
	brute := newBruteScorer(m)
	for _, b := range backends {
		for threads := 1; threads <= 3; threads++ {
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				scores, err := Scores(t.Context(), m, g.Splits[kg.Train], side, Options{Backend: b, Threads: threads})
				require.NoError(t, err)
				for i, tr := range g.Splits[kg.Train] {
					q, answer := tr.Query(side)
					require.Equal(t, brute(q, answer), scores[i], "%v on side %v", tr, side)
				}
			}
		}
	}
}

// TestScoresOfAllModels checks, with every model, that a score does not depend on the triples
// around it.
func TestScoresOfAllModels(t *testing.T) {
	b, err := Options{}.withDefaults()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(4, 2)), 30, 3, 600, 0, 0)
	for _, c := range ranktest.VectorConfigs(6, g) {
		m := ranktest.ModelOf(t, c, 4, ranktest.VectorKinds[0])
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			scores, err := Scores(t.Context(), m, g.Splits[kg.Train], side, Options{Threads: 2})
			require.NoError(t, err)
			for i, tr := range g.Splits[kg.Train][:50] {
				q, answer := tr.Query(side)
				want := m.NewWorker(b.Backend).Reference(q, answer)
				assert.Equal(t, want, scores[i], "%s, %v on side %v", c.Model, tr, side)
			}
		}
	}
}

func TestScoresRefusesTriples(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(4, 3)), 30, 3, 10, 0, 0)
	m := ranktest.Model(t, "distmult", 4, g, 4, ranktest.VectorKinds[0])
	for _, tr := range []kg.Triple{{Head: 30}, {Tail: 30}, {Relation: 3}, {Head: -1}, {Tail: -1}, {Relation: -1}} {
		_, err := Scores(t.Context(), m, []kg.Triple{tr}, kg.Tail, Options{})
		require.ErrorContains(t, err, "is outside the model's 30 entities and 3 relations")
	}
}
