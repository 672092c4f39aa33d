package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the kernels for rows of parameters: Axpy, AddRows, Scale, Multiply, MultiplyComplex,
// Dot, Dots, Sum, Adam, AdamCatchUp and Adagrad for AVX512 and AVX2, and PrefetchAVX2, which both tiers use.
// The kernels fuse no operations, so all tiers agree bit for bit.

const (
	rowLanes = 16 // entries per round; n is a multiple of rowLanes
	sumLanes = 32 // lanes in which Dot, Dots and Sum add up
	manyRows = 4  // rows that AddRows and Dots process together
)

// rowKernels emits the kernels of both instruction sets.
func rowKernels(c *build.Context) {
	eachSet(c, func(c vectors) {
		c.axpy()
		c.addRows()
		c.scale()
		c.multiply()
		c.multiplyComplex()
		c.dot()
		c.dots()
		c.sum()
		c.adam()
		c.adamCatchUp()
		c.adagrad()
		if c.lanes == 8 {
			c.prefetch()
		}
	})
}

const (
	requires16 = "\n\nRequires n to be a positive multiple of 16."
	requires32 = "\n\nRequires n to be a positive multiple of 32."
)

// entries emits a loop over the n entries of several rows, rowLanes entries at a time.
func (c vectors) entries(rows []reg.GPVirtual, n reg.GPVirtual, body func(i int)) {
	c.loop("entries", n, rowLanes, func() {
		for i := 0; i < rowLanes; i += c.lanes {
			body(i)
		}
		for _, r := range rows {
			c.ADDQ(operand.Imm(4*rowLanes), r)
		}
	})
}

func (c vectors) params(names ...string) []reg.GPVirtual {
	var r []reg.GPVirtual
	for _, name := range names {
		r = append(r, c.param(name))
	}
	return r
}

// argument broadcasts a float32 argument, with VBROADCASTSS: go vet takes the operand of VPBROADCASTD for 8 bytes.
func (c vectors) argument(name string) reg.VecVirtual {
	m, err := c.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	r := c.vec()
	c.VBROADCASTSS(m.Addr, r)
	holds(c.Context, name+" in all lanes", r)
	return r
}

// product returns x·y, where y may be in memory.
func (c vectors) product(y operand.Op, x reg.VecVirtual) reg.VecVirtual {
	r := c.vec()
	c.VMULPS(y, x, r)
	return r
}

func (c vectors) axpy() {
	c.begin("Axpy"+c.set, "func(y, x *float32, n int, a float32)",
		"adds a·x to y, rounding every operation."+requires16)
	r, n := c.params("y", "x"), c.param("n")
	a := c.argument("a")
	c.entries(r, n, func(i int) {
		p := c.product(at(r[1], i), a)
		c.VADDPS(at(r[0], i), p, p)
		c.VMOVUPS(p, at(r[0], i))
	})
	c.end()
}

// rowAddresses loads the addresses of manyRows rows from the array at x.
func (c vectors) rowAddresses(x reg.GPVirtual) []reg.GPVirtual {
	var rows []reg.GPVirtual
	for k := range manyRows {
		row := c.GP64()
		c.MOVQ(operand.Mem{Base: x, Disp: 8 * k}, row)
		rows = append(rows, row)
	}
	return rows
}

// addRows adds manyRows multiples of rows to y, in the order of the rows.
func (c vectors) addRows() {
	c.begin("AddRows"+c.set, fmt.Sprintf("func(y *float32, x *[%d]*float32, n int, a *[%[1]d]float32)", manyRows),
		"adds a[0]·x[0] to y, then a[1]·x[1], and so on, rounding every operation."+requires16)
	y, x, n, a := c.param("y"), c.param("x"), c.param("n"), c.param("a")
	rows := c.rowAddresses(x)
	holds(c.Context, "x[k]", rows...)
	var factors []reg.VecVirtual
	for k := range rows {
		factors = append(factors, c.broadcast(at(a, k)))
	}
	holds(c.Context, "a[k] in all lanes", factors...)
	c.entries(append(rows, y), n, func(i int) {
		sum := c.load(at(y, i))
		for k, f := range factors {
			c.VADDPS(c.product(at(rows[k], i), f), sum, sum)
		}
		c.VMOVUPS(sum, at(y, i))
	})
	c.end()
}

