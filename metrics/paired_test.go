package metrics

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// someOtherRanks changes some ranks. It improves more ranks than it worsens.
func someOtherRanks(base []rank.Rank, seed uint64) []rank.Rank {
	rng := rand.New(rand.NewPCG(seed, 1))
	other := slices.Clone(base)
	for i := range other {
		switch b := &other[i].Better[rank.All]; rng.IntN(5) {
		case 0:
			*b *= 2
		case 1, 2:
			*b /= 3
		}
	}
	return other
}

func TestCompareObserves(t *testing.T) {
	g := familyGraph()
	base := familyRanks(g)
	other := slices.Clone(base)
	for i := range other {
		other[i].Triple = kg.Triple{
			Head:     3 - base[i].Triple.Head,
			Relation: base[i].Triple.Relation,
			Tail:     3 - base[i].Triple.Tail,
		} // a different vocabulary
	}
	// The ranks of the base are 1, 2, 1 and 2 on each side.
	other[1].Better[rank.All] = 0 // 2 → 1
	other[2].Better[rank.All] = 3 // 1 → 4
	other[7].Better[rank.All] = 9 // 2 → 10
	keys, err := NewKeys(t.Context(), g, []string{"category"}, KeyOptions{})
	require.NoError(t, err)
	c, err := Compare(
		t.Context(),
		base,
		other,
		CompareOptions{
			Sides:   rank.BothSides,
			Filter:  rank.All,
			Ties:    rank.Realistic,
			Hits:    []int{1, 3},
			Keys:    keys,
			Changed: 2,
		},
	)
	require.NoError(t, err)

	require.Len(t, c.Whole, 3)
	both := c.Whole[2]
	assert.Equal(
		t,
		[]any{"", rank.BothSides, 8, 1, 2, 5},
		[]any{both.By, both.Side, both.N, both.Wins, both.Losses, both.Equal},
	)
	assert.Equal(t, []int{4, 1, 1, 2}, []int{c.Whole[0].N, c.Whole[0].Wins, c.Whole[0].Losses, c.Whole[0].Equal})
	want := map[string][2]float64{
		"mrr": {(4*1 + 4*0.5) / 8, (3 + 1 + 0.25 + 2*0.5 + 0.1) / 8},
		"mr":  {12. / 8, (3 + 1 + 4 + 4 + 10) / 8.}, "hits@1": {4. / 8, 4. / 8}, "hits@3": {1, 6. / 8},
	}
	require.Len(t, both.Metrics, 4)
	for _, m := range both.Metrics {
		assert.InDelta(t, want[m.Metric][0], float64(m.Base), 1e-15, m.Metric)
		assert.InDelta(t, want[m.Metric][1], float64(m.Other), 1e-15, m.Metric)
		assert.InDelta(t, want[m.Metric][1]-want[m.Metric][0], float64(m.Difference), 1e-15, m.Metric)
		assert.True(t, math.IsNaN(float64(m.CI[0])) && math.IsNaN(float64(m.CI[1])), "four triples are too few")
	}
	assert.Equal(t, ClusterCount{4, 4}, both.ClusterCount)
	assert.Equal(t, Number(1), both.Metrics[2].P, "no difference")

	assert.Equal(t, []Change{
		{base[2].Triple, kg.Tail, 1, 4}, {base[1].Triple, kg.Tail, 2, 1},
	}, c.Changed)

	require.Len(t, c.Groups, 3*3, "no group for the category without queries")
	n, wins := 0, 0
	for _, group := range c.Groups {
		assert.Equal(t, "category", group.By)
		assert.Equal(t, group.N, group.Wins+group.Losses+group.Equal)
		if group.Side == rank.BothSides {
			n += group.N
			wins += group.Wins
		}
		if group.N == 0 {
			assert.True(t, math.IsNaN(float64(group.Metrics[0].P)) && math.IsNaN(float64(group.Metrics[0].CI[0])))
		}
	}
	assert.Equal(t, []int{8, 1}, []int{n, wins})
}

