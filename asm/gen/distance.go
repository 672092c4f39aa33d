package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels of distances and their gradients. kernel/generic_distance.go has the same constants and
// operations, with their reasons.

const (
	rootMagic   = 0x5f3759df
	notEqual    = 0x04 // NEQ_UQ: true for NaN, quiet
	differ      = 0x0c // NEQ_OQ: false for NaN, quiet
	evenEntries = 0x88 // of two vectors, in every 128 bits: entries 0 and 2 of both, entries 1 and 3
	oddEntries  = 0xdd
	// What VFIXUPIMMPS makes of NaN (both kinds), 0, 1, −Inf, +Inf, other negative and positive numbers, from the
	// lowest digit: NaN, 0, 1, NaN, NaN, −1, 1.
	signTable = 0xa933a822
)

var rootTerms = []float32{0.274069258730864, 0.31393923552813763, 0.375000587363715, 0.4999983204717482, 1}

const scoreDoc = `adds up distances of strips of %%[1]d queries and %%[2]d features of a panel of %%[3]d:

	c[i*cStride+j] = Σ_t %s,  i < %%[1]d·strips, j < %%[2]d, t < k

float32, one chain from 0 with ascending t%s; if add is not 0, the sum is added to the entry of c that was
there. q and e are the terms of query i and feature j:

	q = a[i/%%[1]d][t][i mod %%[1]d] of a [strips][k][%%[1]d]
	e = b[t][j] of b [k][%%[3]d]

	ahead, step  every four terms, the cache line at this address, which need not be valid, is fetched
	             into L2, and the address goes up by step bytes

Requires k > 0%s, strips > 0, cStride ≥ %%[2]d; c overlaps neither a nor b.`

const pullDoc = `adds up gradients of strips of %[1]d vectors x, by %[2]d coordinates in a panel of %[3]d:

	c[i*cStride+u] = Σ_t %[4]s,  i < %[1]d·strips, u < %[2]d, t < k

float32, one chain of fused multiply-adds from 0 with t ascending; if add is not 0, the sum is added to the
entry of c that was there.

	g = a[i/%[1]d][t][i mod %[1]d] of a [strips][k][%[1]d], the gradients of scores
	y = b[t][u] of b [k][%[3]d], the vectors on the other side
	x = at[i*atStride+u]

%[5]sRequires k > 0, strips > 0, cStride ≥ %[2]d, atStride ≥ %[2]d; c overlaps nothing else.`

const peakDoc = `runs n rounds of the operations that %d terms of the %s kernel take for
%d columns each, on registers alone that begin as x[0..%d]; the values matter as in DotPeak. Requires n > 0.`

const signDoc = "sign is −1, 0 or 1, and NaN for what is not finite. "

// pullTerm adds a unit of columns of one term to sums of gradients, given g in all lanes.
type pullTerm func(g reg.VecVirtual, x, y, sum []reg.VecVirtual)

// distance is one of the distances.
type distance struct {
	name string
	unit int
	// score and pull are the terms of sums, for the docs.
	score, scoreChain string
	pull, pullNote    string
	// scoreTile are the rows of a tile of scores and its vectors of columns, in AVX-512 and in AVX2, pullTile those of
	// gradients, of strips of pullStrip.
	scoreTile, pullTile [2][2]int
	// scoreChains and pullChains are those of the loops on registers alone, enough to hide the latency of a sum. The
	// scores of 0 have a loop among the panels'.
	scoreChains, pullChains int
	add                     func(c vectors, k constants) addTerm
	addPull                 func(c vectors, k constants) pullTerm
}

// even is what a kernel requires of a number of coordinates beside that it is positive.
func (d distance) even() string {
	if d.unit == 2 {
		return " and even"
	}
	return ""
}

// pullStrip is the number of rows that are packed together for gradients, in AVX-512 and in AVX2.
var pullStrip = [2]int{8, 6}

