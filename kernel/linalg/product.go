package linalg

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/kernel"
)

// Product multiplies float32 matrices on several threads (GEMM), blocked and packed as in Goto and van de Geijn,
// "Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 2008).
//
// Every entry of a product is a sum over chunks of ProductChunk terms in ascending order. A chunk is one chain of fused
// multiply-adds from 0 over ascending terms; in the generic tier products and sums are rounded separately. So the result
// depends neither on the number of threads nor on the blocking, and AVX2 and AVX-512 agree bit for bit. NewSplitProduct
// adds in another order.
//
// A Product is scratch memory and may be used for one product at a time. It allocates only when a product is larger
// than the ones before.
type Product struct {
	gemm    *gemm
	pool    *kernel.Pool
	left    []float32   // packed rows of the left factor by chunks, then strips: [k][mr], or as the kernel has it
	right   []float32   // packed columns of the right factor by chunks, then panels: [k][nr]
	scratch [][]float32 // for each worker: incomplete tiles, or incomplete vectors with zeros

	// The product under way, c (+)= l·r, and the block of it.
	c                    Matrix
	l, r                 operand
	add                  bool
	row, col, term       int
	rows, cols, terms    int
	strips, panels       int // of the block
	stripGroups          int
	packWork, multiplier func(worker, item int)
}

// operand is a factor: vector i is row i of the left factor or column i of the right one.
type operand struct {
	Matrix
	columns bool // vectors are the columns of the matrix
}

// gemm holds the kernels of products.
type gemm struct {
	mr, nr int
	unit   int          // terms are packed in multiples of unit
	strips int          // of an item of work
	tiles  []gemmKernel // tile i computes the first (i+1)/len(tiles) of a panel's columns
	// Packing of mr vectors of the left and nr vectors of the right factor.
	packRows, packCols packKernels
}

// packKernels pack k terms of vectors that are rows, or columns, of a matrix with the given stride.
type packKernels [2]func(dst, src *float32, stride, k int)

// gemmKernel computes the tiles of strips of a packed left factor and one panel of a packed right one; package asm
// documents its arguments.
type gemmKernel func(a, b *float32, k, strips int, c *float32, cStride int, add int, ahead uintptr, step int)

// NewProduct returns scratch memory for products on the given number of threads.
func (b *Backend) NewProduct(threads int) *Product { return newProduct(&b.gemm, threads) }

func newProduct(g *gemm, threads int) *Product {
	p := &Product{gemm: g, pool: kernel.NewPool(threads)}
	for range p.pool.Workers() {
		p.scratch = append(p.scratch, kernel.AlignedFloat32(max(g.mr, g.nr)*max(ProductChunk, g.strips*g.mr)))
	}
	p.packWork, p.multiplier = p.pack, p.multiply
	return p
}

// NT computes c = x·yᵀ, or c += x·yᵀ if add is set: c is m × n, x m × k, y n × k. c must not
// overlap x or y. The error is ctx's; c is undefined then.
func (p *Product) NT(ctx context.Context, c, x, y Matrix, add bool) error {
	return p.run(ctx, c, operand{x, false}, operand{y, false}, add)
}

// NN computes c = x·y, or c += x·y: c is m × n, x m × k, y k × n. As NT otherwise.
func (p *Product) NN(ctx context.Context, c, x, y Matrix, add bool) error {
	return p.run(ctx, c, operand{x, false}, operand{y, true}, add)
}

// TN computes c = xᵀ·y, or c += xᵀ·y: c is m × n, x k × m, y k × n. As NT otherwise.
func (p *Product) TN(ctx context.Context, c, x, y Matrix, add bool) error {
	return p.run(ctx, c, operand{x, true}, operand{y, true}, add)
}

// size returns the number of vectors and of their terms.
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
	packed := roundUp(min(k, most), g.unit)
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

