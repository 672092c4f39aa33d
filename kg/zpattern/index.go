package zpattern

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/kg"
)

// Index holds the training triples by relation. It is immutable and safe for concurrent use. It
// needs about 8 bytes per training triple, and 12 bytes for each entity on each side of each
// relation.
type Index struct {
	entities   int // identifiers of entities are below it
	candidates int // entities of the data set; a checkpoint may have more
	relations  []relation
	widest     int // the largest number of entities on one side of a relation
}

// relation holds the distinct training triples of a relation twice: relation[kg.Tail] leads from
// heads to tails, and relation[kg.Head] leads from tails to heads.
type relation [2]adjacency

// adjacency is a sparse matrix in CSR (compressed sparse row) form. Its rows are the entities on
// one side of the relation, in ascending order, and an anchor is a row number. The answers in a row
// are row numbers of the opposite adjacency, in ascending order.
type adjacency struct {
	members
	answerStart []uint32 // row i is answers[answerStart[i]:answerStart[i+1]]
	answers     []int32
}

func (a *adjacency) row(anchor int32) []int32 {
	return a.answers[a.answerStart[anchor]:a.answerStart[anchor+1]]
}

// NewIndex indexes the training triples of g. It fails if g has no training split, more than 2³² − 1
// training triples, or a training triple with an identifier that the vocabularies lack. If ctx is
// cancelled, NewIndex returns its error at once and abandons the work, which may read g a little
// longer.
func NewIndex(ctx context.Context, g *kg.Graph) (*Index, error) {
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return nil, err
	}
	if uint64(len(triples)) > math.MaxUint32 {
		return nil, errors.New("the training split has more than 2³² − 1 triples, the limit for counting Z-patterns")
	}
	return input.Await(ctx, func() (*Index, error) {
		if err := g.CheckIdentifiers(kg.Train); err != nil {
			return nil, err
		}
		return newIndex(g, triples), nil
	})
}

// newIndex indexes the training triples of g.
func newIndex(g *kg.Graph, triples []kg.Triple) *Index {
	x := &Index{
		entities: g.Entities.Len(), candidates: g.DataEntities(), relations: make([]relation, g.Relations.Len()),
	}
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
	return x
}

// edge is a pair (from, to) that sorts by from, then to.
type edge uint64

func newEdge(from, to int32) edge { return edge(from)<<32 | edge(to) }
func (e edge) from() int32        { return int32(e >> 32) }
func (e edge) to() int32          { return int32(e & math.MaxUint32) }

// newRelation builds a relation from edges from head to tail. It modifies edges.
func newRelation(edges []edge, entities int) (r relation) {
	slices.Sort(edges)
	edges = slices.Compact(edges)
	r[kg.Tail] = newAdjacency(edges, entities)
	for i, e := range edges {
		edges[i] = newEdge(e.to(), e.from())
	}
	slices.Sort(edges)
	r[kg.Head] = newAdjacency(edges, entities)
	// Replace entities with row numbers.
	for side := range r {
		for i, e := range r[side].answers {
			r[side].answers[i], _ = r[1-side].find(e)
		}
	}
	return r
}

// newAdjacency returns the rows of sorted distinct edges. Its answers are entities, not yet row
// numbers.
func newAdjacency(edges []edge, entities int) adjacency {
	anchors := 0
	for i, e := range edges {
		if i == 0 || e.from() != edges[i-1].from() {
			anchors++
		}
	}
	ids := make([]int32, 0, anchors)
	a := adjacency{answerStart: make([]uint32, 0, anchors+1), answers: make([]int32, len(edges))}
	for i, e := range edges {
		if i == 0 || e.from() != edges[i-1].from() {
			ids = append(ids, e.from())
			a.answerStart = append(a.answerStart, uint32(i))
		}
		a.answers[i] = e.to()
	}
	a.answerStart = append(a.answerStart, uint32(len(edges)))
	a.members = newMembers(ids, entities)
	return a
}

// members numbers a set of entities in ascending order. It divides the range of identifiers into
// buckets of equal width, about one per member. A look-up therefore reads little more than the
// bounds of a bucket.
type members struct {
	ids     []int32
	shift   uint8
	buckets []uint32 // the members in bucket i are buckets[i] to buckets[i+1] − 1
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

// find returns the number of an entity and reports whether it is a member.
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
