package metrics

import (
	"errors"
	"fmt"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// Align returns the ranks of triples on the given sides in the order of rank.Run: one side after
// the other, each in the order of the triples. The argument ranks may be in any order and may
// include other sides. Align returns an error unless ranks contains the ranks of exactly these
// triples on each of the given sides.
//
// If partial is set, ranks may lack queries. So may ranks among restricted candidates
// (Rank.CandidatesDigest), because their targets need not be candidates. missing contains the positions
// of these queries in a list with all queries. Lists of ranks are comparable only if the same queries
// are missing.
func Align(
	ranks []rank.Rank, triples []kg.Triple, sides []kg.Side, partial bool,
) (aligned []rank.Rank, missing []int, err error) {
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
		partial = partial || r.CandidatesDigest != 0
	}
	aligned = make([]rank.Rank, 0, len(sides)*len(triples))
	for s, side := range sides {
		switch n := given[side]; {
		case n == 0 && len(ranks) > 0 && partial:
			return nil, nil, fmt.Errorf("it has no ranks on side %v, which was not ranked or whose queries were all "+
				"left out: choose side %v", side, ranks[0].Side)
		case n == 0 && len(ranks) > 0:
			return nil, nil, fmt.Errorf("it has ranks on side %v but not on side %v: choose the same side",
				ranks[0].Side, side)
		case n < len(triples) && !partial:
			return nil, nil, fmt.Errorf("there are %d ranks on side %v for %d triples: rank the same split, without "+
				"leaving out triples", n, side, len(triples))
		case n > len(triples):
			return nil, nil, fmt.Errorf("there are %d ranks on side %v for %d triples: rank the same split", n, side,
				len(triples))
		}
		before := len(aligned)
		for i, t := range triples {
			q := query{t, side}
			switch {
			case len(of[q]) > 0:
				aligned = append(aligned, ranks[of[q][0]])
				of[q] = of[q][1:]
			case partial:
				missing = append(missing, s*len(triples)+i)
			default:
				return nil, nil, fmt.Errorf("triple %d has no rank on side %v: rank the same split", i+1, side)
			}
		}
		if others := given[side] - (len(aligned) - before); others > 0 {
			return nil, nil, fmt.Errorf("other triples have %s on side %v: rank the same split",
				text.Plural(others, "rank"), side)
		}
	}
	if len(aligned) == 0 && len(triples) > 0 {
		return nil, nil, errors.New("it has no ranks: write the file again")
	}
	return aligned, missing, nil
}