// room returns x with at least n entries.
func room(x []float32, n int) []float32 {
	if len(x) >= n {
		return x
	}
	return kernel.AlignedFloat32(n)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (p *Product) itemPanels() int  { return max(1, itemColumns/p.gemm.nr) }
func (p *Product) panelGroups() int { return (p.panels + p.itemPanels() - 1) / p.itemPanels() }

// blockTerms returns how many terms, in whole chunks, to pack at once for a number of vectors: as many as blockEntries
// hold, because goroutines wait for each other before and after every block. A single goroutine packs one chunk, which
// stays in a nearer cache.
func (p *Product) blockTerms(vectors int) int {
	if p.pool.Workers() == 1 {
		return ProductChunk
	}
	return max(1, blockEntries/min(vectors, productBlock)/ProductChunk) * ProductChunk
}

// chunk returns chunk i of the terms of the block: where it begins, its number of terms, and how many are packed, zeros
// included.
func (p *Product) chunk(i int) (from, terms, packed int) {
	from = i * ProductChunk
	terms = min(ProductChunk, p.terms-from)
	return from, terms, roundUp(terms, p.gemm.unit)
}

func (p *Product) chunks() int { return (p.terms + ProductChunk - 1) / ProductChunk }

// pack packs a group of strips or, beyond these, of panels, chunk by chunk.
func (p *Product) pack(worker, item int) {
	g := p.gemm
	for i := range p.chunks() {
		from, _, packed := p.chunk(i)
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

// packVectors packs a chunk of width vectors from the given one on, with zeros for the vectors beyond end
// and the terms beyond the chunk.
func (p *Product) packVectors(worker int, dst []float32, width int, kernels packKernels,
	o operand, vector, end, chunk int) {
	from, terms, packed := p.chunk(chunk)
	from += p.term
	count := min(width, end-vector)
	whole := count == width && terms == packed
	src, stride := p.scratch[worker][:width*packed], packed
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
	kernels[btoi(o.columns)](&dst[0], &src[0], stride, packed)
}

// multiply computes the part of c of one group of strips and one of panels, chunk by chunk.
func (p *Product) multiply(worker, item int) {
	g := p.gemm
	n := p.itemPanels()
	first := item / p.panelGroups() * g.strips
	strips := min(g.strips, p.strips-first)
	row := p.row + first*g.mr
	whole := min(strips*g.mr, p.row+p.rows-row) / g.mr
	start := item % p.panelGroups() * n
	for i := range p.chunks() {
		from, _, packed := p.chunk(i)
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
				// Prefetch the next panel into L2, spread over the strips; the next item's may be another goroutine's.
				// An address, not a pointer: it may run past the end.
				next := min((q+1)*packed*g.nr, len(panels)-1)
				step := (4*packed*g.nr + whole*packed/4) / (whole*packed/4 + 1)
				g.tiles[len(g.tiles)-1](&left[0], right, packed, whole, &p.c.Data[row*p.c.Stride+col], p.c.Stride, add,
					uintptr(unsafe.Pointer(&panels[next])), step)
			}
			if whole < strips {
				p.edge(worker, &left[whole*packed*g.mr], right, row+whole*g.mr, strips-whole, col, cols, packed, add)
			}
		}
	}
}

// edge computes tiles of which not all rows or columns are in c.
func (p *Product) edge(worker int, left, right *float32, row, strips, col, cols, packed, add int) {
	g := p.gemm
	tiles := p.scratch[worker][:strips*g.mr*g.nr]
	rows := min(strips*g.mr, p.row+p.rows-row)
	if add != 0 { // the rest of the tiles is added to as well, and ignored
		for i := range rows {
			copy(tiles[i*g.nr:], p.c.Data[(row+i)*p.c.Stride+col:][:cols])
		}
	}
	narrow := g.tiles[(cols*len(g.tiles)-1)/g.nr]
	narrow(left, right, packed, strips, &tiles[0], g.nr, add, uintptr(unsafe.Pointer(right)), 0)
	for i := range rows {
		copy(p.c.Data[(row+i)*p.c.Stride+col:][:cols], tiles[i*g.nr:])
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
