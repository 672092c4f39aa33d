package engine

import "slices"

// Set is a set of entities in ascending order: a range or a list.
type Set struct {
	first, n int
	list     []int32 // nil for a range
}

// Range returns the entities first ≤ e < last.
func Range(first, last int) Set { return Set{first: first, n: last - first} }

// List returns the set of the given entities, which must be distinct and in ascending order.
func List(entities []int32) Set {
	if entities == nil {
		return Set{}
	}
	return Set{n: len(entities), list: entities}
}

// Len returns the number of entities.
func (s Set) Len() int { return s.n }

// Entity returns the entity at index i.
func (s Set) Entity(i int) int32 {
	if s.list != nil {
		return s.list[i]
	}
	return int32(s.first + i)
}

// Find returns the index of an entity, or −1 if it is not in the set.
func (s Set) Find(entity int32) int {
	if s.list != nil {
		if i, ok := slices.BinarySearch(s.list, entity); ok {
			return i
		}
		return -1
	}
	if i := int(entity) - s.first; i >= 0 && i < s.n {
		return i
	}
	return -1
}

// Last returns the last entity, or −1 if the set is empty.
func (s Set) Last() int32 {
	if s.n == 0 {
		return -1
	}
	return s.Entity(s.n - 1)
}

// Slice returns the n entities from index first on.
func (s Set) Slice(first, n int) Set {
	if s.list != nil {
		return List(s.list[first : first+n])
	}
	return Range(s.first+first, s.first+first+n)
}

// Within returns the part of a list in ascending order that lies between the first and the last entity
// of the set.
func (s Set) Within(list []int32) []int32 {
	first, last := s.Bounds(list)
	return list[first:last]
}

// Bounds returns the range first ≤ i < last of the indices of this part.
func (s Set) Bounds(list []int32) (first, last int) {
	if s.n == 0 {
		return 0, 0
	}
	first, _ = slices.BinarySearch(list, s.Entity(0))
	last, _ = slices.BinarySearch(list, s.Last()+1)
	return first, last
}

// Same reports whether two sets are the same range or the same list in memory.
func (s Set) Same(o Set) bool {
	return s.first == o.first && s.n == o.n && (s.list == nil) == (o.list == nil) &&
		(len(s.list) == 0 || &s.list[0] == &o.list[0])
}
