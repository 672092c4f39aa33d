package rank

import (
	"fmt"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Negatives holds candidates for single queries: Negatives[side][i] lists the entities with which
// the target of triple i competes on a side, in ascending order. An entity counts as often as it
// occurs in the list. The list must not contain the target, which is a candidate in any case. The
// filters remove known answers as usual. A side that is not ranked may be nil.
type Negatives [2][][]int32

// listed returns the lists of all ranks: one side after the other, each in the order of the triples.
// It returns nil if n is nil.
func (n *Negatives) listed(m model.Model, triples []kg.Triple, sides []kg.Side) ([][]int32, error) {
	if n == nil {
		return nil, nil
	}
	entities := m.Config().Entities
	lists := make([][]int32, 0, len(sides)*len(triples))
	for _, side := range sides {
		if len(n[side]) != len(triples) {
			return nil, fmt.Errorf("rank: %d lists of negatives do not suit %d triples on the %v side: "+
				"give one list for each triple", len(n[side]), len(triples), side)
		}
		for i, list := range n[side] {
			q, answer := triples[i].Query(side)
			switch _, found := slices.BinarySearch(list, answer); {
			case !slices.IsSorted(list):
				return nil, fmt.Errorf("rank: the negatives of query %v are not in ascending order: sort them", q)
			case len(list) > 0 && (list[0] < 0 || int(list[len(list)-1]) >= entities):
				return nil, fmt.Errorf("rank: negatives %d to %d of query %v are not among the model's %d entities",
					list[0], list[len(list)-1], q, entities)
			case found:
				return nil, fmt.Errorf("rank: the negatives of query %v contain the target %d: leave it out", q, answer)
			}
		}
		lists = append(lists, n[side]...)
	}
	return lists, nil
}
