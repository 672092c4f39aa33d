package rank

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
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
			for _, sides := range []Sides{TailSide, HeadSide} {
				scores, err := Scores(t.Context(), m, g.Splits[kg.Train], sides, Options{Backend: b, Threads: threads})
				require.NoError(t, err)
				for i, tr := range g.Splits[kg.Train] {
					q, answer := tr.Query(sides.List()[0])
					require.Equal(t, brute(q, answer), scores[i], "%v on side %v", tr, sides)
				}
			}
		}
	}
}

// TestScoresOfAllModels checks, with every model, that a score does not depend on the triples
// around it, and that the score of both sides is the mean.
func TestScoresOfAllModels(t *testing.T) {
	b, err := Options{}.withDefaults()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(4, 2)), 30, 3, 600, 0, 0)
	for _, c := range ranktest.VectorConfigs(6, g) {
		m := ranktest.ModelOf(t, c, 4, ranktest.VectorKinds[0])
		triples := g.Splits[kg.Train][:50]
		score := func(tr kg.Triple, side kg.Side) float64 {
			q, answer := tr.Query(side)
			return m.Score(m.NewWorker(b.Backend).Reference(q, answer))
		}
		differ := false
		for _, sides := range []Sides{TailSide, HeadSide, BothSides} {
			scores, err := Scores(t.Context(), m, g.Splits[kg.Train], sides, Options{Threads: 2})
			require.NoError(t, err)
			for i, tr := range triples {
				tail, head := score(tr, kg.Tail), score(tr, kg.Head)
				differ = differ || tail != head
				want := map[Sides]float64{TailSide: tail, HeadSide: head, BothSides: (tail + head) / 2}[sides]
				assert.Equal(t, want, scores[i], "%s, %v on side %v", c.Model, tr, sides)
			}
		}
		spec, err := model.Lookup(c.Model)
		require.NoError(t, err)
		assert.Equal(t, spec.IsSided(c), differ, c.Model)
	}
}

func TestScoresRefusesTriples(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(4, 3)), 30, 3, 10, 0, 0)
	m := ranktest.Model(t, "distmult", 4, g, 4, ranktest.VectorKinds[0])
	_, err := Scores(t.Context(), m, g.Splits[kg.Train], RelationSide, Options{})
	require.ErrorContains(t, err, "Scores takes TailSide, HeadSide or BothSides, not relation")
	for _, tr := range []kg.Triple{{Head: 30}, {Tail: 30}, {Relation: 3}, {Head: -1}, {Tail: -1}, {Relation: -1}} {
		_, err := Scores(t.Context(), m, []kg.Triple{tr}, TailSide, Options{})
		require.ErrorContains(t, err, "is outside the model's 30 entities and 3 relations")
	}
}
