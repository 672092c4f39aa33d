package kg

import (
	"context"
	"slices"
	"sync"

	"github.com/mquine/mquine/internal/input"
)

// Answers holds the known answers to a query: entities in ascending order and, for each entity, the
// splits that contain the triple. The slices belong to the index; do not modify them.
type Answers struct {
	Entities []int32
	Splits   []SplitSet
}

// Index finds the known answers to a query in all splits of a graph. It is immutable and safe for
// concurrent use.
type Index struct {
	sides     [2]adjacency
	relations int
}

// NewIndex indexes all splits of g for both sides. The graph may have up to 2³² − 1 triples. It is an
// error if g is nil or has no vocabularies, or if a triple has an identifier that they lack. If ctx is cancelled,
// NewIndex returns its error at once and abandons the work, which may read g a little longer.
func NewIndex(ctx context.Context, g *Graph) (*Index, error) {
	return input.Await(ctx, func() (*Index, error) {
		if err := g.CheckIdentifiers(Train, Valid, Test); err != nil {
			return nil, err
		}
		x := &Index{relations: g.Relations.Len()}
		var both sync.WaitGroup
		for _, side := range [...]Side{Tail, Head} {
			both.Go(func() { x.sides[side] = newAdjacency(g, side) })
		}
		both.Wait()
		return x, nil
	})
}

// Bytes returns how many bytes of memory the index uses.
func (x *Index) Bytes() (n int64) {
	for _, a := range x.sides {
		n += 4 * int64(len(a.rowStart)+len(a.relations)+len(a.answerStart)+len(a.entities))
		n += int64(len(a.splits))
	}
	return n
}

// Sizes returns the numbers of entities and relations of the graph.
func (x *Index) Sizes() (entities, relations int) {
	return len(x.sides[Tail].rowStart) - 1, x.relations
}

// Distinct returns the number of distinct triples in a split.
func (x *Index) Distinct(s Split) int { return x.sides[Tail].tally().in(s) }

// Answers returns the known answers to q. Both slices are empty if there are none. Answers does not
// allocate.
func (x *Index) Answers(q Query) Answers {
	a := &x.sides[q.Side]
	row := a.row(q)
	if row < 0 {
		return Answers{}
	}
	return a.answers(row)
}

// Queries returns the number of distinct queries with known answers, on both sides together.
func (x *Index) Queries() int { return len(x.sides[Tail].relations) + len(x.sides[Head].relations) }

// Number returns the number of q among the queries with known answers, from 0 to Queries() − 1, or −1 if
// q has none. It lets slices take the place of maps of queries. Number does not allocate.
func (x *Index) Number(q Query) int {
	row := x.sides[q.Side].row(q)
	if row >= 0 && q.Side == Head {
		row += len(x.sides[Tail].relations)
	}
	return row
}

// Splits returns the splits that contain a triple. It does not allocate.
func (x *Index) Splits(t Triple) SplitSet {
	q, answer := t.Query(Tail)
	known := x.Answers(q)
	if i, found := slices.BinarySearch(known.Entities, answer); found {
		return known.Splits[i]
	}
	return 0
}

// adjacency holds the known answers to all queries of one side in CSR (compressed sparse row) form.
// It contains a row for each pair (anchor, relation) with an answer. The rows are grouped by
// anchor. A lookup is a binary search among the relations of the anchor. Even a hub has few
// relations, which are adjacent in memory. An adjacency uses 5 bytes per triple, 8 per row and 4
// per entity.
type adjacency struct {
	rowStart    []uint32 // the rows of anchor a are rowStart[a] to rowStart[a+1] − 1
	relations   []int32  // the relation of each row, ascending within an anchor
	answerStart []uint32 // the answers of row i are answerStart[i] to answerStart[i+1] − 1
	entities    []int32  // the answers, ascending within a row
	splits      []SplitSet
}

// row returns the row of a query, or −1 if the query has no answers.
func (a *adjacency) row(q Query) int {
	if uint(q.Anchor) >= uint(len(a.rowStart)-1) {
		return -1
	}
	first, last := a.rowStart[q.Anchor], a.rowStart[q.Anchor+1]
	row, found := slices.BinarySearch(a.relations[first:last], q.Relation)
	if !found {
		return -1
	}
	return int(first) + row
}

