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

A sum is one chain of fused multiply-adds from 0 with t ascending. If plus is nil, nothing is added to it.

Requires k > 0, eights > 0 and 8·eights ≤ ld. c must not overlap a or b; it may be plus.`

// strips32 emits the kernels of both instruction sets: as many rows, and up to three vectors of
// columns, as the registers hold.
func strips32(c *build.Context) {
	eachSet(c, func(c vectors) {
		if c.lanes == 16 {
			c.strip32(8, []int{6, 5, 4, 3, 2, 1})
		} else {
			c.strip32(4, []int{3, 2, 1})
		}
	})
}

// strip32 emits the kernel for n rows. widths lists the widths of its microtiles, in eights of
// columns, widest first. The last eight of an odd width uses half of a vector in AVX-512.
func (c vectors) strip32(n int, widths []int) {
	c.begin(fmt.Sprintf("MatMulStrip%d%s", n, c.set),
		"func(c, a *float32, aRow, aTerm int, b *float32, k, ld, eights int, plus *float32)",
		fmt.Sprintf(strip32Doc, n))
	dst, b := c.param("c"), c.param("b")
	ld, left := c.bytes("ld"), c.param("eights")
	aRow := c.bytes("aRow")
	// avo believes that clearing a 512-bit register reads it, so that the accumulators of all
	// widths would be live from the beginning. Copy zeros into them instead.
	var blank reg.VecVirtual
	if c.lanes == 16 {
		blank = c.zero()
	}
	type part struct {
		at   int // its first column
		half bool
	}
	register := func(p part) reg.VecVirtual {
		if p.half {
			return c.YMM()
		}
		return c.vec()
	}
	accumulator := func(p part) reg.VecVirtual {
		if blank == nil {
			return c.zero()
		}
		r := register(p)
		if p.half {
			c.VMOVAPS(blank.AsY(), r)
		} else {
			c.VMOVAPS(blank, r)
		}
		return r
	}
	label := func(name string, eights int) string { return fmt.Sprintf("%s%d", name, eights) }
	most := widths[0]
	c.Label("next")
	for _, eights := range widths[1:] {
		c.CMPQ(left, operand.Imm(uint64(eights)))
		c.JEQ(operand.LabelRef(label("width", eights)))
	}
	c.Comment("Prefer two microtiles of equal width to a wide and a narrow one")
	c.CMPQ(left, operand.Imm(uint64(most+most/3)))
	c.JEQ(operand.LabelRef(label("width", most/3*2)))
	for _, eights := range widths {
		var parts []part
		for at := 0; at < 8*eights; at += c.lanes {
			parts = append(parts, part{at, at+c.lanes > 8*eights})
		}
		c.Label(label("width", eights))
		acc := make([][]reg.VecVirtual, n)
		for i := range acc {
			for _, p := range parts {
				acc[i] = append(acc[i], accumulator(p))
			}
		}
		// Narrower microtiles use some of these registers, so that one line in the register map is
		// enough.
		if eights == most {
			holds(c.Context, "sums of c[i][j]", slices.Concat(acc...)...)
		}
		c.Comment(fmt.Sprintf("%d columns: c[i][j] += a[i][t]·b[t][j], with a[i][t] in all lanes", 8*eights))
		a := c.rows(c.param("a"), aRow, n)
		t, pb := c.param("k"), c.GP64()
		c.MOVQ(b, pb)
		aTerm := c.bytes("aTerm")
		c.loop(label("term", eights), t, 1, func() {
			var bs []reg.VecVirtual
			for _, p := range parts {
				r := register(p)
				c.VMOVUPS(at(pb, p.at), r)
				bs = append(bs, r)
			}
			for i := range n {
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
			c.ADDQ(ld, pb)
		})
		out, first := c.GP64(), c.param("c")
		plus := c.param("plus")
		c.TESTQ(plus, plus)
		c.JEQ(operand.LabelRef(label("store", eights)))
		c.MOVQ(dst, out)
		c.SUBQ(first, out)
		c.ADDQ(plus, out)
		for i := range n {
			for v, p := range parts {
				c.VADDPS(at(out, p.at), acc[i][v], acc[i][v])
			}
			c.ADDQ(ld, out)
		}
		c.Label(label("store", eights))
		c.MOVQ(dst, out)
		for i := range n {
			for v, p := range parts {
				c.VMOVUPS(acc[i][v], at(out, p.at))
			}
			c.ADDQ(ld, out)
		}
		c.ADDQ(operand.U32(uint32(4*8*eights)), b)
		c.ADDQ(operand.U32(uint32(4*8*eights)), dst)
		c.SUBQ(operand.Imm(uint64(eights)), left)
		c.JNE(operand.LabelRef("next"))
		if eights > 1 {
			c.JMP(operand.LabelRef("done"))
		}
	}
	c.Label("done")
	c.end()
}
