package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates UnpackTriangleAVX2, PackTriangleAVX2 and AddTransposeAVX2, which convert
// between packed lower triangles and d × d float32 matrices whose rows begin ld entries apart.
// Stores and shuffles limit their speed, so the AVX-512 tier also uses them.

// triangles emits the kernels.
func triangles(c *build.Context) {
	// lanes is a table of masks. The eight entries from 7 − l on select the lanes up to l, and the
	// eight entries from 23 − l on select lane l alone.
	lanes := c.StaticGlobal("lanes")
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 32 {
		x := operand.U32(0)
		if i < 8 || i == 23 {
			x = ^x
		}
		c.AddDatum(4*i, x)
	}
	eachSet(c, func(c vectors) {
		if c.lanes == 8 {
			c.unpackTriangle(lanes)
			c.packTriangle(lanes)
			c.addTranspose()
		}
	})
}

const triangleDoc = "Entry (i, j) of the triangle, j ≤ i < d, is packed[i(i+1)/2+j].\n\nRequires d > 0."

// triangleRows emits a loop over the rows of a packed triangle. For each row, the loop runs the code
// of before once, the code of whole for every eight entries to the left of the diagonal, and the code
// of last for the eight entries that include the diagonal entry. last gets the masks of the lanes up
// to the diagonal and of the diagonal alone, and the length of the row.
func (c vectors) triangleRows(
	lanes operand.Mem, d reg.GPVirtual,
	before, whole func(), last func(upTo, only operand.Mem, entries reg.GPVirtual),
) {
	table, i, n, k := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.LEAQ(lanes, table)
	c.XORQ(i, i)
	c.Label("row")
	before()
	c.MOVQ(i, n)
	c.MOVQ(i, k)
	c.INCQ(i)
	c.NOTQ(k)
	c.ANDQ(operand.Imm(7), k)
	c.SHRQ(operand.Imm(3), n)
	c.JEQ(operand.LabelRef("last"))
	c.Label("eight")
	whole()
	c.DECQ(n)
	c.JNE(operand.LabelRef("eight"))
	c.Label("last")
	last(operand.Mem{Base: table, Index: k, Scale: 4}, operand.Mem{Base: table, Index: k, Scale: 4, Disp: 64}, i)
	c.CMPQ(i, d)
	c.JLT(operand.LabelRef("row"))
}

// squares emits a loop over the 8 × 8 submatrices of a matrix. The loop runs the code of off for each
// submatrix below the diagonal together with its mirror image above the diagonal, and the code of
// diagonal for each submatrix on the diagonal. It changes m and d.
func (c vectors) squares(m, d, ld reg.GPVirtual, off func(low, high *rows), diagonal func(at *rows)) {
	down, highs, n := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(ld, down)
	c.SHLQ(operand.Imm(3), down)
	c.MOVQ(m, highs)
	c.XORQ(n, n)
	// eight returns eight rows from base on. Only the last four rows need a second base register.
	eight := func(base, stride3 reg.GPVirtual) *rows {
		r := &rows{c: c, stride: ld, stride3: stride3, base: [2]reg.GPVirtual{base, c.GP64()}}
		c.LEAQ(operand.Mem{Base: base, Index: ld, Scale: 4}, r.base[1])
		return r
	}
	stride3 := c.GP64()
	c.LEAQ(operand.Mem{Base: ld, Index: ld, Scale: 2}, stride3)
	c.Label("squares")
	low, high, k := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(m, low)
	c.MOVQ(highs, high)
	c.MOVQ(n, k)
	c.TESTQ(k, k)
	c.JEQ(operand.LabelRef("diagonal"))
	c.Label("square")
	off(eight(low, stride3), eight(high, stride3))
	c.ADDQ(operand.Imm(32), low)
	c.ADDQ(down, high)
	c.DECQ(k)
	c.JNE(operand.LabelRef("square"))
	c.Label("diagonal")
	diagonal(eight(low, stride3))
	c.ADDQ(down, m)
	c.ADDQ(operand.Imm(32), highs)
	c.INCQ(n)
	c.SUBQ(operand.Imm(8), d)
	c.JG(operand.LabelRef("squares"))
}

