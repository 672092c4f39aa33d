package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const strip32Doc = `computes %[1]d rows of a product of small matrices in float32:

	c[i*ld+j] = Σ_t a[i*aRow+t*aTerm]·b[t*ld+j],   i < %[1]d, j < %[2]d·vectors, t < k

Every entry is one chain of fused multiply-adds from 0 with t ascending; if add is not 0, it is
added to the entry of c that was there. Requires k > 0, vectors > 0, %[2]d·vectors ≤ ld; c overlaps
neither a nor b.`

// strips32 emits strips of products of small matrices: as many rows and, of the columns, up to
// three vectors at a time as the registers hold.
func strips32(c *build.Context) {
	eachSet(c, func(c vectors) {
		rows := 4
		if c.lanes == 16 {
			rows = 8
		}
		c.strip32(rows)
	})
}

func (c vectors) strip32(n int) {
	c.begin(fmt.Sprintf("MatMulStrip%d%s", n, c.set), "func(c, a *float32, aRow, aTerm int, b *float32, k, ld, vectors, add int)",
		fmt.Sprintf(strip32Doc, n, c.lanes))
	dst, b := c.param("c"), c.param("b")
	ld, left := c.bytes("ld"), c.param("vectors")
	aRow := c.bytes("aRow")
	// Copied into accumulators, since avo takes clearing a 512-bit register for reading it: those of
	// all groups would want registers from the beginning.
	var blank reg.VecVirtual
	if c.lanes == 16 {
		blank = c.zero()
	}
	accumulator := func() reg.VecVirtual {
		if blank == nil {
			return c.zero()
		}
		r := c.vec()
		c.VMOVAPS(blank, r)
		return r
	}
	c.Label("next")
	c.CMPQ(left, operand.Imm(1))
	c.JEQ(operand.LabelRef("group1"))
	for _, even := range []uint64{2, 4} {
		c.CMPQ(left, operand.Imm(even))
		c.JEQ(operand.LabelRef("group2"))
	}
	for _, columns := range []int{3, 2, 1} {
		c.Label(fmt.Sprintf("group%d", columns))
		acc := make([][]reg.VecVirtual, n)
		for i := range acc {
			for range columns {
				acc[i] = append(acc[i], accumulator())
			}
		}
		a := c.rows(c.param("a"), aRow, n)
		t, pb := c.param("k"), c.GP64()
		c.MOVQ(b, pb)
		aTerm := c.bytes("aTerm")
		c.loop(fmt.Sprintf("term%d", columns), t, 1, func() {
			var bs []reg.VecVirtual
			for v := range columns {
				bs = append(bs, c.load(at(pb, v*c.lanes)))
			}
			for i := range n {
				x := c.broadcast(a.at(i, 0))
				for v := range columns {
					c.VFMADD231PS(bs[v], x, acc[i][v])
				}
			}
			a.advance(aTerm)
			c.ADDQ(ld, pb)
		})
		out := c.GP64()
		add := c.param("add")
		store := fmt.Sprintf("store%d", columns)
		c.TESTQ(add, add)
		c.JEQ(operand.LabelRef(store))
		c.MOVQ(dst, out)
		for i := range n {
			for v, s := range acc[i] {
				c.VADDPS(at(out, v*c.lanes), s, s)
			}
			c.ADDQ(ld, out)
		}
		c.Label(store)
		c.MOVQ(dst, out)
		for i := range n {
			for v, s := range acc[i] {
				c.VMOVUPS(s, at(out, v*c.lanes))
			}
			c.ADDQ(ld, out)
		}
		c.ADDQ(operand.U32(uint32(4*columns*c.lanes)), b)
		c.ADDQ(operand.U32(uint32(4*columns*c.lanes)), dst)
		c.SUBQ(operand.Imm(uint64(columns)), left)
		c.JNE(operand.LabelRef("next"))
		if columns > 1 {
			c.JMP(operand.LabelRef("done"))
		}
	}
	c.Label("done")
	c.end()
}
