package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the float32 GEMM: the microkernels Gemm8x16, 8x32 and 8x48 for AVX512,
// Gemm6x8 and 6x16 for AVX2, and Transpose6, Transpose8 and CopyColumns6 to 48 (AVX2), which pack
// their operands. The microkernels of distances also use the function micro.

const gemmDoc = `multiplies strips of %[1]d rows by %[2]d columns of a panel of %[3]d:

	c[i*cStride+j] = Σ_t a[s][t][i mod %[1]d]·b[t][j],  s = i/%[1]d, i < %[1]d·strips, j < %[2]d, t < k

in float32. A sum is one chain of fused multiply-adds from 0 with t ascending. If add is not 0, the sum is added to
the entry of c.

	a  [strips][k][%[1]d]
	b  [k][%[3]d]

	ahead, aheadStride  For every four terms of a strip, the kernel prefetches the cache line at
	                    ahead into L2 and adds aheadStride bytes to the address, which need not
	                    be valid.

Requires k > 0, strips > 0 and cStride ≥ %[2]d. c must not overlap a or b.`

// gemms emits the microkernels of matrix products and the kernels that pack their operands.
func gemms(c *build.Context) {
	eachSet(c, func(c vectors) {
		if c.lanes == 16 {
			c.gemm(8, 1, 3)
			c.gemm(8, 2, 3)
			c.gemm(8, 3, 3)
			return
		}
		c.gemm(6, 1, 2)
		c.gemm(6, 2, 2)
		for _, rows := range []int{6, 8} {
			c.transpose(rows)
		}
		for _, columns := range []int{6, 8, 16, 32, 48} {
			c.copyColumns(columns)
		}
	})
}

// microKernel describes a kernel that computes microtiles: sums of terms of packed rows and
// columns.
type microKernel struct {
	name, doc   string
	mr, columns int                     // rows, and vectors of columns, of a microtile
	width       int                     // vectors of columns of a panel
	group       int                     // terms that are added together
	begin       func(c vectors) addTerm // loads constants
}

// addTerm adds a group of terms to a vector of sums, given entries of a row and vectors of columns.
type addTerm func(x []*entry, y []reg.VecVirtual, sum reg.VecVirtual)

// gemm emits a microkernel for mr rows and the given number of vectors of columns, in a panel that
// is width vectors wide.
func (c vectors) gemm(mr, columns, width int) {
	c.micro(microKernel{name: "Gemm", doc: gemmDoc, mr: mr, columns: columns, width: width, group: 1,
		begin: func(c vectors) addTerm {
			return func(x []*entry, y []reg.VecVirtual, sum reg.VecVirtual) { x[0].multiplyAdd(c, y[0], sum) }
		}})
}

// micro emits a microkernel.
func (c vectors) micro(k microKernel) {
	mr, columns, nr := k.mr, k.columns, k.width*c.lanes
	c.begin(fmt.Sprintf("%s%dx%d%s", k.name, mr, columns*c.lanes, c.set),
		"func(a, b *float32, k, strips int, c *float32, cStride, add int, ahead uintptr, aheadStride int)",
		fmt.Sprintf(k.doc, mr, columns*c.lanes, nr))
	a, strips := c.param("a"), c.param("strips")
	dst, stride, add := c.param("c"), c.bytes("cStride"), c.param("add")
	ahead, aheadStride := c.param("ahead"), c.param("aheadStride")
	addTerms := k.begin(c)

	c.Label("strip")
	row, fetch := c.GP64(), c.GP64()
	c.MOVQ(dst, row)
	c.MOVQ(operand.U32(uint32(mr)), fetch)
	acc := matrixOf(c, mr, columns)
	b, n := c.param("b"), c.param("k")
	holds(c.Context, "sums of the microtile of c", slices.Concat(acc...)...)
	terms := func(u int) {
		ys := make([][]reg.VecVirtual, columns)
		for v := range ys {
			for t := range k.group {
				ys[v] = append(ys[v], c.load(at(b, (u+t)*nr+v*c.lanes)))
			}
		}
		holds(c.Context, "b[t][j]", slices.Concat(ys...)...)
		for i := range mr {
			var x []*entry
			for t := range k.group {
				x = append(x, &entry{c: c, at: at(a, (u+t)*mr+i), what: "a[i][t] in all lanes"})
			}
			for v, y := range ys {
				addTerms(x, y, acc[i][v])
			}
		}
	}
	round := func() {
		c.PREFETCHT1(operand.Mem{Base: ahead})
		c.ADDQ(aheadStride, ahead)
		for u := 0; u < unroll; u += k.group {
			terms(u)
		}
		c.ADDQ(operand.U32(unroll*mr*4), a)
		c.ADDQ(operand.U32(unroll*nr*4), b)
		c.SUBQ(operand.Imm(unroll), n)
	}
	c.SUBQ(operand.Imm(unroll), n)
	c.JLT(operand.LabelRef("rest"))
	c.Comment("Prefetch one row of c per round, for the end of the strip. A burst would occupy the line",
		"buffers that b needs.")
	c.Label("fetching")
	for j := 0; j < columns*c.lanes; j += 16 {
		c.PREFETCHT0(at(row, j))
	}
	c.PREFETCHT0(at(row, columns*c.lanes-1))
	c.ADDQ(stride, row)
	round()
	c.JLT(operand.LabelRef("rest"))
	c.DECQ(fetch)
	c.JNE(operand.LabelRef("fetching"))
	c.Label("terms")
	round()
	c.JGE(operand.LabelRef("terms"))
	c.Label("rest")
	c.ADDQ(operand.Imm(unroll), n)
	c.JEQ(operand.LabelRef("sum"))
	c.loop("term", n, k.group, func() {
		terms(0)
		c.ADDQ(operand.U32(k.group*mr*4), a)
		c.ADDQ(operand.U32(k.group*nr*4), b)
	})

	c.Label("sum")
	c.TESTQ(add, add)
	c.JEQ(operand.LabelRef("store"))
	c.MOVQ(dst, row)
	for i := range mr {
		for v, s := range acc[i] {
			c.VADDPS(at(row, v*c.lanes), s, s)
		}
		c.ADDQ(stride, row)
	}
	c.Label("store")
	for i := range mr {
		for v, s := range acc[i] {
			c.VMOVUPS(s, at(dst, v*c.lanes))
		}
		c.ADDQ(stride, dst)
	}
	c.DECQ(strips)
	c.JNE(operand.LabelRef("strip"))
	c.end()
}

