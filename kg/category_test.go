package kg

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCategoriesNeedMoreThanOneAndAHalf(t *testing.T) {
	g := &Graph{Entities: numberedLabels(10), Relations: numberedLabels(6)}
	g.Splits[Train] = []Triple{
		{0, 0, 1}, {1, 0, 2}, // one to one
		{0, 1, 1}, {0, 1, 2}, // two tails for a head
		{1, 2, 0}, {2, 2, 0}, // two heads for a tail
		{0, 3, 1}, {0, 3, 2}, {3, 3, 1}, {3, 3, 2}, // both
		{0, 4, 1}, {0, 4, 2}, {3, 4, 4}, // 3 tails for 2 heads: 1.5 is not more than 1.5
		{0, 4, 1}, {0, 4, 1}, // repeats do not count
	}
	g.Splits[Test] = []Triple{{0, 0, 3}, {0, 0, 4}, {0, 5, 1}, {0, 5, 2}} // nor do other splits
	assert.Equal(t, []Category{OneToOne, OneToMany, ManyToOne, ManyToMany, OneToOne, OneToOne},
		newIndex(t, g).Categories())
	assert.Equal(t, "1-1 1-N N-1 N-N Category(4)",
		fmt.Sprint(OneToOne, OneToMany, ManyToOne, ManyToMany, NumCategories))
}

func TestCategoriesEqualBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		want := make([]Category, g.Relations.Len())
		for r := range want {
			heads, tails, triples := map[int32]bool{}, map[int32]bool{}, map[Triple]bool{}
			for _, x := range g.Splits[Train] {
				if x.Relation == int32(r) {
					heads[x.Head], tails[x.Tail], triples[x] = true, true, true
				}
			}
			if float64(len(triples))/float64(len(tails)) > 1.5 {
				want[r] += ManyToOne
			}
			if float64(len(triples))/float64(len(heads)) > 1.5 {
				want[r] += OneToMany
			}
		}
		assert.Equal(t, want, newIndex(t, g).Categories())
	})
}
