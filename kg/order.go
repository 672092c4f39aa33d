package kg

import (
	"cmp"
	"slices"
)

// EntityOrder returns the entities in an order that does not depend on their identifiers: as they first
// appear in the splits (train first, and the head of a triple before its tail), and then by label.
// Random draws in this order are the same for checkpoints that number the entities differently.
func (g *Graph) EntityOrder() []int32 {
	order := make([]int32, 0, g.Entities.Len())
	seen := make([]bool, g.Entities.Len())
	appear := func(e int32) {
		if !seen[e] {
			seen[e] = true
			order = append(order, e)
		}
	}
	for _, triples := range g.Splits {
		for _, t := range triples {
			appear(t.Head)
			appear(t.Tail)
		}
	}
	appeared := len(order)
	for e, found := range seen {
		if !found {
			order = append(order, int32(e))
		}
	}
	slices.SortFunc(order[appeared:], func(a, b int32) int {
		return cmp.Compare(g.Entities.Label(a), g.Entities.Label(b))
	})
	return order
}
