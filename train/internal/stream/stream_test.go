package stream

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Seeds, uses and counters that differ anywhere have different streams. In particular, a use of one
// seed is not the next use of the seed before it.
func TestStreamsDiffer(t *testing.T) {
	owners := map[[2]uint64][5]int{}
	pcg := &rand.PCG{}
	for seed := range 40 {
		for use := range 40 {
			for epoch := range 3 {
				for step := range 3 {
					for item := range 3 {
						owner := [5]int{seed, use, epoch, step, item}
						Seed(pcg, uint64(seed), uint64(use), epoch, step, item)
						draws := [2]uint64{pcg.Uint64(), pcg.Uint64()}
						other, taken := owners[draws]
						require.False(t, taken, "%v and %v draw the same numbers", owner, other)
						owners[draws] = owner
					}
				}
			}
		}
	}
}
