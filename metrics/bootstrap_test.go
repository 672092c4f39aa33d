package metrics

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

var everyTies = []rank.Ties{rank.Optimistic, rank.Pessimistic, rank.Realistic, rank.Rounded}

// benchRanks returns the ranks of n triples on both sides, the tail ranks first. The triples have
// the given number of relations.
func benchRanks(n, relations int, ties bool, seed uint64) []rank.Rank {
	rng := rand.New(rand.NewPCG(seed, 0))
	ranks := make([]rank.Rank, 2*n)
	for i := range n {
		triple := kg.Triple{Head: int32(i), Relation: int32(rng.IntN(relations)), Tail: int32(rng.IntN(n))}
		for side := kg.Tail; side <= kg.Head; side++ {
			r := &ranks[int(side)*n+i]
			better := int32(1 / (rng.Float64() + 1e-4))
			*r = oneRank(better, 0, 14541)
			r.Triple, r.Side = triple, side
			r.Better[rank.All] /= 2
			if ties {
				r.Equal[rank.All] = rng.Int32N(3)
			}
		}
	}
	return ranks
}

// plainInterval resamples the ranks for which keep is true in the most direct way: it lists the
// clusters, draws as many clusters as there are, and averages over all their ranks. It returns NaN
// if there are too few clusters.
func plainInterval(clusters [][]rank.Rank, keep func(r *rank.Rank) bool, f rank.Filter, ties rank.Ties) [2]float64 {
	var all, squares float64
	for _, ranks := range clusters {
		n := 0.
		for _, r := range ranks {
			if keep(&r) {
				n++
			}
		}
		all += n
		squares += n * n
	}
	if all == 0 || all*all < 10*squares {
		return [2]float64{math.NaN(), math.NaN()}
	}
	tail := expandedTail(all * all / squares)
	var means []float64
	for b := range resamples {
		var seed [32]byte
		binary.LittleEndian.PutUint64(seed[0:8], bootstrapSeed)
		binary.LittleEndian.PutUint64(seed[8:16], uint64(b))
		stream := rand.NewChaCha8(seed)
		var sum, n float64
		for range clusters {
			drawn, _ := bits.Mul64(stream.Uint64(), uint64(len(clusters)))
			for _, r := range clusters[drawn] {
				if keep(&r) {
					sum += 1 / ties.Rank(&r, f)
					n++
				}
			}
		}
		if n > 0 {
			means = append(means, sum/n)
		}
	}
	slices.Sort(means)
	return [2]float64{
		stat.Quantile(tail, stat.Empirical, means, nil),
		stat.Quantile(1-tail, stat.Empirical, means, nil),
	}
}

// expandedTail returns the share of resampled means below an interval from n clusters, in whole
// thousandths.
func expandedTail(n float64) float64 {
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	// Integrate the density of Student's distribution up to the 97.5% quantile.
	nu := n - 1
	half, _ := math.Lgamma((nu + 1) / 2)
	rest, _ := math.Lgamma(nu / 2)
	density := func(x float64) float64 {
		return math.Exp(half-rest-(nu+1)/2*math.Log1p(x*x/nu)) / math.Sqrt(nu*math.Pi)
	}
	const step = 1e-4
	t, sum := 0., 0.5
	for ; sum < 0.975; t += step {
		sum += step * density(t+step/2)
	}
	return math.Ceil(1000*normal(-t*math.Sqrt(n/(n-1)))) / 1000
}

func TestBootstrapAgainstPlainResampling(t *testing.T) {
	const n, relations = 80, 8 // some groups have too few clusters, and the last group is empty
	ranks := benchRanks(n, relations-1, true, 1)
	triples := make([][]rank.Rank, n)
	for i := range n {
		triples[i] = []rank.Rank{ranks[i], ranks[n+i]}
	}
	key := Key{
		Name:    "relation",
		Labels:  make([]string, relations),
		Ordered: true,
		Group:   func(r *rank.Rank) int { return int(r.Triple.Relation) },
	}
	// With this key, the two ranks of a triple can be in different groups.
	mixed := Key{
		Name:    "mixed",
		Labels:  []string{"a", "b"},
		Ordered: true,
		Group:   func(r *rank.Rank) int { return int(r.Better[rank.None]) % 2 },
	}
	groups := append([]members{allOf(ranks)}, key.split(ranks)...)
	groups = append(groups, mixed.split(ranks)...)

	sides := []rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides}
	o := SummaryOptions{Ties: everyTies, Sides: rank.BothSides, Filters: []rank.Filter{rank.None, rank.All}, Threads: 2}
	got, err := bootstrap(t.Context(), ranks, groups, o)
	require.NoError(t, err)

	checked, without := 0, 0
	for g := range groups {
		for _, s := range sides {
			keep := func(r *rank.Rank) bool {
				if s != rank.BothSides && s.String() != r.Side.String() {
					return false
				}
				switch {
				case g == 0:
					return true
				case g <= relations:
					return key.Group(r) == g-1
				}
				return mixed.Group(r) == g-1-relations
			}
			for _, f := range []rank.Filter{rank.None, rank.All} {
				for ties := range rank.NumTies {
					want := plainInterval(triples, keep, f, ties)
					have := got[g].ci[s][f][ties]
					if math.IsNaN(want[0]) {
						require.True(
							t,
							math.IsNaN(float64(have[0])) && math.IsNaN(float64(have[1])),
							"group %d %v %v %v",
							g,
							s,
							f,
							ties,
						)
						without++
						continue
					}
					for i := range want {
						require.InDelta(t, want[i], float64(have[i]), 1e-12, "group %d %v %v %v", g, s, f, ties)
					}
					checked++
				}
			}
		}
	}
	assert.Greater(t, checked, 100)
	assert.Greater(t, without, 18, "the empty group and small groups")
}