func (c vectors) scale() {
	c.begin("Scale"+c.set, "func(x *float32, n int, a float32)", "multiplies x by a."+requires16)
	r, n := c.params("x"), c.param("n")
	a := c.argument("a")
	c.entries(r, n, func(i int) { c.VMOVUPS(c.product(at(r[0], i), a), at(r[0], i)) })
	c.end()
}

func (c vectors) multiply() {
	c.begin("Multiply"+c.set, "func(z, x, y *float32, n int)",
		"writes x∘y to z, entry by entry. z may be x or y."+requires16)
	r, n := c.params("z", "x", "y"), c.param("n")
	c.entries(r, n, func(i int) { c.VMOVUPS(c.product(at(r[2], i), c.load(at(r[1], i))), at(r[0], i)) })
	c.end()
}

func (c vectors) multiplyComplex() {
	c.begin("MultiplyComplex"+c.set, "func(z, x, y *float32, im, n int, sign float32)",
		`writes products of n complex numbers to z. The imaginary part of an entry of z, x or y is im entries after
its real part. With x_im = sign·x[im+i],

	z[i]     =  x[i]·y[i] − x_im·y[im+i]
	z[im+i]  =  x[i]·y[im+i] + x_im·y[i]

Every operation is rounded. z may be x or y.`+requires16)
	r, im, n := c.params("z", "x", "y"), c.param("im"), c.param("n")
	sign := c.argument("sign")
	part := func(row, i int) operand.Mem {
		return operand.Mem{Base: r[row], Index: im, Scale: 4, Disp: 4 * i}
	}
	c.entries(r, n, func(i int) {
		xRe, xIm := c.load(at(r[1], i)), c.product(part(1, i), sign)
		yRe, yIm := c.load(at(r[2], i)), c.load(part(2, i))
		re, im := c.product(yRe, xRe), c.product(yIm, xRe)
		c.VMULPS(xIm, yIm, yIm)
		c.VSUBPS(yIm, re, re)
		c.VMULPS(xIm, yRe, yRe)
		c.VADDPS(yRe, im, im)
		c.VMOVUPS(re, at(r[0], i))
		c.VMOVUPS(im, part(0, i))
	})
	c.end()
}

func (c vectors) dot() {
	c.begin("Dot"+c.set, "func(x, y *float32, n int, lanes *[32]float32)", `adds up products in 32 lanes:

	lanes[l] = Σ x[i]·y[i],  i mod 32 = l, i < n

in float32. A sum is one chain from 0 with i ascending. Every operation is rounded.`+requires32)
	r, n, lanes := c.params("x", "y"), c.param("n"), c.param("lanes")
	sums := c.sums()
	c.loop("entries", n, sumLanes, func() {
		for v, s := range sums {
			c.VADDPS(c.product(at(r[1], v*c.lanes), c.load(at(r[0], v*c.lanes))), s, s)
		}
		for _, x := range r {
			c.ADDQ(operand.Imm(4*sumLanes), x)
		}
	})
	c.store(sums, lanes)
	c.end()
}

