package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates MatMulStrip8AVX512 and MatMulStrip4AVX2: a few rows of a product of small
// float32 matrices, in microtiles of 8×48 and 4×24 or narrower.

const strip32Doc = `computes %[1]d rows of a product of small matrices in float32:

	c[i*ld+j] = Σ_t a[i*aRow+t*aTerm]·b[t*ld+j] + plus[i*ld+j],   i < %[1]d, j < 8·eights, t < k

A sum is one chain of fused multiply-adds from 0 with t ascending. If plus is nil, c receives the sums alone.

Requires k > 0, eights > 0 and 8·eights ≤ ld. c must not overlap a or b; c and plus may be the same matrix.`

// strips32 emits the kernels of both instruction sets. Their microtiles have up to three vectors of
// columns, and as many rows as the registers hold.
func strips32(c *build.Context) {
	eachSet(c, func(c vectors) {
		if c.lanes == 16 {
			strip32{vectors: c, n: 8}.emit([]int{6, 5, 4, 3, 2, 1})
		} else {
			strip32{vectors: c, n: 4}.emit([]int{3, 2, 1})
		}
	})
}

// strip32 is a kernel for n rows.
type strip32 struct {
	vectors
	n                     int
	dst, b, ld, left, row reg.GPVirtual // row is the distance in bytes between rows of a
	blank                 reg.VecVirtual
}

// columns describes the columns of a microtile that one vector, or half a vector, holds.
type columns struct {
	at   int // the first column
	half bool
}

// emit emits the kernel. widths lists the widths of its microtiles, in units of eight columns,
// widest first. In AVX-512, the last eight columns of an odd width use half a vector.
func (c strip32) emit(widths []int) {
	c.begin(fmt.Sprintf("MatMulStrip%d%s", c.n, c.set),
		"func(c, a *float32, aRow, aTerm int, b *float32, k, ld, eights int, plus *float32)",
		fmt.Sprintf(strip32Doc, c.n))
	c.dst, c.b = c.param("c"), c.param("b")
	c.ld, c.left = c.bytes("ld"), c.param("eights")
	c.row = c.bytes("aRow")
	// avo believes that clearing a 512-bit register reads it, so the accumulators of all
	// widths would be live from the beginning. Copy zeros into them instead.
	if c.lanes == 16 {
		c.blank = c.zero()
	}
	most := widths[0]
	c.Label("next")
	for _, eights := range widths[1:] {
		c.CMPQ(c.left, operand.Imm(uint64(eights)))
		c.JEQ(operand.LabelRef(numberedLabel("width", eights)))
	}
	c.Comment("Prefer two microtiles of equal width to a wide and a narrow one")
	c.CMPQ(c.left, operand.Imm(uint64(most+most/3)))
	c.JEQ(operand.LabelRef(numberedLabel("width", most/3*2)))
	for _, eights := range widths {
		// Narrower microtiles use some of the registers of the widest, so one line in the register
		// map is enough.
		c.microtile(eights, eights == most)
		c.ADDQ(operand.U32(uint32(4*8*eights)), c.b)
		c.ADDQ(operand.U32(uint32(4*8*eights)), c.dst)
		c.SUBQ(operand.Imm(uint64(eights)), c.left)
		c.JNE(operand.LabelRef("next"))
		if eights > 1 {
			c.JMP(operand.LabelRef("done"))
		}
	}
	c.Label("done")
	c.end()
}

func numberedLabel(name string, n int) string { return fmt.Sprintf("%s%d", name, n) }

// microtile emits the computation of a microtile of 8·eights columns. If mapped is set, it adds the
// registers of the sums to the register map.
func (c strip32) microtile(eights int, mapped bool) {
	var parts []columns
	for at := 0; at < 8*eights; at += c.lanes {
		parts = append(parts, columns{at, at+c.lanes > 8*eights})
	}
	c.Label(numberedLabel("width", eights))
	acc := make([][]reg.VecVirtual, c.n)
	for i := range acc {
		for _, p := range parts {
			acc[i] = append(acc[i], c.accumulator(p))
		}
	}
	if mapped {
		holds(c.Context, "sums of c[i][j]", slices.Concat(acc...)...)
	}
	c.Comment(fmt.Sprintf("%d columns: c[i][j] += a[i][t]·b[t][j], with a[i][t] in all lanes", 8*eights))
	a := c.rows(c.param("a"), c.row, c.n)
	t, b := c.param("k"), c.GP64()
	c.MOVQ(c.b, b)
	aTerm := c.bytes("aTerm")
	c.loop(numberedLabel("term", eights), t, 1, func() {
		var bs []reg.VecVirtual
		for _, p := range parts {
			r := c.register(p)
			c.VMOVUPS(at(b, p.at), r)
			bs = append(bs, r)
		}
		for i := range c.n {
			x := c.broadcast(a.at(i, 0))
			for v, p := range parts {
				if p.half {
					c.VFMADD231PS(bs[v], x.AsY(), acc[i][v])
				} else {
					c.VFMADD231PS(bs[v], x, acc[i][v])
				}
			}
		}
		a.advance(aTerm)
		c.ADDQ(c.ld, b)
	})
	c.addAndStore(eights, parts, acc)
}

// addAndStore adds plus, unless it is nil, to the sums of a microtile and stores the sums.
func (c strip32) addAndStore(eights int, parts []columns, acc [][]reg.VecVirtual) {
	out, first := c.GP64(), c.param("c")
	plus := c.param("plus")
	each := func(f func(m operand.Mem, sum reg.VecVirtual)) {
		for i := range c.n {
			for v, p := range parts {
				f(at(out, p.at), acc[i][v])
			}
			c.ADDQ(c.ld, out)
		}
	}
	c.TESTQ(plus, plus)
	c.JEQ(operand.LabelRef(numberedLabel("store", eights)))
	c.MOVQ(c.dst, out)
	c.SUBQ(first, out)
	c.ADDQ(plus, out)
	each(func(m operand.Mem, sum reg.VecVirtual) { c.VADDPS(m, sum, sum) })
	c.Label(numberedLabel("store", eights))
	c.MOVQ(c.dst, out)
	each(func(m operand.Mem, sum reg.VecVirtual) { c.VMOVUPS(sum, m) })
}

func (c strip32) register(p columns) reg.VecVirtual {
	if p.half {
		return c.YMM()
	}
	return c.vec()
}

func (c strip32) accumulator(p columns) reg.VecVirtual {
	if c.blank == nil {
		return c.zero()
	}
	r := c.register(p)
	if p.half {
		c.VMOVAPS(c.blank.AsY(), r)
	} else {
		c.VMOVAPS(c.blank, r)
	}
	return r
}
