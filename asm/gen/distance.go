package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the float32 kernels of distances for training, for AVX512 and AVX2: L1Scores,
// L2Scores, NormScores, PhaseScores and ProductNormScores with microtiles of 8×16 to 8×48 and 6×8 or
// 6×16, their gradients with strips of 8 and 6 vectors, the ceilings of both, and Roots and Quotients
// for L2 and ProductNorm.
// kernel/linalg/generic_distance.go has the same constants and operations, and explains them.

const (
	rootMagic   = 0x5f3759df
	notEqual    = 0x04 // NEQ_UQ: true for NaN, quiet
	differ      = 0x0c // NEQ_OQ: false for NaN, quiet
	evenEntries = 0x88 // entries 0 and 2 of two vectors, in every 128 bits
	oddEntries  = 0xdd // entries 1 and 3
	// signTable tells VFIXUPIMMPS the result for each class of operands. From the lowest digit:
	// quiet and signalling NaN become NaN, 0 becomes 0, 1 becomes 1, −Inf and +Inf become NaN,
	// negative values become −1, and positive values become 1.
	signTable = 0xa933a822
)

var rootTerms = []float32{0.274069258730864, 0.31393923552813763, 0.375000587363715, 0.4999983204717482, 1}

const scoreDoc = `scores strips of %%[1]d queries against %%[2]d features of a panel of %%[3]d:

	c[i*cStride+j] = Σ_t %s,  i < %%[1]d·strips, j < %%[2]d, t < k

in float32. A sum is one chain from 0 over ascending t%s. If add is not 0, the sum is added to the entry of c. q and e
are the terms of query i and feature j:

	q = a[i/%%[1]d][t][i mod %%[1]d] of a [strips][k][%%[1]d]
	e = b[t][j] of b [k][%%[3]d]

	ahead, aheadStride  For every four terms of a strip, the kernel prefetches the cache line at
	                    ahead into L2 and adds aheadStride bytes to the address, which need not
	                    be valid.

Requires k > 0%s, strips > 0 and cStride ≥ %%[2]d. c must not overlap a or b.`

const gradientDoc = `adds up gradients for strips of %[1]d vectors x and %[2]d coordinates of a panel of %[3]d:

	c[i*cStride+u] = Σ_t %[4]s,  i < %[1]d·strips, u < %[2]d, t < k

in float32. A sum is one chain of fused multiply-adds from 0 with t ascending. If add is not 0, the sum is added to the
entry of c.

	g = a[i/%[1]d][t][i mod %[1]d] of a [strips][k][%[1]d], the gradients with respect to the scores
	y = b[t][u] of b [k][%[3]d], the vectors on the other side
	x = at[i*atStride+u]%[5]s

Requires k > 0, strips > 0, cStride ≥ %[2]d and atStride ≥ %[2]d. c must not overlap the other operands.`

const distancePeakDoc = `runs n rounds of the arithmetic of %d terms of the %s kernel, each for %d columns.
It works on registers alone, which initially hold x[0..%d]. The values of x affect the speed, as in DotPeak.

Requires n > 0.`

const signDoc = "sign is −1, 0 or 1, and NaN if its argument is not finite."

// addGradient adds a group of columns of one term to sums of gradients, given g.
type addGradient func(g *entry, x, y, sum []reg.VecVirtual)

// distance describes the kernels of a distance. The first value of a pair is for AVX-512, the
// second for AVX2.
type distance struct {
	name  string
	group int // coordinates that are compared together
	// score and gradient are the terms of the sums, for the documentation.
	score, scoreChain      string
	gradient, gradientNote string
	// scoreTile is the size of a microtile of scores: the number of rows, then the number of vectors
	// that hold a row's columns.
	// gradientTile is the same for gradients, whose strips have gradientStrip rows.
	scoreTile, gradientTile [2][2]int
	// scoreChains and gradientChains are the numbers of chains in the loops that measure the ceilings.
	// They are large enough to hide the latency of an addition. If scoreChains is 0, the scores share
	// the ceiling of a panel kernel.
	scoreChains, gradientChains int
	addScore                    func(c vectors, k constants) addTerm
	addGradient                 func(c vectors, k constants) addGradient
}

