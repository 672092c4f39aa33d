package kernel

import (
	"context"
	"fmt"
	"unsafe"
)

// Matrix is a float32 matrix in row-major order: entry (i, j) is Data[i*Stride+j].
type Matrix struct {
	Data               []float32
	Rows, Cols, Stride int
}

// NewMatrix returns a zero matrix whose rows begin at multiples of 64 bytes.
func NewMatrix(rows, cols int) Matrix {
	stride := roundUp(cols, 16)
	return Matrix{Data: AlignedFloat32(rows * stride), Rows: rows, Cols: cols, Stride: stride}
}

// Row returns row i.
func (m Matrix) Row(i int) []float32 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }

// Slice returns rows from ≤ i < to, which share m's memory.
func (m Matrix) Slice(from, to int) Matrix {
	if from == to {
		return Matrix{Cols: m.Cols, Stride: m.Stride}
	}
	return Matrix{Data: m.Data[from*m.Stride : (to-1)*m.Stride+m.Cols], Rows: to - from, Cols: m.Cols, Stride: m.Stride}
}

func (m Matrix) check(name string) {
	if m.Rows < 0 || m.Cols < 0 || m.Stride < m.Cols || m.Rows > 0 && len(m.Data) < (m.Rows-1)*m.Stride+m.Cols {
		panic(fmt.Sprintf("kernel: matrix %s: %d × %d with stride %d in %d entries", name, m.Rows, m.Cols, m.Stride, len(m.Data)))
	}
}

// Product multiplies float32 matrices on several threads: blocked and packed as in Goto and van de
// Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 2008).
//
// Every entry of a product is a sum over chunks of ProductChunk terms in ascending order; a chunk
// is one chain of fused multiply-adds from 0 (in the generic tier of products and sums rounded
// separately) with ascending terms. So the result depends neither on the number of threads nor on
// the blocking, and AVX2 and AVX-512 agree bit for bit. NewSplitProduct has its own sums.
//
// A Product is scratch memory and may be used for one product at a time. It allocates only when a
// product is larger than those before.
type Product struct {
	gemm    *gemm
	team    *team
	left    []float32   // packed rows of the left factor, chunk by chunk and strip by strip: [k][mr], or as the kernel has it
	right   []float32   // packed columns of the right factor, chunk by chunk and panel by panel: [k][nr]
	scratch [][]float32 // of every worker: tiles, or what is packed with zeros

	// The product under way, c (+)= l·r, and the block of it.
	c                    Matrix
	l, r                 operand
	at                   Matrix // of a kernel with tilesAt, otherwise empty
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
	unit   int    // of terms, whose multiples are packed
	strips int    // of an item: of 256 terms, they fit in L2
	tiles  []tile // tile i computes the first (i+1)/len(tiles) of a panel's columns
	// tilesAt stand in the place of tiles where a term of c's entry (i, j) depends on entry (i, j) of
	// another matrix of c's size too (Distance.Gradients).
	tilesAt []tileAt
	// Packing of mr and nr vectors that are rows, or columns, of a matrix.
	packRows, packCols [2]func(dst, src *float32, stride, k int)
}

type (
	tile   func(a, b *float32, k, strips int, c *float32, cStride int, add int, ahead uintptr, step int)
	tileAt func(a, b *float32, k, strips int, c *float32, cStride int, at *float32, atStride, add int)
)

// widths is the number of widths that tiles have.
func (g *gemm) widths() int { return max(len(g.tiles), len(g.tilesAt)) }

// tile computes the tiles of width i of some strips. at is nil without tilesAt.
func (g *gemm) tile(
	i int, a, b *float32, k, strips int, c *float32, cStride int, at *float32, atStride, add int, ahead uintptr, step int,
) {
	if g.tilesAt != nil {
		g.tilesAt[i](a, b, k, strips, c, cStride, at, atStride, add)
		return
	}
	g.tiles[i](a, b, k, strips, c, cStride, add, ahead, step)
}

