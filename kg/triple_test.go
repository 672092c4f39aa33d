package kg

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// An answer completes the query that a triple asks on either side.
func TestQueriesOfTriple(t *testing.T) {
	triple := Triple{Head: 3, Relation: 5, Tail: 7}
	for side, want := range map[Side]struct {
		query  Query
		answer int32
	}{
		Tail: {Query{Side: Tail, Relation: 5, Anchor: 3}, 7},
		Head: {Query{Side: Head, Relation: 5, Anchor: 7}, 3},
	} {
		q, answer := triple.Query(side)
		assert.Equal(t, want.query, q)
		assert.Equal(t, want.answer, answer)
		assert.Equal(t, triple, q.Triple(answer))
	}
}
