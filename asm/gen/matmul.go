package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const matMulDoc = `%[1]s computes 8 rows of a product of matrices in float64:

	c[i*ld+j] = Σ_t a[i*ld+t]·b[t*ld+j],   i < 8, j < 8·groups, t < k

Every entry is one chain from 0 with t ascending, %[2]s.
Requires k > 0, groups > 0, 8·groups ≤ ld and k ≤ ld; c overlaps neither a nor b.`

func matMuls(c *build.Context) {
	for _, fused := range []bool{false, true} {
		name, rounding := "MatMul8", "product and sum rounded separately"
		if fused {
			name, rounding = "MatMulFMA8", "fused multiply-adds"
		}
		emitMatMul(c, name+"AVX512", rounding, fused, 8)
		emitMatMul(c, name+"AVX2", rounding, fused, 4)
	}
}

func emitMatMul(c *build.Context, name, rounding string, fused bool, lanes int) {
	function(c, name, "func(c, a, b *float64, k, ld, groups int)")
	doc(c, fmt.Sprintf(matMulDoc, name, rounding))
	c.Pragma("noescape")
	dst := parameter(c, "c", c.GP64())
	a := parameter(c, "a", c.GP64())
	b := parameter(c, "b", c.GP64())
	k := parameter(c, "k", c.GP64())
	ld := parameter(c, "ld", c.GP64())
	groups := parameter(c, "groups", c.GP64())
	c.SHLQ(operand.Imm(3), ld)
	ld3 := c.GP64()
	c.LEAQ(operand.Mem{Base: ld, Index: ld, Scale: 2}, ld3)

	// Rows 0..3 of a strip are at base, base+ld, base+2ld, base+3ld.
	row := func(base reg.Register, i, disp int) operand.Mem {
		switch i {
		case 0:
			return operand.Mem{Base: base, Disp: disp}
		case 3:
			return operand.Mem{Base: base, Index: ld3, Scale: 1, Disp: disp}
		}
		return operand.Mem{Base: base, Index: ld, Scale: uint8(i), Disp: disp}
	}
	pa, pb, t := c.GP64(), c.GP64(), c.GP64()
	c.Label("group")
	if lanes == 8 {
		pa4 := c.GP64()
		acc := make([]reg.VecVirtual, 8)
		for i := range acc {
			acc[i] = c.ZMM()
			c.VPXORQ(acc[i], acc[i], acc[i])
		}
		c.MOVQ(a, pa)
		c.LEAQ(operand.Mem{Base: a, Index: ld, Scale: 4}, pa4)
		c.MOVQ(b, pb)
		c.MOVQ(k, t)
		holds(c, "sums of c[i][0..7]", acc...)
		holds(c, "a[i][t] of rows 0–3 and 4–7, b[t]", pa, pa4, pb)
		c.Comment("c[i] += a[i][t]·b[t], a[i][t] in all lanes")
		c.Label("term")
		vb := c.ZMM()
		holds(c, "b[t][0..7]", vb)
		c.VMOVUPD(operand.Mem{Base: pb}, vb)
		for i := range acc {
			base := reg.Register(pa)
			if i >= 4 {
				base = pa4
			}
			m := row(base, i%4, 0)
			if fused {
				c.VFMADD231PD_BCST(m, vb, acc[i])
			} else {
				p := c.ZMM()
				c.VMULPD_BCST(m, vb, p)
				c.VADDPD(p, acc[i], acc[i])
			}
		}
		c.ADDQ(operand.Imm(8), pa)
		c.ADDQ(operand.Imm(8), pa4)
		c.ADDQ(ld, pb)
		c.DECQ(t)
		c.JNE(operand.LabelRef("term"))
		pd4 := c.GP64()
		c.LEAQ(operand.Mem{Base: dst, Index: ld, Scale: 4}, pd4)
		for i := range acc {
			base := reg.Register(dst)
			if i >= 4 {
				base = pd4
			}
			c.VMOVUPD(acc[i], row(base, i%4, 0))
		}
	} else {
		for half := range 2 {
			var acc [4][2]reg.VecVirtual
			for i := range acc {
				for v := range acc[i] {
					acc[i][v] = c.YMM()
					c.VXORPD(acc[i][v], acc[i][v], acc[i][v])
				}
			}
			c.MOVQ(a, pa)
			if half == 1 {
				c.LEAQ(operand.Mem{Base: a, Index: ld, Scale: 4}, pa)
			}
			c.MOVQ(b, pb)
			c.MOVQ(k, t)
			label := fmt.Sprintf("term%d", half)
			for _, sums := range acc {
				holds(c, "sums of c[i][0..7] of four rows", sums[:]...)
			}
			holds(c, "a[i][t] of four rows, b[t]", pa, pb)
			c.Comment("c[i] += a[i][t]·b[t], a[i][t] in all lanes")
			c.Label(label)
			vb := [2]reg.VecVirtual{c.YMM(), c.YMM()}
			for v := range vb {
				c.VMOVUPD(operand.Mem{Base: pb, Disp: 32 * v}, vb[v])
			}
			for i := range acc {
				va := c.YMM()
				c.VBROADCASTSD(row(pa, i, 0), va)
				for v := range vb {
					if fused {
						c.VFMADD231PD(va, vb[v], acc[i][v])
					} else {
						p := c.YMM()
						c.VMULPD(va, vb[v], p)
						c.VADDPD(p, acc[i][v], acc[i][v])
					}
				}
			}
			c.ADDQ(operand.Imm(8), pa)
			c.ADDQ(ld, pb)
			c.DECQ(t)
			c.JNE(operand.LabelRef(label))
			pd := c.GP64()
			c.MOVQ(dst, pd)
			if half == 1 {
				c.LEAQ(operand.Mem{Base: dst, Index: ld, Scale: 4}, pd)
			}
			for i := range acc {
				for v := range acc[i] {
					c.VMOVUPD(acc[i][v], row(pd, i, 32*v))
				}
			}
		}
	}
	c.ADDQ(operand.Imm(64), b)
	c.ADDQ(operand.Imm(64), dst)
	c.DECQ(groups)
	c.JNE(operand.LabelRef("group"))
	c.VZEROUPPER()
	c.RET()
}