const (
	// ProductChunk is the number of terms that a product adds up in one chain.
	ProductChunk = 256

	productBlock = 4096    // rows and columns that are packed at once
	blockEntries = 2 << 20 // that they have at most, but for a chunk: 8 MiB each
	itemColumns  = 256     // columns of an item
)

// NewProduct returns scratch memory for products on the given number of threads.
func (b *Backend) NewProduct(threads int) *Product { return newProduct(&b.gemm, threads) }

func newProduct(g *gemm, threads int) *Product {
	p := &Product{gemm: g, team: newTeam(threads)}
	for range p.team.threads() {
		entries := max(g.mr, g.nr) * max(ProductChunk, g.strips*g.mr)
		if g.tilesAt != nil {
			entries += g.strips * g.mr * g.nr
		}
		p.scratch = append(p.scratch, AlignedFloat32(entries))
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
		panic(fmt.Sprintf("kernel: product of %d × %d and %d × %d into %d × %d", m, k, kr, n, c.Rows, c.Cols))
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
				if err := p.team.run(ctx, items, p.packWork); err != nil {
					return err
				}
				if err := p.team.run(ctx, p.stripGroups*p.panelGroups(), p.multiplier); err != nil {
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
	return AlignedFloat32(n)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (p *Product) itemPanels() int  { return max(1, itemColumns/p.gemm.nr) }
func (p *Product) panelGroups() int { return (p.panels + p.itemPanels() - 1) / p.itemPanels() }

// blockTerms returns how many terms, in whole chunks, are packed at once for so many vectors: as many as
// blockEntries hold, because goroutines wait for each other before and after every block. One goroutine
// packs a chunk, which stays nearer.
func (p *Product) blockTerms(vectors int) int {
	if p.team.threads() == 1 {
		return ProductChunk
	}
	return max(1, blockEntries/min(vectors, productBlock)/ProductChunk) * ProductChunk
}

// chunk returns chunk i of the terms of the block: where it begins, its number of terms, and that with
// the zeros which are packed after them.
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
func (p *Product) packVectors(worker int, dst []float32, width int, kernels [2]func(dst, src *float32, stride, k int), o operand, vector, end, chunk int) {
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
				// The next panel meanwhile comes into L2, spread over the strips; that of the next item
				// may be another goroutine's. An address, not a pointer: it may run past the end.
				next := min((q+1)*packed*g.nr, len(panels)-1)
				step := (4*packed*g.nr + whole*packed/4) / (whole*packed/4 + 1)
				g.tile(g.widths()-1, &left[0], right, packed, whole, &p.c.Data[row*p.c.Stride+col], p.c.Stride,
					p.atEntry(row, col), p.at.Stride, add, uintptr(unsafe.Pointer(&panels[next])), step)
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
	if add != 0 { // whatever the tiles hold elsewhere is added to, and stays there
		for i := range rows {
			copy(tiles[i*g.nr:], p.c.Data[(row+i)*p.c.Stride+col:][:cols])
		}
	}
	var at *float32
	if g.tilesAt != nil {
		entries := p.scratch[worker][len(tiles) : 2*len(tiles)]
		for i := range rows {
			copy(entries[i*g.nr:], p.at.Data[(row+i)*p.at.Stride+col:][:cols])
		}
		at = &entries[0]
	}
	narrow := (cols*g.widths() - 1) / g.nr
	g.tile(narrow, left, right, packed, strips, &tiles[0], g.nr, at, g.nr, add, uintptr(unsafe.Pointer(right)), 0)
	for i := range rows {
		copy(p.c.Data[(row+i)*p.c.Stride+col:][:cols], tiles[i*g.nr:])
	}
}

// atEntry is the address of an entry of at, nil without tilesAt.
func (p *Product) atEntry(row, col int) *float32 {
	if p.gemm.tilesAt == nil {
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
