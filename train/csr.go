package train

import "math/bits"

// csr lists the items of each key, in ascending order (compressed sparse rows). The items of key k
// are items[starts[k]:starts[k+1]].
type csr struct{ starts, items []int32 }

func (c *csr) of(key int) []int32 { return c.items[c.starts[key]:c.starts[key+1]] }

// build groups the items 0 ≤ i < len(keys) by their keys, keys[i]. Keys must be less than n.
func (c *csr) build(n int, keys []int32) {
	c.starts = resize(c.starts, n+2)
	clear(c.starts)
	c.items = resize(c.items, len(keys))
	// Count key k at k+2. Filling then advances starts[k+1] from the start of key k's items to
	// their end.
	for _, k := range keys {
		c.starts[k+2]++
	}
	for k := 2; k < len(c.starts); k++ {
		c.starts[k] += c.starts[k-1]
	}
	for i, k := range keys {
		c.items[c.starts[k+1]] = int32(i)
		c.starts[k+1]++
	}
}

// numbering numbers the distinct keys of a step, in ascending order. Its time hardly depends on the
// number of possible keys: the set of keys is a bitmap with a summary, so listing the set in order
// skips 4096 absent keys at a time.
type numbering struct {
	words   []uint64 // bit k says that the step has key k; all bits are 0 between calls
	summary []uint64 // bit i says that words[i] is not 0
	number  []int32  // the number of each key of the step; undefined for other keys
}

// newNumbering returns a numbering of keys less than n.
func newNumbering(n int) numbering {
	words := (n + 63) / 64
	return numbering{make([]uint64, words), make([]uint64, (words+63)/64), make([]int32, n)}
}

// distinct appends the distinct keys to dst, in ascending order, and replaces each key with the number of
// its position among them.
func (x *numbering) distinct(dst, keys []int32) []int32 {
	for _, k := range keys {
		x.words[k>>6] |= 1 << (k & 63)
		x.summary[k>>12] |= 1 << (k >> 6 & 63)
	}
	first := len(dst)
	for i, occupied := range x.summary {
		if occupied == 0 {
			continue
		}
		x.summary[i] = 0
		for ; occupied != 0; occupied &= occupied - 1 {
			at := i<<6 | bits.TrailingZeros64(occupied)
			for word := x.words[at]; word != 0; word &= word - 1 {
				k := int32(at<<6 | bits.TrailingZeros64(word))
				x.number[k] = int32(len(dst) - first)
				dst = append(dst, k)
			}
			x.words[at] = 0
		}
	}
	for i, k := range keys {
		keys[i] = x.number[k]
	}
	return dst
}

// appendRange appends all keys less than n to dst, whose numbers are the keys.
func appendRange(dst []int32, n int) []int32 {
	for k := range n {
		dst = append(dst, int32(k))
	}
	return dst
}
