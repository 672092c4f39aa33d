package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the microkernel of float32 products in split bfloat16
// (GemmSplit32x32AMXBF16), the packing of its operands (SplitRows32AVX512 and
// SplitColumns32AVX512), the microkernel of products in bfloat16 with AMX (Gemm32x32AMXBF16), and
// the ceiling of both (BFloat16PeakAMXBF16).
//
// A split value is the sum of two bfloat16 values. The high part is the value rounded to the
// nearest bfloat16, with ties away from zero. The low part is the remainder, rounded the same way.

const (
	splitVectors = 2 * tileRows16                // vectors of a strip or a panel
	splitTerms   = 2 * tileWords                 // terms of a block, and of a tile
	splitBlock   = splitVectors * splitTerms * 4 // bytes of a block
	splitLow     = splitBlock / 2                // offset of the low parts
	splitTile    = tileRows16 * tileBytes
)

const splitGemmDoc = `%[1]s multiplies strips of %[2]d rows by a panel of %[2]d columns, both split into pairs of
bfloat16 values by SplitRows%[2]dAVX512 and SplitColumns%[2]dAVX512:

	c[i*cStride+j] = Σ_t a[i][t]·b[t][j],  i < %[2]d·strips, j < %[2]d, t < k

without the products of two low parts. An entry is one chain. It begins with 0 or, if add is not 0, with the entry of
c. For every block of %[2]d terms it adds the sum of low(a)·high(b), then of high(a)·high(b), then of high(a)·low(b).
Such a sum is the sum over even terms plus the sum over odd terms, each a chain of fused multiply-adds from 0 in
ascending order. Subnormal operands and results become 0.

	a  [strips][k/%[2]d] blocks of SplitRows%[2]dAVX512
	b  [k/%[2]d] blocks of SplitColumns%[2]dAVX512

	ahead, aheadStride  as in Gemm8x48AVX512

Requires k > 0, a multiple of %[2]d, strips > 0 and cStride ≥ %[2]d. c must not overlap a or b.`

const roundedGemmDoc = `%[1]s multiplies strips of %[2]d rows by a panel of %[2]d columns. A word holds two bfloat16
values, terms 2t and 2t+1:

	c[i*cStride+j] = Σ_t a[i][t]·b[t][j],  i < %[2]d·strips, j < %[2]d, t < k

with the sum of two products for each word t. An entry is one chain. It begins with 0 or, if add is not 0, with the
entry of c. For every block of %[3]d words it adds the sum over their even terms plus the sum over their odd terms, each
a chain of fused multiply-adds from 0 in ascending order. Subnormal operands and results become 0.

	a  [strips][k/%[3]d][%[2]d][%[3]d]: row i, word t
	b  [k/%[3]d][2][%[3]d][%[3]d]: word t, columns below %[3]d and then the others

	ahead, aheadStride  as in Gemm8x48AVX512

Requires k > 0, a multiple of %[3]d, strips > 0 and cStride ≥ %[2]d. c must not overlap a or b.`

// splits emits the microkernels, the packing of split operands, and the ceiling.
func splits(c *build.Context) {
	tileShapes(c)
	splitConstants(c)
	v := vectors{c, "AVX512", 16, c.ZMM}
	v.splitRows()
	v.splitColumns()
	splitGemm(c)
	roundedGemm(c)
	tilePeak(c, "BFloat16PeakAMXBF16", "32 by 32 × 16 bfloat16", multiplySplit)
}

const (
	splitHalfName = "splitHalf"
	splitHighName = "splitHigh"
	splitOddName  = "splitOddWords"
)

func splitConstants(c *build.Context) {
	for _, constant := range []struct {
		name  string
		value uint32
	}{{splitHalfName, 0x8000}, {splitHighName, 0xffff0000}} {
		c.StaticGlobal(constant.name)
		c.DataAttributes(attr.RODATA | attr.NOPTR)
		c.AppendDatum(operand.U32(constant.value))
	}
	c.StaticGlobal(splitOddName)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range splitTerms {
		c.AppendDatum(operand.U16(2*i + 1))
	}
}

// splitter holds the constants of split.
type splitter struct {
	vectors
	half, high reg.VecVirtual
}

func (c vectors) splitter() splitter {
	s := splitter{c, c.vec(), c.vec()}
	c.VPBROADCASTD(operand.NewDataAddr(operand.NewStaticSymbol(splitHalfName), 0), s.half)
	c.VPBROADCASTD(operand.NewDataAddr(operand.NewStaticSymbol(splitHighName), 0), s.high)
	holds(c.Context, "half a unit in the last place of bfloat16, and the mask of its bits", s.half, s.high)
	return s
}

