package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates MatMul8 and MatMulFMA8 for AVX512 and AVX2: eight rows of a product of small
// float64 matrices, in microtiles of 8×8 (AVX512) and 4×8 (AVX2).

const matMulDoc = `%[1]s computes 8 rows of a product of matrices in float64:

	c[i*ld+j] = Σ_t a[i*ld+t]·b[t*ld+j],   i < 8, j < 8·eights, t < k

Every entry is one chain from 0 with t ascending, %[2]s.

Requires k > 0, eights > 0, 8·eights ≤ ld and k ≤ ld. c must not overlap a or b.`

func matMuls(c *build.Context) {
	for _, fused := range []bool{false, true} {
		name, rounding := "MatMul8", "with products and sums rounded separately"
		if fused {
			name, rounding = "MatMulFMA8", "with fused multiply-adds"
		}
		for _, m := range []matMul{{Context: c, lanes: 8, vec: c.ZMM}, {Context: c, lanes: 4, vec: c.YMM}} {
			m.fused = fused
			m.emit(name+map[int]string{8: "AVX512", 4: "AVX2"}[m.lanes], rounding)
		}
	}
}

// matMul emits a kernel. As many rows as fit stay in registers at a time: eight rows of one vector
// in AVX-512, four rows of two vectors in AVX2.
type matMul struct {
	*build.Context
	lanes        int // float64 values in a vector, and rows at a time
	vec          func() reg.VecVirtual
	fused        bool
	dst, a, b, k reg.GPVirtual
	ld, ld3      reg.GPVirtual // in bytes
}

func (c matMul) emit(name, rounding string) {
	function(c.Context, name, "func(c, a, b *float64, k, ld, eights int)")
	doc(c.Context, fmt.Sprintf(matMulDoc, name, rounding))
	c.Pragma("noescape")
	param := func(name string) reg.GPVirtual { return parameter(c.Context, name, c.GP64()) }
	c.dst, c.a, c.b, c.k, c.ld = param("c"), param("a"), param("b"), param("k"), param("ld")
	eights := param("eights")
	c.SHLQ(operand.Imm(3), c.ld)
	c.ld3 = c.GP64()
	c.LEAQ(operand.Mem{Base: c.ld, Index: c.ld, Scale: 2}, c.ld3)

	c.Label("eight")
	for first := 0; first < 8; first += c.lanes {
		c.rows(first)
	}
	c.ADDQ(operand.Imm(64), c.b)
	c.ADDQ(operand.Imm(64), c.dst)
	c.DECQ(eights)
	c.JNE(operand.LabelRef("eight"))
	c.VZEROUPPER()
	c.RET()
}

// rows emits the computation of eight columns of c.lanes rows, from row first on.
func (c matMul) rows(first int) {
	acc := make([][]reg.VecVirtual, c.lanes)
	for i := range acc {
		for range 8 / c.lanes {
			acc[i] = append(acc[i], c.zero())
		}
	}
	a0, b, t := c.GP64(), c.GP64(), c.GP64()
	a := c.addresses(a0, c.a, first)
	c.MOVQ(c.b, b)
	c.MOVQ(c.k, t)
	holds(c.Context, fmt.Sprintf("sums of c[i][0..7] of %d rows", c.lanes), slices.Concat(acc...)...)
	holds(c.Context, "addresses of a[i][t], every fourth row, and of b[t]", append(slices.Clone(a), b)...)

	c.Comment("c[i] += a[i][t]·b[t], with a[i][t] in all lanes")
	label := fmt.Sprintf("term%d", first)
	c.Label(label)
	bs := make([]reg.VecVirtual, 8/c.lanes)
	for v := range bs {
		bs[v] = c.vec()
	}
	holds(c.Context, "b[t][0..7]", bs...)
	for v := range bs {
		c.VMOVUPD(operand.Mem{Base: b, Disp: 8 * c.lanes * v}, bs[v])
	}
	for i := range acc {
		c.multiplyAdd(c.at(a, i, 0), bs, acc[i])
	}
	for _, r := range a {
		c.ADDQ(operand.Imm(8), r)
	}
	c.ADDQ(c.ld, b)
	c.DECQ(t)
	c.JNE(operand.LabelRef(label))

	var dst []reg.GPVirtual
	if c.lanes == 8 {
		dst = []reg.GPVirtual{c.dst, c.GP64()}
		c.LEAQ(operand.Mem{Base: c.dst, Index: c.ld, Scale: 4}, dst[1])
	} else {
		dst = c.addresses(c.GP64(), c.dst, first)
	}
	for i := range acc {
		for v := range acc[i] {
			c.VMOVUPD(acc[i][v], c.at(dst, i, 8*c.lanes*v))
		}
	}
}

func (c matMul) zero() reg.VecVirtual {
	r := c.vec()
	if c.lanes == 8 {
		c.VPXORQ(r, r, r)
	} else {
		c.VXORPD(r, r, r)
	}
	return r
}

// addresses returns the addresses of every fourth row from row first on, given the address of row 0.
// The register r0 receives the address of row first.
func (c matMul) addresses(r0, row0 reg.GPVirtual, first int) []reg.GPVirtual {
	r := []reg.GPVirtual{r0}
	c.MOVQ(row0, r0)
	row4 := operand.Mem{Base: row0, Index: c.ld, Scale: 4}
	if c.lanes == 8 {
		r = append(r, c.GP64())
		c.LEAQ(row4, r[1])
	} else if first == 4 {
		c.LEAQ(row4, r0)
	}
	return r
}

// at returns the memory operand disp bytes into the i-th row, given the registers that addresses
// returned.
func (c matMul) at(addresses []reg.GPVirtual, i, disp int) operand.Mem {
	base := addresses[i/4]
	switch i % 4 {
	case 0:
		return operand.Mem{Base: base, Disp: disp}
	case 3:
		return operand.Mem{Base: base, Index: c.ld3, Scale: 1, Disp: disp}
	}
	return operand.Mem{Base: base, Index: c.ld, Scale: uint8(i % 4), Disp: disp}
}

// multiplyAdd adds the product of value, which is in memory, and vectors[v] to acc[v], for every v.
func (c matMul) multiplyAdd(value operand.Mem, vectors, acc []reg.VecVirtual) {
	if c.lanes == 8 {
		if c.fused {
			c.VFMADD231PD_BCST(value, vectors[0], acc[0])
			return
		}
		p := c.vec()
		c.VMULPD_BCST(value, vectors[0], p)
		c.VADDPD(p, acc[0], acc[0])
		return
	}
	x := c.vec()
	c.VBROADCASTSD(value, x)
	for v := range vectors {
		if c.fused {
			c.VFMADD231PD(x, vectors[v], acc[v])
			continue
		}
		p := c.vec()
		c.VMULPD(x, vectors[v], p)
		c.VADDPD(p, acc[v], acc[v])
	}
}
