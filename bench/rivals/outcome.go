package main

import (
	"context"
	"time"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// rivalNames lists the rivals in the order in which they are timed.
var rivalNames = []string{"gonum", "openblas", "onednn", "plain", "torch", "torch-unique"}

// rival evaluates the queries of a job in its own way.
type rival interface {
	// rank counts the better and the equal candidates for all targets or, if limit is above 0, for
	// about limit targets in evenly spaced blocks.
	rank(ctx context.Context, limit int) (*outcome, error)
	// about returns the version and the settings of the rival.
	about() string
	close()
}

// outcome is one run of a rival.
type outcome struct {
	counts  []count // counts for the ranked targets
	elapsed time.Duration
	// counting is the part of the elapsed time that follows the products, or 0 if it is not
	// measured.
	counting time.Duration
	// cores is the processor time divided by the elapsed time, or 0 if it is not measured.
	cores float64
}

// count holds a rival's counts for a target.
type count struct {
	place         int32 // index in mquine's ranks
	better, equal [rank.NumFilters]int32
}

// removedBy reports which filters remove a known answer that is in the given splits.
func removedBy(splits kg.SplitSet) (filters [rank.NumFilters]bool) {
	for f := range rank.NumFilters {
		filters[f] = splits&f.Splits() != 0
	}
	return filters
}

// sample returns the starts of evenly spaced blocks. Together, the blocks contain about limit items
// out of total, or all items if limit is 0.
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
