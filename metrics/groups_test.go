package metrics

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/rank"
)

// familyGraph has a relation of each category (spouse 1-1, childOf N-1, parentOf 1-N, likes N-N)
// and the relation unused, which has no triples.
func familyGraph() *kg.Graph {
	g := &kg.Graph{
		Name:      "family",
		Entities:  kg.NewVocabulary("ann", "bob", "cal", "dee"),
		Relations: kg.NewVocabulary("spouse", "childOf", "parentOf", "likes", "unused"),
	}
	g.Splits[kg.Train] = []kg.Triple{
		{Head: 0, Relation: 0, Tail: 1}, {Head: 2, Relation: 0, Tail: 3},
		{Head: 1, Relation: 1, Tail: 0}, {Head: 2, Relation: 1, Tail: 0}, {Head: 3, Relation: 1, Tail: 0},
		{Head: 0, Relation: 2, Tail: 1}, {Head: 0, Relation: 2, Tail: 2}, {Head: 0, Relation: 2, Tail: 3},
		{
			Head:     0,
			Relation: 3,
			Tail:     2,
		}, {Head: 0, Relation: 3, Tail: 3}, {Head: 1, Relation: 3, Tail: 2}, {Head: 1, Relation: 3, Tail: 3},
	}
	g.Splits[kg.Test] = []kg.Triple{
		{
			Head:     1,
			Relation: 0,
			Tail:     0,
		}, {Head: 2, Relation: 3, Tail: 0}, {Head: 3, Relation: 3, Tail: 1}, {Head: 2, Relation: 1, Tail: 1},
	}
	return g
}

// familyRanks returns ranks of the graph's test split, the tail ranks first.
func familyRanks(g *kg.Graph) []rank.Rank {
	var ranks []rank.Rank
	for side := kg.Tail; side <= kg.Head; side++ {
		for i, triple := range g.Splits[kg.Test] {
			r := rank.Rank{Triple: triple, Side: side, Candidates: [rank.NumFilters]int32{4, 4, 3}}
			r.Better = [rank.NumFilters]int32{int32(i % 3), int32(i % 3), int32(i % 2)}
			r.Equal = [rank.NumFilters]int32{int32(side), int32(side), 0}
			ranks = append(ranks, r)
		}
	}
	return ranks
}

func familySummary(t require.TestingT, names ...string) ([]Result, []Result) {
	g := familyGraph()
	keys, err := NewKeys(t.(*testing.T).Context(), g, names, KeyOptions{})
	require.NoError(t, err)
	results, groups, err := Summarize(t.(*testing.T).Context(), familyRanks(g), SummaryOptions{
		Sides: rank.BothSides, Filters: []rank.Filter{rank.None, rank.Train, rank.All}, Hits: []int{1, 3}, Keys: keys,
	})
	require.NoError(t, err)
	return results, groups
}

func TestGroups(t *testing.T) {
	_, groups := familySummary(t, "relation", "category")
	var order []string
	n := map[string]int{}
	for _, g := range groups {
		if g.Side == rank.BothSides && g.Filter == rank.All && g.Ties == rank.Realistic {
			name := g.By + " " + g.Group
			order = append(order, name)
			n[name] = g.N
		}
	}
	assert.Equal(t, []string{
		"relation likes", "relation spouse", "relation childOf", "category 1-1", "category N-1", "category N-N",
	}, order, "relations by their number of queries, categories in their own order, and none without queries")
	assert.Equal(t, map[string]int{
		"relation likes": 4, "relation spouse": 2, "relation childOf": 2,
		"category 1-1": 2, "category N-1": 2, "category N-N": 4,
	}, n)
	assert.Len(t, groups, 6*27)

	for _, g := range groups {
		if g.Group == "likes" && g.Side == rank.HeadSide && g.Filter == rank.None && g.Ties == rank.Pessimistic {
			assert.InDelta(t, (1/3.+1/4.)/2, float64(g.MRR), 1e-15) // ranks 1+1+1 and 1+2+1
			assert.Equal(t, Hits{{1, 0}, {3, 0.5}}, g.Hits)
		}
	}
}

// Every query is in exactly one group of a key, so the groups' sums add up to the sums of all
// queries.
func TestGroupsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := append(someRanks(t), oneRank(0, 0, 3))
		key := Key{
			Name:   "key",
			Labels: make([]string, 7),
			Group:  func(r *rank.Rank) int { return int(r.Triple.Head+r.Triple.Tail+int32(r.Side)) % 7 },
		}
		results, groups, err := Summarize(t.Context(), ranks, SummaryOptions{
			Sides: rank.BothSides, Filters: []rank.Filter{rank.Train, rank.All}, Hits: []int{2}, Keys: []Key{key},
		})
		require.NoError(t, err)
		for _, whole := range results {
			var n int
			var reciprocals, hits float64
			for _, g := range groups {
				if g.Side == whole.Side && g.Filter == whole.Filter && g.Ties == whole.Ties && g.N > 0 {
					n += g.N
					reciprocals += float64(g.MRR) * float64(g.N)
					hits += float64(g.Hits[0].Share) * float64(g.N)
				}
			}
			require.Equal(t, whole.N, n)
			if n > 0 {
				require.InDelta(t, float64(whole.MRR), reciprocals/float64(n), 1e-12)
				require.InDelta(t, float64(whole.Hits[0].Share), hits/float64(n), 1e-12)
			}
		}
	})
}