func (c vectors) unpackTriangle(lanes operand.Mem) {
	c.begin("UnpackTriangleAVX2", "func(dst, packed *float32, d, ld int, diagonal float32)",
		`writes the symmetric d × d matrix of a packed lower triangle to dst, with its diagonal multiplied by the
argument diagonal and with zeros up to the next multiple of 8 columns. dst has rows up to the next multiple of 8; rows
from d on must be zero. `+triangleDoc)
	dst, packed, d, ld := c.param("dst"), c.param("packed"), c.param("d"), c.bytes("ld")
	row, to := c.GP64(), c.GP64()
	c.MOVQ(dst, row)
	c.triangleRows(lanes, d, func() { c.MOVQ(row, to) }, func() {
		c.VMOVUPS(c.load(at(packed, 0)), at(to, 0))
		c.ADDQ(operand.Imm(32), packed)
		c.ADDQ(operand.Imm(32), to)
	}, func(upTo, _ operand.Mem, entries reg.GPVirtual) {
		v := c.vec()
		c.VMASKMOVPS(at(packed, 0), c.load(upTo), v)
		c.VMOVUPS(v, at(to, 0))
		rest := c.GP64()
		c.LEAQ(operand.Mem{Base: entries, Disp: -1}, rest)
		c.ANDQ(operand.Imm(7), rest)
		c.LEAQ(operand.Mem{Base: packed, Index: rest, Scale: 4, Disp: 4}, packed)
		c.ADDQ(ld, row)
	})
	diagonal := c.argument("diagonal")
	c.squares(dst, d, ld, func(low, high *rows) {
		c.transpose8(c.loadRows(low), func(i int, r reg.VecVirtual) { c.VMOVUPS(r, high.at(i, 0)) })
	}, func(at *rows) {
		// The entries above the diagonal are zero.
		c.transpose8(c.loadRows(at), func(i int, r reg.VecVirtual) {
			c.VORPS(at.at(i, 0), r, r)
			c.VBLENDPS(operand.Imm(1<<i), c.product(diagonal, r), r, r)
			c.VMOVUPS(r, at.at(i, 0))
		})
	})
	c.end()
}

func (c vectors) packTriangle(lanes operand.Mem) {
	c.begin("PackTriangleAVX2", "func(packed, src *float32, d, ld int, factor, diagonal float32)",
		`packs the lower triangle of a d × d matrix. It multiplies the entries below the diagonal by the
argument factor, and those on the diagonal by the argument diagonal. It reads columns up to the
next multiple of 8. `+triangleDoc)
	packed, src, d, ld := c.param("packed"), c.param("src"), c.param("d"), c.bytes("ld")
	factor, diagonal := c.argument("factor"), c.argument("diagonal")
	// Store eight entries at a time where the next row overwrites the excess, and with a mask at
	// the end.
	end, from, after := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(d, end)
	c.INCQ(end)
	c.IMULQ(d, end)
	c.LEAQ(operand.Mem{Base: packed, Index: end, Scale: 2}, end)
	c.triangleRows(lanes, d, func() { c.MOVQ(src, from) }, func() {
		c.VMOVUPS(c.product(at(from, 0), factor), at(packed, 0))
		c.ADDQ(operand.Imm(32), packed)
		c.ADDQ(operand.Imm(32), from)
	}, func(upTo, only operand.Mem, entries reg.GPVirtual) {
		f := c.vec()
		c.VBLENDVPS(c.load(only), diagonal, factor, f)
		c.VMULPS(at(from, 0), f, f)
		c.LEAQ(at(packed, 8), after)
		c.CMPQ(after, end)
		c.JA(operand.LabelRef("masked"))
		c.VMOVUPS(f, at(packed, 0))
		c.JMP(operand.LabelRef("stored"))
		c.Label("masked")
		c.VMASKMOVPS(f, c.load(upTo), at(packed, 0))
		c.Label("stored")
		rest := c.GP64()
		c.LEAQ(operand.Mem{Base: entries, Disp: -1}, rest)
		c.ANDQ(operand.Imm(7), rest)
		c.LEAQ(operand.Mem{Base: packed, Index: rest, Scale: 4, Disp: 4}, packed)
		c.ADDQ(ld, src)
	})
	c.end()
}

func (c vectors) addTranspose() {
	c.begin("AddTransposeAVX2", "func(m *float32, d, ld int)",
		`adds its transpose to a d × d matrix, on and below the diagonal and in the whole of the 8 × 8 submatrices on
the diagonal. m has rows and columns up to the next multiple of 8.

Requires d > 0.`)
	m, d, ld := c.param("m"), c.param("d"), c.bytes("ld")
	sum := func(low *rows) func(int, reg.VecVirtual) {
		return func(i int, r reg.VecVirtual) {
			c.VADDPS(low.at(i, 0), r, r)
			c.VMOVUPS(r, low.at(i, 0))
		}
	}
	c.squares(m, d, ld, func(low, high *rows) { c.transpose8(c.loadRows(high), sum(low)) },
		func(at *rows) { c.transpose8(c.loadRows(at), sum(at)) })
	c.end()
}

func (c vectors) loadRows(r *rows) (in [8]reg.VecVirtual) {
	for i := range in {
		in[i] = c.load(r.at(i, 0))
	}
	return in
}
