package metrics

import (
	"fmt"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// Align returns the ranks of the queries of triples on the given sides, in the order of rank.Run: all queries of the
// first side, then those of the next. The given ranks may be in any order and of more sides, but on each of these sides
// they must be of the triples and of nothing else.
func Align(ranks []rank.Rank, triples []kg.Triple, sides []kg.Side) ([]rank.Rank, error) {
	type query struct {
		kg.Triple
		kg.Side
	}
	of := map[query][]int{} // a triple that occurs several times has several ranks
	var given [2]int
	for i, r := range ranks {
		q := query{r.Triple, r.Side}
		of[q] = append(of[q], i)
		given[r.Side]++
	}
	aligned := make([]rank.Rank, 0, len(sides)*len(triples))
	for _, side := range sides {
		if given[side] != len(triples) {
			return nil, fmt.Errorf("there are ranks of %d queries on side %v, and %d triples", given[side], side, len(triples))
		}
		for i, t := range triples {
			q := query{t, side}
			if len(of[q]) == 0 {
				return nil, fmt.Errorf("there is no rank of the query on side %v of triple %d", side, i+1)
			}
			aligned = append(aligned, ranks[of[q][0]])
			of[q] = of[q][1:]
		}
	}
	return aligned, nil
}