// Compare accepts other identifiers for the same queries, but not other queries.
func TestCompareOtherQueries(t *testing.T) {
	g := familyGraph()
	base, o := familyRanks(g), CompareOptions{Sides: rank.BothSides, Filter: rank.All}
	changed := func(change func(i int, t *kg.Triple)) []rank.Rank {
		ranks := slices.Clone(base)
		for i := range ranks {
			change(i, &ranks[i].Triple)
		}
		return ranks
	}
	entities, relations := int32(g.Entities.Len()), int32(g.Relations.Len())
	_, err := Compare(t.Context(), base, changed(func(_ int, t *kg.Triple) {
		t.Head, t.Relation, t.Tail = entities-1-t.Head, relations-1-t.Relation, entities-1-t.Tail
	}), o)
	require.NoError(t, err)
	for name, change := range map[string]func(i int, t *kg.Triple){
		"another head of one query":     func(i int, t *kg.Triple) { t.Head += int32(i / 7) },
		"another relation of one query": func(i int, t *kg.Triple) { t.Relation += int32(i / 7) },
		"another tail of one query":     func(i int, t *kg.Triple) { t.Tail += int32(i / 7) },
		"merged entities":               func(_ int, t *kg.Triple) { t.Head, t.Tail = 0, 0 },
		"merged relations":              func(_ int, t *kg.Triple) { t.Relation = 0 },
	} {
		other := changed(change)
		_, err := Compare(t.Context(), base, other, o)
		assert.ErrorContains(t, err, "do not correspond one to one: rank the same triples", name)
		_, err = Compare(t.Context(), other, base, o)
		assert.ErrorContains(t, err, "correspond one to one", name)
	}
	_, err = Compare(t.Context(), base, changed(func(i int, t *kg.Triple) { t.Head += int32(i / 7) }), o)
	assert.EqualError(t, err, "query 8 is of triple (2, 1, 1) in one ranking and of (3, 1, 1) in the other, and these "+
		"identifiers do not correspond one to one: rank the same triples in the same order, or use metrics.Align")
}

// With few test triples, the test can try all permutations. The p-value is close to the exact
// p-value.
func TestPermutationTestAgainstAllPermutations(t *testing.T) {
	const n = 11
	base := benchRanks(n, 3, false, 5)
	other := someOtherRanks(base, 5)
	c, err := Compare(t.Context(), base, other, CompareOptions{Sides: rank.BothSides, Filter: rank.All, Hits: []int{3}})
	require.NoError(t, err)
	tested := 0
	for _, whole := range c.Whole {
		for at, metric := range comparedMetrics([]int{3}) {
			sum := func(signs uint) float64 {
				total := 0.0
				for i := range base {
					if whole.Side != rank.BothSides && base[i].Side != whole.Side.List()[0] {
						continue
					}
					d := metric.of(
						rank.Optimistic.Rank(&other[i], rank.All),
					) - metric.of(
						rank.Optimistic.Rank(&base[i], rank.All),
					)
					if signs>>(i%n)&1 != 0 { // the two ranks of a triple are n apart
						d = -d
					}
					total += d
				}
				return math.Abs(total)
			}
			extreme := 0
			for signs := range uint(1 << n) {
				if sum(signs) >= sum(0)-1e-9 {
					extreme++
				}
			}
			exact := float64(extreme) / (1 << n)
			// Allow four standard deviations of a share of 10,000 permutations, and one
			// permutation.
			assert.InDelta(
				t,
				exact,
				float64(whole.Metrics[at].P),
				4*math.Sqrt(exact*(1-exact)/permutations)+1./permutations,
				"%v %s",
				whole.Side,
				metric.name,
			)
			tested++
		}
	}
	assert.Equal(t, 9, tested)
}

// The p-values are computed by hand. Equal sums may differ by rounding errors if their terms are
// added in different orders.
func TestPValue(t *testing.T) {
	pValue := func(means []float64, observed, size float64) Number {
		var e extremeMeans
		e.begin(observed, size)
		e.add(means)
		return e.pValue(len(means))
	}
	assert.Equal(t, Number(3)/5, pValue([]float64{1, -2, 0.5, 0}, 1, 1))
	assert.Equal(t, Number(3)/5, pValue([]float64{1, -2, 0.5, 0}, -1, 1))
	tenth, fifth, rest := 0.1, 0.2, 0.3
	require.NotEqual(t, tenth+fifth, rest)
	assert.Equal(t, Number(3)/4, pValue([]float64{rest, -rest, 0}, tenth+fifth, rest))
	assert.Equal(t, Number(1), pValue([]float64{0, 1, -1}, tenth+fifth-rest, rest))
	assert.Equal(t, Number(1), pValue([]float64{0, 0, 0}, 0, 0))
}

