package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the kernels for L1 distances of codes, for AVX512 and AVX2: Int8L1Panel for
// one-byte codes, PairInt16L1 for two-byte codes, and the ceiling Int8L1Peak.

// int8L1Comparison compares units of eight one-byte codes. VPSADBW adds up the distances of a unit,
// so a register holds the sums of half as many candidates as float32 scores.
var int8L1Comparison = comparison{
	name: "Int8L1", group: 1, psi: 2, phi: 2, falling: true, units: true, rows512: 4, rows256: 2,
	equation: `score[i][j] = −Σ_t Σ_b |ψ[t][i].b − φ[t][j].b|

over the eight unsigned bytes b of a unit, which is two words. The sum is exact, and so is the score in float32 if the
sum is at most 2²⁴. K counts units. Among 16 candidates, units t of the even ones come first: unit t of candidate j is
unit j/16·16 + j mod 2·8 + j mod 16/2 of the NR units t of Phi.`,
}

// scoreUnits is panel.score for units of eight one-byte codes.
func (c panel) scoreUnits(at progress) (acc [][]reg.VecVirtual) {
	psi, scores, ahead := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at.psi, psi)
	c.MOVQ(at.scores, scores)
	c.MOVQ(at.ahead, ahead)
	phi := field(c.Context, "Phi", c.GP64())
	left := field(c.Context, "K", c.GP64())
	aheadStride := field(c.Context, "AheadStride", c.GP64())
	sums := matrixOf(c.vectors, c.mr, 2*c.wide)
	holds(c.Context, fmt.Sprintf("sums in 64 bits of query i < %d, %d registers per query", c.mr, 2*c.wide),
		slices.Concat(sums...)...)
	holds(c.Context, "address of ψ", psi)
	holds(c.Context, "address of φ", phi)
	holds(c.Context, "units left", left)
	holds(c.Context, "address and stride of the prefetches", ahead, aheadStride)
	holds(c.Context, "address of the strip's scores", scores)

	const unit = 8
	units := func(n int, prefetch func()) {
		for u := range n {
			queries := make([]reg.VecVirtual, c.mr)
			for i := range queries {
				queries[i] = c.vec()
				c.VPBROADCASTQ(operand.Mem{Base: psi, Disp: unit * (u*c.mr + i)}, queries[i])
			}
			holds(c.Context, "ψ[t][i] of a query in all lanes", queries...)
			for v := range 2 * c.wide {
				candidates := c.load(operand.Mem{Base: phi, Disp: unit*u*c.nr() + 4*c.lanes*v})
				holds(c.Context, "φ[t][j] of the panel's candidates", candidates)
				for i := 0; i < c.mr; i += 2 {
					c.addDistances(queries[i:i+2], candidates, [2]reg.VecVirtual{sums[i][v], sums[i+1][v]})
				}
			}
		}
		prefetch()
		c.ADDQ(operand.U32(n*unit*c.mr), psi)
		c.ADDQ(operand.U32(n*unit*c.nr()), phi)
		c.SUBQ(operand.Imm(uint64(n)), left)
	}
	c.Comment(fmt.Sprintf("Accumulate: %d units per round", unroll))
	c.SUBQ(operand.Imm(unroll), left)
	c.JLT(operand.LabelRef("rest"))
	c.Label("round")
	units(unroll, func() {
		c.PREFETCHT1(operand.Mem{Base: ahead})
		c.ADDQ(aheadStride, ahead)
	})
	c.JGE(operand.LabelRef("round"))
	c.Label("rest")
	c.Comment("Accumulate the last units, one per round")
	c.ADDQ(operand.Imm(unroll), left)
	c.JEQ(operand.LabelRef("finish"))
	c.Label("unit")
	units(1, func() {})
	c.JNE(operand.LabelRef("unit"))
	c.Label("finish")
	c.Comment("Join the sums of even and odd candidates, convert them to float32 and change their signs")
	acc = make([][]reg.VecVirtual, c.mr)
	zero := c.zero()
	for i, row := range sums {
		for v := range c.wide {
			even, odd := c.halves(v)
			c.VPSLLQ(operand.Imm(32), row[odd], row[odd])
			c.VPADDD(row[odd], row[even], row[even])
			c.VCVTDQ2PS(row[even], row[even])
			c.VSUBPS(row[even], zero, row[even])
			acc[i] = append(acc[i], row[even])
		}
	}
	holds(c.Context, fmt.Sprintf("score[i][j] of query i < %d, %d registers per query", c.mr, c.wide),
		slices.Concat(acc...)...)
	c.finish(acc, scores, at)
	c.MOVQ(ahead, at.ahead)
	return acc
}