// split returns the high and low parts of 16 values, each part in the high half of a word. The low
// halves of low are unspecified.
func (s splitter) split(x reg.VecVirtual) (high, low reg.VecVirtual) {
	high, low = s.vec(), s.vec()
	holds(s.Context, "high and low parts", high, low)
	s.VPADDD(s.half, x, high)
	s.VPANDD(s.high, high, high)
	s.VSUBPS(high, x, low)
	s.VPADDD(s.half, low, low)
	return high, low
}

// splitRows emits the packing of a block whose vectors are rows of a matrix.
func (c vectors) splitRows() {
	c.begin(fmt.Sprintf("SplitRows%dAVX512", splitVectors), "func(dst, src *float32, stride int)", fmt.Sprintf(
		`splits each float32 value of a block of %[1]d rows of %[2]d values into two bfloat16 values. The rows begin
stride values apart. The high part is the value rounded to nearest, with ties away from zero; the low part is the
remainder, rounded likewise. dst gets all high parts, then all low parts. In each half, row i is the 16 words from word
16·i on, with two values to a word.

The high part of a value beyond the range of bfloat16 is infinite. A NaN must not have all of its bits 15 to 22 set.`,
		splitVectors, splitTerms))
	dst, src, stride := c.param("dst"), c.param("src"), c.bytes("stride")
	s := c.splitter()
	odd := c.load(operand.NewDataAddr(operand.NewStaticSymbol(splitOddName), 0))
	n := c.GP64()
	c.MOVQ(operand.U32(splitVectors), n)
	c.loop("row", n, 1, func() {
		high0, low0 := s.split(c.load(at(src, 0)))
		high1, low1 := s.split(c.load(at(src, 16)))
		c.VPERMT2W(high1, odd, high0)
		c.VPERMT2W(low1, odd, low0)
		c.VMOVUPS(high0, operand.Mem{Base: dst})
		c.VMOVUPS(low0, operand.Mem{Base: dst, Disp: splitLow})
		c.ADDQ(stride, src)
		c.ADDQ(operand.Imm(tileBytes), dst)
	})
	c.end()
}

// splitColumns emits the packing of a block whose vectors are columns of a matrix.
func (c vectors) splitColumns() {
	c.begin(fmt.Sprintf("SplitColumns%dAVX512", splitVectors), "func(dst, src *float32, stride int)", fmt.Sprintf(
		`splits a block of %[2]d rows of %[1]d float32 values as SplitRows%[1]dAVX512 does. dst gets all high parts,
then all low parts. A word holds two values of one column: row 2p in its low half, row 2p+1 in its high half. It is word
16·p + j for a column j < 16, otherwise word 256 + 16·p + j − 16.`, splitVectors, splitTerms))
	dst, src, stride := c.param("dst"), c.param("src"), c.bytes("stride")
	s := c.splitter()
	n := c.GP64()
	c.MOVQ(operand.U32(splitTerms/2), n)
	next := c.GP64()
	c.loop("rows", n, 1, func() {
		c.LEAQ(operand.Mem{Base: src, Index: stride, Scale: 1}, next)
		for v := range 2 {
			highEven, lowEven := s.split(c.load(at(src, 16*v)))
			highOdd, lowOdd := s.split(c.load(at(next, 16*v)))
			c.VPANDD(s.high, lowOdd, lowOdd)
			for part, words := range [][2]reg.VecVirtual{{highEven, highOdd}, {lowEven, lowOdd}} {
				c.VPSRLD(operand.Imm(16), words[0], words[0])
				c.VPORD(words[0], words[1], words[1])
				c.VMOVUPS(words[1], operand.Mem{Base: dst, Disp: part*splitLow + v*splitTile})
			}
		}
		c.LEAQ(operand.Mem{Base: next, Index: stride, Scale: 1}, src)
		c.ADDQ(operand.Imm(tileBytes), dst)
	})
	c.end()
}

// splitGemm emits the microkernel of split products.
func splitGemm(c *build.Context) {
	name := fmt.Sprintf("GemmSplit%[1]dx%[1]dAMXBF16", splitVectors)
	tileGemm{
		name: name, doc: fmt.Sprintf(splitGemmDoc, name, splitVectors), block: splitBlock, terms: splitTerms,
		products: []partProduct{{1, 0}, {0, 0}, {0, 1}},
	}.emit(c)
}

