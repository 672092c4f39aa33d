package metrics

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// ranksOf returns ranks of both sides, the tail ranks first.
func ranksOf(triples ...kg.Triple) []rank.Rank {
	var ranks []rank.Rank
	for side := kg.Tail; side <= kg.Head; side++ {
		for _, t := range triples {
			ranks = append(ranks, rank.Rank{Triple: t, Side: side})
		}
	}
	return ranks
}

func TestClustersByHand(t *testing.T) {
	ranks := ranksOf(
		kg.Triple{Head: 1, Relation: 0, Tail: 9}, // three triples of (?, 0, 9)
		kg.Triple{Head: 2, Relation: 0, Tail: 9},
		kg.Triple{Head: 3, Relation: 0, Tail: 9},
		kg.Triple{Head: 3, Relation: 0, Tail: 8}, // two of (3, 0, ?), but one of them is in a larger query
		kg.Triple{Head: 3, Relation: 1, Tail: 9}, // two of (?, 1, 9) and two of (3, 1, ?)
		kg.Triple{Head: 4, Relation: 1, Tail: 9},
		kg.Triple{Head: 3, Relation: 1, Tail: 7},
		kg.Triple{Head: 5, Relation: 1, Tail: 5}, // a loop
		kg.Triple{Head: 5, Relation: 2, Tail: 6},
		kg.Triple{Head: 5, Relation: 2, Tail: 6}, // a repeated triple
	)
	for by, want := range map[Clustering][]int32{
		ByTriple:   {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		ByQuery:    {0, 0, 0, 1, 2, 3, 2, 4, 5, 5},
		ByEntity:   {0, 0, 0, 1, 0, 0, 1, 2, 2, 2}, // 9 is in five triples, 3 in four, 5 in three
		ByRelation: {0, 0, 0, 0, 1, 1, 1, 1, 2, 2},
	} {
		numbers, count := by.number(ranks)
		assert.Equal(t, append(want, want...), numbers, by)
		distinct := map[int32]bool{}
		for _, n := range numbers {
			distinct[n] = true
		}
		assert.Len(t, distinct, count, by)
	}
}

// Both ranks of a triple are in one cluster. The triples of a cluster have its query, entity or
// relation in common, and no triple could belong to a larger cluster.
func TestClustersShareWhatTheyAreNamedAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entity := rapid.Int32Range(0, 5)
		triples := rapid.SliceOf(rapid.Custom(func(t *rapid.T) kg.Triple {
			relation := rapid.Int32Range(0, 1).Draw(t, "relation")
			return kg.Triple{Head: entity.Draw(t, "head"), Relation: relation, Tail: entity.Draw(t, "tail")}
		})).Draw(t, "triples")
		by := rapid.SampledFrom([]Clustering{ByQuery, ByEntity, ByRelation}).Draw(t, "by")
		has := func(k kg.Triple, q kg.Query) bool { // brute force
			switch by {
			case ByQuery:
				of, _ := k.Query(q.Side)
				return of == q
			case ByEntity:
				return k.Head == q.Anchor || k.Tail == q.Anchor
			}
			return k.Relation == q.Relation
		}
		ranks := ranksOf(triples...)
		numbers, _ := by.number(ranks)
		require.Equal(t, numbers[:len(triples)], numbers[len(triples):])
		for i, k := range triples {
			tail, _ := k.Query(kg.Tail)
			head, _ := k.Query(kg.Head)
			most, together := 0, 0
			for _, q := range []kg.Query{tail, head} {
				n, same := 0, 0
				for j, other := range triples {
					if has(other, q) {
						n++
					}
					if numbers[j] == numbers[i] && has(other, q) {
						same++
					}
				}
				most, together = max(most, n), max(together, same)
			}
			size := 0
			for _, n := range numbers[:len(triples)] {
				if n == numbers[i] {
					size++
				}
			}
			require.Equal(t, size, together, "all triples of the cluster share one query, entity or relation")
			require.LessOrEqual(t, size, most)
		}
	})
}

