package metrics

import (
	"fmt"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// Align returns the ranks of triples on the given sides in the order of rank.Run: one side after
// the other, each in the order of the triples. The argument ranks may be in any order and may
// include other sides. Align returns an error unless ranks contains the ranks of exactly these
// triples on each of the given sides.
func Align(ranks []rank.Rank, triples []kg.Triple, sides []kg.Side) ([]rank.Rank, error) {
	type query struct {
		kg.Triple
		kg.Side
	}
	of := map[query][]int{} // a triple that occurs several times has several ranks
	var given [numSides]int
	for i, r := range ranks {
		q := query{r.Triple, r.Side}
		of[q] = append(of[q], i)
		given[r.Side]++
	}
	aligned := make([]rank.Rank, 0, len(sides)*len(triples))
	for _, side := range sides {
		switch n := given[side]; {
		case n == 0 && len(ranks) > 0:
			return nil, fmt.Errorf("it has ranks on side %v but not on side %v: choose the same side", ranks[0].Side,
				side)
		case n < len(triples):
			return nil, fmt.Errorf("there are %d ranks on side %v for %d triples: rank the same split, without "+
				"leaving out triples", n, side, len(triples))
		case n > len(triples):
			return nil, fmt.Errorf("there are %d ranks on side %v for %d triples: rank the same split", n, side,
				len(triples))
		}
		for i, t := range triples {
			q := query{t, side}
			if len(of[q]) == 0 {
				return nil, fmt.Errorf("triple %d has no rank on side %v: rank the same split", i+1, side)
			}
			aligned = append(aligned, ranks[of[q][0]])
			of[q] = of[q][1:]
		}
	}
	return aligned, nil
}