var distanceKinds = []distance{
	{
		name: "L1", unit: 1, scoreTile: [2][2]int{{8, 3}, {6, 2}}, pullTile: [2][2]int{{4, 2}, {2, 2}},
		pullChains: 8,
		score:      "−|q − e|", pull: "g·sign(y − x)", pullNote: signDoc,
		add: func(c vectors, k constants) addTerm {
			absolute := c.absolute(k)
			return func(q, e []reg.VecVirtual, sum reg.VecVirtual) {
				d := c.vec()
				c.VSUBPS(e[0], q[0], d)
				absolute(d)
				c.VSUBPS(d, sum, sum)
			}
		},
		addPull: func(c vectors, k constants) pullTerm {
			sign := c.sign(k)
			return func(g reg.VecVirtual, x, y, sum []reg.VecVirtual) {
				d := c.vec()
				c.VSUBPS(x[0], y[0], d)
				sign(d)
				c.VFMADD231PS(d, g, sum[0])
			}
		},
	},
	{
		name: "L2", unit: 1, scoreTile: [2][2]int{{8, 3}, {6, 2}}, pullTile: [2][2]int{{4, 2}, {3, 2}},
		scoreChains: peakChains, pullChains: peakChains,
		score: "(q − e)²", scoreChain: ", squares fused", pull: "g·(x − y)",
		add: func(c vectors, _ constants) addTerm {
			return func(q, e []reg.VecVirtual, sum reg.VecVirtual) {
				d := c.vec()
				c.VSUBPS(e[0], q[0], d)
				c.VFMADD231PS(d, d, sum)
			}
		},
		addPull: func(c vectors, _ constants) pullTerm {
			return func(g reg.VecVirtual, x, y, sum []reg.VecVirtual) {
				d := c.vec()
				c.VSUBPS(y[0], x[0], d)
				c.VFMADD231PS(d, g, sum[0])
			}
		},
	},
	{
		name: "Norm", unit: 2, scoreTile: [2][2]int{{8, 1}, {6, 1}}, pullTile: [2][2]int{{4, 1}, {2, 1}},
		scoreChains: 6, pullChains: 2,
		score:      "−√((q − e)² + (q' − e')²)",
		scoreChain: " = 0, 2, …, with q' and e' at t+1; the root is t·p of\nkernel's inverseRoot, fused with the sum",
		pull:       "(g·ρ)·(y − x)",
		pullNote: "ρ is y·p of kernel's inverseRoot of (y − x)² + (y' − x')², of columns 2⌊u/2⌋ and the one\n" +
			"after it. ",
		add: func(c vectors, k constants) addTerm {
			root := c.root(k)
			return func(q, e []reg.VecVirtual, sum reg.VecVirtual) {
				t, d := c.vec(), c.vec()
				c.VSUBPS(e[0], q[0], t)
				c.VSUBPS(e[1], q[1], d)
				c.VMULPS(t, t, t)
				c.VFMADD231PS(d, d, t)
				_, p := root(t, false)
				c.VFNMADD231PS(t, p, sum)
			}
		},
		addPull: func(c vectors, k constants) pullTerm {
			root := c.root(k)
			return func(g reg.VecVirtual, x, y, sum []reg.VecVirtual) {
				d0, d1 := c.vec(), c.vec()
				c.VSUBPS(x[0], y[0], d0)
				c.VSUBPS(x[1], y[1], d1)
				t := c.product(d0, d0)
				c.VFMADD231PS(d1, d1, t)
				r, p := root(t, true)
				c.VMULPS(p, r, r)
				c.VMULPS(r, g, r)
				c.VFMADD231PS(d0, r, sum[0])
				c.VFMADD231PS(d1, r, sum[1])
			}
		},
	},
	{
		name: "Phase", unit: 2, scoreTile: [2][2]int{{8, 2}, {6, 1}}, pullTile: [2][2]int{{4, 1}, {2, 1}},
		pullChains: 2,
		score:      "−|q·e + q'·e'|", scoreChain: " = 0, 2, …, with q' and e' at t+1, the second\nproduct fused",
		pull:     "−(g·sign(x·y + x'·y'))·y",
		pullNote: signDoc + "x·y + x'·y' is of columns\n2⌊u/2⌋ and the one after it, the second product fused. ",
		add: func(c vectors, k constants) addTerm {
			absolute := c.absolute(k)
			return func(q, e []reg.VecVirtual, sum reg.VecVirtual) {
				p := c.product(q[0], e[0])
				c.VFMADD231PS(q[1], e[1], p)
				absolute(p)
				c.VSUBPS(p, sum, sum)
			}
		},
		addPull: func(c vectors, k constants) pullTerm {
			sign := c.sign(k)
			return func(g reg.VecVirtual, x, y, sum []reg.VecVirtual) {
				p := c.product(x[0], y[0])
				c.VFMADD231PS(x[1], y[1], p)
				sign(p)
				c.VMULPS(p, g, p)
				c.VFNMADD231PS(y[0], p, sum[0])
				c.VFNMADD231PS(y[1], p, sum[1])
			}
		},
	},
}

