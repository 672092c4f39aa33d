package engine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestShortlist checks that a list keeps the k best candidates, in any order of their addition, and
// only candidates that may be among the k best.
func TestShortlist(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	for range 200 {
		const n = 150
		k := []int{1, 2, 5, 40}[rng.IntN(4)]
		var all []Contender // with their final intervals
		list := shortlist{items: make([]Contender, 3), lows: make([]float64, 2), threshold: 7}
		list.reset(k)
		narrow := func(c Contender) Contender {
			c.Low, c.High = c.Low+(c.Score-c.Low)/2, c.High-(c.High-c.Score)/2
			return c
		}
		for _, e := range rng.Perm(n) {
			// Many scores are equal, and a third of the intervals are points.
			score := float64(rng.IntN(12))
			c := Contender{Entity: int32(e), Low: score - float64(rng.IntN(3)), High: score + float64(rng.IntN(3)),
				Score: score}
			if rng.IntN(3) == 0 {
				c.Low, c.High = score, score
			}
			all = append(all, c)
			list.add(c)
			if rng.IntN(20) == 0 {
				for i, c := range list.items {
					list.items[i] = narrow(c)
					at := slices.IndexFunc(all, func(o Contender) bool { return o.Entity == c.Entity })
					all[at] = list.items[i]
				}
				list.prune()
			}
		}
		list.prune()

		slices.SortFunc(all, func(a, b Contender) int { return cmp.Compare(b.Low, a.Low) })
		assert.Equal(t, all[k-1].Low, list.threshold)
		kept := slices.DeleteFunc(slices.Clone(all), func(c Contender) bool { return c.High < all[k-1].Low })
		assert.ElementsMatch(t, kept, list.items, "the contenders that k others do not certainly surpass")
		slices.SortFunc(all, func(a, b Contender) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Entity, b.Entity))
		})
		list.truncate()
		require.Equal(t, all[:k], list.items)
	}
}