// transpose emits the transposition of n rows, eight columns at a time.
func (c vectors) transpose(n int) {
	between := ""
	if n < 8 {
		between = fmt.Sprintf("If %d < dstStride < 8, the entries of dst between the results may change, "+
			"but no entry after the last result.\n\n", n)
	}
	c.begin(fmt.Sprintf("Transpose%dAVX2", n), "func(dst, src *float32, dstStride, stride, k int)",
		fmt.Sprintf(`transposes %[1]d rows:

	dst[t*dstStride+i] = src[i*stride+t],  i < %[1]d, t < k

%[2]sRequires k > 0. dst and src must not overlap.`, n, between))
	dst, dstStride, k := c.param("dst"), c.bytes("dstStride"), c.param("k")
	src := c.rows(c.param("src"), c.bytes("stride"), n)
	c.SUBQ(operand.Imm(8), k)
	c.JLT(operand.LabelRef("rest"))
	c.Label("columns")
	var in [8]reg.VecVirtual
	for i := range in {
		in[i] = in[0] // the rows beyond n do not matter
		if i < n {
			in[i] = c.load(src.at(i, 0))
		}
	}
	c.transpose8(in, func(t int, r reg.VecVirtual) {
		m := operand.Mem{Base: dst}
		if n == 8 || t < 7 {
			c.VMOVUPS(r, m)
		} else {
			c.Comment("The last column: store no more than its entries")
			c.VMOVUPS(r.AsX(), m)
			high := c.XMM()
			c.VEXTRACTF128(operand.Imm(1), r, high)
			c.VMOVLPS(high, operand.Mem{Base: dst, Disp: 16})
		}
		c.ADDQ(dstStride, dst)
	})
	src.advance(operand.Imm(32))
	c.SUBQ(operand.Imm(8), k)
	c.JGE(operand.LabelRef("columns"))
	c.Label("rest")
	c.ADDQ(operand.Imm(8), k)
	c.JEQ(operand.LabelRef("done"))
	c.loop("column", k, 1, func() {
		for i := range n {
			v := c.GP32()
			c.MOVL(src.at(i, 0), v)
			c.MOVL(v, at(dst, i))
		}
		src.advance(operand.Imm(4))
		c.ADDQ(dstStride, dst)
	})
	c.Label("done")
	c.end()
}

// transpose8 emits the transposition of eight rows of eight entries. It passes the columns to
// column, one by one.
func (c vectors) transpose8(in [8]reg.VecVirtual, column func(t int, r reg.VecVirtual)) {
	var four [2][4]reg.VecVirtual // [rows 4h to 4h+3][t mod 4], with columns t and t+4 in the two halves
	for h := range four {
		four[h] = c.transpose4([4]reg.VecVirtual(in[4*h:]))
	}
	for t := range 8 {
		r := c.vec()
		c.VPERM2F128(operand.Imm([]uint64{0x20, 0x31}[t/4]), four[1][t%4], four[0][t%4], r)
		column(t, r)
	}
}

// transpose4 emits the transposition of four rows of four entries, in every 128 bits of the registers.
func (c vectors) transpose4(in [4]reg.VecVirtual) (columns [4]reg.VecVirtual) {
	pair := func(x, y reg.VecVirtual) (low, high reg.VecVirtual) {
		low, high = c.vec(), c.vec()
		c.VUNPCKLPS(y, x, low)
		c.VUNPCKHPS(y, x, high)
		return low, high
	}
	l0, h0 := pair(in[0], in[1])
	l1, h1 := pair(in[2], in[3])
	for i, x := range [][2]reg.VecVirtual{{l0, l1}, {l0, l1}, {h0, h1}, {h0, h1}} {
		columns[i] = c.vec()
		c.VSHUFPS(operand.Imm([]uint64{0x44, 0xee}[i%2]), x[1], x[0], columns[i])
	}
	return columns
}

// copyColumns emits a copy of n columns of a matrix to consecutive memory.
func (c vectors) copyColumns(n int) {
	c.begin(fmt.Sprintf("CopyColumns%dAVX2", n), "func(dst, src *float32, stride, k int)",
		fmt.Sprintf("copies %[1]d columns: dst[t*%[1]d+i] = src[t*stride+i], i < %[1]d, t < k.\n\nRequires k > 0.", n))
	dst, src, stride, k := c.param("dst"), c.param("src"), c.bytes("stride"), c.param("k")
	c.loop("row", k, 1, func() {
		i := 0
		for ; i+8 <= n; i += 8 {
			c.VMOVUPS(c.load(at(src, i)), at(dst, i))
		}
		if i < n { // 6
			x, v := c.XMM(), c.GP64()
			c.VMOVUPS(at(src, 0), x)
			c.MOVQ(at(src, 4), v)
			c.VMOVUPS(x, at(dst, 0))
			c.MOVQ(v, at(dst, 4))
		}
		c.ADDQ(stride, src)
		c.ADDQ(operand.U32(uint32(4*n)), dst)
	})
	c.end()
}
