package classify

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kg"
)

// Negatives draws a false triple for each triple, with the same relation and the same head or tail.
// It replaces the other side with an entity that is drawn uniformly from the entities on this side
// of the relation in the training split of g. No split of g contains the false triple, and it
// differs from the triples drawn earlier and in used; x is the index of g. Negatives first tries a
// random side of the query. If that side has no such entity, it tries the other side. If neither side
// has one, the triple has no false triple, and missing counts it. The same seed gives the same
// triples, however the entities are numbered.
func Negatives(
	ctx context.Context, g *kg.Graph, x *kg.Index, triples, used []kg.Triple, seed uint64,
) (negatives []kg.Triple, missing int, err error) {
	observed, err := newObserved(g)
	if err != nil {
		return nil, 0, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6e65676174697665)) // "negative"
	drawn := map[kg.Triple]bool{}
	for _, t := range used {
		drawn[t] = true
	}
	known := make([]bool, g.Entities.Len())
	var free []int32
	for i, t := range triples {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		side := kg.Side(rng.IntN(2))
		found := false
		for range 2 {
			q, _ := t.Query(side)
			free = free[:0]
			answers := x.Answers(q).Entities
			for _, e := range answers {
				known[e] = true
			}
			for _, e := range observed[side][t.Relation] {
				if !known[e] && !drawn[q.Triple(e)] {
					free = append(free, e)
				}
			}
			for _, e := range answers {
				known[e] = false
			}
			if len(free) > 0 {
				negative := q.Triple(free[rng.IntN(len(free))])
				drawn[negative], found = true, true
				negatives = append(negatives, negative)
				break
			}
			side = side.Opposite()
		}
		if !found {
			missing++
		}
	}
	return negatives, missing, nil
}

// observed lists, for each side and relation, the entities of training triples, in the order of
// kg.Graph.EntityOrder.
type observed [2][][]int32

func newObserved(g *kg.Graph) (o observed, err error) {
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return o, err
	}
	order := g.EntityOrder()
	position := make([]int32, len(order))
	for i, e := range order {
		position[e] = int32(i)
	}
	for side := range o {
		o[side] = make([][]int32, g.Relations.Len())
		for _, t := range triples {
			_, e := t.Query(kg.Side(side))
			o[side][t.Relation] = append(o[side][t.Relation], e)
		}
		for r, list := range o[side] {
			slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(position[a], position[b]) })
			o[side][r] = slices.Compact(list)
		}
	}
	return o, nil
}
