package metrics

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

func TestRankBounds(t *testing.T) {
	assert.Equal(t, []int{1, 2, 3}, rankBounds(0))
	assert.Equal(t, []int{1, 2, 3, 5}, rankBounds(3.5))
	assert.Equal(t, []int{1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000}, rankBounds(501))
	bounds := rankBounds(math.MaxInt32)
	assert.GreaterOrEqual(t, bounds[len(bounds)-1], math.MaxInt32)
}

// TestRankCounts compares the counts with a direct count over the ranks of random queries.
func TestRankCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := append(someRanks(t), oneRank(3, 1, 3000))
		filters := []rank.Filter{rank.Train, rank.All}
		report := &Report{}
		err := report.Summarize(t.Context(), ranks, SummaryOptions{Sides: rank.BothSides, Filters: filters})
		require.NoError(t, err)
		for _, r := range report.Results {
			require.Len(t, r.RankCounts, len(report.RankBounds))
			for i, high := range report.RankBounds {
				low := 0
				if i > 0 {
					low = report.RankBounds[i-1]
				}
				n := 0
				for j := range ranks {
					value := r.Ties.Rank(&ranks[j], r.Filter)
					if slices.Contains(r.Side.List(), ranks[j].Side) && value > float64(low) && value <= float64(high) {
						n++
					}
				}
				require.Equal(t, n, r.RankCounts[i])
			}
		}
	})
}

// TestExtremes compares the lists with a sorted list of all queries.
func TestExtremes(t *testing.T) {
	g := &kg.Graph{
		Entities:  kg.NewVocabulary("e0", "e1", "e2", "e3", "e4"),
		Relations: kg.NewVocabulary("r0", "r1", "r2", "r3", "r4"),
	}
	rapid.Check(t, func(t *rapid.T) {
		ranks := someRanks(t)
		all := []RankedQuery{}
		for i := range ranks {
			q := ranks[i].Triple
			all = append(all, RankedQuery{
				Side: ranks[i].Side.String(), Head: g.Entities.Label(q.Head), Relation: g.Relations.Label(q.Relation),
				Tail: g.Entities.Label(q.Tail), Rank: rank.Realistic.Rank(&ranks[i], rank.All),
			})
		}
		r := &Report{}
		r.SetExtremes(g, ranks, rank.All, rank.Realistic)
		slices.SortStableFunc(all, func(a, b RankedQuery) int { return int(2*a.Rank) - int(2*b.Rank) })
		require.Equal(t, all[:min(extremes, len(all))], r.Best)
		slices.SortStableFunc(all, func(a, b RankedQuery) int { return int(2*b.Rank) - int(2*a.Rank) })
		// Equal ranks must keep the order of the split. The first sort was stable, so they still
		// have it.
		require.Equal(t, all[:min(extremes, len(all))], r.Worst)
		require.Equal(t, &ExtremesRule{rank.All, rank.Realistic}, r.Extremes)
	})
}