// even returns the part of a kernel's documentation that requires k to be even, or "" if the kernel
// has no such requirement.
func (d distance) even() string {
	if d.group == 2 {
		return " and even"
	}
	return ""
}

// gradientStrip is the number of rows in a strip for gradients, in AVX-512 and in AVX2.
var gradientStrip = [2]int{8, 6}

var distanceKinds = []distance{
	{
		name: "L1", group: 1, scoreTile: [2][2]int{{8, 3}, {6, 2}}, gradientTile: [2][2]int{{4, 2}, {2, 2}},
		gradientChains: 8,
		score:          "−|q − e|", gradient: "g·sign(y − x)", gradientNote: "\n\n" + signDoc,
		addScore: func(c vectors, k constants) addTerm {
			absolute := c.absolute(k)
			return func(q []*entry, e []reg.VecVirtual, sum reg.VecVirtual) {
				d := c.vec()
				q[0].subtract(c, e[0], d)
				absolute(d)
				c.VSUBPS(d, sum, sum)
			}
		},
		addGradient: func(c vectors, k constants) addGradient {
			sign := c.sign(k)
			return func(g *entry, x, y, sum []reg.VecVirtual) {
				d := c.vec()
				c.VSUBPS(x[0], y[0], d)
				sign(d)
				g.multiplyAdd(c, d, sum[0])
			}
		},
	},
	{
		name: "L2", group: 1, scoreTile: [2][2]int{{8, 3}, {6, 2}}, gradientTile: [2][2]int{{4, 2}, {3, 2}},
		scoreChains: peakChains, gradientChains: peakChains,
		score: "(q − e)²", scoreChain: ", squares fused", gradient: "g·(x − y)",
		addScore: func(c vectors, _ constants) addTerm {
			return func(q []*entry, e []reg.VecVirtual, sum reg.VecVirtual) {
				d := c.vec()
				q[0].subtract(c, e[0], d)
				c.VFMADD231PS(d, d, sum)
			}
		},
		addGradient: func(c vectors, _ constants) addGradient {
			return func(g *entry, x, y, sum []reg.VecVirtual) {
				d := c.vec()
				c.VSUBPS(y[0], x[0], d)
				g.multiplyAdd(c, d, sum[0])
			}
		},
	},
	{
		name: "Norm", group: 2, scoreTile: [2][2]int{{8, 1}, {6, 1}}, gradientTile: [2][2]int{{4, 1}, {2, 1}},
		scoreChains: 6, gradientChains: 2,
		score:      "−√((q − e)² + (q' − e')²)",
		scoreChain: " = 0, 2, …, with q' and e' at t+1; the\nroot is t·p of linalg's inverseRoot, fused with the sum",
		gradient:   "(g·ρ)·(y − x)",
		gradientNote: "\n\nρ is y·p of linalg's inverseRoot of (y − x)² + (y' − x')², where x, y and x', y'\n" +
			"are the columns 2⌊u/2⌋ and 2⌊u/2⌋ + 1.",
		addScore: func(c vectors, k constants) addTerm {
			root := c.root(k)
			return func(q []*entry, e []reg.VecVirtual, sum reg.VecVirtual) {
				t, d := c.vec(), c.vec()
				q[0].subtract(c, e[0], t)
				q[1].subtract(c, e[1], d)
				c.VMULPS(t, t, t)
				c.VFMADD231PS(d, d, t)
				_, p := root(t, false)
				c.VFNMADD231PS(t, p, sum)
			}
		},
		addGradient: func(c vectors, k constants) addGradient {
			root := c.root(k)
			return func(g *entry, x, y, sum []reg.VecVirtual) {
				d0, d1 := c.vec(), c.vec()
				c.VSUBPS(x[0], y[0], d0)
				c.VSUBPS(x[1], y[1], d1)
				t := c.product(d0, d0)
				c.VFMADD231PS(d1, d1, t)
				r, p := root(t, true)
				c.VMULPS(p, r, r)
				g.multiply(c, r, r)
				c.VFMADD231PS(d0, r, sum[0])
				c.VFMADD231PS(d1, r, sum[1])
			}
		},
	},
	{
		name: "Phase", group: 2, scoreTile: [2][2]int{{8, 2}, {6, 1}}, gradientTile: [2][2]int{{4, 1}, {2, 1}},
		gradientChains: 2,
		score:          "−|q·e + q'·e'|", scoreChain: " = 0, 2, …, with q' and e' at t+1 and\nthe second product fused",
		gradient: "−(g·sign(x·y + x'·y'))·y",
		gradientNote: "\n\n" + signDoc + " In x·y + x'·y', x, y and x', y' are the\n" +
			"columns 2⌊u/2⌋ and 2⌊u/2⌋ + 1; the second product is fused.",
		addScore: func(c vectors, k constants) addTerm {
			absolute := c.absolute(k)
			return func(q []*entry, e []reg.VecVirtual, sum reg.VecVirtual) {
				p := c.vec()
				q[0].multiply(c, e[0], p)
				q[1].multiplyAdd(c, e[1], p)
				absolute(p)
				c.VSUBPS(p, sum, sum)
			}
		},
		addGradient: func(c vectors, k constants) addGradient {
			sign := c.sign(k)
			return func(g *entry, x, y, sum []reg.VecVirtual) {
				p := c.product(x[0], y[0])
				c.VFMADD231PS(x[1], y[1], p)
				sign(p)
				g.multiply(c, p, p)
				c.VFNMADD231PS(y[0], p, sum[0])
				c.VFNMADD231PS(y[1], p, sum[1])
			}
		},
	},
	{
		name: "ProductNorm", group: 2, scoreTile: [2][2]int{{8, 2}, {6, 1}}, gradientTile: [2][2]int{{4, 1}, {2, 1}},
		scoreChains: 8, gradientChains: 2,
		score:      "(q·e + q'·e')²",
		scoreChain: " = 0, 2, …, with q' and e' at t+1;\nthe second product and the square are fused",
		gradient:   "(g·(x·y + x'·y'))·y",
		gradientNote: "\n\nIn x·y + x'·y', x, y and x', y' are the columns 2⌊u/2⌋ and 2⌊u/2⌋ + 1; the second\n" +
			"product is fused.",
		addScore: func(c vectors, _ constants) addTerm {
			return func(q []*entry, e []reg.VecVirtual, sum reg.VecVirtual) {
				p := c.vec()
				q[0].multiply(c, e[0], p)
				q[1].multiplyAdd(c, e[1], p)
				c.VFMADD231PS(p, p, sum)
			}
		},
		addGradient: func(c vectors, _ constants) addGradient {
			return func(g *entry, x, y, sum []reg.VecVirtual) {
				p := c.product(x[0], y[0])
				c.VFMADD231PS(x[1], y[1], p)
				g.multiply(c, p, p)
				c.VFMADD231PS(y[0], p, sum[0])
				c.VFMADD231PS(y[1], p, sum[1])
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
				c.micro(microKernel{
					name: d.name + "Scores", doc: fmt.Sprintf(scoreDoc, d.score, d.scoreChain, d.even()),
					mr: rows, columns: n, width: columns, group: d.group,
					begin: func(c vectors) addTerm {
						c.Comment("Σ " + d.score)
						return d.addScore(c, k)
					},
				})
			}
			rows, columns = d.gradientTile[set][0], d.gradientTile[set][1]
			for n := 1; n <= columns; n++ {
				c.gradients(d, k, gradientStrip[set], rows, n, columns)
			}
			c.peaks(d, k)
		})
	}
	eachSet(c, func(c vectors) {
		c.roots(k)
		c.quotients()
	})
}

