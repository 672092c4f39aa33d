package linalg

import (
	"cmp"
	"context"
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/kernel"
)

// Product multiplies float32 matrices on several threads (GEMM). It blocks and packs as in Goto and
// van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 2008).
//
// Every entry of a product is a sum over chunks of ProductChunk terms in ascending order. A chunk
// is one chain of fused multiply-adds that starts at 0 and adds its terms in ascending order; the
// generic tier rounds products and sums separately. Hence the result does not depend on the number
// of threads or on the blocking, and AVX2 and AVX-512 agree bit for bit. Split products
// (NewSplitProduct) and products in bfloat16 (NewBFloat16Product, NewTileProduct) add in different
// orders.
//
// A Product holds scratch memory for one product at a time. It allocates only if a product is larger
// than all earlier ones.
type Product struct {
	gemm    *gemm
	pool    *kernel.Pool
	left    []float32   // packed rows of the left factor, by chunks, then strips: [words][mr]
	right   []float32   // packed columns of the right factor, by chunks, then panels: [words][nr]
	scratch [][]float32 // per worker: incomplete microtiles, or incomplete vectors padded with zeros

	// These fields describe the current product, c = l·r or c += l·r, and its current block.
	c                    Matrix
	l, r                 operand
	at                   Matrix // the additional operand of microkernelsAt, otherwise empty
	add                  bool
	row, col, term       int
	rows, cols, terms    int
	strips, panels       int
	stripGroups          int // work items along the rows
	packWork, multiplier func(worker, item int)
}

// operand is a factor of a product. Its vectors are the rows of a left factor or the columns of a
// right factor.
type operand struct {
	Matrix
	columns bool // the vectors are columns of the matrix
}

// gemm holds the kernels of products.
type gemm struct {
	mr, nr   int
	multiple int  // divides the number of packed terms
	pairs    bool // a packed word holds two terms, in place of one
	strips   int  // strips in a work item
	// chunk is the number of terms in a chunk, or 0 for ProductChunk. It may be set only if the
	// microkernels continue the chains of c, and then it affects only the speed.
	chunk int
	// microkernels compute microtiles. Microkernel i computes the first (i+1)/len(microkernels) of
	// the columns of a panel.
	microkernels []gemmKernel
	// microkernelsAt replace microkernels if the terms of entry (i, j) of c also depend on entry
	// (i, j) of another matrix (Distance.Gradients).
	microkernelsAt []gemmKernelAt
	// packRows packs mr vectors of the left factor, and packCols packs nr vectors of the right
	// factor.
	packRows, packCols packKernels
}

// words returns the number of words of a packed vector with the given number of terms.
func (g *gemm) words(terms int) int {
	if g.pairs {
		return terms / 2
	}
	return terms
}

// chunkTerms returns the number of terms in a chunk.
func (g *gemm) chunkTerms() int { return cmp.Or(g.chunk, ProductChunk) }

// widths returns the number of microkernels; each computes a different width.
func (g *gemm) widths() int { return max(len(g.microkernels), len(g.microkernelsAt)) }

// run calls microkernel i. at is nil without microkernelsAt.
func (g *gemm) run(
	i int, a, b *float32, k, strips int, c *float32, cStride int, at *float32, atStride int,
	add int, ahead uintptr, aheadStride int,
) {
	if g.microkernelsAt != nil {
		g.microkernelsAt[i](a, b, k, strips, c, cStride, at, atStride, add)
		return
	}
	g.microkernels[i](a, b, k, strips, c, cStride, add, ahead, aheadStride)
}

// packKernels pack k terms of vectors, for which k is a multiple of gemm.multiple. The first packs
// the rows of a matrix, the second its columns.
type packKernels [2]func(dst, src *float32, stride, k int)

// gemmKernel multiplies strips of a packed left factor by one panel of a packed right factor, each
// vector with k words. Package asm documents the arguments.
type gemmKernel func(a, b *float32, k, strips int, c *float32, cStride int, add int, ahead uintptr, aheadStride int)

// gemmKernelAt is a gemmKernel whose terms for an entry of c also depend on the same entry of
// another matrix.
type gemmKernelAt func(a, b *float32, k, strips int, c *float32, cStride int, at *float32, atStride, add int)

// NewProduct returns scratch memory for products on the given number of threads.
func (b *Backend) NewProduct(threads int) *Product { return newProduct(&b.gemm, threads) }

func newProduct(g *gemm, threads int) *Product {
	p := &Product{gemm: g, pool: kernel.NewPool(threads)}
	for range p.pool.Workers() {
		entries := max(g.mr, g.nr) * max(g.chunkTerms(), g.strips*g.mr)
		if g.microkernelsAt != nil {
			entries += g.strips * g.mr * g.nr
		}
		p.scratch = append(p.scratch, kernel.AlignedFloat32(entries))
	}
	p.packWork, p.multiplier = p.pack, p.multiply
	return p
}

