package kg

import (
	"slices"
	"sync"
)

// Answers are the known answers of a query: entities in ascending order, each with the splits
// that know it. The slices belong to the index; do not modify them.
type Answers struct {
	Entities []int32
	Splits   []SplitSet
}

// Index finds the known answers of any query, over all splits of a graph. It does not change
// and is safe for concurrent use.
type Index struct {
	sides [2]adjacency
}

// NewIndex indexes every split of g for both sides. It holds up to 2³² − 1 triples.
func NewIndex(g *Graph) *Index {
	x := &Index{}
	var both sync.WaitGroup
	for _, side := range [...]Side{Tail, Head} {
		both.Go(func() { x.sides[side] = newAdjacency(g, side) })
	}
	both.Wait()
	return x
}

// Bytes returns the memory that the index takes.
func (x *Index) Bytes() (n int64) {
	for _, a := range x.sides {
		n += 4 * int64(len(a.anchors)+len(a.relations)+len(a.rows)+len(a.entities))
		n += int64(len(a.splits))
	}
	return n
}

// Answers returns the known answers of q; both slices are empty if there is none. It does not
// allocate.
func (x *Index) Answers(q Query) Answers {
	a := &x.sides[q.Side]
	if uint(q.Anchor) >= uint(len(a.anchors)-1) {
		return Answers{}
	}
	first, last := a.anchors[q.Anchor], a.anchors[q.Anchor+1]
	row, found := slices.BinarySearch(a.relations[first:last], q.Relation)
	if !found {
		return Answers{}
	}
	return a.answers(int(first) + row)
}

// adjacency holds the known answers of all queries of one side in compressed sparse rows: one
// row for each (anchor, relation) that has an answer, grouped by anchor. A query costs a binary
// search among the relations of its anchor, which are few and adjacent even for hubs. It takes
// 5 bytes for a triple, 8 for a row and 4 for an entity.
type adjacency struct {
	anchors   []uint32 // anchor a has the rows anchors[a] up to anchors[a+1]
	relations []int32  // of each row; ascending within an anchor
	rows      []uint32 // row i has the answers rows[i] up to rows[i+1]
	entities  []int32  // ascending within a row
	splits    []SplitSet
}

func (a *adjacency) answers(row int) Answers {
	first, last := a.rows[row], a.rows[row+1]
	return Answers{a.entities[first:last:last], a.splits[first:last:last]}
}

// An adjacency is built from keys that sort by relation, then answer, then split.
const (
	answerShift   = 2                // below: the split
	relationShift = answerShift + 31 // below: the answer, a non-negative int32
)

func newAdjacency(g *Graph, side Side) adjacency {
	keys, bounds := bucketByAnchor(g, side)

	anchors := make([]uint32, len(bounds))
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
		anchors[anchor+1] = rows
	}

	a := adjacency{
		anchors:   anchors,
		relations: make([]int32, 0, rows),
		rows:      make([]uint32, 0, rows+1),
		entities:  make([]int32, 0, distinct),
		splits:    make([]SplitSet, 0, distinct),
	}
	for anchor := range len(bounds) - 1 {
		bucket := keys[bounds[anchor]:bounds[anchor+1]]
		for i, k := range bucket {
			if i == 0 || k>>relationShift != bucket[i-1]>>relationShift {
				a.relations = append(a.relations, int32(k>>relationShift))
				a.rows = append(a.rows, uint32(len(a.entities)))
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
	a.rows = append(a.rows, uint32(len(a.entities)))
	return a
}

// bucketByAnchor returns the keys of all triples, those of anchor a from bounds[a] up to
// bounds[a+1], in no order.
func bucketByAnchor(g *Graph, side Side) (keys []uint64, bounds []uint32) {
	// Counting sort. The counts lie two places up, so that after the sums place a+1 holds the
	// start of bucket a, which the filling advances to its end.
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

// tally counts distinct triples by the set of the splits that have them.
type tally [1 << NumSplits]int

func (a adjacency) tally() (t tally) {
	for _, set := range a.splits {
		t[set]++
	}
	return t
}

// in returns the number of distinct triples that all the given splits have.
func (t tally) in(splits ...Split) int {
	want, n := Set(splits...), 0
	for set, count := range t {
		if SplitSet(set)&want == want {
			n += count
		}
	}
	return n
}
