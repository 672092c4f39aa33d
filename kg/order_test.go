package kg

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEntityOrder(t *testing.T) {
	g := &Graph{Entities: NewVocabulary("z", "b", "unused2", "a", "unused1", "c")}
	g.Splits[Train] = []Triple{{Head: 3, Tail: 1}, {Head: 1, Tail: 3}}
	g.Splits[Test] = []Triple{{Head: 5, Tail: 3}, {Head: 0, Tail: 0}}
	assert.Equal(t, []int32{3, 1, 5, 0, 4, 2}, g.EntityOrder())
}
