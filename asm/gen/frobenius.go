package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates FrobeniusColumnsAVX512 and FrobeniusColumnsAVX2: sums of squares down eight
// columns of a small float64 matrix at a time.

const frobeniusDoc = `%s sums squares down the columns of (P − Q) + X in float64:

	out[j] = Σ_i D_ij²,  D_ij = (p[i*ld+j] − q[i*ld+j]) + x[i*ld+j],   i < rows, j < 8·eights

A sum is one chain from 0 with i ascending. Every operation is rounded.

Requires rows > 0, eights > 0, 8·eights ≤ ld.`

func frobeniusColumns(c *build.Context) {
	emitFrobenius(c, "FrobeniusColumnsAVX512", 8)
	emitFrobenius(c, "FrobeniusColumnsAVX2", 4)
}

func emitFrobenius(c *build.Context, name string, lanes int) {
	vec := c.ZMM
	if lanes == 4 {
		vec = c.YMM
	}
	function(c, name, "func(p, q, x, out *float64, rows, ld, eights int)")
	doc(c, fmt.Sprintf(frobeniusDoc, name))
	c.Pragma("noescape")
	p := parameter(c, "p", c.GP64())
	q := parameter(c, "q", c.GP64())
	x := parameter(c, "x", c.GP64())
	out := parameter(c, "out", c.GP64())
	rows := parameter(c, "rows", c.GP64())
	ld := parameter(c, "ld", c.GP64())
	eights := parameter(c, "eights", c.GP64())
	c.SHLQ(operand.Imm(3), ld)

	c.Label("eight")
	acc := make([]reg.VecVirtual, 8/lanes)
	for v := range acc {
		acc[v] = vec()
		c.VXORPD(acc[v].AsX(), acc[v].AsX(), acc[v].AsX()) // clears the whole register
	}
	holds(c, "sums of eight columns", acc...)
	i, off := c.GP64(), c.GP64()
	holds(c, "rows left, and the offset of the row in bytes", i, off)
	c.MOVQ(rows, i)
	c.XORQ(off, off)
	c.Comment("out[j] += ((p[i][j] − q[i][j]) + x[i][j])²")
	c.Label("row")
	for v := range acc {
		at := func(base reg.Register) operand.Mem {
			return operand.Mem{Base: base, Index: off, Scale: 1, Disp: 8 * lanes * v}
		}
		d := vec()
		c.VMOVUPD(at(p), d)
		c.VSUBPD(at(q), d, d)
		c.VADDPD(at(x), d, d)
		c.VMULPD(d, d, d)
		c.VADDPD(d, acc[v], acc[v])
	}
	c.ADDQ(ld, off)
	c.DECQ(i)
	c.JNE(operand.LabelRef("row"))
	for v := range acc {
		c.VMOVUPD(acc[v], operand.Mem{Base: out, Disp: 8 * lanes * v})
	}
	for _, r := range []reg.Register{p, q, x, out} {
		c.ADDQ(operand.Imm(64), r)
	}
	c.DECQ(eights)
	c.JNE(operand.LabelRef("eight"))
	c.VZEROUPPER()
	c.RET()
}