func distances(c *build.Context) {
	k := constants{c, map[uint32]operand.Mem{}}
	for _, d := range distanceKinds {
		eachSet(c, func(c vectors) {
			set := 0
			if c.lanes == 8 {
				set = 1
			}
			rows, columns := d.scoreTile[set][0], d.scoreTile[set][1]
			for n := 1; n <= columns; n++ {
				c.micro(microKernel{name: d.name + "Scores", doc: fmt.Sprintf(scoreDoc, d.score, d.scoreChain, d.even()),
					mr: rows, columns: n, width: columns, unit: d.unit,
					begin: func(c vectors) addTerm {
						c.Comment("Σ " + d.score)
						return d.add(c, k)
					}})
			}
			rows, columns = d.pullTile[set][0], d.pullTile[set][1]
			for n := 1; n <= columns; n++ {
				c.pull(d, k, pullStrip[set], rows, n, columns)
			}
			c.peaks(d, k)
		})
	}
	eachSet(c, func(c vectors) {
		c.roots(k)
		c.quotients()
	})
}

// peaks emits the loops of a distance's operations on registers alone. A panel kernel has that of L1 and Phase scores.
func (c vectors) peaks(d distance, k constants) {
	if d.scoreChains > 0 {
		c.peak(d.name+"Scores", 2*d.unit, d.scoreChains, d.unit, 1, func() func(x, sum []reg.VecVirtual) {
			add := d.add(c, k)
			return func(x, sum []reg.VecVirtual) { add(x[:d.unit], x[d.unit:], sum[0]) }
		})
	}
	c.peak(d.name+"Gradient", 2*d.unit+1, d.pullChains, d.unit, d.unit, func() func(x, sum []reg.VecVirtual) {
		add := d.addPull(c, k)
		return func(x, sum []reg.VecVirtual) { add(x[0], x[1:1+d.unit], x[1+d.unit:], sum) }
	})
}

// peak emits a loop over chains of some vectors of sums each, to which begin's function adds unit terms of operands.
func (c vectors) peak(name string, operands, chains, unit, sums int, begin func() func(x, sum []reg.VecVirtual)) {
	c.begin(name+"Peak"+c.set, "func(n int, x *float32)", fmt.Sprintf(peakDoc, chains*unit, name, c.lanes, operands*c.lanes-1))
	n, from := c.param("n"), c.param("x")
	add := begin()
	var x []reg.VecVirtual
	for i := range operands {
		x = append(x, c.load(at(from, i*c.lanes)))
	}
	sum := matrixOf(c, chains, sums)
	holds(c.Context, "operands", x...)
	holds(c.Context, "sums", slices.Concat(sum...)...)
	c.loop("round", n, 1, func() {
		for _, s := range sum {
			add(x, s)
		}
	})
	c.end()
}