// halves returns the registers with the sums of the even and of the odd candidates whose scores are
// in register v.
func (c panel) halves(v int) (even, odd int) {
	const candidates = 16
	per := candidates / c.lanes // registers of scores with 16 candidates
	even = v/per*2*per + v%per
	return even, even + per
}

// addDistances adds the distances of two units x from y to sums. Processors that compute 512 bits in
// two halves are a fifth faster if the instructions do not alternate: the additions then leave the
// units free that can compute distances.
func (c vectors) addDistances(x []reg.VecVirtual, y reg.VecVirtual, sums [2]reg.VecVirtual) {
	var d [2]reg.VecVirtual
	for i := range d {
		d[i] = c.vec()
		c.VPSADBW(x[i], y, d[i])
	}
	for i := range d {
		c.VPADDD(d[i], sums[i], sums[i])
	}
}

// int8L1Peak emits the loop with the arithmetic of Int8L1Panel.
func int8L1Peak(c vectors) {
	name := int8L1Comparison.name + "Peak" + c.set
	function(c.Context, name, "func(n int, x *byte)")
	doc(c.Context, fmt.Sprintf(`%s runs n rounds of %d vectors of %d bytes of

	a[i] += Σ |x[j] − y[j]|, 8i ≤ j < 8i+8, with unsigned bytes x and y and 64-bit sums a

on registers alone. The 2 operands are adjacent at x; their values matter as in DotPeak. Only its time is of interest.

Requires n > 0.`, name, arithmeticChains, 4*c.lanes))
	n, x := c.param("n"), c.param("x")
	load := func(i int) reg.VecVirtual { return c.load(operand.Mem{Base: x, Disp: 4 * c.lanes * i}) }
	operands := []reg.VecVirtual{load(0), load(1)}
	acc := make([]reg.VecVirtual, arithmeticChains)
	for i := range acc {
		acc[i] = load(0)
	}
	holds(c.Context, "operands", operands...)
	holds(c.Context, "sums", acc...)
	c.Label("round")
	for i := 0; i < len(acc); i += 2 {
		c.addDistances([]reg.VecVirtual{operands[0], operands[0]}, operands[1], [2]reg.VecVirtual(acc[i:i+2]))
	}
	c.SUBQ(operand.Imm(1), n)
	c.JNE(operand.LabelRef("round"))
	c.end()
}

const pairInt16L1Doc = `%[1]s computes the L1 distances of one row of two-byte codes to listed rows:

	out[i] = Σ_t |x[t] − table[ids[i]*stride+t]|,   t < n, i < count

for codes from 0 to 2¹⁵−1. They are exact in int32 if they fit. x, n, table and stride are in words of two codes.

Requires n to be a positive multiple of 64, and count > 0.`

func pairInt16L1(c vectors) {
	const chains = 4
	name := "PairInt16L1" + c.set
	function(c.Context, name, "func(x *uint32, n int, table *uint32, stride int, ids *int32, count int, out *int32)")
	doc(c.Context, fmt.Sprintf(pairInt16L1Doc, name))
	c.Pragma("noescape")
	r := loadPair(c.Context)
	ones := c.vec()
	if c.lanes == 16 {
		c.VPTERNLOGD(operand.Imm(0xff), ones, ones, ones)
	} else {
		c.VPCMPEQD(ones, ones, ones)
	}
	c.VPSRLW(operand.Imm(15), ones, ones)
	holds(c.Context, "1 in every 16 bits", ones)

	c.Label("row")
	row, t := r.next(c.Context)
	accs := make([]reg.VecVirtual, chains)
	for i := range accs {
		accs[i] = c.zero()
	}
	holds(c.Context, fmt.Sprintf("sums of words t with t/%d mod 4 = 0, 1, 2, 3", c.lanes), accs...)
	c.Comment("Accumulate: add the distances of the two codes in a word to a sum in int32")
	c.Label("terms")
	for i, acc := range accs {
		d := c.load(operand.Mem{Base: row, Index: t, Scale: 4, Disp: 4 * c.lanes * i})
		holds(c.Context, "codes of the row, then distances", d)
		c.VPSUBW(operand.Mem{Base: r.x, Index: t, Scale: 4, Disp: 4 * c.lanes * i}, d, d)
		c.VPABSW(d, d)
		c.VPMADDWD(ones, d, d)
		c.VPADDD(d, acc, acc)
	}
	c.ADDQ(operand.Imm(uint64(c.lanes*chains)), t)
	c.CMPQ(t, r.n)
	c.JLT(operand.LabelRef("terms"))

	c.finishRow(accs, r)
}
