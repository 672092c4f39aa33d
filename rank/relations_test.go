package rank

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// bruteRelations ranks relations by definition: it scores every relation of every triple, and looks
// for known triples one by one.
func bruteRelations(g *kg.Graph, triples []kg.Triple, score func(q kg.Query, e int32) float64) []Rank {
	var ranks []Rank
	for _, t := range triples {
		rank := Rank{Triple: t, Side: kg.Relation}
		target := score(kg.Query{Side: kg.Tail, Relation: t.Relation, Anchor: t.Head}, t.Tail)
		for relation := range int32(g.Relations.Len()) {
			other := kg.Triple{Head: t.Head, Relation: relation, Tail: t.Tail}
			s := score(kg.Query{Side: kg.Tail, Relation: relation, Anchor: t.Head}, t.Tail)
			for f := range NumFilters {
				removed := false
				for split, known := range g.Splits {
					for _, k := range known {
						removed = removed || k == other && other != t && f.Splits().Has(kg.Split(split))
					}
				}
				switch {
				case removed:
					continue
				case other == t:
				case s > target:
					rank.Better[f]++
				case s == target:
					rank.Equal[f]++
				}
				rank.Candidates[f]++
			}
		}
		ranks = append(ranks, rank)
	}
	return ranks
}

// sameRelations gives groups of relations the same parameters, so that their scores tie.
func sameRelations(c model.Config, tensors [][]float32) {
	parameters, err := model.Parameters(c)
	if err != nil {
		panic(err)
	}
	for i, p := range parameters {
		if p.Axis == model.PerRelation {
			width := p.Width()
			for r := range c.Relations {
				copy(tensors[i][r*width:][:width], tensors[i][r%4*width:][:width])
			}
		}
	}
}

func TestRelations(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(5, 1)), 8, 9, 120, 30, 50)
	index := kg.NewIndex(g)
	random := ranktest.VectorKinds[0]
	tied := ranktest.Kind{Name: "same relations", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
		random.Fill(rng, c, ts)
		sameRelations(c, ts)
	}}
	configs := ranktest.VectorConfigs(6, g)
	for _, name := range []string{"mquine", "mquade"} {
		configs = append(configs, model.Config{Model: name, Dim: 5, Entities: 8, Relations: 9})
	}
	for _, c := range configs {
		for _, kind := range []ranktest.Kind{random, tied} {
			m := ranktest.ModelOf(t, c, 6, kind)
			score := m.NewWorker(backends[0]).Reference
			if c.Model == "mquine" || c.Model == "mquade" {
				score = newBruteScorer(m)
			}
			want := bruteRelations(g, g.Splits[kg.Test], score)
			ties := 0
			for i, b := range backends {
				r, err := Relations(t.Context(), m, index, g.Splits[kg.Test], Options{Backend: b, Threads: 1 + i})
				require.NoError(t, err)
				require.Equal(t, want, r.Ranks, "%s, reciprocal: %v, %s", c.Model, c.Reciprocal, kind.Name)
			}
			for _, r := range want {
				ties += int(r.Equal[None])
			}
			if kind.Name == tied.Name {
				assert.Positive(t, ties, c.Model)
			}
		}
	}
}

// TestRelationsInChunks checks that triples of several chunks have the same ranks as each triple
// alone.
func TestRelationsInChunks(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(5, 2)), 40, 3, 2*relationChunk, 0, 0)
	m := ranktest.Model(t, "distmult", 4, g, 7, ranktest.VectorKinds[0])
	index := kg.NewIndex(g)
	all, err := Relations(t.Context(), m, index, g.Splits[kg.Train], Options{Threads: 3})
	require.NoError(t, err)
	for i := range 20 {
		at := i * len(g.Splits[kg.Train]) / 20
		one, err := Relations(t.Context(), m, index, g.Splits[kg.Train][at:at+1], Options{Threads: 3})
		require.NoError(t, err)
		require.Equal(t, one.Ranks[0], all.Ranks[at])
	}
	none, err := Relations(t.Context(), m, index, nil, Options{})
	require.NoError(t, err)
	require.Empty(t, none.Ranks)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Relations(ctx, m, index, g.Splits[kg.Train], Options{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = Run(t.Context(), m, index, g.Splits[kg.Train], Options{Sides: []kg.Side{kg.Relation}})
	require.ErrorContains(t, err, "call Relations")
}