// roundedGemm emits the microkernel of products in bfloat16.
func roundedGemm(c *build.Context) {
	name := fmt.Sprintf("Gemm%[1]dx%[1]dAMXBF16", splitVectors)
	tileGemm{
		name: name, doc: fmt.Sprintf(roundedGemmDoc, name, splitVectors, tileWords),
		block: 2 * splitTile, terms: tileWords, products: []partProduct{{0, 0}},
	}.emit(c)
}

// tileGemm describes a microkernel that keeps a microtile of c in four tiles; the other four hold the
// operands.
type tileGemm struct {
	name, doc string
	block     int           // bytes of a block of an operand
	terms     int           // what a block takes from k: terms or, if words hold two terms, words
	products  []partProduct // for each block, in this order
}

// partProduct is a product of a part of a with a part of b: 0 for the high part, 1 for the low part.
type partProduct struct{ a, b int }

func (g tileGemm) emit(c *build.Context) {
	function(c, g.name,
		"func(a, b *float32, k, strips int, c *float32, cStride, add int, ahead uintptr, aheadStride int)")
	doc(c, g.doc)
	c.Pragma("noescape")
	configure(c)
	var (
		a, b          = reg.R8, reg.R9
		upper, lower  = reg.R10, reg.R11 // rows of c
		stride, words = reg.R12, reg.R13
	)
	parameter(c, "a", a)
	parameter(c, "c", upper)
	parameter(c, "cStride", stride)
	c.SHLQ(operand.Imm(2), stride)
	c.MOVQ(operand.U32(tileBytes), words)
	strips := parameter(c, "strips", c.GP64())
	ahead, aheadStride := parameter(c, "ahead", c.GP64()), parameter(c, "aheadStride", c.GP64())
	below := func(of, to reg.Register) { // to = of + 16 rows
		c.MOVQ(stride, to)
		c.SHLQ(operand.Imm(4), to)
		c.ADDQ(of, to)
	}

	c.Label("strip")
	parameter(c, "b", b)
	n := parameter(c, "k", c.GP64())
	below(upper, lower)
	next := c.GP64() // address of the next strip's rows of c
	below(lower, next)
	part := func(of reg.GPPhysical, low, i int) strided {
		return strided{of, words, int32(low*splitLow + i*splitTile)}
	}
	block := []strided{{upper, stride, 0}, {upper, stride, tileBytes}, {lower, stride, 0}, {lower, stride, tileBytes}}
	add := parameter(c, "add", c.GP64())
	c.TESTQ(add, add)
	c.JEQ(operand.LabelRef("zero"))
	for t, m := range block {
		m.load(c, tile(t))
	}
	c.JMP(operand.LabelRef("terms"))
	c.Label("zero")
	for t := range block {
		zeroTile(c, tile(t))
	}
	c.Comment("Accumulate: tmm0–tmm3 hold the quarters of the 32 × 32 sums, tmm4 and tmm5 rows of a, tmm6 and",
		"tmm7 columns of b")
	c.Label("terms")
	left, right := []tile{4, 5}, []tile{6, 7}
	load := func(of reg.GPPhysical, low int, into []tile) {
		for i, t := range into {
			if of == a {
				part(of, low, i).stream(c, t) // the panel stays in L1
			} else {
				part(of, low, i).load(c, t)
			}
			c.PREFETCHT1(operand.Mem{Base: ahead})
			c.ADDQ(aheadStride, ahead)
			c.PREFETCHT0(operand.Mem{Base: next, Disp: i * tileBytes})
		}
		c.ADDQ(stride, next)
	}
	previous := partProduct{-1, -1}
	for _, product := range g.products {
		if product.a != previous.a {
			load(a, product.a, left)
		}
		if product.b != previous.b {
			load(b, product.b, right)
		}
		previous = product
		for i, x := range left {
			for j, y := range right {
				multiplySplit(c, tile(2*i+j), x, y)
			}
		}
	}
	c.ADDQ(operand.U32(uint32(g.block)), a)
	c.ADDQ(operand.U32(uint32(g.block)), b)
	c.SUBQ(operand.Imm(uint64(g.terms)), n)
	c.JNE(operand.LabelRef("terms"))
	for t, m := range block {
		m.store(c, tile(t))
	}
	below(lower, upper)
	c.DECQ(strips)
	c.JNE(operand.LabelRef("strip"))
	release(c)
	c.VZEROUPPER()
	c.RET()
}
