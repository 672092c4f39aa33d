package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mquine/mquine/rank"
)

// SummaryOptions selects what Summarize reports.
type SummaryOptions struct {
	// Sides are the sides of the ranked queries. BothSides gives results for tail, head and both.
	Sides rank.Sides
	// Filters are the filters to report, in this order: at least one.
	Filters []rank.Filter
	// Ties are the tie rules to report, in this order. An empty list means optimistic, pessimistic
	// and realistic.
	Ties []rank.Ties
	// Hits are the cut-offs k of Hits@k, which must be distinct and at least 1.
	Hits []int
	// Keys divide the queries into groups to report.
	Keys []Key
	// CIBy is the unit that the intervals resample.
	CIBy Clustering
	// Threads bounds the number of threads; 0 means GOMAXPROCS.
	Threads int
}

func (o SummaryOptions) ties() []rank.Ties {
	if len(o.Ties) == 0 {
		return []rank.Ties{rank.Optimistic, rank.Pessimistic, rank.Realistic}
	}
	return o.Ties
}

// check returns an error if Summarize cannot use the options.
func (o SummaryOptions) check() error {
	err := cmp.Or(checkHits(o.Hits), checkSides(o.Sides), checkFilters(o.Filters), checkTies(o.Ties),
		checkClustering(o.CIBy), checkThreads(o.Threads))
	if err != nil {
		return err
	}
	if len(o.Filters) == 0 {
		return errors.New("a summary needs a filter: give at least one")
	}
	return nil
}

// Summarize returns the metrics of ranks for every filter, selection of sides and tie rule, for all
// queries and for each group that has queries. It orders results by filter, side and tie rule, and
// groups by key, group, filter, side and tie rule.
//
// The intervals of the MRR are 95% percentile bootstrap intervals, expanded for few clusters, from
// 1,000 resamples of the clusters that CIBy names. The seed is fixed, so the same ranks give the
// same bits on any machine and for any number of threads. There is no interval if there are too few
// clusters (ClusterCount).
//
// Summarize returns an error if the options contain a value that their comments do not allow, if a rank has
// no counts under one of the filters (ReadRanks), or if none is on a selected side.
func Summarize(ctx context.Context, ranks []rank.Rank, o SummaryOptions) ([]Result, []Result, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	if err := cmp.Or(checkCounted(ranks, o.Filters), checkRanked(ranks, o.Sides)); err != nil {
		return nil, nil, err
	}
	groups, names := groupsOf(ranks, o.Keys)
	ci, err := bootstrap(ctx, ranks, groups, o)
	if err != nil {
		return nil, nil, err
	}
	var protocols []Protocol
	for _, f := range o.Filters {
		for _, s := range selections(o.Sides) {
			for _, t := range o.ties() {
				protocols = append(protocols, Protocol{Sides: s, Filter: f, Ties: t})
			}
		}
	}
	all := make([]Result, len(groups)*len(protocols))
	err = each(ctx, len(all), o.Threads, func(i int) {
		g, p := i/len(protocols), protocols[i%len(protocols)]
		r := &all[i]
		*r = measure(ranks, groups[g].on(p.Sides), p.Sides, p.Filter, p.Ties, o.Hits)
		r.By, r.Group = names[g].by, names[g].group
		r.MRRCI, r.ClusterCount = ci[g].of(p)
	})
	if err != nil {
		return nil, nil, err
	}
	whole, grouped := all[:len(protocols):len(protocols)], all[len(protocols):]
	bounds := rankBounds(largestRank(ranks, o.Filters))
	err = each(ctx, len(whole), o.Threads, func(i int) {
		r := &whole[i]
		r.RankCounts = countRanks(rankValues(ranks, groups[0].on(r.Side), r.Filter, r.Ties), bounds)
	})
	if err != nil {
		return nil, nil, err
	}
	return whole, grouped, nil
}

// checkSides returns an error for an unknown selection of sides.
func checkSides(s rank.Sides) error {
	if s >= rank.NumSides {
		return fmt.Errorf("%v is not a selection of sides: choose tail, head, both or relation", s)
	}
	return nil
}

// checkFilters returns an error if a filter is unknown.
func checkFilters(filters []rank.Filter) error {
	for _, f := range filters {
		if f >= rank.NumFilters {
			return fmt.Errorf("%v is not a filter: choose none, train or all", f)
		}
	}
	return nil
}

// checkThreads returns an error for a negative number of threads.
func checkThreads(n int) error {
	if n < 0 {
		return fmt.Errorf("%d threads: set Threads to at least 1, or to 0 for all processors", n)
	}
	return nil
}

// checkRanked returns an error if there are ranks, but all are on other sides than the selected ones.
func checkRanked(ranks []rank.Rank, sides rank.Sides) error {
	if len(ranks) == 0 || slices.ContainsFunc(ranks, func(r rank.Rank) bool {
		return slices.Contains(sides.List(), r.Side)
	}) {
		return nil
	}
	return fmt.Errorf("none of the ranks is on side %v: select the sides of the ranks", sides)
}

// checkCounted returns an error if a rank has no counts under a filter.
func checkCounted(ranks []rank.Rank, filters []rank.Filter) error {
	for i := range ranks {
		for _, f := range filters {
			if ranks[i].Better[f] < 0 {
				return fmt.Errorf("rank %d has no counts under filter %v, as after reading a ranks file without its "+
					"columns: choose a filter of the file, or rank again", i+1, f)
			}
		}
	}
	return nil
}

// checkTies returns an error if a tie rule is unknown.
func checkTies(rules []rank.Ties) error {
	for _, t := range rules {
		if t >= rank.NumTies {
			return fmt.Errorf("%v is not a tie rule: choose optimistic, pessimistic, realistic or rounded", t)
		}
	}
	return nil
}

// checkClustering returns an error if the unit of the intervals is unknown.
func checkClustering(c Clustering) error {
	if int(c) >= len(clusteringNames) {
		return fmt.Errorf("%v is not a unit for intervals: choose triple, query, entity or relation", c)
	}
	return nil
}

// checkHits returns an error unless the cut-offs are distinct and at least 1.
func checkHits(ks []int) error {
	for i, k := range ks {
		if k < 1 {
			return fmt.Errorf("the cut-off %d of Hits@k is not a rank: choose at least 1", k)
		}
		if slices.Contains(ks[:i], k) {
			return fmt.Errorf("the cut-off %d of Hits@k occurs twice: give it once", k)
		}
	}
	return nil
}

// selections returns the selections of sides to report. A ranking of both sides is also reported
// for each side.
func selections(s rank.Sides) []rank.Sides {
	if s == rank.BothSides {
		return []rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides}
	}
	return []rank.Sides{s}
}