// dots adds the dot products of x with manyRows rows to their sums. A row has two registers of lanes, which
// are all of its lanes with AVX-512 and half of them with AVX2. With AVX2, the kernel therefore passes over
// the rows twice. Each pass reads every other cache line, so the first one prefetches the lines of the
// second: otherwise, rows outside the near caches would arrive more slowly.
func (c vectors) dots() {
	c.begin("Dots"+c.set, fmt.Sprintf("func(x *float32, y *[%d]*float32, n int, sums *[%[1]d]float64)", manyRows),
		`adds the 32 lanes of Dot for x and y[k] to sums[k], one after the other, in float64.`+requires32)
	x, y, n, sums := c.param("x"), c.param("y"), c.param("n"), c.param("sums")
	rows := c.rowAddresses(y)
	holds(c.Context, "y[k]", rows...)
	total := c.YMM()
	c.VMOVUPD(operand.Mem{Base: sums}, total)
	holds(c.Context, "sums", total)
	i := c.GP64()
	holds(c.Context, "number of entries read", i)
	const registers = 2
	for first := 0; first < sumLanes; first += registers * c.lanes {
		lanes := matrixOf(c, manyRows, registers)
		for v := range registers {
			holds(c.Context, fmt.Sprintf("lanes from %d of each row", first+v*c.lanes),
				lanes[0][v], lanes[1][v], lanes[2][v], lanes[3][v])
		}
		c.XORQ(i, i)
		label := fmt.Sprintf("entries%d", first)
		c.Label(label)
		for v := range registers {
			disp := 4 * (first + v*c.lanes)
			xs := c.load(operand.Mem{Base: x, Index: i, Scale: 4, Disp: disp})
			for k, row := range rows {
				if c.lanes == 8 && disp == 0 {
					c.PREFETCHT0(operand.Mem{Base: row, Index: i, Scale: 4, Disp: 4 * registers * c.lanes})
				}
				p := c.product(operand.Mem{Base: row, Index: i, Scale: 4, Disp: disp}, xs)
				c.VADDPS(p, lanes[k][v], lanes[k][v])
			}
		}
		c.ADDQ(operand.Imm(sumLanes), i)
		c.CMPQ(i, n)
		c.JB(operand.LabelRef(label))
		for v := range registers {
			columns := c.transpose4([4]reg.VecVirtual{lanes[0][v], lanes[1][v], lanes[2][v], lanes[3][v]})
			for part := range c.lanes / 4 {
				for _, column := range columns {
					lane := c.YMM() // one lane of the four rows
					c.VCVTPS2PD(c.quarter(column, part), lane)
					c.VADDPD(lane, total, total)
				}
			}
		}
	}
	c.VMOVUPD(total, operand.Mem{Base: sums})
	c.end()
}

// quarter returns four consecutive entries of x.
func (c vectors) quarter(x reg.VecVirtual, part int) reg.VecVirtual {
	if part == 0 {
		return x.AsX().(reg.VecVirtual)
	}
	r := c.XMM()
	if c.lanes == 16 {
		c.VEXTRACTF32X4(operand.Imm(uint64(part)), x, r)
	} else {
		c.VEXTRACTF128(operand.Imm(uint64(part)), x, r)
	}
	return r
}

func (c vectors) sum() {
	c.begin("Sum"+c.set, "func(x *float32, n int, lanes *[32]float32)", `adds up x in 32 lanes:

	lanes[l] = Σ x[i],  i mod 32 = l, i < n

in float32. A sum is one chain from 0 with i ascending.`+requires32)
	x, n, lanes := c.param("x"), c.param("n"), c.param("lanes")
	sums := c.sums()
	c.loop("entries", n, sumLanes, func() {
		for v, s := range sums {
			c.VADDPS(at(x, v*c.lanes), s, s)
		}
		c.ADDQ(operand.Imm(4*sumLanes), x)
	})
	c.store(sums, lanes)
	c.end()
}

// sums returns 32 lanes that are 0.
func (c vectors) sums() []reg.VecVirtual {
	var s []reg.VecVirtual
	for i := 0; i < sumLanes; i += c.lanes {
		s = append(s, c.zero())
	}
	holds(c.Context, "sums of the 32 lanes", s...)
	return s
}

func (c vectors) store(sums []reg.VecVirtual, to reg.Register) {
	for v, s := range sums {
		c.VMOVUPS(s, at(to, v*c.lanes))
	}
}

const adamAhead = `

Every operation is rounded. For each cache line of w, m and v, the kernel prefetches into L2 the line whose address is
higher by ahead bytes; that address need not be valid.` + requires16

