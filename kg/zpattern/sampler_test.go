package zpattern

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mquine/mquine/kg"
)

// unobserved draws unobserved candidates, some of them twice.
func unobserved(rng *rand.Rand, e enumeration, q kg.Query, m int) []int32 {
	var candidates []int32
	for range 20 * m {
		c := rng.Int32N(e.entities)
		if !e.train[q.Triple(c)] && len(candidates) < m {
			candidates = append(candidates, c)
		}
	}
	return candidates
}

// The sampler returns all of S_Z if k is large enough, and k of its triples otherwise. The size is
// exact.
func TestSampleReturnsTheSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	sizes := map[bool]int{}
	for trial := range 60 {
		entities := 4 + rng.IntN(30)
		g := graphOf(entities, 2, randomTriples(rng, rng.IntN(5*entities), entities, 2, trial%2 == 0))
		x, err := NewIndex(t.Context(), g)
		require.NoError(t, err)
		brute, s := enumerate(g), x.NewSampler()
		for anchor := range int32(entities) {
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				q := kg.Query{Side: side, Relation: rng.Int32N(2), Anchor: anchor}
				candidates := unobserved(rng, brute, q, 1+rng.IntN(8))
				want := brute.union(q, candidates)
				sizes[len(want) == 0]++
				for _, k := range []int{0, 1, len(want) / 3, len(want) * 2 / 3, len(want), len(want) + 5} {
					prefix := []kg.Triple{{Head: -1}}
					got, size := s.Sample(prefix, q, candidates, k, rng)
					require.Equal(t, uint64(len(want)), size)
					require.Equal(t, prefix[0], got[0])
					require.Len(t, got[1:], min(k, len(want)))
					seen := map[kg.Triple]bool{}
					for _, edge := range got[1:] {
						require.True(t, want[edge], "%v is not in S_Z", edge)
						require.False(t, seen[edge], "%v is drawn twice", edge)
						seen[edge] = true
					}
				}
			}
		}
	}
	assert.Greater(t, sizes[true], 100, "empty sets")
	assert.Greater(t, sizes[false], 100)
}

// According to a chi-square test on sets of different shapes, Sample draws all triples of S_Z
// equally often.
func TestSampleIsUniform(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	const entities = 40
	train := randomTriples(rng, 150, entities, 1, true)
	for tail := range int32(30) {
		train = append(train, kg.Triple{Head: 1, Tail: tail}) // a hub
		train = append(train, kg.Triple{Head: tail, Tail: 2})
	}
	g := graphOf(entities, 1, train)
	x, err := NewIndex(t.Context(), g)
	require.NoError(t, err)
	brute, s := enumerate(g), x.NewSampler()
	tested := 0
	for _, q := range []kg.Query{
		{Anchor: 1}, {Anchor: 3}, {Anchor: 6}, {Side: kg.Head, Anchor: 2}, {Side: kg.Head, Anchor: 5},
	} {
		candidates := unobserved(rng, brute, q, 6)
		all := brute.union(q, candidates)
		n := len(all)
		require.Greater(t, n, 20, "%v", q)
		for _, k := range []int{1, 4, n * 2 / 3} { // both ways to draw
			const trials = 40_000
			counts := map[kg.Triple]int{}
			var drawn []kg.Triple
			for range trials {
				drawn, _ = s.Sample(drawn[:0], q, candidates, k, rng)
				for _, edge := range drawn {
					counts[edge]++
				}
			}
			expected := float64(trials*k) / float64(n)
			chi := 0.0
			for edge := range all {
				d := float64(counts[edge]) - expected
				chi += d * d / expected
			}
			// Draws without replacement have a smaller variance, by the factor (n−k)/(n−1).
			chi *= float64(n-1) / float64(n-k)
			p := distuv.ChiSquared{K: float64(n - 1)}.Survival(chi)
			assert.Greater(t, p, 1e-3, "%+v, k = %d of %d: chi-square %.1f", q, k, n, chi)
			tested++
		}
	}
	assert.Equal(t, 15, tested)
}

func TestSampleRefusesKnownAnswers(t *testing.T) {
	x, err := NewIndex(t.Context(), graphOf(3, 1, []kg.Triple{{Head: 0, Tail: 1}, {Head: 2, Tail: 1}}))
	require.NoError(t, err)
	s := x.NewSampler()
	rng := rand.New(rand.NewPCG(5, 1))
	assert.PanicsWithValue(t, "zpattern: candidate 1 of {Side:tail Relation:0 Anchor:0} is a known answer",
		func() { s.Sample(nil, kg.Query{}, []int32{1}, 1, rng) })
	_, size := s.Sample(nil, kg.Query{}, []int32{0, 2}, 1, rng)
	assert.Zero(t, size, "the sampler is clean again")
}

func TestSampleDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	g := graphOf(200, 1, randomTriples(rng, 1500, 200, 1, true))
	x, err := NewIndex(t.Context(), g)
	require.NoError(t, err)
	brute, s := enumerate(g), x.NewSampler()
	var queries []kg.Query
	var candidates [][]int32
	for anchor := range int32(200) {
		q := kg.Query{Side: kg.Side(anchor % 2), Anchor: anchor}
		queries = append(queries, q)
		candidates = append(candidates, unobserved(rng, brute, q, 16))
	}
	dst := make([]kg.Triple, 0, 64)
	all := func() {
		for i, q := range queries {
			s.Sample(dst, q, candidates[i], 64, rng)
		}
	}
	all()
	assert.Zero(t, testing.AllocsPerRun(5, all))
}

func TestSampleIsDeterministic(t *testing.T) {
	g := graphOf(60, 1, randomTriples(rand.New(rand.NewPCG(7, 1)), 400, 60, 1, true))
	x, err := NewIndex(t.Context(), g)
	require.NoError(t, err)
	brute := enumerate(g)
	var runs [2][]kg.Triple
	for i := range runs {
		rng, s := rand.New(rand.NewPCG(8, 1)), x.NewSampler()
		for anchor := range int32(60) {
			q := kg.Query{Anchor: anchor}
			runs[i], _ = s.Sample(runs[i], q, unobserved(rng, brute, q, 5), 7, rng)
		}
	}
	assert.Equal(t, runs[0], runs[1])
	assert.False(t, slices.Contains(runs[0], kg.Triple{Head: -1}))
	assert.NotEmpty(t, runs[0])
}
