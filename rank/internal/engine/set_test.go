package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSet(t *testing.T) {
	list := []int32{2, 3, 7, 11}
	for _, c := range []struct {
		set      Set
		entities []int32
	}{
		{Range(3, 7), []int32{3, 4, 5, 6}},
		{Range(5, 5), nil},
		{List(list), list},
		{List(nil), nil},
		{List([]int32{}), nil},
		{List(list).Slice(1, 2), []int32{3, 7}},
		{Range(3, 7).Slice(2, 2), []int32{5, 6}},
		{List(list).Slice(4, 0), nil},
	} {
		var all []int32
		for i := range c.set.Len() {
			all = append(all, c.set.Entity(i))
		}
		assert.Equal(t, c.entities, all)
		for e := range int32(13) {
			assert.Equal(t, slices.Index(c.entities, e), c.set.Find(e), "%v, %d", c.entities, e)
		}
		last := int32(-1)
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		assert.Equal(t, last, c.set.Last())
		assert.True(t, c.set.Same(c.set))
	}
	assert.False(t, Range(0, 4).Same(List(list)))

	entities := []int32{0, 3, 4, 7, 9, 11}
	for _, c := range []struct {
		set    Set
		within []int32
	}{
		{Range(3, 7), []int32{3, 4}}, {Range(0, 12), entities}, {List(list), []int32{3, 4, 7, 9, 11}},
		{Range(5, 7), nil}, {Range(12, 20), nil}, {Range(3, 3), nil}, {List(nil), nil},
	} {
		assert.ElementsMatch(t, c.within, c.set.Within(entities))
		first, last := c.set.Bounds(entities)
		assert.ElementsMatch(t, c.within, entities[first:last])
	}
	assert.False(t, List(list).Same(List(slices.Clone(list))))
	assert.False(t, List(list[:3]).Same(List(list)))
}