func TestCountClusters(t *testing.T) {
	assert.Equal(t, ClusterCount{3, 3}, countClusters([]int32{5, 5, 7, 7, 9, 9}, []int32{0, 1, 2, 3, 4, 5}))
	assert.Equal(t, ClusterCount{2, 25. / 17}, countClusters([]int32{5, 5, 7, 5, 5, 9}, []int32{0, 1, 2, 3, 4}))
	none := countClusters(nil, nil)
	assert.Zero(t, none.Clusters)
	assert.True(t, math.IsNaN(float64(none.Effective)))
}

// Few clusters widen an interval. With too few clusters, there is no interval.
func TestTail(t *testing.T) {
	for _, c := range []struct {
		effective Number
		tail      int
	}{{undefined, 0}, {1, 0}, {9.9, 0}, {10, 9}, {20, 16}, {50, 22}, {194, 24}, {195, 25}, {20_466, 25}} {
		assert.Equal(t, c.tail, ClusterCount{Effective: c.effective}.tail(), "%v", c.effective)
	}
}

func TestEffectiveText(t *testing.T) {
	for n, want := range map[Number]string{9.9811: "9.9", 4: "4.0", 10: "10.0", undefined: "–"} {
		assert.Equal(t, want, ClusterCount{Effective: n}.EffectiveText())
	}
}

// For every clustering, the intervals equal the result of a straightforward resampling of whole
// clusters.
func TestClusteredBootstrapAgainstPlainResampling(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	ranks := benchRanks(200, 14, true, 7)
	for i := range 200 {
		ranks[i].Triple.Head, ranks[i].Triple.Tail = rng.Int32N(40), 40+rng.Int32N(40)
		ranks[200+i].Triple = ranks[i].Triple
	}
	for _, by := range []Clustering{ByTriple, ByQuery, ByEntity, ByRelation} {
		results, _, err := Summarize(
			t.Context(),
			ranks,
			SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.All}, CIBy: by},
		)
		require.NoError(t, err)
		numbers, count := by.number(ranks)
		clusters := make([][]rank.Rank, count)
		for i, n := range numbers {
			clusters[n] = append(clusters[n], ranks[i])
		}
		for _, r := range results {
			keep := func(q *rank.Rank) bool { return slices.Contains(r.Side.List(), q.Side) }
			want := plainInterval(clusters, keep, rank.All, r.Ties)
			assert.InDelta(t, want[0], float64(r.MRRCI[0]), 1e-12, "%v %v", by, r.Side)
			assert.InDelta(t, want[1], float64(r.MRRCI[1]), 1e-12, "%v %v", by, r.Side)
			assert.Equal(t, count, r.Clusters)
		}
	}
}

