package kg

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawGraph draws a small graph that is dense enough for repeats and shared triples.
func drawGraph(t *rapid.T) *Graph {
	entities, relations := rapid.IntRange(1, 9).Draw(t, "entities"), rapid.IntRange(1, 4).Draw(t, "relations")
	g := &Graph{Name: "drawn", Entities: numberedLabels(entities), Relations: numberedLabels(relations)}
	triple := rapid.Custom(func(t *rapid.T) Triple {
		return Triple{
			rapid.Int32Range(0, int32(entities-1)).Draw(t, "head"),
			rapid.Int32Range(0, int32(relations-1)).Draw(t, "relation"),
			rapid.Int32Range(0, int32(entities-1)).Draw(t, "tail"),
		}
	})
	for s := range NumSplits {
		if s == Train || rapid.Bool().Draw(t, "present") {
			g.Splits[s] = rapid.SliceOfN(triple, 0, 40).Draw(t, s.String())
		}
	}
	return g
}

// knownAnswers is a brute-force index.
func knownAnswers(g *Graph) map[Query]map[int32]SplitSet {
	known := make(map[Query]map[int32]SplitSet)
	for s, triples := range g.Splits {
		for _, t := range triples {
			for _, side := range []Side{Tail, Head} {
				q, answer := t.Query(side)
				if known[q] == nil {
					known[q] = make(map[int32]SplitSet)
				}
				known[q][answer] |= Set(Split(s))
			}
		}
	}
	return known
}

func TestIndexEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		x, known := newIndex(t, g), knownAnswers(g)
		for s := range NumSplits {
			distinct := map[Triple]bool{}
			for _, triple := range g.Splits[s] {
				distinct[triple] = true
			}
			require.Equal(t, len(distinct), x.Distinct(s))
		}
		numbered := map[int]Query{}
		for _, side := range []Side{Tail, Head} {
			for r := range int32(g.Relations.Len()) {
				for anchor := range int32(g.Entities.Len()) {
					q := Query{side, r, anchor}
					if number := x.Number(q); number >= 0 {
						require.NotContains(t, numbered, number)
						numbered[number] = q
						require.Contains(t, known, q)
						require.Less(t, number, x.Queries())
					}
					got := x.Answers(q)
					require.Len(t, got.Splits, len(got.Entities))
					assert.True(t, slices.IsSorted(got.Entities))
					answers := make(map[int32]SplitSet)
					for i, e := range got.Entities {
						answers[e] = got.Splits[i]
					}
					require.Len(t, answers, len(got.Entities), "an answer is listed twice")
					if len(answers) > 0 || len(known[q]) > 0 {
						require.Equal(t, known[q], answers, "%v", q)
					}
				}
			}
		}
		require.Len(t, numbered, len(known))
		require.Equal(t, len(known), x.Queries())
	})
}

