package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakChains independent chains hide the latency of the operations on every port.
const peakChains = 12

// peaks emits, for every comparison, the loop of its operations on registers alone: the ceiling of
// the panel kernel. That of the dot product is the FMA ceiling.
func peaks(c *build.Context) {
	for _, k := range []panel{dotPanel, l1Panel, normPanel, phasePanel} {
		k512, k256 := k, k
		k512.Context, k512.lanes, k512.vec = c, 16, c.ZMM
		k256.Context, k256.lanes, k256.vec = c, 8, c.YMM
		k512.emitPeak("AVX512")
		k256.emitPeak("AVX2")
	}
}

func (c panel) emitPeak(set string) {
	name := c.name + "Peak" + set
	chains := peakChains
	if c.lanes == 8 && c.unit == 2 {
		chains = 8 // 16 registers hold no more
	}
	function(c.Context, name, "func(n int, x *float32)")
	doc(c.Context, fmt.Sprintf(`%s runs n rounds of the operations that %d terms of the %s panel kernel
take for %d candidates each, on registers alone that begin as x[0..%d]: the values matter, since
multiplying zeros takes less power and so runs at a higher frequency. Requires n > 0.`,
		name, chains*c.unit, c.name, c.lanes, 2*c.unit*c.lanes-1))
	n := c.Load(c.Param("n"), c.GP64())
	x := c.Load(c.Param("x"), c.GP64())
	if c.constants != nil {
		c.constants(c)
	}
	load := func(i int) reg.VecVirtual {
		r := c.vec()
		c.VMOVUPS(operand.Mem{Base: x, Disp: i * c.lanes * 4}, r)
		return r
	}
	acc := make([]reg.VecVirtual, chains)
	for i := range acc {
		acc[i] = load(0)
	}
	var q, e []reg.VecVirtual
	for i := range c.unit {
		q, e = append(q, load(2*i)), append(e, load(2*i+1))
	}
	c.Label("round")
	for _, a := range acc {
		c.update(c, q, e, a)
	}
	c.SUBQ(operand.Imm(1), n)
	c.JNE(operand.LabelRef("round"))
	c.VZEROUPPER()
	c.RET()
}