// TestPermutationTestNearZero compares p-values with the share of all permutations in rational
// arithmetic, for differences of MRR that are 0 or nearly so.
func TestPermutationTestNearZero(t *testing.T) {
	for better := range 7 {
		const n = 10
		base, other := make([]rank.Rank, n), make([]rank.Rank, n)
		differences := make([]*big.Rat, n)
		for i := range n {
			base[i] = rank.Rank{Triple: kg.Triple{Head: int32(i), Tail: int32(i)}}
			other[i] = base[i]
			to := int64(6)
			if i < better {
				to = 2
			}
			base[i].Better[rank.All], other[i].Better[rank.All] = 3-1, int32(to-1)
			differences[i] = new(big.Rat).Sub(big.NewRat(1, to), big.NewRat(1, 3))
		}
		sum := func(signs uint) *big.Rat {
			total := new(big.Rat)
			for i, d := range differences {
				if signs>>i&1 != 0 {
					total.Sub(total, d)
				} else {
					total.Add(total, d)
				}
			}
			return total.Abs(total)
		}
		extreme := 0
		for signs := range uint(1 << n) {
			if sum(signs).Cmp(sum(0)) >= 0 {
				extreme++
			}
		}
		exact := float64(extreme) / (1 << n)
		c, err := Compare(t.Context(), base, other, CompareOptions{Sides: rank.TailSide, Filter: rank.All})
		require.NoError(t, err)
		assert.InDelta(t, exact, float64(c.Whole[0].Metrics[0].P),
			4*math.Sqrt(exact*(1-exact)/permutations)+1./permutations, "%d better ranks", better)
	}
}

// The p-values of groups that share draws are exactly the p-values of stored means of one group at a
// time.
func TestPermutationTestAgainstStoredMeans(t *testing.T) {
	const relations = 9
	base := slices.DeleteFunc(benchRanks(300, relations, true, 6), func(r rank.Rank) bool {
		return r.Side == kg.Head && r.Triple.Relation == 0 // a contrast without queries
	})
	other := someOtherRanks(base, 6)
	key := Key{
		Name:    "relation",
		Labels:  make([]string, relations),
		Ordered: true,
		Group:   func(r *rank.Rank) int { return int(r.Triple.Relation) },
	}
	o := CompareOptions{
		Sides: rank.BothSides, Filter: rank.All, Ties: rank.Realistic, Hits: []int{1, 10}, Keys: []Key{key}, Threads: 4,
	}
	for _, o.CIBy = range []Clustering{ByTriple, ByQuery, ByRelation} {
		c, err := Compare(t.Context(), base, other, o)
		require.NoError(t, err)
		p := pairing{o: o, base: base, other: other, metrics: comparedMetrics(o.Hits)}
		p.clusters, p.count = o.CIBy.number(base)
		groups, _ := groupsOf(base, o.Keys)
		contrasts := slices.Concat(c.Whole, c.Groups)
		require.Len(t, contrasts, 3*len(groups))
		smallest := Number(1)
		for g, m := range groups {
			d := newDrawnMeans(p.clusters, m, selections(o.Sides), len(p.metrics), p.differences)
			d.signed = true
			d.store(permutations)
			err := draw(t.Context(), []*drawnMeans{&d}, permutations, p.count, 1, drawSigns, func(int) {})
			require.NoError(t, err)
			for i, means := range d.means {
				contrast := contrasts[3*g+i/len(p.metrics)]
				got := contrast.Metrics[i%len(p.metrics)]
				if contrast.N == 0 {
					require.True(t, math.IsNaN(float64(got.P)))
					continue
				}
				sizes := p.observe(&Contrast{}, m.on(contrast.Side))
				var e extremeMeans
				e.begin(float64(got.Difference), sizes[i%len(p.metrics)])
				extreme := 1
				for _, mean := range means {
					if math.Abs(mean) >= e.least {
						extreme++
					}
				}
				require.Equal(t, Number(extreme)/(permutations+1), got.P)
				smallest = min(smallest, got.P)
			}
		}
		assert.Less(t, smallest, Number(1), o.CIBy)
	}
}

