package main

import (
	"context"
	"time"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// rivalNames are the rivals, in the order in which they are timed.
var rivalNames = []string{"gonum", "openblas", "onednn", "plain", "torch", "torch-unique"}

// rival evaluates the queries of a job.
type rival interface {
	// rank counts for all truths or, with a limit, for about so many in evenly spaced blocks.
	rank(ctx context.Context, limit int) (*outcome, error)
	// about tells the version and the settings, for the results.
	about() string
	close()
}

// outcome is one run of a rival.
type outcome struct {
	counts  []count // of each truth that was ranked
	elapsed time.Duration
	// counting is the part of elapsed for what follows the product, 0 where that is not known.
	counting time.Duration
	// cores is the processor time by the elapsed time, 0 where that is not known.
	cores float64
}

// count is what a rival counted for a truth.
type count struct {
	place         int32 // in mquine's ranks
	better, equal [rank.NumFilters]int32
}

// removedBy tells which filters remove an answer that some splits know.
func removedBy(splits kg.SplitSet) (filters [rank.NumFilters]bool) {
	for f := range rank.NumFilters {
		filters[f] = splits&f.Splits() != 0
	}
	return filters
}

// sample returns the starts of the blocks, of the given size, of about limit of total things.
func sample(total, block, limit int) (starts []int) {
	blocks := (total + block - 1) / block
	keep := blocks
	if 0 < limit && limit < total {
		keep = max(1, min(blocks, (blocks*limit+total/2)/total))
	}
	for i := range keep {
		starts = append(starts, i*blocks/keep*block)
	}
	return starts
}
