package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the kernels that score one query against single candidates. PairDot, PairL1,
// PairNorm, PairPhase and PairGroupNorm (groups.go) compute in float64, for AVX512 and AVX2.
// PairInt8, for AVX512VNNI and AVXVNNI, and PairInt16L1 (codes_l1.go) are their counterparts for codes.

const pairDoc = `%[1]s compares one row with listed rows of a table, in float64 from the float32 entries:

	out[i] = Σ_t f(x[t], table[ids[i]*stride+t]),   t < n, i < count
	%[2]s

Term t goes to lane t mod 32. With lane sums a[0..31], and i < 8, then < 4, < 2:
s[i] = (a[i] + a[8+i]) + (a[16+i] + a[24+i]), s[i] += s[i+4], s[i] += s[i+2], out = s[0] + s[1].

Requires n to be a positive multiple of 32, and count > 0.`

// pair is a float64 comparison of rows. term computes the terms of the entries a, from x, and b,
// from a row, and adds them to acc.
type pair struct {
	name, formula string
	masked        bool // term needs the sign mask
	term          func(c *build.Context, k pairKernel, a, b, acc reg.VecVirtual)
}

type pairKernel struct {
	vec      func() reg.VecVirtual
	signMask reg.VecVirtual
}

func pairs(c *build.Context) {
	for _, p := range []pair{
		{"Dot", "f(x, y) = x·y: products of float32 are exact in float64, so fused and separate rounding agree", false,
			func(c *build.Context, _ pairKernel, a, b, acc reg.VecVirtual) { c.VFMADD231PD(a, b, acc) }},
		{"L1", "f(x, y) = −|x − y|", true,
			func(c *build.Context, k pairKernel, a, b, acc reg.VecVirtual) {
				c.VSUBPD(b, a, a)
				c.VANDPD(k.signMask, a, a)
				c.VSUBPD(a, acc, acc)
			}},
		{"Norm", "f = −√(d₀² + d₁²), where d₀ and d₁ are the differences of a pair of entries, every operation\n" +
			"\trounded. Both entries of a pair contribute f, so out is twice the sum over pairs.", false,
			func(c *build.Context, k pairKernel, a, b, acc reg.VecVirtual) {
				c.VSUBPD(b, a, a)
				c.VMULPD(a, a, a)
				c.VPERMILPD(operand.Imm(0x55), a, b)
				c.VADDPD(b, a, a)
				c.VSQRTPD(a, a)
				c.VSUBPD(a, acc, acc)
			}},
		{"Phase", "f = −|x₀y₀ + x₁y₁| for a pair of entries, every operation rounded. Both entries of a pair\n" +
			"\tcontribute f, so out is twice the sum over pairs.", true,
			func(c *build.Context, k pairKernel, a, b, acc reg.VecVirtual) {
				c.VMULPD(b, a, a)
				c.VPERMILPD(operand.Imm(0x55), a, b)
				c.VADDPD(b, a, a)
				c.VANDPD(k.signMask, a, a)
				c.VSUBPD(a, acc, acc)
			}},
	} {
		p.emit(c, "AVX512", 8)
		p.emit(c, "AVX2", 4)
	}
	pairGroupNorm(c, "AVX512", 8)
	pairGroupNorm(c, "AVX2", 4)
	eachVNNISet(c, pairInt8)
	eachSet(c, pairInt16L1)
}

const pairInt8Doc = `%[1]s computes the dot products of one row of signed bytes with listed rows of unsigned bytes:

	out[i] = Σ_t x[t]·table[ids[i]*stride+t],   t < n, i < count

They are exact in int32. x, n, table and stride are in words of four bytes.

Requires n to be a positive multiple of 64, and count > 0.`

func pairInt8(c vectors) {
	const chains = 4 // at least one for each cycle of an addition's latency
	name := "PairInt8" + c.set
	function(c.Context, name, "func(x *uint32, n int, table *uint32, stride int, ids *int32, count int, out *int32)")
	doc(c.Context, fmt.Sprintf(pairInt8Doc, name))
	c.Pragma("noescape")
	r := loadPair(c.Context)

	c.Label("row")
	row, t := r.next(c.Context)
	accs := make([]reg.VecVirtual, chains)
	for i := range accs {
		accs[i] = c.zero()
	}
	holds(c.Context, fmt.Sprintf("sums of words t with t/%d mod 4 = 0, 1, 2, 3", c.lanes), accs...)
	c.Comment("Accumulate: a word has four bytes of x and of the row; the sums are int32")
	c.Label("terms")
	for i, acc := range accs {
		words := func(row reg.Register) operand.Mem {
			return operand.Mem{Base: row, Index: t, Scale: 4, Disp: 4 * c.lanes * i}
		}
		e := c.load(words(row))
		holds(c.Context, "words of the row", e)
		if c.lanes == 16 {
			c.VPDPBUSD(words(r.x), e, acc)
		} else {
			c.addBytes(c.load(words(r.x)), e, acc)
		}
	}
	c.ADDQ(operand.Imm(uint64(c.lanes*chains)), t)
	c.CMPQ(t, r.n)
	c.JLT(operand.LabelRef("terms"))

	c.finishRow(accs, r)
}

// pairArguments are the arguments of a pair kernel. stride is in bytes.
type pairArguments struct{ x, n, table, stride, ids, count, out reg.Register }

func loadPair(c *build.Context) pairArguments {
	load := func(name string) reg.Register { return parameter(c, name, c.GP64()) }
	r := pairArguments{load("x"), load("n"), load("table"), load("stride"), load("ids"), load("count"), load("out")}
	c.SHLQ(operand.Imm(2), r.stride)
	return r
}