// A group that contains all queries has the intervals of the results, even if it comes after other
// groups.
func TestSummarizeGroupOfAll(t *testing.T) {
	ranks := benchRanks(300, 10, true, 5)
	keys := []Key{
		{Name: "relation", Labels: make([]string, 10), Group: func(r *rank.Rank) int { return int(r.Triple.Relation) }},
		{Name: "all", Labels: []string{"all"}, Group: func(*rank.Rank) int { return 0 }},
	}
	results, groups, err := Summarize(t.Context(), ranks, SummaryOptions{
		Sides: rank.BothSides, Filters: []rank.Filter{rank.None, rank.All}, Hits: []int{3}, Keys: keys,
	})
	require.NoError(t, err)
	all := groups[10*len(results):]
	require.Len(t, all, len(results))
	for i, r := range results {
		r.By, r.Group, r.RankCounts = "all", "all", nil
		assert.Equal(t, r, all[i])
	}
}

func TestSummarizeSides(t *testing.T) {
	g := familyGraph()
	ranks := familyRanks(g)
	results, groups, err := Summarize(
		t.Context(),
		ranks[:4],
		SummaryOptions{Sides: rank.TailSide, Filters: []rank.Filter{rank.All}},
	)
	require.NoError(t, err)
	require.Len(t, results, 3)
	assert.Empty(t, groups)
	for ties, r := range results {
		assert.Equal(t, rank.TailSide, r.Side)
		assert.Equal(t, rank.Ties(ties), r.Ties)
		assert.Equal(t, 4, r.N)
	}
}

func TestSummarizeNothing(t *testing.T) {
	results, _, err := Summarize(
		t.Context(),
		nil,
		SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.All}, Hits: []int{1}},
	)
	require.NoError(t, err)
	require.Len(t, results, 9)
	for _, r := range results {
		assert.Zero(t, r.N)
		assert.True(t, math.IsNaN(float64(r.MRRCI[0])))
	}
}

func TestSummarizeRejectsHits(t *testing.T) {
	_, _, err := Summarize(t.Context(), nil, SummaryOptions{Hits: []int{1, 0}})
	assert.EqualError(t, err, "the cut-off 0 of Hits@k is not a rank: choose at least 1")
	_, _, err = Summarize(t.Context(), nil, SummaryOptions{Hits: []int{3, 1, 3}})
	assert.EqualError(t, err, "the cut-off 3 of Hits@k occurs twice: give it once")
}

// The key category reads the index that it gets instead of building another one. The index of an
// empty graph, in which every relation is 1-1, shows the difference.
func TestCategoryKeyUsesTheIndex(t *testing.T) {
	g := familyGraph()
	empty := &kg.Graph{Entities: g.Entities, Relations: g.Relations}
	for _, c := range []struct {
		index *kg.Index
		want  string
	}{{nil, "N-N"}, {kgtest.Index(t, g), "N-N"}, {kgtest.Index(t, empty), "1-1"}} {
		keys, err := NewKeys(t.Context(), g, []string{"category"}, KeyOptions{Index: c.index})
		require.NoError(t, err)
		likes, ok := g.Relations.ID("likes")
		require.True(t, ok)
		group := keys[0].Group(&rank.Rank{Triple: kg.Triple{Relation: likes}})
		assert.Equal(t, c.want, keys[0].Labels[group])
	}
}

func TestNewKeysErrors(t *testing.T) {
	g := familyGraph()
	_, err := NewKeys(t.Context(), g, []string{"colour"}, KeyOptions{})
	assert.EqualError(t, err, `there are no groups by "colour": choose from relation, entity, category, z-case, degree`)
	_, err = NewKeys(t.Context(), g, []string{"relation", "relation"}, KeyOptions{})
	assert.EqualError(t, err, "the key relation occurs twice: name it once")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = NewKeys(ctx, g, []string{"degree"}, KeyOptions{})
	assert.ErrorIs(t, err, context.Canceled)
	g.Splits[kg.Train] = nil
	_, err = NewKeys(t.Context(), g, []string{"relation", "category"}, KeyOptions{})
	assert.ErrorContains(t, err, "groups by category: data set family has no train split")
}
