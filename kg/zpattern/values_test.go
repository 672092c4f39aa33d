package zpattern

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// The values of random triples and of all training triples, on both sides and in both conventions,
// agree with an enumeration.
func TestValuesAgreeWithEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	cases := map[Case]int{}
	for trial := range 40 {
		entities, relations := 2+rng.IntN(24), 1+rng.IntN(3)
		g := graphOf(entities, relations, randomTriples(rng, rng.IntN(5*entities), entities, relations, trial%2 == 0))
		x, err := NewIndex(t.Context(), g)
		require.NoError(t, err)
		brute := enumerate(g)
		var all []kg.Triple
		for h := range int32(entities) {
			for range 3 {
				r, tail := rng.Int32N(int32(relations)), rng.Int32N(int32(entities))
				all = append(all, kg.Triple{Head: h, Relation: r, Tail: tail})
			}
		}
		all = append(all, g.Splits[kg.Train]...)
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			for c := range numConventions {
				values, err := x.Values(t.Context(), all, side, c, 1+trial%3, nil)
				require.NoError(t, err)
				for i, triple := range all {
					require.Equal(t, brute.value(triple, side, c), values[i],
						"%v on side %v, %v, graph %v", triple, side, c, g.Splits[kg.Train])
					cases[values[i].Case]++
				}
			}
		}
	}
	assert.Len(t, cases, int(NumCases), "the graphs have triples of all cases")
}

func TestPatternsAgreeWithEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	listed := 0
	for trial := range 40 {
		entities := 2 + rng.IntN(15)
		g := graphOf(entities, 2, randomTriples(rng, rng.IntN(6*entities), entities, 2, trial%2 == 0))
		x, err := NewIndex(t.Context(), g)
		require.NoError(t, err)
		brute := enumerate(g)
		for _, triple := range randomTriples(rng, 50, entities, 2, false) {
			for c := range numConventions {
				got := slices.Collect(x.Patterns(triple, c))
				require.Equal(t, brute.patterns(triple, c), got)
				listed += len(got)
				for p := range x.Patterns(triple, c) {
					require.Equal(t, got[0], p)
					break
				}
			}
		}
	}
	assert.Greater(t, listed, 1000)
}

// In a complete bipartite graph, every training triple is the middle of a pattern of every training
// triple, so the Z-values of training triples are the largest possible.
func TestLargestValue(t *testing.T) {
	const n = 300
	var train []kg.Triple
	for h := range int32(n) {
		for tail := range int32(n) {
			train = append(train, kg.Triple{Head: h, Tail: n + tail})
		}
	}
	x, err := NewIndex(t.Context(), graphOf(2*n, 1, train))
	require.NoError(t, err)
	for c := range numConventions {
		values, err := x.Values(t.Context(), []kg.Triple{{Head: 0, Tail: n}, {Head: 0, Tail: 0}}, kg.Tail, c, 0, nil)
		require.NoError(t, err)
		assert.Equal(t, Value{Z: n * n, Rank: 0, Above: 0, Case: Easy}, values[0])
		assert.Equal(t, Value{Z: 0, Rank: n, Above: 0, Case: Neutral}, values[1])
	}
}

func TestValuesOfNothing(t *testing.T) {
	g := graphOf(12, 2, []kg.Triple{{Head: 0, Tail: 1}})
	x, err := NewIndex(t.Context(), g)
	require.NoError(t, err)
	values, err := x.Values(t.Context(), nil, kg.Tail, Paper, 0, nil)
	require.NoError(t, err)
	assert.Empty(t, values)
	// Relation 1 has no training triples, so all candidates have the Z-value 0.
	values, err = x.Values(t.Context(), []kg.Triple{{Head: 3, Relation: 1, Tail: 4}}, kg.Head, Paper, 0, nil)
	require.NoError(t, err)
	assert.Equal(t, []Value{{Rank: 12, Case: Neutral}}, values)
	_, err = x.Values(t.Context(), []kg.Triple{{Head: 12}}, kg.Tail, Paper, 0, nil)
	assert.EqualError(t, err, "triple {12 0 0} is outside the graph's 12 entities and 2 relations")
	_, err = x.Values(t.Context(), []kg.Triple{{Relation: 2}}, kg.Tail, Paper, 0, nil)
	assert.Error(t, err)

	g.Splits[kg.Train] = nil
	_, err = NewIndex(t.Context(), g)
	assert.ErrorContains(t, err, "has no train split")
}

func TestValuesStopWhenCancelled(t *testing.T) {
	g := graphOf(2, 1, []kg.Triple{{Tail: 1}})
	x, err := NewIndex(t.Context(), g)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = NewIndex(ctx, g)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = x.Values(ctx, []kg.Triple{{Tail: 1}}, kg.Tail, Paper, 2, nil)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestNames(t *testing.T) {
	assert.Equal(t, "paper definition Convention(2)", fmt.Sprint(Paper, Definition, numConventions))
	assert.Equal(t, "easy neutral hard Case(3)", fmt.Sprint(Easy, Neutral, Hard, NumCases))
}

// A graph with wrong identifiers is an error, not a panic in a goroutine of the index.
func TestIndexRefusesOtherIdentifiers(t *testing.T) {
	for _, wrong := range []kg.Triple{{Head: 2}, {Tail: 2}, {Relation: 1}, {Head: -1}, {Tail: -1}, {Relation: -1}} {
		_, err := NewIndex(t.Context(), graphOf(2, 1, []kg.Triple{{Tail: 1}, wrong}))
		require.ErrorContains(t, err, "has 2 entities and 1 relation, but triple 1 of its train split is")
	}
}