func (c vectors) adam() {
	c.begin("Adam"+c.set, "func(w, m, v, gradient *float32, n int, s *float32, ahead int)",
		`takes a step of Adam. With s = keep1, new1, keep2, new2, rate, spread, epsilon it computes, entry by entry,

	m  = keep1·m + new1·gradient
	v  = keep2·v + new2·(gradient·gradient)
	w  = w − (rate·m)/(√(spread·v) + epsilon)`+adamAhead)
	r, n, s, ahead := c.params("w", "m", "v", "gradient"), c.param("n"), c.param("s"), c.param("ahead")
	var k []reg.VecVirtual
	for i := range 7 {
		k = append(k, c.broadcast(at(s, i)))
	}
	holds(c.Context, "s in all lanes: keep1, new1, keep2, new2, rate, spread, epsilon", k...)
	keep1, new1, keep2, new2, rate, spread, epsilon := k[0], k[1], k[2], k[3], k[4], k[5], k[6]
	c.entries(r, n, func(i int) {
		c.fetch(r[:3], ahead, i)
		w, g := c.load(at(r[0], i)), c.load(at(r[3], i))
		m, x := c.product(at(r[1], i), keep1), c.product(g, new1)
		c.VADDPS(x, m, m)
		c.VMOVUPS(m, at(r[1], i))
		c.VMULPS(g, g, g)
		v := c.product(at(r[2], i), keep2)
		c.VMULPS(g, new2, g)
		c.VADDPS(g, v, v)
		c.VMOVUPS(v, at(r[2], i))
		c.VMULPS(spread, v, v)
		c.VSQRTPS(v, v)
		c.VADDPS(epsilon, v, v)
		c.VMULPS(rate, m, m)
		c.VDIVPS(v, m, m)
		c.VSUBPS(m, w, w)
		c.VMOVUPS(w, at(r[0], i))
	})
	c.end()
}

func (c vectors) adamCatchUp() {
	c.begin("AdamCatchUp"+c.set, "func(w, m, v *float32, n int, s *float32, ahead int)",
		`applies the steps of Adam that a row missed. With s = rate, epsilon it computes, entry by entry,

	w  = w − (rate·m)/(√v + epsilon)`+adamAhead)
	r, n, s, ahead := c.params("w", "m", "v"), c.param("n"), c.param("s"), c.param("ahead")
	rate, epsilon := c.broadcast(at(s, 0)), c.broadcast(at(s, 1))
	holds(c.Context, "rate and epsilon in all lanes", rate, epsilon)
	c.entries(r, n, func(i int) {
		c.fetch(r, ahead, i)
		w, v := c.load(at(r[0], i)), c.vec()
		c.VSQRTPS(at(r[2], i), v)
		c.VADDPS(epsilon, v, v)
		m := c.product(at(r[1], i), rate)
		c.VDIVPS(v, m, m)
		c.VSUBPS(m, w, w)
		c.VMOVUPS(w, at(r[0], i))
	})
	c.end()
}

// If i is a multiple of rowLanes, fetch prefetches one cache line for each of the given rows. The
// line is ahead bytes after entry i.
func (c vectors) fetch(rows []reg.GPVirtual, ahead reg.GPVirtual, i int) {
	if i%rowLanes != 0 {
		return
	}
	for _, r := range rows {
		c.PREFETCHT1(operand.Mem{Base: r, Index: ahead, Scale: 1, Disp: 4 * i})
	}
}

func (c vectors) adagrad() {
	c.begin("Adagrad"+c.set, "func(w, v, gradient *float32, n int, s *float32)",
		`takes a step of Adagrad. With s = rate, epsilon it computes, entry by entry,

	v  = v + gradient·gradient
	w  = w − (rate·gradient)/(√v + epsilon)

Every operation is rounded.`+requires16)
	r, n, s := c.params("w", "v", "gradient"), c.param("n"), c.param("s")
	rate, epsilon := c.broadcast(at(s, 0)), c.broadcast(at(s, 1))
	holds(c.Context, "rate and epsilon in all lanes", rate, epsilon)
	c.entries(r, n, func(i int) {
		w, g := c.load(at(r[0], i)), c.load(at(r[2], i))
		v := c.product(g, g)
		c.VADDPS(at(r[1], i), v, v)
		c.VMOVUPS(v, at(r[1], i))
		c.VSQRTPS(v, v)
		c.VADDPS(epsilon, v, v)
		c.VMULPS(rate, g, g)
		c.VDIVPS(v, g, g)
		c.VSUBPS(g, w, w)
		c.VMOVUPS(w, at(r[0], i))
	})
	c.end()
}

func (c vectors) prefetch() {
	c.begin("PrefetchAVX2", "func(p *float32, lines int)",
		"prefetches consecutive cache lines into L2, starting with the line at p.\n\nRequires lines > 0.")
	p, n := c.param("p"), c.param("lines")
	c.loop("line", n, 1, func() {
		c.PREFETCHT1(operand.Mem{Base: p})
		c.ADDQ(operand.Imm(64), p)
	})
	c.end()
}