// peaks emits the ceilings of a distance: loops of its arithmetic on registers alone.
func (c vectors) peaks(d distance, k constants) {
	if d.scoreChains > 0 {
		c.peak(d.name+"Scores", 2*d.group, d.scoreChains, d.group, 1, func() func(x, sum []reg.VecVirtual) {
			add := d.addScore(c, k)
			return func(x, sum []reg.VecVirtual) { add(inRegisters(x[:d.group]), x[d.group:], sum[0]) }
		})
	}
	c.peak(d.name+"Gradient", 2*d.group+1, d.gradientChains, d.group, d.group, func() func(x, sum []reg.VecVirtual) {
		add := d.addGradient(c, k)
		return func(x, sum []reg.VecVirtual) { add(&entry{register: x[0]}, x[1:1+d.group], x[1+d.group:], sum) }
	})
}

// peak emits a loop over the given number of chains. A chain has the given number of vectors of
// sums. begin returns the function that adds a group of terms to a chain.
func (c vectors) peak(
	name string, operands, chains, group, sums int, begin func() func(x, sum []reg.VecVirtual),
) {
	c.begin(name+"Peak"+c.set, "func(n int, x *float32)",
		fmt.Sprintf(distancePeakDoc, chains*group, name, c.lanes, operands*c.lanes-1))
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

// gradients emits a gradient kernel for strips of mr vectors. The kernel processes the given number
// of rows of a strip at a time. columns and width are the widths of the microtile and of the panel,
// in groups of vectors. The vectors x and their sums stay in registers while the vectors y of the
// other side stream past. If coordinates come in pairs, the even and the odd ones are in separate
// registers.
func (c vectors) gradients(d distance, k constants, mr, rows, columns, width int) {
	columnsOf := d.group * c.lanes // columns of a group of vectors
	nr := width * columnsOf
	c.begin(fmt.Sprintf("%sGradient%dx%d%s", d.name, mr, columns*columnsOf, c.set),
		"func(a, b *float32, k, strips int, c *float32, cStride int, at *float32, atStride, add int)",
		fmt.Sprintf(gradientDoc, mr, columns*columnsOf, nr, d.gradient, d.gradientNote))
	strip, strips := c.param("a"), c.param("strips")
	dst, from := c.param("c"), c.param("at")
	add := d.addGradient(c, k)

	c.Label("strip")
	part := c.GP64()
	c.MOVQ(operand.U32(uint32(mr/rows)), part)
	c.Label("part")
	c.Comment(fmt.Sprintf("Load %d rows of x. Prefetch the next ones, and the rows of c for the end, into L1.", rows))
	x := make([][][]reg.VecVirtual, rows) // [row][group of vectors][vector]
	sum := make([][][]reg.VecVirtual, rows)
	stride := c.bytes("atStride")
	next := c.GP64()
	c.IMUL3Q(operand.Imm(uint64(rows)), stride, next)
	c.ADDQ(from, next)
	for i := range x {
		for line := 0; line < columns*columnsOf; line += 16 {
			c.PREFETCHT0(at(next, line))
		}
		c.ADDQ(stride, next)
		for v := range columns {
			x[i] = append(x[i], c.loadGroup(d.group, from, v*columnsOf))
			sum[i] = append(sum[i], matrixOf(c, 1, d.group)[0])
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
		for line := 0; line < columns*columnsOf; line += 16 {
			c.PREFETCHT0(at(row, line))
		}
		c.ADDQ(stride, row)
	}
	a, b, n := c.GP64(), c.param("b"), c.param("k")
	c.MOVQ(strip, a)
	c.Comment("Σ " + d.gradient + " with t ascending")
	c.loop("term", n, 1, func() {
		var y [][]reg.VecVirtual
		for v := range columns {
			y = append(y, c.loadGroup(d.group, b, v*columnsOf))
			holds(c.Context, "y of the term", y[v]...)
		}
		for i := range rows {
			g := &entry{c: c, at: at(a, i), what: "g of a row in all lanes"}
			for v := range columns {
				add(g, x[i][v], y[v], sum[i][v])
			}
		}
		c.ADDQ(operand.Imm(uint64(4*mr)), a)
		c.ADDQ(operand.U32(uint32(4*nr)), b)
	})
	if d.group == 2 {
		c.Comment("Interleave the even and the odd coordinates again")
		for i := range sum {
			for _, s := range sum[i] {
				c.interleave(s)
			}
		}
	}
	each := func(row reg.Register, f func(m operand.Mem, s reg.VecVirtual)) {
		for i := range sum {
			for v, s := range sum[i] {
				for u := range s {
					f(at(row, v*columnsOf+u*c.lanes), s[u])
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
	c.Comment("a points into the next strip, at the rows of the last part. Return to the first row.")
	c.LEAQ(operand.Mem{Base: a, Disp: -4 * (mr - rows)}, strip)
	c.DECQ(strips)
	c.JNE(operand.LabelRef("strip"))
	c.end()
}

// loadGroup loads a group of size vectors of columns. For size 2, the first vector gets the even
// columns and the second the odd ones.
func (c vectors) loadGroup(size int, base reg.Register, disp int) []reg.VecVirtual {
	first := c.load(at(base, disp))
	if size == 1 {
		return []reg.VecVirtual{first}
	}
	return c.evenOdd(first, c.load(at(base, disp+c.lanes)))
}

// evenOdd separates the even and the odd entries of two vectors. It overwrites second.
func (c vectors) evenOdd(first, second reg.VecVirtual) []reg.VecVirtual {
	even := c.vec()
	c.VSHUFPS(operand.Imm(evenEntries), second, first, even)
	c.VSHUFPS(operand.Imm(oddEntries), second, first, second)
	return []reg.VecVirtual{even, second}
}

// interleave undoes evenOdd in place.
func (c vectors) interleave(pair []reg.VecVirtual) {
	low, high := c.vec(), pair[1]
	c.VUNPCKLPS(pair[1], pair[0], low)
	c.VUNPCKHPS(pair[1], pair[0], high)
	pair[0] = low
}

// absolute returns a function that emits x = |x|.
func (c vectors) absolute(k constants) func(x reg.VecVirtual) {
	if c.lanes == 8 { // all registers are taken
		return func(x reg.VecVirtual) { c.VANDPS(k.bits(math.MaxInt32), x, x) }
	}
	mask := c.load(k.bits(math.MaxInt32))
	return func(x reg.VecVirtual) { c.VPANDD(mask, x, x) }
}

// sign returns a function that emits x = sign(x).
func (c vectors) sign(k constants) func(x reg.VecVirtual) {
	if c.lanes == 16 {
		table := c.load(k.bits(signTable))
		return func(x reg.VecVirtual) { c.VFIXUPIMMPS(operand.Imm(0), table, x, x) }
	}
	zero, one := c.zero(), c.load(k.number(1))
	return func(x reg.VecVirtual) {
		// x·0 has the sign of x, or is NaN. Add the bits of 1 where x is not 0.
		ones := c.vec()
		c.VCMPPS(operand.Imm(differ), zero, x, ones)
		c.VMULPS(zero, x, x)
		c.VANDPS(one, ones, ones)
		c.VORPS(ones, x, x)
	}
}

// root returns a function that emits inverseRoot of package linalg: the emitted code computes y and p
// from x. If inverse is set, the code overwrites x; otherwise it sets x to t and overwrites y. In
// AVX-512 the constants stay in registers.
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
		"replaces x[i] with −√x[i], i < n, rounded once."+requires16)
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
		"sets q[i] to x[i]/y[i], rounded once, or to 0 if y[i] is 0, i < n."+requires16)
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
