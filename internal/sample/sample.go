// Package sample draws random samples.
package sample

import (
	"math/rand/v2"
	"slices"
)

// AppendDistinct appends n distinct numbers below limit to list, in ascending order. Every set of n
// numbers has the same probability. It requires n ≤ limit. drawn is scratch memory for each number, all
// false before and after.
func AppendDistinct(list []int32, rng *rand.Rand, limit, n int, drawn []bool) []int32 {
	first := len(list)
	for last := limit - n; last < limit; last++ { // Robert Floyd's algorithm (Bentley and Floyd, 1987)
		k := int32(rng.IntN(last + 1))
		if drawn[k] {
			k = int32(last)
		}
		drawn[k] = true
		list = append(list, k)
	}
	for _, k := range list[first:] {
		drawn[k] = false
	}
	slices.Sort(list[first:])
	return list
}
