package main

import (
	"encoding/binary"
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels for the matrix unit of AMX, whose registers are eight tiles of 16 rows of 64 bytes. Neither
// avo nor Go's assembler knows its instructions, so they are encoded here (Intel SDM, volume 2,
// TDPBSSD and its neighbours: a VEX prefix, the opcode, ModRM and SIB), with physical registers.

const (
	tileRows16 = 16 // rows of a tile
	tileBytes  = 64 // in a row
	tileWords  = tileBytes / 4
)

// tile is a tile register.
type tile uint8

// amxTile is the feature of tiles as such.
const amxTile = "AMXTILE"

// Prefixes of a VEX instruction.
const (
	noPrefix = iota
	prefix66
	prefixF3
	prefixF2
)

// vex emits an instruction of map 0F38 as bytes: vvvv is the second source, bx tell that the SIB's
// base and index are R8 to R15.
func vex(c *build.Context, isa, text string, uses []operand.Op, prefix, vvvv, opcode byte, highBase, highIndex bool, rest ...byte) {
	first := byte(0xe2) // R, X, B (inverted), map 0F38
	if highIndex {
		first &^= 0x40
	}
	if highBase {
		first &^= 0x20
	}
	c.Comment(text)
	for i, b := range append([]byte{0xc4, first, (^vvvv&15)<<3 | prefix, opcode}, rest...) {
		instruction := &ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.Imm(uint64(b))}}
		if i == 0 {
			instruction.Inputs, instruction.ISA = uses, []string{isa}
		}
		c.Instruction(instruction)
	}
}

// strided is what a tile's rows lie at: base + disp, and then stride bytes apart.
type strided struct {
	base, stride reg.GPPhysical
	disp         int32
}

func (m strided) String() string {
	return fmt.Sprintf("%d(%s)(%s*1)", m.disp, m.base.Asm(), m.stride.Asm())
}

func (m strided) emit(c *build.Context, instruction string, prefix byte, t tile) {
	text := fmt.Sprintf("%s %s, tmm%d", instruction, m, t)
	if prefix == prefixF3 {
		text = fmt.Sprintf("%s tmm%d, %s", instruction, t, m)
	}
	base, stride := byte(m.base.PhysicalIndex()), byte(m.stride.PhysicalIndex())
	d := uint32(m.disp)
	vex(c, amxTile, text, []operand.Op{m.base, m.stride}, prefix, 0, 0x4b, base >= 8, stride >= 8,
		0x84|byte(t)<<3, (stride&7)<<3|base&7, byte(d), byte(d>>8), byte(d>>16), byte(d>>24))
}

func (m strided) load(c *build.Context, t tile) {
	m.emit(c, "TILELOADD", prefixF2, t)
}

// stream loads what is not wanted again soon, so that it does not take the place of other lines in L1.
func (m strided) stream(c *build.Context, t tile) {
	m.emit(c, "TILELOADDT1", prefix66, t)
}

func (m strided) store(c *build.Context, t tile) {
	m.emit(c, "TILESTORED", prefixF3, t)
}

// multiply adds to acc the products of the rows of a with the columns of b, signed bytes by signed
// bytes, four in a word.
func multiply(c *build.Context, acc, a, b tile) {
	vex(c, "AMXINT8", fmt.Sprintf("TDPBSSD tmm%d, tmm%d, tmm%d", b, a, acc), nil, prefixF2, byte(b), 0x5e, false, false, 0xc0|byte(acc)<<3|byte(a))
}

// multiplySplit adds to acc the products of the rows of a with the columns of b, bfloat16 by bfloat16, two in a
// word: the first ones of the words in one chain of fused multiply-adds, the second ones in another, and
// then their sum.
func multiplySplit(c *build.Context, acc, a, b tile) {
	vex(c, "AMXBF16", fmt.Sprintf("TDPBF16PS tmm%d, tmm%d, tmm%d", b, a, acc), nil, prefixF3, byte(b), 0x5c, false, false, 0xc0|byte(acc)<<3|byte(a))
}

func zeroTile(c *build.Context, t tile) {
	vex(c, amxTile, fmt.Sprintf("TILEZERO tmm%d", t), nil, prefixF2, 0, 0x49, false, false, 0xc0|byte(t)<<3)
}

// configure makes all eight tiles 16 rows of 64 bytes; release gives them back, so that the state that the
// system saves stays small.
func configure(c *build.Context) {
	at := reg.RAX
	c.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol(shapesName), 0), at)
	vex(c, amxTile, "LDTILECFG (AX)", []operand.Op{at}, noPrefix, 0, 0x49, false, false, 0x00)
}

func release(c *build.Context) {
	vex(c, amxTile, "TILERELEASE", nil, noPrefix, 0, 0x49, false, false, 0xc0)
}

const shapesName = "tileShapes"