// pull emits a kernel of gradients for strips of mr vectors, rows of them at once, and some groups of unit
// vectors of columns, of a panel of width groups. The vectors x and their sums stay in registers while the vectors
// y of the other side pass; pairs of coordinates lie in registers of their own, even and odd.
func (c vectors) pull(d distance, k constants, mr, rows, columns, width int) {
	group := d.unit * c.lanes
	nr := width * group
	c.begin(fmt.Sprintf("%sGradient%dx%d%s", d.name, mr, columns*group, c.set),
		"func(a, b *float32, k, strips int, c *float32, cStride int, at *float32, atStride, add int)",
		fmt.Sprintf(pullDoc, mr, columns*group, nr, d.pull, d.pullNote))
	strip, strips := c.param("a"), c.param("strips")
	dst, from := c.param("c"), c.param("at")
	add := d.addPull(c, k)

	c.Label("strip")
	part := c.GP64()
	c.MOVQ(operand.U32(uint32(mr/rows)), part)
	c.Label("part")
	c.Comment(fmt.Sprintf("%d rows of x; the next ones, and the rows of c for the end, are fetched into L1.", rows))
	x := make([][][]reg.VecVirtual, rows) // [row][group][unit]
	sum := make([][][]reg.VecVirtual, rows)
	stride := c.bytes("atStride")
	next := c.GP64()
	c.IMUL3Q(operand.Imm(uint64(rows)), stride, next)
	c.ADDQ(from, next)
	for i := range x {
		for line := 0; line < columns*group; line += 16 {
			c.PREFETCHT0(at(next, line))
		}
		c.ADDQ(stride, next)
		for v := range columns {
			x[i] = append(x[i], c.loadUnit(d.unit, from, v*group))
			sum[i] = append(sum[i], matrixOf(c, 1, d.unit)[0])
		}
		c.ADDQ(stride, from)
		holds(c.Context, "x of the rows", slices.Concat(x[i]...)...)
		holds(c.Context, "sums of the rows", slices.Concat(sum[i]...)...)
	}
	c.Load(c.Param("cStride"), stride)
	c.SHLQ(operand.Imm(2), stride)
	row := c.GP64()
	c.MOVQ(dst, row)
	for range x {
		for line := 0; line < columns*group; line += 16 {
			c.PREFETCHT0(at(row, line))
		}
		c.ADDQ(stride, row)
	}
	a, b, n := c.GP64(), c.param("b"), c.param("k")
	c.MOVQ(strip, a)
	c.Comment("Σ " + d.pull + ", t ascending")
	c.loop("term", n, 1, func() {
		var y [][]reg.VecVirtual
		for v := range columns {
			y = append(y, c.loadUnit(d.unit, b, v*group))
			holds(c.Context, "y of the term", y[v]...)
		}
		for i := range rows {
			g := c.broadcast(at(a, i))
			holds(c.Context, "g of a row in all lanes", g)
			for v := range columns {
				add(g, x[i][v], y[v], sum[i][v])
			}
		}
		c.ADDQ(operand.Imm(uint64(4*mr)), a)
		c.ADDQ(operand.U32(uint32(4*nr)), b)
	})
	if d.unit == 2 {
		c.Comment("Pairs of coordinates side by side again")
		for i := range sum {
			for _, s := range sum[i] {
				c.sideBySide(s)
			}
		}
	}
	each := func(row reg.Register, f func(m operand.Mem, s reg.VecVirtual)) {
		for i := range sum {
			for v, s := range sum[i] {
				for u := range s {
					f(at(row, v*group+u*c.lanes), s[u])
				}
			}
			c.ADDQ(stride, row)
		}
	}
	more := c.param("add")
	c.TESTQ(more, more)
	c.JEQ(operand.LabelRef("store"))
	c.MOVQ(dst, row)
	each(row, func(m operand.Mem, s reg.VecVirtual) { c.VADDPS(m, s, s) })
	c.Label("store")
	each(dst, func(m operand.Mem, s reg.VecVirtual) { c.VMOVUPS(s, m) })
	c.ADDQ(operand.Imm(uint64(4*rows)), strip)
	c.DECQ(part)
	c.JNE(operand.LabelRef("part"))
	c.Comment("a has reached the next strip, at the rows of the last part.")
	c.LEAQ(operand.Mem{Base: a, Disp: -4 * (mr - rows)}, strip)
	c.DECQ(strips)
	c.JNE(operand.LabelRef("strip"))
	c.end()
}

// loadUnit loads unit vectors of columns: pairs of columns become a vector of the even and one of the odd ones.
func (c vectors) loadUnit(unit int, base reg.Register, disp int) []reg.VecVirtual {
	first := c.load(at(base, disp))
	if unit == 1 {
		return []reg.VecVirtual{first}
	}
	return c.evenOdd(first, c.load(at(base, disp+c.lanes)))
}

// evenOdd takes the pairs of two vectors apart. second is lost.
func (c vectors) evenOdd(first, second reg.VecVirtual) []reg.VecVirtual {
	even := c.vec()
	c.VSHUFPS(operand.Imm(evenEntries), second, first, even)
	c.VSHUFPS(operand.Imm(oddEntries), second, first, second)
	return []reg.VecVirtual{even, second}
}

// sideBySide undoes evenOdd in place.
func (c vectors) sideBySide(pair []reg.VecVirtual) {
	low, high := c.vec(), pair[1]
	c.VUNPCKLPS(pair[1], pair[0], low)
	c.VUNPCKHPS(pair[1], pair[0], high)
	pair[0] = low
}

