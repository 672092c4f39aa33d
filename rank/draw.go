package rank

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"unsafe"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/sample"
	"github.com/mquine/mquine/internal/text"
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
// query has a separate random stream, so the result does not depend on the number of threads. It is an
// error if the sample does not fit into memory.
func Draw(ctx context.Context, x *kg.Index, triples []kg.Triple, d Sampling, o Options) (*Sample, error) {
	if x == nil {
		return nil, errNoIndex
	}
	n, f, among := d.Negatives, d.Filter, o.Among
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := d.check(o); err != nil {
		return nil, err
	}
	need, err := d.need(x, triples, o)
	if err != nil {
		return nil, err
	}
	err = proc.CheckMemory(fmt.Sprintf("drawing up to %s for each query", text.Plural(n, "candidate")),
		"draw fewer candidates, rank fewer triples, or make more memory available", need)
	if err != nil {
		return nil, err
	}
	s, p := &Sample{Filter: f, Among: among}, newPlaces(d.Order)
	drawers := make([]drawer, o.Threads)
	for w := range drawers {
		drawers[w] = drawer{places: p, index: x, filter: f, among: among, drawn: make([]bool, len(d.Order))}
	}
	for _, side := range o.Sides {
		s.Negatives[side] = make([][]int32, len(triples))
		s.Population[side] = make([]int32, len(triples))
		order := byQuery(triples, side)
		err := engine.InChunks(ctx, o.Threads, len(triples), 64, func(w, first, last int) {
			for _, i := range order[first:last] {
				if ctx.Err() != nil {
					return
				}
				// A stream has the number 2i for tails and 2i + 1 for heads.
				stream := rand.NewPCG(d.Seed, 2*uint64(i)+uint64(side))
				q, answer := triples[i].Query(side)
				s.Negatives[side][i], s.Population[side][i] = drawers[w].draw(rand.New(stream), q, answer, n)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// drawer draws candidates on one goroutine. It keeps what consecutive triples with one query share.
type drawer struct {
	places *places
	index  *kg.Index
	filter Filter
	among  *Candidates
	drawn  []bool // scratch memory of draw

	ready      bool // false before the first query
	query      kg.Query
	all        bool    // all entities are candidates
	list       []int32 // the places of the candidates in ascending order, if not all
	candidates int
	// known holds the known answers to the query that the filter removes, as places if all entities
	// are candidates and otherwise as positions in list, in ascending order.
	known []int32
}

// draw returns n of the candidates that the filter leaves for a query, without the target, in ascending
// order, and the number of these candidates.
func (d *drawer) draw(rng *rand.Rand, q kg.Query, target int32, n int) (drawn []int32, population int32) {
	if !d.ready || q != d.query {
		d.begin(q)
	}
	at, isCandidate := d.places.place[target], true
	if !d.all {
		i, found := slices.BinarySearch(d.list, at)
		at, isCandidate = int32(i), found
	}
	i, isKnown := slices.BinarySearch(d.known, at)
	insert := isCandidate && !isKnown
	if insert {
		d.known = slices.Insert(d.known, i, at)
	}
	population = int32(d.candidates - len(d.known))
	drawn = draw(rng, d.known, d.candidates, n, d.drawn)
	if insert {
		d.known = slices.Delete(d.known, i, i+1)
	}
	if !d.all {
		for k, at := range drawn {
			drawn[k] = d.list[at]
		}
	}
	return d.places.entities(drawn), population
}

// begin prepares for a query.
func (d *drawer) begin(q kg.Query) {
	d.ready, d.query = true, q
	d.known = d.places.of(appendKnown(d.known[:0], d.index.Answers(q), d.filter))
	var list []int32
	if list, d.all = d.among.Of(q); d.all {
		d.candidates = len(d.places.order)
		return
	}
	d.list = d.places.ofList(list)
	d.candidates = len(d.list)
	d.known = positions(d.list, d.known)
}

// check returns an error if d does not suit the options.
func (d *Sampling) check(o Options) error {
	if d.Negatives < 1 {
		return fmt.Errorf("rank: cannot draw %d candidates: draw at least 1", d.Negatives)
	}
	if d.Filter >= NumFilters {
		return fmt.Errorf("rank: %v is not a filter: choose None, Train or All", d.Filter)
	}
	for _, side := range o.Sides {
		if side != kg.Tail && side != kg.Head {
			return fmt.Errorf("rank: Draw draws entities for queries, but not on the %v side: set Sides to kg.Tail, "+
				"kg.Head or both", side)
		}
	}
	listed := make([]bool, len(d.Order))
	for _, e := range d.Order {
		if e < 0 || int(e) >= len(listed) || listed[e] {
			return fmt.Errorf("rank: Sampling.Order has %d entities, but entity %d is not below this number, or "+
				"occurs twice: list every entity once", len(listed), e)
		}
		listed[e] = true
	}
	return o.Among.checkEntities(len(d.Order))
}

// need returns the memory that a sample for the triples needs. It returns an error if d does not suit
// their queries.
func (d *Sampling) need(x *kg.Index, triples []kg.Triple, o Options) (proc.Need, error) {
	const perCandidate = int64(unsafe.Sizeof(int32(0)))
	const perQuery = int64(unsafe.Sizeof([]int32{}) + unsafe.Sizeof(int32(0))) // a list and a population
	need, entities, relations := proc.Need{For: "candidates"}, len(d.Order), math.MaxInt32
	if o.Among != nil {
		relations = len(o.Among.of[0])
	}
	for _, side := range o.Sides {
		for _, t := range triples {
			if !within(t, entities, relations) {
				return need, fmt.Errorf("rank: triple %v is outside the %d entities of Sampling.Order "+
					"or the relations of Options.Among", t, entities)
			}
			q, _ := t.Query(side)
			known := x.Answers(q).Entities
			if n := len(known); n > 0 && int(known[n-1]) >= entities {
				return need, fmt.Errorf("rank: Sampling.Order has %d entities and lacks entity %d, which answers "+
					"query %v: list every entity once", entities, known[n-1], q)
			}
			candidates := entities
			if list, all := o.Among.Of(q); !all {
				candidates = len(list)
			}
			drawn := min(d.Negatives, max(0, candidates-len(known)-1))
			need.Bytes += perQuery + int64(drawn)*perCandidate
		}
	}
	return need, nil
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

// appendKnown appends the known answers that a filter removes to list, in ascending order.
func appendKnown(list []int32, known kg.Answers, f Filter) []int32 {
	for i, e := range known.Entities {
		if known.Splits[i]&f.Splits() != 0 {
			list = append(list, e)
		}
	}
	return list
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
// returns them in ascending order. drawn is scratch memory for each entity, all false before and after.
func draw(rng *rand.Rand, excluded []int32, entities, n int, drawn []bool) []int32 {
	left := entities - len(excluded)
	n = min(n, left)
	list := sample.AppendDistinct(make([]int32, 0, n), rng, left, n, drawn)
	// The k-th entity that is not excluded is k plus the number of excluded ones before it.
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
//
// Scale returns an error, and does not change the ranks, if they cannot be such a result: if their number or
// their numbers of candidates do not fit the lists of the sample, or if they have a scale already.
func (s *Sample) Scale(ranks []Rank) error {
	if err := s.check(ranks); err != nil {
		return err
	}
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
	return nil
}

// check returns an error if the ranks cannot be among the sample.
func (s *Sample) check(ranks []Rank) error {
	var next [2]int
	for i := range ranks {
		r := &ranks[i]
		if r.Side > kg.Head {
			return fmt.Errorf("rank: rank %d is on the %v side, but a sample is for tails and heads", i, r.Side)
		}
		at := next[r.Side]
		next[r.Side]++
		if at >= len(s.Negatives[r.Side]) {
			continue
		}
		if r.Scale != 0 {
			return fmt.Errorf("rank: rank %d has been scaled already: scale the ranks of Run once", i)
		}
		// The target may be outside Options.Shard.
		drawn, candidates := len(s.Negatives[r.Side][at]), int(r.Candidates[s.Filter])
		if candidates != drawn && candidates != drawn+1 {
			return fmt.Errorf("rank: rank %d is among %s under filter %v, but the sample has %d and the target: "+
				"rank the sample's triples among its Negatives",
				i, text.Plural(candidates, "candidate"), s.Filter, drawn)
		}
	}
	for side, n := range next {
		if lists := len(s.Negatives[side]); n != 0 && n != lists {
			return fmt.Errorf("rank: the sample has lists for %s on the %v side, but %d were ranked: "+
				"rank the sample's triples", text.Count(lists, "query", "queries"), kg.Side(side), n)
		}
	}
	return nil
}
