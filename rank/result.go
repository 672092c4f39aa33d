// Package rank ranks the true answers of a split among all entities, exactly: filtered ranks on both sides under every
// filter from one pass. Package metrics turns the ranks into means, intervals and comparisons.
package rank

import (
	"fmt"

	"github.com/mquine/mquine/kg"
)

// Filter says which known answers, other than the target itself, leave the candidates.
type Filter uint8

const (
	// None keeps every entity ("raw").
	None Filter = iota
	// Train removes the answers known from the training split.
	Train
	// All removes the answers known from training, validation and test split.
	All
	// NumFilters is the number of filters.
	NumFilters
)

var filterNames = [NumFilters]string{"none", "train", "all"}

// String returns "none", "train" or "all".
func (f Filter) String() string {
	if f < NumFilters {
		return filterNames[f]
	}
	return fmt.Sprintf("Filter(%d)", uint8(f))
}

// Splits returns the splits whose answers the filter removes.
func (f Filter) Splits() kg.SplitSet {
	switch f {
	case Train:
		return kg.Set(kg.Train)
	case All:
		return kg.Set(kg.Train, kg.Valid, kg.Test)
	}
	return 0
}

// Check returns an error if g lacks a split whose answers the filter removes: what remained of it would be another
// filter.
func (f Filter) Check(g *kg.Graph) error {
	for s := range kg.NumSplits {
		if f.Splits().Has(s) && !g.Has(s) {
			return fmt.Errorf("filter %v leaves out what the %v split knows, and data set %s has no %[2]v split: "+
				"put %[2]v.txt into %[4]s, or choose other filters", f, s, g.Name, g.Dir)
		}
	}
	return nil
}

// Rank is the outcome of one query of a split: how many other candidates are better than its
// true answer, and how many have exactly its reference score, under each filter.
type Rank struct {
	Triple kg.Triple
	// Side is the side that was asked for.
	Side          kg.Side
	Better, Equal [NumFilters]int32
	// Candidates counts the candidates that a filter leaves, the target included if it is one.
	Candidates [NumFilters]int32
}

func (r *Rank) add(better, equal [NumFilters]int32) {
	for f := range NumFilters {
		r.Better[f] += better[f]
		r.Equal[f] += equal[f]
	}
}

// Add adds to ranks the counts of a shard: the same queries among other candidates (Options.Candidates).
func Add(ranks, shard []Rank) error {
	if len(ranks) != len(shard) {
		return fmt.Errorf("rank: a shard of %d queries cannot be added to %d: rank the same triples and sides", len(shard), len(ranks))
	}
	for i := range ranks {
		if ranks[i].Triple != shard[i].Triple || ranks[i].Side != shard[i].Side {
			return fmt.Errorf("rank: query %d of a shard is %v on the %v side, not %v on the %v side: rank the same triples and sides",
				i, shard[i].Triple, shard[i].Side, ranks[i].Triple, ranks[i].Side)
		}
	}
	for i := range ranks {
		ranks[i].add(shard[i].Better, shard[i].Equal)
		for f := range NumFilters {
			ranks[i].Candidates[f] += shard[i].Candidates[f]
		}
	}
	return nil
}
