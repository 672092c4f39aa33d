package metrics

import (
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// RankedQuery is a query with the rank of its target.
type RankedQuery struct {
	Side     string  `json:"side"`
	Head     string  `json:"head"`
	Relation string  `json:"relation"`
	Tail     string  `json:"tail"`
	Rank     float64 `json:"rank"`
	// These are the readable labels of identifiers, if there are any.
	HeadLabel     string `json:"head_label,omitempty"`
	RelationLabel string `json:"relation_label,omitempty"`
	TailLabel     string `json:"tail_label,omitempty"`
}

// ExtremesRule is the filter and the tie rule of the ranks in Report.Worst and in Report.Best.
type ExtremesRule struct {
	Filter rank.Filter `json:"filter"`
	Ties   rank.Ties   `json:"ties"`
}

// extremes is the number of queries in Report.Worst and in Report.Best.
const extremes = 10

// SetExtremes sets Worst, Best and Extremes: the ten queries of g with the highest and the ten with the
// lowest ranks under a filter and a tie rule. Queries with the same rank keep the order of the
// argument ranks.
func (r *Report) SetExtremes(g *kg.Graph, ranks []rank.Rank, f rank.Filter, ties rank.Ties) {
	list := func(before func(a, b float64) bool) []RankedQuery {
		kept := make([]RankedQuery, 0, extremes+1)
		for i := range ranks {
			q := &ranks[i]
			value := ties.Rank(q, f)
			at := len(kept)
			for at > 0 && before(value, kept[at-1].Rank) {
				at--
			}
			if at == extremes {
				continue
			}
			kept = slices.Insert(kept, at, RankedQuery{
				Side: q.Side.String(), Head: g.Entities.Label(q.Triple.Head),
				Relation: g.Relations.Label(q.Triple.Relation), Tail: g.Entities.Label(q.Triple.Tail), Rank: value,
			})
			kept = kept[:min(len(kept), extremes)]
		}
		return kept
	}
	r.Extremes = &ExtremesRule{f, ties}
	r.Worst = list(func(a, b float64) bool { return a > b })
	r.Best = list(func(a, b float64) bool { return a < b })
}

// rankBounds returns 1, 2, 3, 5, 10, 20, 50, 100, 200, …, up to the first bound that is at least
// most.
func rankBounds(most float64) []int {
	bounds := []int{1, 2, 3}
	for decade := 1; ; decade *= 10 {
		for _, step := range []int{5, 10, 20} {
			if float64(bounds[len(bounds)-1]) >= most {
				return bounds
			}
			bounds = append(bounds, step*decade)
		}
	}
}

// largestRank returns the largest rank under any of the filters and tie rules.
func largestRank(ranks []rank.Rank, filters []rank.Filter) float64 {
	largest := 0.0
	for i := range ranks {
		for _, f := range filters {
			largest = max(largest, rank.Pessimistic.Rank(&ranks[i], f))
		}
	}
	return largest
}

// countRanks returns, for each bound, the number of values that are at most the bound but above the
// bound before it.
func countRanks(values []float64, bounds []int) []int {
	counts := make([]int, len(bounds))
	for _, v := range values {
		at, _ := slices.BinarySearchFunc(bounds, v, func(bound int, v float64) int {
			if float64(bound) < v {
				return -1
			}
			return 1
		})
		counts[at]++
	}
	return counts
}
