package train

import (
	"cmp"
	"slices"

	"github.com/mquine/mquine/kg"
)

// batch is the triples of a step, asked from both sides.
type batch struct {
	answers int
	queries []query
	blocks  []span  // queries with the same relation
	asked   [][]int // by entity: the queries of which it is the anchor
}

func newBatch(entities int) batch { return batch{asked: make([][]int, entities)} }

// query is a distinct query of a batch with its answers, one for each triple that asks it.
type query struct {
	kg.Query
	answers []int32
}

// span is the queries from first up to last.
type span struct{ first, last int }

// take makes the triples, asked from both sides, the batch.
func (b *batch) take(triples []kg.Triple) {
	type asked struct {
		kg.Query
		answer int32
	}
	b.answers = 2 * len(triples)
	all := make([]asked, 0, b.answers)
	for _, t := range triples {
		for _, side := range [...]kg.Side{kg.Tail, kg.Head} {
			q, answer := t.Query(side)
			all = append(all, asked{q, answer})
		}
	}
	slices.SortFunc(all, func(a, b asked) int {
		return cmp.Or(cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Side, b.Side),
			cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(a.answer, b.answer))
	})

	b.queries, b.blocks = b.queries[:0], b.blocks[:0]
	for e := range b.asked {
		b.asked[e] = b.asked[e][:0]
	}
	for i, a := range all {
		n := len(b.queries)
		if i == 0 || a.Relation != all[i-1].Relation {
			b.blocks = append(b.blocks, span{n, n})
		}
		if i == 0 || a.Query != all[i-1].Query {
			b.queries = append(b.queries, query{Query: a.Query})
			b.blocks[len(b.blocks)-1].last++
			b.asked[a.Anchor] = append(b.asked[a.Anchor], n)
		}
		q := &b.queries[len(b.queries)-1]
		q.answers = append(q.answers, a.answer)
	}
	// Large items first keep the goroutines busy to the end.
	slices.SortStableFunc(b.blocks, func(a, b span) int { return (b.last - b.first) - (a.last - a.first) })
}
