package kernel

// Ahead brings the memory that a goroutine will want next into the L2 cache, a few lines with every
// strip of its products of small matrices: whoever asks for many lines at once waits for them
// after all. It changes nothing but the time, and does nothing in the generic tier.
type Ahead struct {
	// Backend is the one with these products. It belongs to the goroutine, like Ahead.
	*Backend
	wanted [][]float32
	lines  int // that are wanted
	some   int // lines with a strip
}

// NewAhead returns one that wants nothing.
func (b *Backend) NewAhead() *Ahead {
	own := *b
	a := &Ahead{Backend: &own}
	if b.rows.prefetch != nil {
		own.small.multiply = func(c, x *float32, aRow, aTerm int, y *float32, k, ld, eights int, plus *float32) {
			a.fetch()
			b.small.multiply(c, x, aRow, aTerm, y, k, ld, eights, plus)
		}
	}
	return a
}

const lineEntries = 16

// Want adds x; what is added last comes first.
func (a *Ahead) Want(x []float32) {
	if len(x) > 0 && a.rows.prefetch != nil {
		a.wanted = append(a.wanted, x)
		a.lines += (len(x) + lineEntries - 1) / lineEntries
	}
}

// Over spreads what is wanted over the given number of products with results of d rows.
func (a *Ahead) Over(products, d int) {
	strips := products * ((d + a.small.rows - 1) / a.small.rows)
	a.some = (a.lines + strips - 1) / strips
}

// Forget drops what has not come yet.
func (a *Ahead) Forget() { a.wanted, a.lines = a.wanted[:0], 0 }

func (a *Ahead) fetch() {
	for left := a.some; left > 0 && len(a.wanted) > 0; {
		last := len(a.wanted) - 1
		x := a.wanted[last]
		lines := min((len(x)+lineEntries-1)/lineEntries, left)
		a.rows.prefetch(&x[0], lines)
		left, a.lines = left-lines, a.lines-lines
		if entries := lines * lineEntries; entries < len(x) {
			a.wanted[last] = x[entries:]
		} else {
			a.wanted = a.wanted[:last]
		}
	}
}