// NT computes c = x·yᵀ, or c += x·yᵀ if add is set. c is m × n, x is m × k and y is n × k. c must
// not overlap x or y. NT returns ctx's error if ctx is cancelled; c is then undefined.
func (p *Product) NT(ctx context.Context, c, x, y Matrix, add bool) error {
	return p.run(ctx, c, operand{x, false}, operand{y, false}, add)
}

// NN computes c = x·y, or c += x·y if add is set. c is m × n, x is m × k and y is k × n. In all
// other respects, NN is like NT.
func (p *Product) NN(ctx context.Context, c, x, y Matrix, add bool) error {
	return p.run(ctx, c, operand{x, false}, operand{y, true}, add)
}

// TN computes c = xᵀ·y, or c += xᵀ·y if add is set. c is m × n, x is k × m and y is k × n. In all
// other respects, TN is like NT.
func (p *Product) TN(ctx context.Context, c, x, y Matrix, add bool) error {
	return p.run(ctx, c, operand{x, true}, operand{y, true}, add)
}

// size returns the number of vectors and the number of terms in each.
func (o operand) size() (vectors, terms int) {
	if o.columns {
		return o.Cols, o.Rows
	}
	return o.Rows, o.Cols
}

func (p *Product) run(ctx context.Context, c Matrix, l, r operand, add bool) error {
	c.check("c")
	l.check("x")
	r.check("y")
	m, k := l.size()
	n, kr := r.size()
	if c.Rows != m || c.Cols != n || k != kr {
		panic(fmt.Sprintf("linalg: product of %d × %d and %d × %d into %d × %d", m, k, kr, n, c.Rows, c.Cols))
	}
	if m == 0 || n == 0 {
		return ctx.Err()
	}
	if k == 0 {
		for i := 0; i < m && !add; i++ {
			clear(c.Row(i))
		}
		return ctx.Err()
	}
	g := p.gemm
	p.c, p.l, p.r = c, l, r
	defer func() { p.c, p.l, p.r = Matrix{}, operand{}, operand{} }()
	most := p.blockTerms(max(roundUp(m, g.mr), roundUp(n, g.nr)))
	packed := g.words(roundUp(min(k, most), g.multiple))
	p.left = room(p.left, roundUp(min(m, productBlock), g.mr)*packed+16)
	p.right = room(p.right, roundUp(min(n, productBlock), g.nr)*packed+16)
	for p.col = 0; p.col < n; p.col += productBlock {
		p.cols = min(productBlock, n-p.col)
		p.panels = (p.cols + g.nr - 1) / g.nr
		for p.term = 0; p.term < k; p.term += most {
			p.terms = min(most, k-p.term)
			p.add = add || p.term > 0
			for p.row = 0; p.row < m; p.row += productBlock {
				p.rows = min(productBlock, m-p.row)
				p.strips = (p.rows + g.mr - 1) / g.mr
				p.stripGroups = (p.strips + g.strips - 1) / g.strips
				items := p.stripGroups
				if p.row == 0 {
					items += p.panelGroups()
				}
				if err := p.pool.Run(ctx, items, p.packWork); err != nil {
					return err
				}
				if err := p.pool.Run(ctx, p.stripGroups*p.panelGroups(), p.multiplier); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// room returns x, or a new slice if x has fewer than n entries.
func room(x []float32, n int) []float32 {
	if len(x) >= n {
		return x
	}
	return kernel.AlignedFloat32(n)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (p *Product) itemPanels() int  { return max(1, itemColumns/p.gemm.nr) }
func (p *Product) panelGroups() int { return (p.panels + p.itemPanels() - 1) / p.itemPanels() }

// blockTerms returns the number of terms to pack at a time for the given number of vectors, in
// whole chunks. Several goroutines pack blockEntries entries at a time, because they wait for each
// other before and after every block. A single goroutine packs one chunk, which stays in a faster
// cache. Products in bfloat16 with AMX are so fast that fetching c from memory for every chunk would
// take longer than the products. Their blocks are larger, so a work item's part of c stays in L2 for
// several chunks.
func (p *Product) blockTerms(vectors int) int {
	chunk, entries := p.gemm.chunkTerms(), blockEntries
	switch {
	case p.gemm.chunk > 0:
		entries = tileBlockEntries
	case p.pool.Workers() == 1:
		return chunk
	}
	return max(1, entries/min(vectors, productBlock)/chunk) * chunk
}

// chunk returns the first term of chunk i of the block, its number of terms, and the number of its
// terms with padding.
func (p *Product) chunk(i int) (from, terms, padded int) {
	from = i * p.gemm.chunkTerms()
	terms = min(p.gemm.chunkTerms(), p.terms-from)
	return from, terms, roundUp(terms, p.gemm.multiple)
}

func (p *Product) chunks() int { return (p.terms + p.gemm.chunkTerms() - 1) / p.gemm.chunkTerms() }

// pack packs the strips of a work item, or its panels if item ≥ stripGroups, chunk by chunk.
func (p *Product) pack(worker, item int) {
	g := p.gemm
	for i := range p.chunks() {
		from, _, padded := p.chunk(i)
		from, packed := g.words(from), g.words(padded)
		if item < p.stripGroups {
			left := p.left[p.strips*g.mr*from:]
			for s := item * g.strips; s < min((item+1)*g.strips, p.strips); s++ {
				p.packVectors(worker, left[s*packed*g.mr:], g.mr, g.packRows, p.l, p.row+s*g.mr, p.row+p.rows, i)
			}
			continue
		}
		right, n := p.right[p.panels*g.nr*from:], p.itemPanels()
		first := (item - p.stripGroups) * n
		for s := first; s < min(first+n, p.panels); s++ {
			p.packVectors(worker, right[s*packed*g.nr:], g.nr, g.packCols, p.r, p.col+s*g.nr, p.col+p.cols, i)
		}
	}
}

// packVectors packs one chunk of width vectors, beginning with the given one. Vectors beyond end
// and terms beyond the chunk become zeros.
func (p *Product) packVectors(
	worker int, dst []float32, width int, kernels packKernels, o operand, vector, end, chunk int,
) {
	from, terms, padded := p.chunk(chunk)
	from += p.term
	count := min(width, end-vector)
	whole := count == width && terms == padded
	src, stride := p.scratch[worker][:width*padded], padded
	switch {
	case whole && o.columns:
		src, stride = o.Data[from*o.Stride+vector:], o.Stride
	case whole:
		src, stride = o.Data[vector*o.Stride+from:], o.Stride
	case o.columns:
		stride = width
		clear(src)
		for t := range terms {
			copy(src[t*width:], o.Data[(from+t)*o.Stride+vector:][:count])
		}
	default:
		clear(src)
		for i := range count {
			copy(src[i*stride:], o.Data[(vector+i)*o.Stride+from:][:terms])
		}
	}
	kernels[btoi(o.columns)](&dst[0], &src[0], stride, padded)
}

// multiply computes the part of c that belongs to a work item, chunk by chunk.
func (p *Product) multiply(worker, item int) {
	g := p.gemm
	n := p.itemPanels()
	first := item / p.panelGroups() * g.strips
	strips := min(g.strips, p.strips-first)
	row := p.row + first*g.mr
	whole := min(strips*g.mr, p.row+p.rows-row) / g.mr
	start := item % p.panelGroups() * n
	for i := range p.chunks() {
		from, _, padded := p.chunk(i)
		from, packed := g.words(from), g.words(padded)
		left, panels := p.left[(p.strips*from+first*packed)*g.mr:], p.right[p.panels*g.nr*from:]
		add := btoi(p.add || i > 0)
		for q := start; q < min(start+n, p.panels); q++ {
			right := &panels[q*packed*g.nr]
			col := p.col + q*g.nr
			cols := min(g.nr, p.col+p.cols-col)
			if cols < g.nr {
				p.edge(worker, &left[0], right, row, strips, col, cols, packed, add)
				continue
			}
			if whole > 0 {
				// Prefetch the next panel into L2, spread over the strips. The panel after the last
				// one of this item may belong to another goroutine. The kernel receives an address,
				// not a pointer, because the prefetch may run past the end.
				next := min((q+1)*packed*g.nr, len(panels)-1)
				aheadStride := (4*packed*g.nr + whole*packed/4) / (whole*packed/4 + 1)
				g.run(g.widths()-1, &left[0], right, packed, whole, &p.c.Data[row*p.c.Stride+col], p.c.Stride,
					p.atEntry(row, col), p.at.Stride, add, uintptr(unsafe.Pointer(&panels[next])), aheadStride)
			}
			if whole < strips {
				p.edge(worker, &left[whole*packed*g.mr], right, row+whole*g.mr, strips-whole, col, cols, packed, add)
			}
		}
	}
}

// edge uses scratch memory to compute microtiles that extend beyond c.
func (p *Product) edge(worker int, left, right *float32, row, strips, col, cols, packed, add int) {
	g := p.gemm
	microtiles := p.scratch[worker][:strips*g.mr*g.nr]
	rows := min(strips*g.mr, p.row+p.rows-row)
	if add != 0 { // the entries outside c keep old values; nothing reads them
		for i := range rows {
			copy(microtiles[i*g.nr:], p.c.Data[(row+i)*p.c.Stride+col:][:cols])
		}
	}
	var at *float32
	if g.microkernelsAt != nil {
		entries := p.scratch[worker][len(microtiles) : 2*len(microtiles)]
		for i := range rows {
			copy(entries[i*g.nr:], p.at.Data[(row+i)*p.at.Stride+col:][:cols])
		}
		at = &entries[0]
	}
	narrow := (cols*g.widths() - 1) / g.nr
	ahead := uintptr(unsafe.Pointer(right))
	g.run(narrow, left, right, packed, strips, &microtiles[0], g.nr, at, g.nr, add, ahead, 0)
	for i := range rows {
		copy(p.c.Data[(row+i)*p.c.Stride+col:][:cols], microtiles[i*g.nr:])
	}
}

// atEntry returns the address of an entry of at, or nil without microkernelsAt.
func (p *Product) atEntry(row, col int) *float32 {
	if p.gemm.microkernelsAt == nil {
		return nil
	}
	return &p.at.Data[row*p.at.Stride+col]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
