package linalg

// Prefetcher prefetches a goroutine's next operands into the L2 cache while the goroutine computes.
// The products of small matrices prefetch a few cache lines for every strip, because a burst of
// prefetches would stall the processor. Prefetching affects only the speed, and the generic tier does
// not prefetch.
type Prefetcher struct {
	// Backend is a backend whose products prefetch. Like the Prefetcher, it belongs to one
	// goroutine.
	*Backend
	queue    [][]float32 // the operands, from back to front
	lines    int         // cache lines in the queue
	perStrip int         // cache lines to prefetch per strip
}

// NewPrefetcher returns a prefetcher with an empty queue.
func (b *Backend) NewPrefetcher() *Prefetcher {
	own := *b
	p := &Prefetcher{Backend: &own}
	if b.rows.prefetch != nil {
		own.small.multiply = func(c, x *float32, xRow, xTerm int, y *float32, k, ld, eights int, plus *float32) {
			p.prefetch()
			b.small.multiply(c, x, xRow, xTerm, y, k, ld, eights, plus)
		}
	}
	return p
}

// lineEntries is the number of float32 entries in a cache line.
const lineEntries = 16

// Add puts x at the front of the queue.
func (p *Prefetcher) Add(x []float32) {
	if len(x) > 0 && p.rows.prefetch != nil {
		p.queue = append(p.queue, x)
		p.lines += (len(x) + lineEntries - 1) / lineEntries
	}
}

// SpreadOver distributes the queue over the given number of products whose results have d rows.
func (p *Prefetcher) SpreadOver(products, d int) {
	strips := products * ((d + p.small.rows - 1) / p.small.rows)
	p.perStrip = (p.lines + strips - 1) / strips
}

// Reset empties the queue.
func (p *Prefetcher) Reset() { p.queue, p.lines = p.queue[:0], 0 }

func (p *Prefetcher) prefetch() {
	for left := p.perStrip; left > 0 && len(p.queue) > 0; {
		last := len(p.queue) - 1
		x := p.queue[last]
		lines := min((len(x)+lineEntries-1)/lineEntries, left)
		p.rows.prefetch(&x[0], lines)
		left, p.lines = left-lines, p.lines-lines
		if entries := lines * lineEntries; entries < len(x) {
			p.queue[last] = x[entries:]
		} else {
			p.queue = p.queue[:last]
		}
	}
}
