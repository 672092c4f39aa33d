package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates SumWordsAVX512 and SumWordsAVX2, the loops that measure memory bandwidth.

// sumVectors is the number of vectors that a round reads. Each is added to a separate sum.
const sumVectors = 8

// sums emits a loop that reads memory as fast as the processor can. Its rate is the bandwidth of
// the level of memory that holds the words. The loop adds up the words, so tests can check the
// result. Additions are cheaper than loads.
func sums(c *build.Context) {
	emitSum(c, "AVX512", 8, c.ZMM)
	emitSum(c, "AVX2", 4, c.YMM)
}

func emitSum(c *build.Context, set string, lanes int, vec func() reg.VecVirtual) {
	name := "SumWords" + set
	function(c, name, "func(p *uint64, n int, out *uint64)")
	doc(c, fmt.Sprintf(`%s adds the n words at p to %d sums, modulo 2⁶⁴: out[i] += Σ_j p[%[2]dj + i].

Requires n to be a positive multiple of %[3]d.`, name, lanes, lanes*sumVectors))
	c.Pragma("noescape")
	p := parameter(c, "p", c.GP64())
	n := parameter(c, "n", c.GP64())
	out := parameter(c, "out", c.GP64())
	acc := make([]reg.VecVirtual, sumVectors)
	for v := range acc {
		acc[v] = vec()
		c.VXORPD(acc[v].AsX(), acc[v].AsX(), acc[v].AsX()) // clears the whole register
	}
	holds(c, "sums", acc...)
	c.Label("round")
	for v, a := range acc {
		c.VPADDQ(operand.Mem{Base: p, Disp: 8 * lanes * v}, a, a)
	}
	c.ADDQ(operand.U32(8*lanes*sumVectors), p)
	c.SUBQ(operand.U32(lanes*sumVectors), n)
	c.JNE(operand.LabelRef("round"))
	for v := 1; v < sumVectors; v++ {
		c.VPADDQ(acc[v], acc[0], acc[0])
	}
	c.VPADDQ(operand.Mem{Base: out}, acc[0], acc[0])
	c.VMOVUPS(acc[0], operand.Mem{Base: out})
	c.VZEROUPPER()
	c.RET()
}
