package rank

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Candidates restricts the candidates of queries to lists of entities, by side and relation. Queries
// with equal lists share a pass over the features of these entities. The features of other entities
// are not computed.
type Candidates struct {
	lists   [][]int32          // distinct
	numbers map[uint64][]int32 // by hash of a list, the numbers of the lists with this hash, counted from 1
	of      [2][]int32         // by side and relation, the number of a list, or 0 for all entities
}

// listSeed is the seed of the hashes of lists.
var listSeed = maphash.MakeSeed()

// NewCandidates returns candidates for a graph with the given number of relations. At first, every
// entity is a candidate of every query. The methods of Candidates panic if a side is neither kg.Tail
// nor kg.Head, or if a relation is not one of the given number.
func NewCandidates(relations int) *Candidates {
	return &Candidates{
		numbers: map[uint64][]int32{}, of: [2][]int32{make([]int32, relations), make([]int32, relations)},
	}
}

// Observe restricts the candidates for a side of each relation to the entities on this side of the
// relation's training triples in g. A relation without training triples has no candidates. Errors
// are the error of ctx, and a graph with another number of relations.
func (c *Candidates) Observe(ctx context.Context, g *kg.Graph, side kg.Side) error {
	if n := g.Relations.Len(); n != len(c.of[side]) {
		return fmt.Errorf("rank: the candidates are for %d relations, but the graph has %d: "+
			"make them with NewCandidates(%[2]d)", len(c.of[side]), n)
	}
	seen := make([][]int32, len(c.of[side]))
	for _, t := range g.Splits[kg.Train] {
		_, answer := t.Query(side)
		seen[t.Relation] = append(seen[t.Relation], answer)
	}
	for r, entities := range seen {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.Restrict(side, int32(r), entities)
	}
	return nil
}

// Restrict makes the given entities the only candidates for a side of a relation, in place of an
// earlier list. Entities may repeat and have any order.
func (c *Candidates) Restrict(side kg.Side, relation int32, entities []int32) {
	c.of[side][relation] = c.number(entities)
}

// RestrictAll makes the given entities the only candidates for a side of all relations.
func (c *Candidates) RestrictAll(side kg.Side, entities []int32) {
	number := c.number(entities)
	for r := range c.of[side] {
		c.of[side][r] = number
	}
}

// number returns the number that c.of uses for the list of the given entities, and adds the list to
// c.lists if it is new.
func (c *Candidates) number(entities []int32) int32 {
	list := slices.Clone(entities)
	slices.Sort(list)
	list = slices.Compact(list)
	hash := hashOf(list)
	same := c.numbers[hash]
	for _, number := range same {
		if slices.Equal(list, c.lists[number-1]) {
			return number
		}
	}
	c.lists = append(c.lists, list)
	c.numbers[hash] = append(same, int32(len(c.lists)))
	return int32(len(c.lists))
}

func hashOf(list []int32) uint64 {
	var h maphash.Hash
	h.SetSeed(listSeed)
	for _, e := range list {
		maphash.WriteComparable(&h, e)
	}
	return h.Sum64()
}

// Of returns the candidates of q in ascending order. all reports whether every entity is a
// candidate, in which case the list is nil. The list belongs to c; do not modify it.
func (c *Candidates) Of(q kg.Query) (entities []int32, all bool) {
	if c == nil || c.of[q.Side][q.Relation] == 0 {
		return nil, true
	}
	return c.lists[c.of[q.Side][q.Relation]-1], false
}

// Has reports whether an entity is a candidate of q.
func (c *Candidates) Has(q kg.Query, entity int32) bool {
	list, all := c.Of(q)
	if all {
		return true
	}
	_, found := slices.BinarySearch(list, entity)
	return found
}

// check returns an error if the lists do not suit a model.
func (c *Candidates) check(m model.Config) error {
	if c == nil {
		return nil
	}
	if len(c.of[0]) != m.Relations {
		return fmt.Errorf("rank: the candidates are for %d relations, but the model has %d: "+
			"make them with NewCandidates(%[2]d)", len(c.of[0]), m.Relations)
	}
	return c.checkEntities(m.Entities)
}

// checkEntities returns an error if the lists in use do not suit the given number of entities.
func (c *Candidates) checkEntities(entities int) error {
	if c == nil {
		return nil
	}
	for _, number := range slices.Concat(c.of[0], c.of[1]) {
		if number == 0 {
			continue
		}
		list := c.lists[number-1]
		if n := len(list); n > 0 && (list[0] < 0 || int(list[n-1]) >= entities) {
			return fmt.Errorf("rank: candidates %d to %d are not among the %d entities", list[0], list[n-1], entities)
		}
	}
	return nil
}

// sets holds the candidates of queries in the form that engines need: the lists of Options.Among,
// within the range of Options.Shard. Set 0 is the whole range.
type sets struct {
	among *Candidates
	list  []engine.Set
}

// sets returns the candidates of queries. The options must be resolved, but an empty range still
// means all entities.
func (o Options) sets(m model.Model) *sets {
	r := o.Shard
	if r == (Range{}) {
		r.Last = m.Config().Entities
	}
	s := &sets{o.Among, []engine.Set{engine.Range(r.First, r.Last)}}
	if o.Among == nil {
		return s
	}
	for _, list := range o.Among.lists {
		set := engine.List(s.list[0].Within(list))
		if set.Len() == r.Last-r.First {
			set = s.list[0]
		}
		s.list = append(s.list, set)
	}
	return s
}

// number returns the index of q's candidates in s.list.
func (s *sets) number(q kg.Query) int32 {
	if s.among == nil {
		return 0
	}
	return s.among.of[q.Side][q.Relation]
}

// of returns the candidates of q.
func (s *sets) of(q kg.Query) engine.Set { return s.list[s.number(q)] }

// most returns the largest number of candidates of a query, but at least 1.
func (o Options) most(m model.Model) int {
	s := o.sets(m)
	if s.among == nil {
		return s.list[0].Len()
	}
	most := 1
	for side := range kg.Side(2) {
		for r := range s.among.of[side] {
			most = max(most, s.of(kg.Query{Side: side, Relation: int32(r)}).Len())
		}
	}
	return most
}
