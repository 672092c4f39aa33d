package metrics

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// The metrics of a ranking of relations equal their definitions. With ByQuery, each pair of head
// and tail is a cluster.
func TestSummarizeRelations(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	var ranks []rank.Rank
	pairs := map[[2]int32]bool{}
	var sum, hits float64
	for range 300 {
		r := rank.Rank{
			Triple: kg.Triple{Head: rng.Int32N(9), Relation: rng.Int32N(20), Tail: rng.Int32N(9)}, Side: kg.Relation,
		}
		r.Better[rank.All], r.Equal[rank.All], r.Candidates[rank.All] = rng.Int32N(15), rng.Int32N(3), 20
		value := 1 + float64(r.Better[rank.All]) + float64(r.Equal[rank.All])/2
		sum += 1 / value
		if value <= 3 {
			hits++
		}
		pairs[[2]int32{r.Triple.Head, r.Triple.Tail}] = true
		ranks = append(ranks, r)
	}
	results, _, err := Summarize(t.Context(), ranks, SummaryOptions{
		Sides: rank.RelationSide, Filters: []rank.Filter{rank.All}, Ties: []rank.Ties{rank.Realistic}, Hits: []int{3},
		CIBy: ByQuery,
	})
	require.NoError(t, err)
	require.Len(t, results, 1)
	r := results[0]
	assert.Equal(t, rank.RelationSide, r.Side)
	assert.Equal(t, 300, r.N)
	assert.InDelta(t, sum/300, float64(r.MRR), 1e-12)
	assert.InDelta(t, hits/300, float64(r.Hits[0].Share), 1e-12)
	assert.Equal(t, len(pairs), r.Clusters)
	assert.Less(t, float64(r.MRRCI[0]), float64(r.MRR))
	assert.Greater(t, float64(r.MRRCI[1]), float64(r.MRR))

	// The same ranks have the same intervals on side tail, under every tie rule. With clusters of
	// triples, the clusters are the same, too.
	o := SummaryOptions{
		Sides: rank.RelationSide, Filters: []rank.Filter{rank.All},
		Ties: []rank.Ties{rank.Optimistic, rank.Pessimistic},
	}
	results, _, err = Summarize(t.Context(), ranks, o)
	require.NoError(t, err)
	tails := slices.Clone(ranks)
	for i := range tails {
		tails[i].Side = kg.Tail
	}
	o.Sides = rank.TailSide
	want, _, err := Summarize(t.Context(), tails, o)
	require.NoError(t, err)
	for i, r := range results {
		assert.Equal(t, want[i].MRRCI, r.MRRCI, r.Ties)
		assert.Less(t, float64(r.MRRCI[0]), float64(r.MRR), r.Ties)
		assert.Greater(t, float64(r.MRRCI[1]), float64(r.MRR), r.Ties)
	}

	limits, err := Limits(t.Context(), nil, nil, nil, rank.RelationSide, []rank.Filter{rank.All}, nil)
	require.NoError(t, err)
	assert.Nil(t, limits)
	_, err = NewKeys(t.Context(), &kg.Graph{}, []string{"degree"}, KeyOptions{Sides: rank.RelationSide})
	assert.ErrorContains(t, err, "choose relation or category")
}