// TestBootstrapBlocks checks the interval from more than cachedRanks ranks.
func TestBootstrapBlocks(t *testing.T) {
	const n = 2*cachedRanks + 100
	ranks := benchRanks(n, 3, true, 4)
	triples := make([][]rank.Rank, n)
	for i := range n {
		triples[i] = []rank.Rank{ranks[i], ranks[n+i]}
	}
	got, err := bootstrap(
		t.Context(),
		ranks,
		[]members{allOf(ranks)},
		SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.All}, Threads: 2},
	)
	require.NoError(t, err)
	want := plainInterval(triples, func(*rank.Rank) bool { return true }, rank.All, rank.Realistic)
	for i := range want {
		require.InDelta(t, want[i], float64(got[0].ci[rank.BothSides][rank.All][rank.Realistic][i]), 1e-12)
	}
}

func TestBootstrapChunks(t *testing.T) {
	const relations = 1000 // with at least 9 protocols each, they need three chunks
	ranks := benchRanks(20_000, relations, true, 2)
	groups := Key{
		Labels: make([]string, relations),
		Group:  func(r *rank.Rank) int { return int(r.Triple.Relation) },
	}.split(
		ranks,
	)
	filters := []rank.Filter{rank.None, rank.Train, rank.All}
	o := SummaryOptions{Sides: rank.BothSides, Filters: filters, Ties: everyTies, Threads: 2}
	all, err := bootstrap(t.Context(), ranks, groups, o)
	require.NoError(t, err)
	require.Greater(t, relations*len(filters)*int(rank.NumSides)*resamples, 2*chunkValues)
	for _, g := range []int{0, 1, 450, relations - 1} {
		alone, err := bootstrap(t.Context(), ranks, groups[g:g+1], o)
		require.NoError(t, err)
		require.GreaterOrEqual(t, groups[g].len(), 2*leastClusters)
		assert.Equal(t, alone[0], all[g])
	}
}

func TestPercentileInterval(t *testing.T) {
	for n, want := range map[int][2]Number{
		1: {1, 1}, 39: {1, 39}, 40: {1, 39}, 41: {2, 40}, 80: {2, 78}, 999: {25, 975}, 1000: {25, 975}, 1001: {26, 976},
	} {
		var values []float64
		for _, v := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
			values = append(values, float64(v+1))
		}
		assert.Equal(t, want, percentileInterval(values, 25), "of 1 … %d", n)
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 2100).Draw(t, "values")
		sorted := slices.Sorted(slices.Values(values))
		tail := rapid.IntRange(1, 25).Draw(t, "tail")
		// A NaN stands for a resample without the group. It can be at any index and does not count.
		for range rapid.IntRange(0, 3).Draw(t, "resamples without the group") {
			at := rapid.IntRange(0, len(values)).Draw(t, "at")
			values = slices.Insert(values, at, math.NaN())
		}
		got := percentileInterval(values, tail)
		// The test counts values, because a product such as 0.975·n is not always exact in floating
		// point.
		at := func(thousandths int) Number {
			k := 1
			for 1000*k < thousandths*len(sorted) {
				k++
			}
			return Number(sorted[k-1])
		}
		require.Equal(t, [2]Number{at(tail), at(1000 - tail)}, got)
	})
}

