package rank

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Sample holds candidates drawn at random for each query, for an estimate of the ranks among all
// candidates.
type Sample struct {
	Negatives
	// Filter is the filter under which the candidates were drawn. It removes none of them.
	Filter Filter
	// Population[side][i] is the number of candidates from which Negatives[side][i] was drawn: the
	// candidates that the filter leaves, without the target.
	Population [2][]int32
	// Among are the candidates of the queries, as in Draw.
	Among *Candidates
}

// Sampling says how Draw draws candidates.
type Sampling struct {
	// Negatives is the number of candidates for each query, at least 1.
	Negatives int
	// Filter leaves the candidates from which Draw draws.
	Filter Filter
	// Order lists all entities. If it does not depend on their identifiers (kg.Graph.EntityOrder),
	// neither do the drawn candidates.
	Order []int32
	Seed  uint64
}

// Draw draws candidates without replacement for each query of the triples, from the candidates that
// the filter leaves for the query, without the target. It takes all of these if there are at most
// d.Negatives. x is the index of the data set. Of the options it uses Sides, Among and Threads. Every
// query has a separate random stream, so the result does not depend on the number of threads.
func Draw(ctx context.Context, x *kg.Index, triples []kg.Triple, d Sampling, o Options) (*Sample, error) {
	n, f, order, among := d.Negatives, d.Filter, d.Order, o.Among
	if n < 1 {
		return nil, fmt.Errorf("rank: cannot draw %d candidates: draw at least 1", n)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s, p := &Sample{Filter: f, Among: among}, newPlaces(order)
	for _, side := range o.Sides {
		s.Negatives[side] = make([][]int32, len(triples))
		s.Population[side] = make([]int32, len(triples))
		err := engine.InChunks(ctx, o.Threads, len(triples), 64, func(_, first, last int) {
			for i := first; i < last; i++ {
				q, answer := triples[i].Query(side)
				// A stream has the number 2i for tails and 2i + 1 for heads.
				stream := rand.NewPCG(d.Seed, uint64(2*i)+uint64(side))
				excluded := p.of(exclude(x.Answers(q), answer, f))
				list, all := among.Of(q)
				if all {
					s.Population[side][i] = int32(len(order) - len(excluded))
					s.Negatives[side][i] = p.entities(draw(rand.New(stream), excluded, len(order), n))
					continue
				}
				list = p.ofList(list)
				excluded = positions(list, excluded)
				s.Population[side][i] = int32(len(list) - len(excluded))
				drawn := draw(rand.New(stream), excluded, len(list), n)
				for k, at := range drawn {
					drawn[k] = list[at]
				}
				s.Negatives[side][i] = p.entities(drawn)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// places holds the places of entities in an order.
type places struct {
	order []int32 // entities by place
	place []int32 // places by entity
	same  bool    // every entity is its own place
	lists sync.Map
}

func newPlaces(order []int32) *places {
	p := &places{order: order, place: make([]int32, len(order)), same: slices.IsSorted(order)}
	for i, e := range order {
		p.place[e] = int32(i)
	}
	return p
}

// of replaces entities with their places, in ascending order.
func (p *places) of(entities []int32) []int32 { return p.replace(entities, p.place) }

// entities replaces places with their entities, in ascending order.
func (p *places) entities(places []int32) []int32 { return p.replace(places, p.order) }

func (p *places) replace(list, with []int32) []int32 {
	if p.same {
		return list
	}
	for i, x := range list {
		list[i] = with[x]
	}
	slices.Sort(list)
	return list
}

// ofList returns the places of the entities in a list of candidates, in ascending order. Many queries
// share a list, so it keeps the places.
func (p *places) ofList(list []int32) []int32 {
	if p.same || len(list) == 0 {
		return list
	}
	key := &list[0]
	if found, ok := p.lists.Load(key); ok {
		return found.([]int32)
	}
	places := p.of(slices.Clone(list))
	p.lists.Store(key, places)
	return places
}

// exclude returns the target and the known answers that a filter removes, in ascending order.
func exclude(known kg.Answers, target int32, f Filter) []int32 {
	excluded := []int32{target}
	for i, e := range known.Entities {
		if e != target && known.Splits[i]&f.Splits() != 0 {
			excluded = append(excluded, e)
		}
	}
	slices.Sort(excluded)
	return excluded
}

// positions returns the positions in list of those entities that are in list. Both slices must be in
// ascending order. The result overwrites entities.
func positions(list, entities []int32) []int32 {
	at := entities[:0]
	for _, e := range entities {
		if i, found := slices.BinarySearch(list, e); found {
			at = append(at, int32(i))
		}
	}
	return at
}

// draw draws n of the entities that are not excluded, or all of them if there are at most n, and
// returns them in ascending order.
func draw(rng *rand.Rand, excluded []int32, entities, n int) []int32 {
	left := entities - len(excluded)
	n = min(n, left)
	// Floyd's algorithm draws n distinct numbers below left (Bentley and Floyd, 1987).
	drawn := make(map[int32]bool, n)
	list := make([]int32, 0, n)
	for last := left - n; last < left; last++ {
		k := int32(rng.IntN(last + 1))
		if drawn[k] {
			k = int32(last)
		}
		drawn[k] = true
		list = append(list, k)
	}
	// The k-th entity that is not excluded is k plus the number of excluded ones before it.
	slices.Sort(list)
	skipped := 0
	for i, k := range list {
		for skipped < len(excluded) && excluded[skipped] <= k+int32(skipped) {
			skipped++
		}
		list[i] = k + int32(skipped)
	}
	return list
}

// Scale turns ranks among the sample into estimates of ranks among all candidates. The ranks must be
// a result of Run with the sample's Negatives. With N drawn from M candidates, an estimate is
//
//	1 + (better + equal/2)·M/N
//
// under realistic ties, and accordingly under other tie rules. Its expected value is the rank among
// all candidates. Estimates under other filters than the sample's are meaningless.
func (s *Sample) Scale(ranks []Rank) {
	var next [2]int
	for i := range ranks {
		r := &ranks[i]
		at := next[r.Side]
		next[r.Side]++
		population, drawn := s.Population[r.Side][at], len(s.Negatives[r.Side][at])
		r.Candidates[s.Filter] = population
		if s.Among.Has(r.Triple.Query(r.Side)) {
			r.Candidates[s.Filter]++ // the target
		}
		if drawn > 0 {
			r.Scale = float64(population) / float64(drawn)
		}
	}
}
