package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the microkernels of products of bfloat16 values (Gemm8x16, 8x32 and 8x48 for
// AVX512BF16) and the kernels that round and pack their operands (RoundRows, RoundColumns8 and
// RoundColumns48), also for products with AMX (RoundRows and RoundColumns16).

// bfloat16Set is the suffix of the kernels that compute with bfloat16 values in vector registers.
const bfloat16Set = "AVX512BF16"

const bfloat16GemmDoc = `multiplies strips of %[1]d rows by %[2]d columns of a panel of %[3]d. A word holds two
bfloat16 values, terms 2t and 2t+1:

	c[i*cStride+j] = Σ_t a[s][t][i mod %[1]d]·b[t][j],  s = i/%[1]d, i < %[1]d·strips, j < %[2]d, t < k

with the sum of two products for each word t. A sum is one chain of fused multiply-adds in float32 from 0 with t
ascending; the odd term 2t+1 of a word comes before the even one. Subnormal operands and results become 0. If
add is not 0, the sum is added to the entry of c.

	a  [strips][k][%[1]d]
	b  [k][%[3]d]

	ahead, aheadStride  as in Gemm8x48AVX512

Requires k > 0, strips > 0 and cStride ≥ %[2]d. c must not overlap a or b.`

const roundText = `VCVTNE2PS2BF16 rounds: to nearest, with ties to even; subnormal values become 0. A word has its first
value in the low half.`

// bfloat16s emits the microkernels of products in bfloat16 and the packing of their operands.
func bfloat16s(c *build.Context) {
	interleaving(c)
	v := vectors{c, bfloat16Set, 16, c.ZMM}
	for columns := 1; columns <= 3; columns++ {
		v.micro(microKernel{
			name: "Gemm", doc: bfloat16GemmDoc, mr: 8, columns: columns, width: 3, group: 1,
			begin: func(c vectors) addTerm {
				return func(x []*entry, y []reg.VecVirtual, sum reg.VecVirtual) {
					encoded(c.Context, "VDPBF16PS", x[0].lanes(), y[0], sum)
				}
			},
		})
	}
	v.roundRows()
	for _, n := range []int{8, 16, 48} {
		v.roundColumns(n)
	}
}

// interleavingName names the indices of VPERMW that interleave the two halves of a register.
func interleavingName(lanes int) string { return fmt.Sprintf("interleave%d", lanes) }

func interleaving(c *build.Context) {
	for _, lanes := range []int{8, 16} {
		c.StaticGlobal(interleavingName(lanes))
		c.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range lanes {
			c.AppendDatum(operand.U32(uint32(i) | uint32(lanes+i)<<16))
		}
	}
}

// roundRows emits the rounding of rows.
func (c vectors) roundRows() {
	c.begin("RoundRows"+c.set, "func(dst, src *float32, dstStride, stride, rows, k int)",
		`rounds rows of k float32 values to bfloat16:

	dst[i*dstStride+t] = the word of src[i*stride+2t] and src[i*stride+2t+1],  i < rows, t < k/2

`+roundText+`

Requires rows > 0 and an even k > 0. dst and src must not overlap.`)
	dst, dstStride := c.param("dst"), c.bytes("dstStride")
	src, stride := c.param("src"), c.bytes("stride")
	rows, k := c.param("rows"), c.param("k")
	c.Comment("Masks for the last k mod 32 values: two halves of the values, and their words")
	low, high, words := c.K(), c.K(), c.K()
	mask, count := c.GP64(), reg.RCX
	c.MOVQ(k, count)
	c.ANDQ(operand.Imm(31), count)
	c.MOVQ(operand.U32(1), mask)
	c.SHLQ(reg.CL, mask)
	c.DECQ(mask)
	c.KMOVW(mask.As32(), low)
	c.SHRQ(operand.Imm(16), mask)
	c.KMOVW(mask.As32(), high)
	c.SHRQ(operand.Imm(1), count)
	c.MOVQ(operand.U32(1), mask)
	c.SHLQ(reg.CL, mask)
	c.DECQ(mask)
	c.KMOVW(mask.As32(), words)

	from, to, n := c.GP64(), c.GP64(), c.GP64()
	c.Label("row")
	c.MOVQ(src, from)
	c.MOVQ(dst, to)
	c.MOVQ(k, n)
	c.SUBQ(operand.Imm(32), n)
	c.JLT(operand.LabelRef("rest"))
	c.Label("values")
	out := c.vec()
	encoded(c.Context, "VCVTNE2PS2BF16", c.load(at(from, 0)), c.load(at(from, 16)), out)
	c.VMOVUPS(out, operand.Mem{Base: to})
	c.ADDQ(operand.U32(128), from)
	c.ADDQ(operand.U32(64), to)
	c.SUBQ(operand.Imm(32), n)
	c.JGE(operand.LabelRef("values"))
	c.Label("rest")
	c.ADDQ(operand.Imm(32), n)
	c.JEQ(operand.LabelRef("next"))
	x, y := c.vec(), c.vec()
	c.VMOVUPS_Z(at(from, 0), low, x)
	c.VMOVUPS_Z(at(from, 16), high, y)
	encoded(c.Context, "VCVTNE2PS2BF16", x, y, x)
	c.VMOVUPS(x, words, operand.Mem{Base: to})
	c.Label("next")
	c.ADDQ(stride, src)
	c.ADDQ(dstStride, dst)
	c.DECQ(rows)
	c.JNE(operand.LabelRef("row"))
	c.end()
}

// roundColumns emits the rounding of n columns.
func (c vectors) roundColumns(n int) {
	c.begin(fmt.Sprintf("RoundColumns%d%s", n, c.set), "func(dst, src *float32, stride, k int)", fmt.Sprintf(
		`rounds %[1]d columns of float32 values to bfloat16:

	dst[t*%[1]d+i] = the word of src[2t*stride+i] and src[(2t+1)*stride+i],  i < %[1]d, t < k/2

%[2]s

Requires an even k > 0. dst and src must not overlap.`, n, roundText))
	dst, src, stride, k := c.param("dst"), c.param("src"), c.bytes("stride"), c.param("k")
	if n < c.lanes {
		c.lanes, c.vec = n, c.YMM
	}
	order := c.load(operand.NewDataAddr(operand.NewStaticSymbol(interleavingName(c.lanes)), 0))
	holds(c.Context, "indices of the interleaved values", order)
	next := c.GP64()
	c.loop("rows", k, 2, func() {
		c.LEAQ(operand.Mem{Base: src, Index: stride, Scale: 1}, next)
		for i := 0; i < n; i += c.lanes {
			x := c.vec()
			encoded(c.Context, "VCVTNE2PS2BF16", c.load(at(src, i)), c.load(at(next, i)), x)
			c.VPERMW(x, order, x)
			c.VMOVUPS(x, at(dst, i))
		}
		c.LEAQ(operand.Mem{Base: next, Index: stride, Scale: 1}, src)
		c.ADDQ(operand.U32(uint32(4*n)), dst)
	})
	c.end()
}