func TestSummarizeThreads(t *testing.T) {
	ranks := benchRanks(300, 10, true, 3)
	keys := []Key{
		{Name: "relation", Labels: make([]string, 10), Group: func(r *rank.Rank) int { return int(r.Triple.Relation) }},
	}
	summarize := func(threads int) ([]Result, []Result) {
		results, groups, err := Summarize(t.Context(), ranks, SummaryOptions{
			Sides: rank.BothSides, Filters: []rank.Filter{rank.None, rank.Train, rank.All}, Hits: []int{1, 10},
			Keys: keys, Threads: threads,
		})
		require.NoError(t, err)
		return results, groups
	}
	results, groups := summarize(1)
	require.Len(t, results, 27)
	require.Len(t, groups, 270)
	for _, threads := range []int{2, 7, 0} {
		r, g := summarize(threads)
		require.Equal(t, results, r)
		require.Equal(t, groups, g)
	}
	for _, r := range results {
		assert.True(t, r.MRRCI[0] < r.MRR && r.MRR < r.MRRCI[1], "%+v", r)
	}
}

// The two ranks of a triple are resampled together. If the two ranks of every triple have the same
// mean, the mean over both sides does not vary.
func TestBootstrapDrawsTriples(t *testing.T) {
	var tails, heads []rank.Rank
	for i := range int32(40) {
		tail, head := oneRank(i%2, 0, 9), oneRank(1-i%2, 0, 9)
		tail.Triple = kg.Triple{Head: i / 4} // each triple occurs four times
		head.Triple, head.Side = tail.Triple, kg.Head
		tails, heads = append(tails, tail), append(heads, head)
	}
	var alternating []rank.Rank
	for i := range tails {
		alternating = append(alternating, heads[i], tails[i])
	}
	for _, ranks := range [][]rank.Rank{slices.Concat(tails, heads), slices.Concat(heads, tails), alternating} {
		results, _, err := Summarize(
			t.Context(),
			ranks,
			SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.All}},
		)
		require.NoError(t, err)
		for _, r := range results {
			if r.Side == rank.BothSides {
				assert.Equal(t, [2]Number{0.75, 0.75}, r.MRRCI)
			} else {
				assert.Greater(t, r.MRRCI[1]-r.MRRCI[0], Number(0.1))
			}
		}
	}
}

// A 95% interval should contain the true mean in about 95% of samples.
func TestBootstrapCoverage(t *testing.T) {
	const samples, n = 400, 80
	rng := rand.New(rand.NewPCG(5, 5))
	ranks := make([]rank.Rank, n)
	var mean float64
	for better := range 10 {
		mean += 1 / float64(better+1) / 10
	}
	covered := 0
	for range samples {
		for i := range ranks {
			ranks[i] = oneRank(rng.Int32N(10), 0, 20)
			ranks[i].Triple.Head = int32(i)
		}
		results, _, err := Summarize(
			t.Context(),
			ranks,
			SummaryOptions{Sides: rank.TailSide, Filters: []rank.Filter{rank.None}, Threads: 2},
		)
		require.NoError(t, err)
		if lo, hi := results[rank.Realistic].MRRCI[0], results[rank.Realistic].MRRCI[1]; lo <= Number(mean) &&
			Number(mean) <= hi {
			covered++
		}
	}
	assert.InDelta(t, 0.95, float64(covered)/samples, 0.04)
}

func TestSummarizeStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := Summarize(
		ctx,
		benchRanks(10, 1, false, 4),
		SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.All}},
	)
	assert.ErrorIs(t, err, context.Canceled)
}

// BenchmarkBootstrap uses the size of FB15k-237's test split, 20,466 triples, and all 27 protocols.
func BenchmarkBootstrap(b *testing.B) {
	for _, c := range []struct {
		name string
		ties bool
		by   Clustering
	}{{"distinct", false, ByTriple}, {"tied", true, ByTriple}, {"distinct-by-query", false, ByQuery}} {
		b.Run(c.name, func(b *testing.B) {
			ranks := benchRanks(20466, 237, c.ties, 6)
			if c.ties {
				for i := range ranks {
					ranks[i].Equal = [rank.NumFilters]int32{3, 2, 1}
				}
			}
			for b.Loop() {
				_, err := bootstrap(
					b.Context(),
					ranks,
					[]members{allOf(ranks)},
					SummaryOptions{
						Sides:   rank.BothSides,
						Filters: []rank.Filter{rank.None, rank.Train, rank.All},
						CIBy:    c.by,
					},
				)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkSummarizeByRelation(b *testing.B) {
	ranks := benchRanks(20466, 237, false, 6)
	keys := []Key{
		{
			Name:   "relation",
			Labels: make([]string, 237),
			Group:  func(r *rank.Rank) int { return int(r.Triple.Relation) },
		},
	}
	for b.Loop() {
		_, _, err := Summarize(b.Context(), ranks, SummaryOptions{
			Sides: rank.BothSides, Filters: []rank.Filter{rank.None, rank.Train, rank.All}, Hits: []int{1, 3, 10},
			Keys: keys,
		})
		require.NoError(b, err)
	}
}