// tileShapes is the operand of LDTILECFG: palette 1, the bytes in a row and the rows of each tile.
func tileShapes(c *build.Context) {
	c.StaticGlobal(shapesName)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	var shapes [64]byte
	shapes[0] = 1
	for t := range 8 {
		shapes[16+2*t] = tileBytes
		shapes[48+t] = tileRows16
	}
	for at := 0; at < len(shapes); at += 8 {
		c.AppendDatum(operand.U64(binary.LittleEndian.Uint64(shapes[at:])))
	}
}

const int16Doc = `%[1]s scores strips of %[2]d queries against a panel of %[3]d candidates, both of
signed bytes in coarse and fine codes, and counts like the other panels.

	q      [k/16][%[2]d][16]  words of four bytes of the first strip: word t of query i at
	                  q[t/16*16*%[2]d+16*i+t%%16]; those of the next strip lie qStride words further on
	e      [k][%[3]d]  words of the panel: word t of candidate j at e[t*%[3]d+j]
	scores [strips*%[2]d+%[2]d][%[3]d] 64-byte aligned: c + f/254, both sums exact in int32 and rounded to
	                  float32, 1/254 and the product rounded and then the sum, where c are the
	                  products of coarse with coarse codes, words t < k/2, and f those of coarse
	                  with fine and of fine with coarse codes; the last %[2]d rows are scratch
	add, drop, alive  not used
	rows, ends, better, undecided, valid, ahead, step as in DotPanel9x48AVX512, but the cache lines
	                  fetched are eight for every 32 words of a strip, and rows is not nil

It returns the number of pairs appended. Requires k > 0, a multiple of 32, strips > 0.`

// tiles emits the panel of codes of two bytes and the ceiling of the matrix unit.
func tiles(c *build.Context) {
	tileShapes(c)
	int16Panel(c)
	int8TilePeak(c)
}