// next loads the address of the next row, and an index that begins at 0.
func (r pairArguments) next(c *build.Context) (row, t reg.GPVirtual) {
	c.Comment("The next row: table + ids[i]*stride")
	row, t = c.GP64(), c.GP64()
	holds(c, "address of the row, and term t", row, t)
	c.MOVLQSX(operand.Mem{Base: r.ids}, row)
	c.IMULQ(r.stride, row)
	c.ADDQ(r.table, row)
	c.XORQ(t, t)
	return row, t
}

// finishRow ends the loop over the rows. It stores the sum of the lanes of four accumulators, which are int32.
func (c vectors) finishRow(accs []reg.VecVirtual, r pairArguments) {
	c.Comment("Add the chains, then the halves of the lanes")
	c.VPADDD(accs[1], accs[0], accs[0])
	c.VPADDD(accs[3], accs[2], accs[2])
	c.VPADDD(accs[2], accs[0], accs[0])
	storeSum(c.Context, accs[0], c.lanes, r)
	c.ADDQ(operand.Imm(4), r.ids)
	c.ADDQ(operand.Imm(4), r.out)
	c.DECQ(r.count)
	c.JNE(operand.LabelRef("row"))
	c.end()
}

// storeSum stores the sum of the lanes of acc, which are int32.
func storeSum(c *build.Context, acc reg.VecVirtual, lanes int, r pairArguments) {
	s, hi := acc.AsX(), c.XMM()
	if lanes == 16 {
		y := c.YMM()
		c.VEXTRACTI64X4(operand.Imm(1), acc, y)
		c.VPADDD(y, acc.AsY(), acc.AsY())
	}
	c.VEXTRACTI128(operand.Imm(1), acc.AsY(), hi)
	c.VPADDD(hi, s, s)
	c.VPSHUFD(operand.Imm(0x4e), s, hi)
	c.VPADDD(hi, s, s)
	c.VPSHUFD(operand.Imm(0xb1), s, hi)
	c.VPADDD(hi, s, s)
	c.VMOVD(s, operand.Mem{Base: r.out})
}

func (p pair) emit(c *build.Context, set string, lanes int) {
	k := pairKernel{vec: c.ZMM}
	if lanes == 4 {
		k.vec = c.YMM
	}
	const width = 32
	vectors := width / lanes
	name := "Pair" + p.name + set
	function(c, name, "func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float64)")
	doc(c, fmt.Sprintf(pairDoc, name, p.formula))
	c.Pragma("noescape")
	r := loadPair(c)
	if p.masked {
		k.signMask = k.vec()
		if lanes == 8 {
			c.VPTERNLOGQ(operand.Imm(0xff), k.signMask, k.signMask, k.signMask)
		} else {
			c.VPCMPEQQ(k.signMask, k.signMask, k.signMask)
		}
		c.VPSRLQ(operand.Imm(1), k.signMask, k.signMask)
		holds(c, "sign mask: all bits but the sign", k.signMask)
	}

	c.Label("row")
	row, t := r.next(c)
	acc := make([]reg.VecVirtual, vectors)
	for v := range acc {
		acc[v] = k.vec()
		c.VXORPD(acc[v].AsX(), acc[v].AsX(), acc[v].AsX()) // clears the whole register
	}
	c.Label("terms")
	holds(c, "sums of the 32 lanes", acc...)
	c.Comment("Accumulate: lane l adds up the terms t with t mod 32 = l")
	for v := range acc {
		a, b := k.vec(), k.vec()
		holds(c, "x[t] in float64, then its term", a)
		holds(c, "table[ids[i]*stride+t] in float64", b)
		c.VCVTPS2PD(operand.Mem{Base: r.x, Index: t, Scale: 4, Disp: 4 * lanes * v}, a)
		c.VCVTPS2PD(operand.Mem{Base: row, Index: t, Scale: 4, Disp: 4 * lanes * v}, b)
		p.term(c, k, a, b, acc[v])
	}
	c.ADDQ(operand.Imm(width), t)
	c.CMPQ(t, r.n)
	c.JLT(operand.LabelRef("terms"))

	c.Comment("Add the lanes: s[i] = (a[i] + a[8+i]) + (a[16+i] + a[24+i]), then the halves of s, three times")
	per := 8 / lanes // registers that hold 8 lanes
	for g := range per {
		c.VADDPD(acc[per+g], acc[g], acc[g])
		c.VADDPD(acc[3*per+g], acc[2*per+g], acc[2*per+g])
		c.VADDPD(acc[2*per+g], acc[g], acc[g])
	}
	upper := acc[1]
	if lanes == 8 {
		upper = c.YMM()
		c.VEXTRACTF64X4(operand.Imm(1), acc[0], upper)
	}
	s, s2, hi := acc[0].AsY(), acc[0].AsX(), c.XMM()
	c.VADDPD(upper, s, s)
	c.VEXTRACTF128(operand.Imm(1), s, hi)
	c.VADDPD(hi, s2, s2)
	c.VUNPCKHPD(s2, s2, hi)
	c.VADDSD(hi, s2, s2)
	c.VMOVSD(s2, operand.Mem{Base: r.out})
	c.ADDQ(operand.Imm(4), r.ids)
	c.ADDQ(operand.Imm(8), r.out)
	c.DECQ(r.count)
	c.JNE(operand.LabelRef("row"))
	c.VZEROUPPER()
	c.RET()
}
