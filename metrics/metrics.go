// Package metrics turns the ranks of package rank into metrics such as MRR, bootstrap intervals and
// paired comparisons of checkpoints, for all queries or by group. It writes them as reports, tables
// and files.
//
// Begin reading with Measure, which computes the metrics of one list of ranks. Summarize computes
// metrics with intervals for every side, filter, tie rule and group; Report.Summarize stores them
// in a Report. Compare and CompareAll compare checkpoints by their ranks of the same queries.
// WriteRanks stores ranks in a file, and ReadRanks reads them, so later comparisons need not rank
// again. docs/intervals.md explains the intervals.
package metrics

import (
	"cmp"
	"math"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// Number is the value of a metric. An undefined metric, such as the mean of no ranks, is NaN. JSON
// has null instead.
type Number float64

var undefined = Number(math.NaN())

// HitsAt is Hits@K: the share of ranks that are at most K.
type HitsAt struct {
	K     int
	Share Number
}

// Hits holds Hits@k for each requested cut-off k, in the order of the request.
type Hits []HitsAt

// Result holds the metrics of one selection of queries under one protocol. With n ranks r_i among
// C_i candidates, which include the target:
//
//	MRR = mean 1/r_i    MR = mean r_i    GMR = exp(mean ln r_i)    Hits@k = mean [r_i ≤ k]
//	AMR = MR / mean (C_i+1)/2            AMRI = 1 − 2 Σ(r_i−1) / Σ(C_i−1)
//
// AMR (1 is chance, lower is better) and AMRI (0 is chance, 1 is perfect) are the adjusted mean
// rank and the adjusted mean rank index of Berrendorf et al., https://arxiv.org/abs/2002.06914. The
// values for chance are exact only for realistic ties. Both metrics are undefined for ranks without
// candidate counts. AMRI is also undefined if the target is the only candidate of every query.
type Result struct {
	// By and Group name the key and the group. They are empty for all queries. Label is the readable
	// label of the group's identifier, if there is one.
	By     string
	Group  string
	Label  string
	Side   rank.Sides
	Filter rank.Filter
	Ties   rank.Ties
	// N is the number of queries.
	N   int
	MRR Number
	// MRRCI is the 95% bootstrap interval of MRR (Summarize). It is undefined if there are too few
	// clusters.
	MRRCI [2]Number
	ClusterCount
	// Limits are the limits of MRR (Limit), by kind. Limits is nil if they are unknown or do not
	// apply to the tie rule.
	Limits *[NumLimitKinds]Number
	MR     Number
	Median Number
	GMR    Number
	AMR    Number
	AMRI   Number
	Hits   Hits
	// RankCounts[i] counts the ranks above RankBounds[i−1] and up to RankBounds[i] of the report.
	// RankCounts is nil for groups.
	RankCounts []int
}

// Measure returns the metrics of the ranks on the selected sides, without an interval. ks are the
// cut-offs of Hits@k.
//
// Measure returns no error. If sides, f or ties is not a constant of package rank, the result is the
// result for no ranks: N is 0, and every metric is undefined. Hits@k is undefined for k < 1. Every metric
// is undefined if a rank has no counts under the filter (ReadRanks).
func Measure(ranks []rank.Rank, sides rank.Sides, f rank.Filter, ties rank.Ties, ks []int) Result {
	if cmp.Or(checkSides(sides), checkFilters([]rank.Filter{f}), checkTies([]rank.Ties{ties})) != nil {
		return measure(nil, nil, sides, f, ties, ks)
	}
	return measure(ranks, allOf(ranks).on(sides), sides, f, ties, ks)
}

// measure is Measure for the ranks with the given indices. It adds in the order of the indices.
func measure(ranks []rank.Rank, of []int32, sides rank.Sides, f rank.Filter, ties rank.Ties, ks []int) Result {
	values := rankValues(ranks, of, f, ties)
	res := Result{
		Side: sides, Filter: f, Ties: ties, N: len(values),
		MRR: mrr(values), MRRCI: [2]Number{undefined, undefined}, Hits: hits(values, ks),
	}

	var sum, logs, candidates float64
	counted := true
	for i, r := range values {
		c := ranks[of[i]].Candidates[f]
		counted = counted && c > 0
		candidates += float64(c)
		sum += r
		logs += math.Log(r)
	}
	n := float64(len(values))
	res.MR = ratio(sum, n)
	res.GMR = Number(math.Exp(float64(ratio(logs, n))))
	res.AMR, res.AMRI = undefined, undefined
	if counted {
		res.AMR = ratio(sum, (candidates+n)/2)
		res.AMRI = 1 - ratio(2*(sum-n), candidates-n)
	}
	res.Median = median(values)
	if math.IsNaN(sum) { // a rank is NaN
		res.Median = undefined
		for i := range res.Hits {
			res.Hits[i].Share = undefined
		}
	}
	return res
}

// rankValues returns the ranks with the given indices under a filter and a tie rule.
func rankValues(ranks []rank.Rank, of []int32, f rank.Filter, ties rank.Ties) []float64 {
	values := make([]float64, len(of))
	for i, j := range of {
		values[i] = ties.Rank(&ranks[j], f)
	}
	return values
}

func mrr(values []float64) Number {
	var sum float64
	for _, r := range values {
		sum += 1 / r
	}
	return ratio(sum, float64(len(values)))
}

func hits(values []float64, ks []int) Hits {
	all := make(Hits, len(ks))
	for i, k := range ks {
		n := 0
		for _, r := range values {
			if r <= float64(k) {
				n++
			}
		}
		all[i] = HitsAt{k, ratio(float64(n), float64(len(values)))}
		if k < 1 {
			all[i].Share = undefined
		}
	}
	return all
}

// median sorts values and returns the middle one, or the mean of the two middle ones.
func median(values []float64) Number {
	n := len(values)
	if n == 0 {
		return undefined
	}
	slices.Sort(values)
	return Number((values[(n-1)/2] + values[n/2]) / 2)
}

// ratio returns a/b. It is undefined for b = 0.
func ratio(a, b float64) Number {
	if b == 0 {
		return undefined
	}
	return Number(a / b)
}

// numSides is the number of values of kg.Side.
const numSides = 3

// members holds indices of ranks, by side.
type members [numSides][]int32

// allOf returns the indices of all ranks.
func allOf(ranks []rank.Rank) members {
	var m members
	for i := range ranks {
		m.add(ranks, i)
	}
	return m
}

func (m *members) add(ranks []rank.Rank, i int) {
	side := ranks[i].Side
	m[side] = append(m[side], int32(i))
}

func (m members) len() int { return len(m[kg.Tail]) + len(m[kg.Head]) + len(m[kg.Relation]) }

// on returns the indices of the ranks on the selected sides, tail before head.
func (m members) on(sides rank.Sides) []int32 {
	var of []int32
	for _, side := range sides.List() {
		of = append(of, m[side]...)
	}
	return of
}