// int16Panel keeps the coarse and the fine sums of 16 queries and 48 candidates in six tiles; the other two
// take the operands in turn.
func int16Panel(c *build.Context) {
	const vectors, nr = 3, 48
	p := panel{Context: c, name: "Int16", mr: 1, vectors: vectors, lanes: 16, vec: func() reg.VecVirtual { return c.ZMM() }}
	name := fmt.Sprintf("Int16Panel%dx%dAMX", tileRows16, nr)
	function(c, name, "func(q *float32, qStride int, e *float32, k, strips int, scores *float32, add int, drop *float32, alive *uint8, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64, ahead uintptr, step int) int")
	doc(c, fmt.Sprintf(int16Doc, name, tileRows16, nr))
	c.Pragma("noescape")

	qAt, stripsLeft, scoresAt := p.state("q"), p.state("strips"), p.state("scores")
	rowsAt, outAt, aheadAt := p.state("rows"), p.state("undecided"), p.state("ahead")

	// Half of the words of a candidate, in bytes of the panel: where the fine codes begin.
	scratchAt, fineAt := c.AllocLocal(8), c.AllocLocal(8)
	bytes := c.Load(c.Param("k"), c.GP64())
	c.IMUL3Q(operand.U32(nr*4/2), bytes, bytes)
	c.MOVQ(bytes, fineAt)
	scratch := c.Load(c.Param("strips"), c.GP64())
	c.IMUL3Q(operand.U32(tileRows16*nr*4), scratch, scratch)
	c.ADDQ(scoresAt, scratch)
	c.MOVQ(scratch, scratchAt)
	configure(c)

	c.Label("strip")
	var (
		coarseQ, fineQ = reg.R8, reg.R9
		coarseE, fineE = reg.R10, reg.R11
		qRow, eRow     = reg.R12, reg.R13
	)
	c.MOVQ(qAt, coarseQ)
	c.Load(c.Param("e"), coarseE)
	n := c.Load(c.Param("k"), c.GP64())
	c.MOVQ(n, fineQ)
	c.SHLQ(operand.Imm(5), fineQ) // k/2 words of 4 bytes of 16 queries
	c.ADDQ(coarseQ, fineQ)
	c.MOVQ(fineAt, fineE)
	c.ADDQ(coarseE, fineE)
	c.MOVQ(operand.U32(tileBytes), qRow)
	c.MOVQ(operand.U32(nr*4), eRow)
	ahead := c.GP64()
	c.MOVQ(aheadAt, ahead)
	step := c.Load(c.Param("step"), c.GP64())
	coarse, fine := []tile{0, 1, 2}, []tile{3, 4, 5}
	const a, b = tile(6), tile(7)
	for t := range tile(6) {
		zeroTile(c, t)
	}
	c.Label("words")
	fetch := func() {
		c.PREFETCHT1(operand.Mem{Base: ahead})
		c.ADDQ(step, ahead)
	}
	column := func(base reg.GPPhysical, v int) strided { return strided{base, eRow, int32(v * tileBytes)} }
	strided{fineQ, qRow, 0}.load(c, a)
	for v := range vectors {
		column(coarseE, v).load(c, b)
		multiply(c, fine[v], a, b)
		fetch()
	}
	strided{coarseQ, qRow, 0}.load(c, a)
	for v := range vectors {
		column(coarseE, v).load(c, b)
		multiply(c, coarse[v], a, b)
		fetch()
	}
	for v := range vectors {
		column(fineE, v).load(c, b)
		multiply(c, fine[v], a, b)
		if v < 2 {
			fetch()
		}
	}
	for _, r := range []reg.GPPhysical{coarseQ, fineQ} {
		c.ADDQ(operand.U32(tileRows16*tileBytes), r)
	}
	for _, r := range []reg.GPPhysical{coarseE, fineE} {
		c.ADDQ(operand.U32(tileWords*nr*4), r)
	}
	c.SUBQ(operand.Imm(2*tileWords), n)
	c.JNE(operand.LabelRef("words"))
	c.MOVQ(ahead, aheadAt)

	c.Comment("sums, in the order of the scores")
	c.MOVQ(scoresAt, coarseQ)
	c.MOVQ(scratchAt, fineQ)
	for v := range vectors {
		strided{coarseQ, eRow, int32(v * tileBytes)}.store(c, coarse[v])
		strided{fineQ, eRow, int32(v * tileBytes)}.store(c, fine[v])
	}
	left := c.GP64()
	c.MOVQ(operand.U32(tileRows16), left)
	c.Label("row")
	unit := c.ZMM()
	c.VBROADCASTSS(operand.NewDataAddr(operand.NewStaticSymbol(fineUnitName), 0), unit)
	scores, sums := c.GP64(), c.GP64()
	c.MOVQ(scoresAt, scores)
	c.MOVQ(scratchAt, sums)
	var row []reg.VecVirtual
	for v := range vectors {
		s, f := c.ZMM(), c.ZMM()
		c.VCVTDQ2PS(operand.Mem{Base: scores, Disp: v * tileBytes}, s)
		c.VCVTDQ2PS(operand.Mem{Base: sums, Disp: v * tileBytes}, f)
		c.VMULPS(unit, f, f)
		c.VADDPS(f, s, s)
		c.VMOVAPS(s, operand.Mem{Base: scores, Disp: v * tileBytes})
		row = append(row, s)
	}
	c.ADDQ(operand.U32(nr*4), scores)
	c.MOVQ(scores, scoresAt)
	c.ADDQ(operand.U32(nr*4), sums)
	c.MOVQ(sums, scratchAt)
	rows := c.GP64()
	c.MOVQ(rowsAt, rows)
	p.count([][]reg.VecVirtual{row}, rows, outAt)
	c.ADDQ(operand.Imm(4), rowsAt)
	c.DECQ(left)
	c.JNE(operand.LabelRef("row"))

	c.SUBQ(operand.U32(tileRows16*nr*4), scratchAt)
	stride := c.Load(c.Param("qStride"), c.GP64())
	c.SHLQ(operand.Imm(2), stride)
	c.ADDQ(stride, qAt)
	c.DECQ(stripsLeft)
	c.JNE(operand.LabelRef("strip"))
	out, start := c.GP64(), c.Load(c.Param("undecided"), c.GP64())
	c.MOVQ(outAt, out)
	c.SUBQ(start, out)
	c.SHRQ(operand.Imm(4), out)
	c.Store(out, c.ReturnIndex(0))
	release(c)
	c.VZEROUPPER()
	c.RET()
}

const fineUnitName = "fineUnit"

// int8TilePeak is the matrix unit's ceiling: its products on tiles that hold the operands already.
func int8TilePeak(c *build.Context) {
	c.StaticGlobal(fineUnitName)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	c.AppendDatum(operand.F32(float32(1) / 254))

	tilePeak(c, "Int8PeakAMX", "64 by 64 × 16 signed bytes", multiply)
}

// tilePeak emits the loop of one of the matrix unit's products.
func tilePeak(c *build.Context, name, operands string, multiply func(c *build.Context, acc, a, b tile)) {
	const chains = 6
	function(c, name, "func(n int, x *byte)")
	doc(c, fmt.Sprintf(`%s runs n rounds of %d products of tiles, 16 × %s each, on
tiles that begin as the 1,024 bytes at x and those after them; their values matter as in DotPeak. It has no
result but the time that it takes. Requires n > 0.`, name, chains, operands))
	n := c.Load(c.Param("n"), c.GP64())
	c.Load(c.Param("x"), reg.R8)
	c.MOVQ(operand.U32(tileBytes), reg.R9)
	configure(c)
	for t := range tile(8) {
		strided{reg.R8, reg.R9, int32(t) % 2 * tileRows16 * tileBytes}.load(c, t)
	}
	c.Label("round")
	for t := range tile(chains) {
		multiply(c, t, 6, 7)
	}
	c.SUBQ(operand.Imm(1), n)
	c.JNE(operand.LabelRef("round"))
	release(c)
	c.VZEROUPPER()
	c.RET()
}