// absolute returns what clears the signs of a vector.
func (c vectors) absolute(k constants) func(x reg.VecVirtual) {
	if c.lanes == 8 { // no register is left
		return func(x reg.VecVirtual) { c.VANDPS(k.bits(math.MaxInt32), x, x) }
	}
	mask := c.load(k.bits(math.MaxInt32))
	return func(x reg.VecVirtual) { c.VPANDD(mask, x, x) }
}

// sign returns what replaces a vector by its signs.
func (c vectors) sign(k constants) func(x reg.VecVirtual) {
	if c.lanes == 16 {
		table := c.load(k.bits(signTable))
		return func(x reg.VecVirtual) { c.VFIXUPIMMPS(operand.Imm(0), table, x, x) }
	}
	zero, one := c.zero(), c.load(k.number(1))
	return func(x reg.VecVirtual) {
		// Zeros with the sign, or NaN; and ones beside zero.
		ones := c.vec()
		c.VCMPPS(operand.Imm(differ), zero, x, ones)
		c.VMULPS(zero, x, x)
		c.VANDPS(one, ones, ones)
		c.VORPS(ones, x, x)
	}
}

// root returns what kernel's inverseRoot does: of x it makes y and p. If inverse is set, x is lost, otherwise x
// becomes t and y is lost. The constants stay in registers in AVX-512.
func (c vectors) root(k constants) func(x reg.VecVirtual, inverse bool) (y, p reg.VecVirtual) {
	var terms []operand.Op
	for _, t := range rootTerms {
		terms = append(terms, k.number(t))
	}
	var magic operand.Op = k.bits(rootMagic)
	if c.lanes == 16 {
		magic = c.load(k.bits(rootMagic))
		for i, t := range terms {
			terms[i] = c.load(t.(operand.Mem))
		}
	}
	one := terms[len(terms)-1]
	return func(x reg.VecVirtual, inverse bool) (y, p reg.VecVirtual) {
		y, p = c.vec(), c.vec()
		c.VPSRLD(operand.Imm(1), x, p)
		if c.lanes == 16 {
			c.VPSUBD(p, magic, y)
		} else {
			c.VMOVUPS(magic, y)
			c.VPSUBD(p, y, y)
		}
		c.VMULPS(y, x, x)
		r := y
		if inverse {
			r = x
			c.VFNMADD213PS(one, y, r)
		} else {
			c.VFNMADD213PS(one, x, r)
		}
		c.VMOVUPS(terms[0], p)
		for _, t := range terms[1:] {
			c.VFMADD213PS(t, r, p)
		}
		return y, p
	}
}

func (c vectors) roots(k constants) {
	c.begin("Roots"+c.set, "func(x *float32, n int)",
		`replaces x[i] by −√x[i], i < n, rounded once. Requires n > 0, a multiple of 16.`)
	x, n := c.param("x"), c.param("n")
	sign := c.load(k.bits(1 << 31))
	c.loop("entries", n, c.lanes, func() {
		r := c.vec()
		c.VSQRTPS(operand.Mem{Base: x}, r)
		c.VXORPS(sign, r, r)
		c.VMOVUPS(r, operand.Mem{Base: x})
		c.ADDQ(operand.Imm(uint64(4*c.lanes)), x)
	})
	c.end()
}

func (c vectors) quotients() {
	c.begin("Quotients"+c.set, "func(q, x, y *float32, n int)",
		`sets q[i] to x[i]/y[i], rounded once, and to 0 where y[i] is 0, i < n. Requires n > 0, a multiple of 16.`)
	q, x, y, n := c.param("q"), c.param("x"), c.param("y"), c.param("n")
	zero := c.zero()
	c.loop("entries", n, c.lanes, func() {
		divisor, r := c.load(operand.Mem{Base: y}), c.load(operand.Mem{Base: x})
		if c.lanes == 16 {
			some := c.K()
			c.VCMPPS(operand.Imm(notEqual), zero, divisor, some)
			c.VDIVPS_Z(divisor, r, some, r)
		} else {
			some := c.vec()
			c.VCMPPS(operand.Imm(notEqual), zero, divisor, some)
			c.VDIVPS(divisor, r, r)
			c.VANDPS(some, r, r)
		}
		c.VMOVUPS(r, operand.Mem{Base: q})
		for _, p := range []reg.GPVirtual{q, x, y} {
			c.ADDQ(operand.Imm(uint64(4*c.lanes)), p)
		}
	})
	c.end()
}