func TestIndexStopsWithItsContext(t *testing.T) {
	g := &Graph{Entities: numberedLabels(2), Relations: numberedLabels(1)}
	x := newIndex(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewIndex(ctx, g)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Describe(ctx, g, x)
	assert.ErrorIs(t, err, context.Canceled)
}

// A graph with wrong identifiers is an error, not a panic in a goroutine of the index.
func TestIndexRefusesOtherIdentifiers(t *testing.T) {
	for wrong, want := range map[Triple]string{
		{2, 0, 0}:  "(2, 0, 0)",
		{0, 0, 2}:  "(0, 0, 2)",
		{0, 1, 0}:  "(0, 1, 0)",
		{-1, 0, 0}: "(-1, 0, 0)",
		{0, -1, 0}: "(0, -1, 0)",
		{0, 0, -1}: "(0, 0, -1)",
	} {
		g := &Graph{Name: "g", Entities: numberedLabels(2), Relations: numberedLabels(1)}
		g.Splits[Valid] = []Triple{{1, 0, 1}, wrong}
		_, err := NewIndex(t.Context(), g)
		assert.EqualError(t, err, "data set g has 2 entities and 1 relation, but triple 1 of its valid split is "+want+
			": add the labels of all identifiers to the vocabularies")
	}
	for _, g := range []*Graph{{Name: "g"}, {Name: "g", Entities: numberedLabels(1)}} {
		_, err := NewIndex(t.Context(), g)
		assert.EqualError(t, err, "data set g needs a vocabulary of entities and one of relations")
	}
	_, err := NewIndex(t.Context(), &Graph{})
	assert.EqualError(t, err, "the data set needs a vocabulary of entities and one of relations")
	_, err = new(Graph).Triples(Train)
	assert.EqualError(t, err, "the data set has no train split")
	_, err = NewIndex(t.Context(), nil)
	assert.EqualError(t, err, "the graph is nil: read one with kg.Open")
}

func TestIndexHoldsTheLargestIdentifiers(t *testing.T) {
	const last = 1<<31 - 1
	g := &Graph{Entities: numberedLabels(2)}
	g.Splits[Test] = []Triple{{1, last, 0}, {1, 0, 1}, {1, last, 1}}
	x := &Index{} // NewIndex would need 2³¹ labels
	x.sides[Tail] = newAdjacency(g, Tail)
	assert.Equal(t, Answers{[]int32{0, 1}, []SplitSet{Set(Test), Set(Test)}}, x.Answers(Query{Tail, last, 1}))

	keys := uint64(last)<<relationShift | uint64(last)<<answerShift | uint64(Test)
	assert.EqualValues(t, last, keys>>relationShift)
	assert.EqualValues(t, last, keys>>answerShift&last)
}

func TestIndexHasNoAnswersToUnknownQueries(t *testing.T) {
	g := &Graph{Entities: numberedLabels(2), Relations: numberedLabels(1)}
	g.Splits[Train] = []Triple{{0, 0, 1}}
	x := newIndex(t, g)
	for _, q := range []Query{{Tail, 0, 1}, {Head, 0, 0}, {Tail, 1, 0}, {Tail, -1, 0}, {Tail, 0, 2}, {Tail, 0, -1}} {
		assert.Empty(t, x.Answers(q).Entities, "%v", q)
		assert.Equal(t, -1, x.Number(q), "%v", q)
	}
	empty := newIndex(t, &Graph{Entities: NewVocabulary(), Relations: NewVocabulary()})
	assert.Empty(t, empty.Answers(Query{Tail, 0, 0}).Entities)
}

func TestAnswersDoNotAllocate(t *testing.T) {
	g := &Graph{Entities: numberedLabels(1000), Relations: numberedLabels(1)}
	for e := range int32(1000) {
		g.Splits[Train] = append(g.Splits[Train], Triple{0, 0, e})
	}
	x := newIndex(t, g)
	found := 0
	assert.Zero(t, testing.AllocsPerRun(100, func() { found += len(x.Answers(Query{Tail, 0, 0}).Entities) }))
	assert.Positive(t, found)
}

// Appending to the answers to one query does not overwrite the answers to the next query.
func TestAnswersHaveNoSpareCapacity(t *testing.T) {
	g := &Graph{Entities: numberedLabels(3), Relations: numberedLabels(1)}
	g.Splits[Train] = []Triple{{0, 0, 1}, {1, 0, 2}}
	x := newIndex(t, g)
	_ = append(x.Answers(Query{Tail, 0, 0}).Entities, 9)
	assert.Equal(t, []int32{2}, x.Answers(Query{Tail, 0, 1}).Entities)
}

// The heap grows by about the sizes that the graph and its index report.
func TestBytes(t *testing.T) {
	const entities, triples = 20_000, 300_000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	g := &Graph{Entities: NewVocabulary(), Relations: NewVocabulary("r")}
	for i := range entities {
		g.Entities.Add(fmt.Sprintf("the entity with number %d", i))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	g.Splits[Train] = make([]Triple, triples)
	for i := range g.Splits[Train] {
		g.Splits[Train][i] = Triple{Head: rng.Int32N(entities), Tail: rng.Int32N(entities)}
	}
	graph := heap()
	x := newIndex(t, g)
	index := heap()
	assert.InEpsilon(t, graph-before, g.Bytes(), 0.2)
	assert.InEpsilon(t, index-graph, x.Bytes(), 0.1)
	runtime.KeepAlive(g)
	runtime.KeepAlive(x)
}

func TestSplitsOfTriples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		x, known := newIndex(t, g), knownAnswers(g)
		n := int32(g.Entities.Len())
		for r := range int32(g.Relations.Len()) {
			for h := range n {
				for tail := range n {
					require.Equal(t, known[Query{Tail, r, h}][tail], x.Splits(Triple{h, r, tail}))
				}
			}
		}
		require.Zero(t, x.Splits(Triple{Head: n}), "an entity that the graph lacks")
	})
}
