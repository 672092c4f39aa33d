package train

// csr lists the items of each key, in ascending order (compressed sparse rows).
type csr struct{ starts, items []int32 }

func (c *csr) of(key int) []int32 { return c.items[c.starts[key]:c.starts[key+1]] }

// build sorts the items 0, 1, … by their keys, which are below n.
func (c *csr) build(n int, keys []int32) {
	c.starts = resize(c.starts, n+2)
	clear(c.starts)
	c.items = resize(c.items, len(keys))
	// Counts lie two places up, so that the filling advances each start to its end.
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

// distinct is build, and appends the keys that have items to dst.
func (c *csr) distinct(dst []int32, n int, keys []int32) []int32 {
	c.build(n, keys)
	for k := range n {
		if c.starts[k] < c.starts[k+1] {
			dst = append(dst, int32(k))
		}
	}
	return dst
}
