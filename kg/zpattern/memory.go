package zpattern

import (
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kg"
)

// CheckMemory returns an error if the available memory cannot hold an index of g and the values of
// the given number of triples on the given number of sides.
func CheckMemory(g *kg.Graph, triples, sides int) error {
	work := fmt.Sprintf("counting the Z-patterns of %s", g.Name)
	return proc.CheckMemory(work, "make more memory available", memory(g, triples, sides)...)
}

func memory(g *kg.Graph, triples, sides int) []proc.Need {
	const perOrder = 4 // the triples sorted by query
	return []proc.Need{
		{For: "index of the training triples", Bytes: indexBytes(g)},
		{For: "values", Bytes: int64(triples) * (int64(sides)*int64(unsafe.Sizeof(Value{})) + perOrder)},
	}
}

// indexBytes returns the least memory that NewIndex needs, in bytes.
func indexBytes(g *kg.Graph) int64 {
	train := g.Splits[kg.Train]
	if len(train) == 0 {
		return 0 // NewIndex returns an error
	}
	// A training triple needs an edge during construction and two answers in the index.
	const perTriple = int64(unsafe.Sizeof(edge(0)) + 2*4)
	// A row of an adjacency has an identifier and a start. Its bucket does not count, because the edges
	// of some relations may be gone before the last relation is indexed.
	const perRow = 4 + 4
	// A relation also has a number of triples, a list of edges and, on each side, a start more.
	const perRelation = int64(unsafe.Sizeof(relation{})+unsafe.Sizeof([]edge{})+unsafe.Sizeof(0)) + 2*4
	entities, relations := g.Entities.Len(), g.Relations.Len()
	return perTriple*int64(len(train)) + perRow*countRows(train, entities, relations) + perRelation*int64(relations)
}

// countRows returns the number of rows of an index of triples: the distinct pairs of a relation and
// a head, and of a relation and a tail. It needs less memory than the index.
func countRows(triples []kg.Triple, entities, relations int) (rows int64) {
	next := make([]int, relations+1) // where the next triple of a relation goes in order
	for _, t := range triples {
		next[t.Relation+1]++
	}
	for r := range relations {
		next[r+1] += next[r]
	}
	order := make([]uint32, len(triples)) // by relation
	for i, t := range triples {
		order[next[t.Relation]] = uint32(i)
		next[t.Relation]++
	}
	var seen [2][]int32 // the last relation of each entity on a side, plus 1
	for side := range seen {
		seen[side] = make([]int32, entities)
	}
	for _, i := range order {
		t := triples[i]
		for side, e := range [...]int32{t.Head, t.Tail} {
			if seen[side][e] != t.Relation+1 {
				seen[side][e] = t.Relation + 1
				rows++
			}
		}
	}
	return rows
}