// The interval of a difference equals the result of a straightforward resampling.
func TestDifferenceIntervalAgainstPlainResampling(t *testing.T) {
	const n = 60
	base := benchRanks(n, 3, false, 6)
	other := someOtherRanks(base, 6)
	key := Key{
		Name:    "relation",
		Labels:  make([]string, 3),
		Ordered: true,
		Group:   func(r *rank.Rank) int { return int(r.Triple.Relation) },
	}
	c, err := Compare(
		t.Context(),
		base,
		other,
		CompareOptions{Sides: rank.BothSides, Filter: rank.All, Keys: []Key{key}},
	)
	require.NoError(t, err)
	for i, contrast := range append(c.Whole[2:], c.Groups[2], c.Groups[5], c.Groups[8]) {
		mrr := contrast.Metrics[0]
		assert.True(t, mrr.CI[0] <= mrr.Difference && mrr.Difference <= mrr.CI[1])
		var means []float64
		w := make(weights, n)
		for b := range resamples {
			clear(w)
			drawClusters(w, 0, b)
			var sum, count float64
			for q := range base {
				if i == 0 || int(base[q].Triple.Relation) == i-1 {
					d := 1/rank.Optimistic.Rank(&other[q], rank.All) - 1/rank.Optimistic.Rank(&base[q], rank.All)
					sum += w[q%n][0] * d
					count += w[q%n][0]
				}
			}
			if count > 0 {
				means = append(means, sum/count)
			}
		}
		want := percentileInterval(means, contrast.tail())
		assert.InDelta(t, float64(want[0]), float64(contrast.Metrics[0].CI[0]), 1e-12)
		assert.InDelta(t, float64(want[1]), float64(contrast.Metrics[0].CI[1]), 1e-12)
	}
}

func TestCompareIsDeterministic(t *testing.T) {
	base := benchRanks(700, 3, true, 7)
	other := someOtherRanks(base, 7)
	var first Comparison
	for threads := range 4 {
		c, err := Compare(
			t.Context(),
			base,
			other,
			CompareOptions{
				Sides:   rank.TailSide,
				Filter:  rank.All,
				Ties:    rank.Realistic,
				Hits:    []int{10},
				Changed: 5,
				Threads: threads,
			},
		)
		require.NoError(t, err)
		if threads == 0 {
			first = c
		}
		require.Equal(t, first, c)
	}
	assert.Less(t, float64(first.Whole[0].Metrics[0].P), 0.05, "the other ranks are better")
}

func TestCompareTheSame(t *testing.T) {
	ranks := benchRanks(30, 3, true, 8)
	c, err := Compare(
		t.Context(),
		ranks,
		ranks,
		CompareOptions{Sides: rank.BothSides, Filter: rank.All, Ties: rank.Realistic, Changed: 9},
	)
	require.NoError(t, err)
	assert.Empty(t, c.Changed)
	assert.Equal(
		t,
		MetricDifference{Metric: "mrr", Base: c.Whole[2].Metrics[0].Base, Other: c.Whole[2].Metrics[0].Base, P: 1},
		c.Whole[2].Metrics[0],
	)
}

func TestCompareRefuses(t *testing.T) {
	ranks := benchRanks(4, 1, false, 9)
	_, err := Compare(t.Context(), ranks, ranks[1:], CompareOptions{})
	assert.EqualError(t, err, "cannot compare the ranks of 8 and of 7 queries: rank the same split")
	turned := slices.Clone(ranks)
	turned[2].Side = kg.Head
	_, err = Compare(t.Context(), ranks, turned, CompareOptions{})
	assert.EqualError(t, err, "query 3 has side tail in one ranking and side head in the other: rank the same sides")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Compare(ctx, ranks, ranks, CompareOptions{Sides: rank.BothSides})
	assert.ErrorIs(t, err, context.Canceled)
}

func BenchmarkCompare(b *testing.B) {
	base := benchRanks(20466, 237, false, 1)
	other := someOtherRanks(base, 1)
	key := Key{
		Name:   "relation",
		Labels: make([]string, 237),
		Group:  func(r *rank.Rank) int { return int(r.Triple.Relation) },
	}
	for b.Loop() {
		o := CompareOptions{
			Sides: rank.BothSides, Filter: rank.All, Hits: []int{1, 3, 10}, Keys: []Key{key}, Changed: 10,
		}
		if _, err := Compare(b.Context(), base, other, o); err != nil {
			b.Fatal(err)
		}
	}
}