func (a *adjacency) answers(row int) Answers {
	first, last := a.answerStart[row], a.answerStart[row+1]
	return Answers{a.entities[first:last:last], a.splits[first:last:last]}
}

// newAdjacency sorts keys that consist of a relation, an answer and a split, from the highest bits
// to the lowest.
const (
	answerShift   = 2                // the split is in the bits below
	relationShift = answerShift + 31 // the answer, a non-negative int32, is in the bits below
)

func newAdjacency(g *Graph, side Side) adjacency {
	keys, bounds := bucketByAnchor(g, side)

	rowStart := make([]uint32, len(bounds))
	var rows, distinct uint32
	for anchor := range len(bounds) - 1 {
		bucket := keys[bounds[anchor]:bounds[anchor+1]]
		slices.Sort(bucket)
		for i, k := range bucket {
			if i == 0 || k>>relationShift != bucket[i-1]>>relationShift {
				rows++
			}
			if i == 0 || k>>answerShift != bucket[i-1]>>answerShift {
				distinct++
			}
		}
		rowStart[anchor+1] = rows
	}

	a := adjacency{
		rowStart:    rowStart,
		relations:   make([]int32, 0, rows),
		answerStart: make([]uint32, 0, rows+1),
		entities:    make([]int32, 0, distinct),
		splits:      make([]SplitSet, 0, distinct),
	}
	for anchor := range len(bounds) - 1 {
		bucket := keys[bounds[anchor]:bounds[anchor+1]]
		for i, k := range bucket {
			if i == 0 || k>>relationShift != bucket[i-1]>>relationShift {
				a.relations = append(a.relations, int32(k>>relationShift))
				a.answerStart = append(a.answerStart, uint32(len(a.entities)))
			}
			split := Split(k & (1<<answerShift - 1))
			if i == 0 || k>>answerShift != bucket[i-1]>>answerShift {
				a.entities = append(a.entities, int32(k>>answerShift&(1<<31-1)))
				a.splits = append(a.splits, Set(split))
			} else {
				a.splits[len(a.splits)-1] |= Set(split)
			}
		}
	}
	a.answerStart = append(a.answerStart, uint32(len(a.entities)))
	return a
}

// bucketByAnchor returns the keys of all triples, grouped by anchor but not sorted otherwise. The
// keys of anchor a are at bounds[a] to bounds[a+1] − 1.
func bucketByAnchor(g *Graph, side Side) (keys []uint64, bounds []uint32) {
	// This is a counting sort. The count of bucket a is stored in bounds[a+2], so after the prefix
	// sums bounds[a+1] is the start of bucket a. Filling the bucket advances bounds[a+1] to the end
	// of the bucket.
	bounds = make([]uint32, g.Entities.Len()+2)
	total := 0
	for _, triples := range g.Splits {
		total += len(triples)
		for _, t := range triples {
			q, _ := t.Query(side)
			bounds[q.Anchor+2]++
		}
	}
	for i := 2; i < len(bounds); i++ {
		bounds[i] += bounds[i-1]
	}
	keys = make([]uint64, total)
	for s, triples := range g.Splits {
		for _, t := range triples {
			q, answer := t.Query(side)
			place := &bounds[q.Anchor+1]
			keys[*place] = uint64(q.Relation)<<relationShift | uint64(answer)<<answerShift | uint64(s)
			*place++
		}
	}
	return keys, bounds[:len(bounds)-1]
}

// tally counts the distinct triples by the set of splits that contain them.
type tally [1 << NumSplits]int

func (a adjacency) tally() (t tally) {
	for _, set := range a.splits {
		t[set]++
	}
	return t
}

// in returns the number of distinct triples that are in all the given splits.
func (t tally) in(splits ...Split) int {
	want, n := Set(splits...), 0
	for set, count := range t {
		if SplitSet(set)&want == want {
			n += count
		}
	}
	return n
}
