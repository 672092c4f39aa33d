package zpattern

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/mquine/mquine/kg"
)

// Index holds the training graph relation by relation. It does not change and is safe for
// concurrent use. It takes about 8 bytes for a training triple and 12 for each entity of each
// relation and side.
type Index struct {
	entities  int
	relations []relation
	widest    int // most entities on one side of a relation
}

// relation holds the distinct training triples of one relation twice: relation[kg.Tail] leads
// from a head to its tails, relation[kg.Head] from a tail to its heads.
type relation [2]adjacency

// adjacency holds the rows of a sparse matrix. An anchor is the number of its row, and a row
// holds numbers of rows of the opposite adjacency, in ascending order. Rows are numbered in the
// order of the entities' identifiers.
type adjacency struct {
	members
	starts  []uint32 // row i is answers[starts[i]:starts[i+1]]
	answers []int32
}

func (a *adjacency) row(anchor int32) []int32 { return a.answers[a.starts[anchor]:a.starts[anchor+1]] }

// NewIndex indexes the training triples of g. It is an error if g has no training split, or more
// than 2³² − 1 training triples.
func NewIndex(g *kg.Graph) (*Index, error) {
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return nil, err
	}
	if uint64(len(triples)) > math.MaxUint32 {
		return nil, errors.New("the training split has more than the 2³² − 1 triples in which Z-patterns can be counted")
	}
	x := &Index{entities: g.Entities.Len(), relations: make([]relation, g.Relations.Len())}
	edges := make([][]edge, len(x.relations))
	sizes := make([]int, len(x.relations))
	for _, t := range triples {
		sizes[t.Relation]++
	}
	for r, n := range sizes {
		edges[r] = make([]edge, 0, n)
	}
	for _, t := range triples {
		edges[t.Relation] = append(edges[t.Relation], newEdge(t.Head, t.Tail))
	}
	var building sync.WaitGroup
	for r := range edges {
		building.Go(func() { x.relations[r] = newRelation(edges[r], x.entities) })
	}
	building.Wait()
	for r := range x.relations {
		for side := range x.relations[r] {
			x.widest = max(x.widest, len(x.relations[r][side].ids))
		}
	}
	return x, nil
}

// edge is a pair (from, to) that sorts by from, then to.
type edge uint64

func newEdge(from, to int32) edge { return edge(from)<<32 | edge(to) }
func (e edge) from() int32        { return int32(e >> 32) }
func (e edge) to() int32          { return int32(e & math.MaxUint32) }

// newRelation sorts and changes edges, which lead from head to tail.
func newRelation(edges []edge, entities int) (r relation) {
	slices.Sort(edges)
	edges = slices.Compact(edges)
	r[kg.Tail] = newAdjacency(edges, entities)
	for i, e := range edges {
		edges[i] = newEdge(e.to(), e.from())
	}
	slices.Sort(edges)
	r[kg.Head] = newAdjacency(edges, entities)
	// The answers are still entities.
	for side := range r {
		for i, e := range r[side].answers {
			r[side].answers[i], _ = r[1-side].find(e)
		}
	}
	return r
}

// newAdjacency returns the rows of sorted distinct edges, with entities for answers.
func newAdjacency(edges []edge, entities int) adjacency {
	anchors := 0
	for i, e := range edges {
		if i == 0 || e.from() != edges[i-1].from() {
			anchors++
		}
	}
	ids := make([]int32, 0, anchors)
	a := adjacency{starts: make([]uint32, 0, anchors+1), answers: make([]int32, len(edges))}
	for i, e := range edges {
		if i == 0 || e.from() != edges[i-1].from() {
			ids = append(ids, e.from())
			a.starts = append(a.starts, uint32(i))
		}
		a.answers[i] = e.to()
	}
	a.starts = append(a.starts, uint32(len(edges)))
	a.members = newMembers(ids, entities)
	return a
}

// members numbers some of the entities in ascending order. The entities are divided into
// buckets of equal width, about as many as there are members, so that a look-up reads little
// more than the bounds of one bucket.
type members struct {
	ids     []int32
	shift   uint8
	buckets []uint32 // bucket i holds the members buckets[i] up to buckets[i+1]
}

func newMembers(ids []int32, entities int) members {
	if len(ids) == 0 {
		return members{}
	}
	m := members{ids: ids, shift: uint8(bits.Len(uint(max(entities-1, 0) / len(ids))))}
	m.buckets = make([]uint32, (entities-1)>>m.shift+2)
	for _, e := range ids {
		m.buckets[e>>m.shift+1]++
	}
	for i := 1; i < len(m.buckets); i++ {
		m.buckets[i] += m.buckets[i-1]
	}
	return m
}

// find returns the number of an entity and whether it is a member.
func (m *members) find(entity int32) (int32, bool) {
	bucket := uint(entity) >> m.shift
	if len(m.buckets) == 0 || bucket >= uint(len(m.buckets)-1) {
		return 0, false
	}
	first, last := m.buckets[bucket], m.buckets[bucket+1]
	for last-first > 4 {
		if middle := first + (last-first)/2; m.ids[middle] <= entity {
			first = middle
		} else {
			last = middle
		}
	}
	for ; first < last; first++ {
		if m.ids[first] == entity {
			return int32(first), true
		}
	}
	return 0, false
}
