package rank

import "slices"

// topK keeps the k best items so far, as a heap with the worst first.
type topK[T any] struct {
	k       int
	compare func(a, b T) int // the best first
	heap    []T
}

// full reports whether there are k items. Then the worst of them is t.heap[0].
func (t *topK[T]) full() bool { return len(t.heap) == t.k }

// add adds an item, unless k items are better.
func (t *topK[T]) add(item T) {
	h := t.heap
	if !t.full() {
		h = append(h, item)
		for i := len(h) - 1; i > 0 && t.compare(h[i], h[(i-1)/2]) > 0; i = (i - 1) / 2 {
			h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		}
		t.heap = h
		return
	}
	if t.compare(item, h[0]) > 0 {
		return
	}
	h[0] = item
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < len(h) && t.compare(h[child+1], h[child]) > 0 {
			child++
		}
		if child >= len(h) || t.compare(h[i], h[child]) > 0 {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// sorted returns the items, the best first.
func (t *topK[T]) sorted() []T {
	slices.SortFunc(t.heap, t.compare)
	return t.heap
}
