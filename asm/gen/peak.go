package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakChains independent chains hide the latency of the FMA on every port.
const peakChains = 12

func peaks(c *build.Context) {
	emitPeak(c, "FMAPeakAVX512", c.ZMM, 16)
	emitPeak(c, "FMAPeakAVX2", c.YMM, 8)
}

func emitPeak(c *build.Context, name string, vec func() reg.VecVirtual, lanes int) {
	function(c, name, "func(n int)")
	doc(c, fmt.Sprintf(`%s runs n rounds of %d independent float32 FMA on registers alone: 2·%d·%d·n operations.
Its rate is the ceiling of every kernel of this instruction set. Requires n > 0.`, name, peakChains, peakChains, lanes))
	n := c.Load(c.Param("n"), c.GP64())
	acc := make([]reg.VecVirtual, peakChains)
	for i := range acc {
		acc[i] = vec()
		c.VXORPS(acc[i].AsX(), acc[i].AsX(), acc[i].AsX())
	}
	x := vec()
	c.VXORPS(x.AsX(), x.AsX(), x.AsX())
	c.Label("round")
	for _, a := range acc {
		c.VFMADD231PS(x, x, a)
	}
	c.DECQ(n)
	c.JNE(operand.LabelRef("round"))
	c.VZEROUPPER()
	c.RET()
}
