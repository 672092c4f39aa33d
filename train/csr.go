package train

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

// distinct is like build but also appends the distinct keys to dst, in ascending order.
func (c *csr) distinct(dst []int32, n int, keys []int32) []int32 {
	c.build(n, keys)
	for k := range n {
		if c.starts[k] < c.starts[k+1] {
			dst = append(dst, int32(k))
		}
	}
	return dst
}
