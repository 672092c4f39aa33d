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
	drawn := map[kg.Query][]int32{}                        // the answers that are no longer free
	draw := func(t kg.Triple) {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q, answer := t.Query(side)
			drawn[q] = append(drawn[q], answer)
		}
	}
	for _, t := range used {
		draw(t)
	}
	var taken []int
	for i, t := range triples {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		side := kg.Side(rng.IntN(2))
		found := false
		for range 2 {
			q, _ := t.Query(side)
			candidates := observed.entities[side][t.Relation]
			taken = observed.appendPlaces(taken[:0], candidates, x.Answers(q).Entities)
			taken = observed.appendPlaces(taken, candidates, drawn[q])
			slices.Sort(taken)
			taken = slices.Compact(taken)
			if free := len(candidates) - len(taken); free > 0 {
				negative := q.Triple(candidates[absent(taken, rng.IntN(free))])
				draw(negative)
				negatives, found = append(negatives, negative), true
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

// absent returns the element with number n among the numbers from 0 up that are not in the ascending list.
func absent(list []int, n int) int {
	for _, k := range list {
		if k > n {
			break
		}
		n++
	}
	return n
}

// observed lists, for each side and relation, the entities of training triples, in the order of
// kg.Graph.EntityOrder.
type observed struct {
	entities [2][][]int32
	position []int32 // the position of each entity in that order
}

func newObserved(g *kg.Graph) (*observed, error) {
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return nil, err
	}
	order := g.EntityOrder()
	o := &observed{position: make([]int32, len(order))}
	for i, e := range order {
		o.position[e] = int32(i)
	}
	for side := range o.entities {
		lists := make([][]int32, g.Relations.Len())
		for _, t := range triples {
			_, e := t.Query(kg.Side(side))
			lists[t.Relation] = append(lists[t.Relation], e)
		}
		for r, list := range lists {
			slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(o.position[a], o.position[b]) })
			lists[r] = slices.Compact(list)
		}
		o.entities[side] = lists
	}
	return o, nil
}

// appendPlaces appends the places in list of those entities that it contains. The list is one of o.
func (o *observed) appendPlaces(places []int, list, entities []int32) []int {
	for _, e := range entities {
		place, found := slices.BinarySearchFunc(list, o.position[e], func(e, position int32) int {
			return cmp.Compare(o.position[e], position)
		})
		if found {
			places = append(places, place)
		}
	}
	return places
}