// groupedRanks draws clusters of 1 to 9 triples with similar ranks: a cluster is easy or hard, and
// chance matters little. triple returns the i-th triple of a cluster.
func groupedRanks(rng *rand.Rand, groups int, triple func(group, i int32) kg.Triple) []rank.Rank {
	var ranks []rank.Rank
	for g := range int32(groups) {
		level := []int32{0, 1, 3, 9}[rng.IntN(4)]
		for i := range 1 + rng.Int32N(9) {
			r := oneRank(level+rng.Int32N(2), 0, 20)
			r.Triple = triple(g, i)
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// groupedMean is the mean of 1/rank in groupedRanks.
func groupedMean() Number {
	var mean float64
	for _, level := range []int{0, 1, 3, 9} {
		mean += (1/float64(1+level) + 1/float64(2+level)) / 8
	}
	return Number(mean)
}

var groupedTriples = map[string]func(group, i int32) kg.Triple{
	"tail query": func(group, i int32) kg.Triple { return kg.Triple{Head: group, Tail: 1e6 + 9*group + i} },
	"head query": func(group, i int32) kg.Triple { return kg.Triple{Head: 1e6 + 9*group + i, Tail: group} },
	// The triples of an entity have different relations, so no two of them share a query.
	"entity": func(group, i int32) kg.Triple {
		other := 1e6 + 9*group + i
		if i%2 == 0 {
			return kg.Triple{Head: group, Relation: i, Tail: other}
		}
		return kg.Triple{Head: other, Relation: i, Tail: group}
	},
}

// A 95% interval that resamples whole clusters contains the true mean in about 95% of samples.
// Intervals from smaller units contain the mean less often.
func TestClusteredCoverage(t *testing.T) {
	const samples, groups = 400, 60
	margin := 3 * math.Sqrt(0.95*0.05/samples)
	for _, c := range []struct {
		grouped string
		right   []Clustering
		wrong   []Clustering
	}{
		{"tail query", []Clustering{ByQuery, ByEntity}, []Clustering{ByTriple}},
		{"head query", []Clustering{ByQuery, ByEntity}, []Clustering{ByTriple}},
		{"entity", []Clustering{ByEntity}, []Clustering{ByTriple, ByQuery}},
	} {
		coverage := func(by Clustering) float64 {
			rng := rand.New(rand.NewPCG(18, uint64(by)))
			held := 0
			for range samples {
				ranks := groupedRanks(rng, groups, groupedTriples[c.grouped])
				results, _, err := Summarize(
					t.Context(),
					ranks,
					SummaryOptions{Sides: rank.TailSide, Filters: []rank.Filter{rank.All}, CIBy: by},
				)
				require.NoError(t, err)
				if ci := results[rank.Realistic].MRRCI; ci[0] <= groupedMean() && groupedMean() <= ci[1] {
					held++
				}
			}
			return float64(held) / samples
		}
		for _, by := range c.right {
			assert.InDelta(t, 0.95, coverage(by), margin, "grouped by %s, resampled by %v", c.grouped, by)
		}
		for _, by := range c.wrong {
			assert.Less(t, coverage(by), 0.75, "grouped by %s, resampled by %v", c.grouped, by)
		}
	}
}

// Intervals of few clusters contain the true mean as often as intervals of many. With the plain
// 2.5% and 97.5% quantiles, intervals from 12 clusters would contain the mean in only 90% of
// samples.
func TestFewClustersCoverage(t *testing.T) {
	const samples, n = 1000, 12
	rng := rand.New(rand.NewPCG(20, 0))
	ranks := make([]rank.Rank, n)
	held := 0
	for range samples {
		for i := range ranks {
			ranks[i] = oneRank(rng.Int32N(3), 0, 20)
			ranks[i].Triple.Head = int32(i)
		}
		results, _, err := Summarize(
			t.Context(),
			ranks,
			SummaryOptions{Sides: rank.TailSide, Filters: []rank.Filter{rank.All}},
		)
		require.NoError(t, err)
		if ci := results[rank.Realistic].MRRCI; ci[0] <= 11./18 && 11./18 <= ci[1] {
			held++
		}
	}
	assert.InDelta(t, 0.95, float64(held)/samples, 3*math.Sqrt(0.95*0.05/samples))
}

// If two checkpoints differ in each cluster by chance alone, p is at most 0.05 in about 5% of
// samples.
func TestClusteredPermutations(t *testing.T) {
	const samples, groups = 150, 30
	rejected := func(by Clustering) float64 {
		rng := rand.New(rand.NewPCG(19, 0))
		count := 0
		for range samples {
			base := groupedRanks(rng, groups, groupedTriples["head query"])
			other := slices.Clone(base)
			for at := 0; at < len(base); {
				exchange := rng.IntN(2) == 0
				for hub := base[at].Triple.Tail; at < len(base) && base[at].Triple.Tail == hub; at++ {
					other[at].Better[rank.All] += 2
					if exchange {
						base[at], other[at] = other[at], base[at]
					}
				}
			}
			c, err := Compare(
				t.Context(),
				base,
				other,
				CompareOptions{Sides: rank.TailSide, Filter: rank.All, Ties: rank.Realistic, CIBy: by},
			)
			require.NoError(t, err)
			if c.Whole[0].Metrics[0].P <= 0.05 {
				count++
			}
		}
		return float64(count) / samples
	}
	assert.InDelta(t, 0.05, rejected(ByQuery), 3*math.Sqrt(0.05*0.95/samples))
	assert.Greater(t, rejected(ByTriple), 0.2)
}

func TestClusteringText(t *testing.T) {
	for _, by := range []Clustering{ByTriple, ByQuery, ByEntity, ByRelation} {
		text, err := json.Marshal(by)
		require.NoError(t, err)
		var back Clustering
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, by, back)
	}
	var by Clustering
	assert.EqualError(t, by.UnmarshalText([]byte("hub")),
		`unknown clustering "hub": choose triple, query, entity or relation`)
}
