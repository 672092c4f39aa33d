package metrics

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/rank"
)

// groupSizes counts the queries of each group of a key.
func groupSizes(k Key, ranks []rank.Rank) map[string]int {
	sizes := map[string]int{}
	for _, l := range k.Labels {
		sizes[l] = 0
	}
	for i := range ranks {
		sizes[k.Labels[k.Group(&ranks[i])]]++
	}
	return sizes
}

func TestZCaseMemory(t *testing.T) {
	g := familyGraph()
	g.Splits[kg.Train] = make([]kg.Triple, 4_000_000)
	proctest.Leave(t, 40<<20)
	_, err := NewKeys(t.Context(), g, []string{"z-case"}, KeyOptions{Triples: g.Splits[kg.Test]})
	assert.ErrorContains(t, err, "counting the Z-patterns of ")
	assert.ErrorContains(t, err, "but only 40 MiB is available (a limit of the test)")
}

func TestZCaseGroups(t *testing.T) {
	g := familyGraph()
	// There are many entities, so a triple without patterns is not in the easy case.
	for _, name := range []string{"f", "g", "h", "i", "j", "k", "l", "m", "n", "o"} {
		g.Entities.Add(name)
	}
	// The triples (cal, likes, ann) and (dee, likes, bob) have no patterns. (cal, likes, dee) has
	// one: cal likes dee ← ann likes cal.
	g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Head: 2, Relation: 3, Tail: 3})
	g.Splits[kg.Test] = append(g.Splits[kg.Test], kg.Triple{Head: 2, Relation: 3, Tail: 2})
	keys, err := NewKeys(
		t.Context(),
		g,
		[]string{"z-case"},
		KeyOptions{Triples: g.Splits[kg.Test], Sides: rank.BothSides},
	)
	require.NoError(t, err)
	assert.Equal(t, "z-case", keys[0].Name)
	ranks := familyRanks(g)
	assert.Equal(t, map[string]int{"easy": 2, "neutral": 8, "hard": 0}, groupSizes(keys[0], ranks))

	x, err := zpattern.NewIndex(t.Context(), g)
	require.NoError(t, err)
	for i := range ranks {
		v, err := x.Values(t.Context(), []kg.Triple{ranks[i].Triple}, ranks[i].Side, zpattern.Paper, 1, nil)
		require.NoError(t, err)
		assert.Equal(t, v[0].Case.String(), keys[0].Labels[keys[0].Group(&ranks[i])])
	}
	assert.Panics(t, func() { keys[0].Group(&rank.Rank{Triple: kg.Triple{Head: 3, Relation: 4, Tail: 3}}) })
}

// Entities that only a checkpoint has are not candidates of rank_Z.
func TestZCaseOfRelabelledGraph(t *testing.T) {
	g := familyGraph()
	larger := kg.NewVocabulary("p", "q", "r", "s", "t", "u", "v", "w", "x", "y")
	for _, label := range g.Entities.Labels() {
		larger.Add(label)
	}
	relabelled, err := g.Relabel(larger, g.Relations)
	require.NoError(t, err)
	var sizes []map[string]int
	for _, g := range []*kg.Graph{g, relabelled} {
		keys, err := NewKeys(t.Context(), g, []string{"z-case"},
			KeyOptions{Triples: g.Splits[kg.Test], Sides: rank.BothSides})
		require.NoError(t, err)
		var ranks []rank.Rank
		for _, triple := range g.Splits[kg.Test] {
			ranks = append(ranks, rank.Rank{Triple: triple}, rank.Rank{Triple: triple, Side: kg.Head})
		}
		sizes = append(sizes, groupSizes(keys[0], ranks))
	}
	assert.Positive(t, sizes[0]["easy"])
	assert.Equal(t, sizes[0], sizes[1])
}

func TestDegreeGroups(t *testing.T) {
	g := familyGraph()
	// A repeated triple and a loop count once: ann is in 9 distinct triples, bob in 5, eve in one
	// that is both, and fay in none.
	g.Entities.Add("eve")
	g.Entities.Add("fay")
	loop := kg.Triple{Head: 4, Relation: 3, Tail: 4}
	g.Splits[kg.Train] = append(g.Splits[kg.Train], g.Splits[kg.Train][0], loop, loop)
	x, err := kg.NewIndex(t.Context(), g)
	require.NoError(t, err)
	for _, x := range []*kg.Index{nil, x} {
		keys, err := NewKeys(t.Context(), g, []string{"degree"}, KeyOptions{Index: x})
		require.NoError(t, err)
		assert.Equal(t, []string{"0", "1", "2-3", "4-7", "8-15"}, keys[0].Labels)
		answer := func(e int32) string {
			return keys[0].Labels[keys[0].Group(&rank.Rank{Triple: kg.Triple{Head: 0, Tail: e}})]
		}
		assert.Equal(
			t,
			[]string{"8-15", "4-7", "4-7", "4-7", "1", "0"},
			[]string{answer(0), answer(1), answer(2), answer(3), answer(4), answer(5)},
		)
		assert.Equal(t, "0", keys[0].Labels[keys[0].Group(&rank.Rank{Triple: kg.Triple{Head: 5}, Side: kg.Head})])
	}
}

// Summarize keeps all queries of these groups, and leaves out groups without queries.
func TestZCaseAndDegreeAddUp(t *testing.T) {
	g := familyGraph()
	ranks := familyRanks(g)
	keys, err := NewKeys(
		t.Context(),
		g,
		[]string{"z-case", "degree"},
		KeyOptions{Triples: g.Splits[kg.Test], Sides: rank.BothSides},
	)
	require.NoError(t, err)
	_, groups, err := Summarize(
		t.Context(),
		ranks,
		SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.All}, Hits: []int{1}, Keys: keys},
	)
	require.NoError(t, err)
	n, listed := map[string]int{}, map[string]int{}
	for _, group := range groups {
		if group.Side == rank.BothSides && group.Ties == rank.Realistic {
			n[group.By] += group.N
			listed[group.By]++
		}
	}
	assert.Equal(t, map[string]int{"z-case": len(ranks), "degree": len(ranks)}, n)
	assert.Equal(t, map[string]int{"z-case": 1, "degree": 2}, listed, "groups with queries")
}

func TestZCaseNeedsTraining(t *testing.T) {
	g := familyGraph()
	g.Splits[kg.Train] = nil
	for _, name := range []string{"z-case", "degree"} {
		_, err := NewKeys(t.Context(), g, []string{name}, KeyOptions{})
		assert.ErrorContains(t, err, "groups by "+name+": data set family has no train split")
	}
}
