// Package rank ranks the true answers to queries exactly, among all entities or among given
// candidates. For each target, Run returns how many other candidates beat it and how many tie with
// it, on both sides and under every filter at once. Predict returns the best answers to queries.
// Package metrics turns ranks into MRR, Hits@k, intervals and comparisons.
//
// Begin reading with Run in run.go. newPlan sorts the distinct queries into passes whose candidates
// share features. eachSlice loads the candidates of a pass, slice by slice, and eachBlock gives
// blocks of queries to the goroutines. countBlock takes a block through the stages: find the known
// answers, count (Candidates.Count), order pending pairs by reference scores (Block.Decide), and
// add the counts to the ranks. Package rank/internal/engine defines the types that the stages
// share.
//
// On the processor, Count is sweeper.count in sweep.go. It computes query vectors and the intervals
// of the targets, packs the vectors for the screen of the slice (screen.go), sets the thresholds of
// a panel group (bands.go), and lets the kernel score and count one panel after the other. It then
// subtracts known answers (known.go) and orders pairs that a panel leaves undecided (decide.go).
// Package rank/gpu counts on GPUs.
package rank

import (
	"fmt"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Filter says which known answers are not candidates. The target itself always stays.
type Filter uint8

const (
	// None keeps every entity ("raw").
	None Filter = iota
	// Train removes the answers known from the training split.
	Train
	// All removes the answers known from the training, validation and test splits.
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

// Check returns an error if g lacks a split whose answers the filter removes.
func (f Filter) Check(g *kg.Graph) error {
	for s := range kg.NumSplits {
		if f.Splits().Has(s) && !g.Has(s) {
			advice := "choose other filters"
			if g.Dir != "" {
				advice = fmt.Sprintf("put %v.txt into %s, or %s", s, g.Dir, advice)
			}
			return fmt.Errorf("filter %v needs the %v split, which %s does not have: %s",
				f, s, text.DataSet(g.Name), advice)
		}
	}
	return nil
}

// Rank is the result for one target of a query. Under each filter, it holds the number of other
// candidates that are better than the target, and the number of other candidates that tie with it.
// In Ranking.Ranks, candidates tie if they have exactly the target's reference score; in
// Ranking.Near, if their scores are within the tolerance. Ties.Rank turns the numbers into a rank.
type Rank struct {
	Triple kg.Triple
	// Side is the side of the target.
	Side kg.Side
	// Better is −1 under a filter whose counts are unknown, because a ranks file lacks them
	// (metrics.ReadRanks).
	Better, Equal [NumFilters]int32
	// Candidates counts the candidates that each filter leaves. The count includes the target if it
	// is a candidate.
	Candidates [NumFilters]int32
	// CandidatesDigest identifies the candidates before the filters in a ranks file
	// (metrics.WriteRanks). It is 0 if it is unknown, as after a ranking.
	CandidatesDigest uint32
	// Scale is 0, or the number of candidates for which each counted candidate stands
	// (Sample.Scale).
	Scale float64
}

func (r *Rank) add(better, equal [NumFilters]int32) {
	for f := range NumFilters {
		r.Better[f] += better[f]
		r.Equal[f] += equal[f]
	}
}

// Add adds the counts of a shard to ranks. The shard must rank the same queries among different
// candidates (Options.Shard). It is either Ranking.Ranks or one list of Ranking.Near, and the
// lists of Near add up one by one, in the order of the tolerances. Ranks with a Scale are
// estimates, which do not add up, and thus an error. Counts that are unknown under a filter stay unknown.
func Add(ranks, shard []Rank) error {
	if len(ranks) != len(shard) {
		return fmt.Errorf("rank: cannot add a shard of %d queries to %d: rank the same triples and sides",
			len(shard), len(ranks))
	}
	for i := range ranks {
		if ranks[i].Triple != shard[i].Triple || ranks[i].Side != shard[i].Side {
			return fmt.Errorf("rank: query %d of a shard is %v on the %v side, not %v on the %v side: "+
				"rank the same triples and sides", i, shard[i].Triple, shard[i].Side, ranks[i].Triple, ranks[i].Side)
		}
		if ranks[i].Scale != 0 || shard[i].Scale != 0 {
			return fmt.Errorf("rank: query %d was ranked among a sample, and estimates do not add up: "+
				"rank the shards among all of their candidates", i)
		}
	}
	for i := range ranks {
		r, s := &ranks[i], &shard[i]
		for f := range NumFilters {
			if r.Better[f] < 0 || s.Better[f] < 0 {
				r.Better[f], r.Equal[f], r.Candidates[f] = -1, 0, 0
				continue
			}
			r.Better[f] += s.Better[f]
			r.Equal[f] += s.Equal[f]
			r.Candidates[f] += s.Candidates[f]
		}
	}
	return nil
}

// OverflowError is the error of a ranking in which the reference score of a triple is infinite or
// NaN. Its fields and its methods, besides Error, are
//
//	Triple kg.Triple
//	Score  float64 // the reference score
//
//	func (*OverflowError) Labelled(entities, relations *kg.Vocabulary) error
//
// Errors are of type *OverflowError. Labelled returns an error that names the triple by its labels.
type OverflowError = engine.OverflowError
