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

// This file generates Int16Panel16x48AMX, the panel kernel of two-byte codes, and Int8PeakAMX, the
// ceiling of its products.
//
// The registers of AMX are eight tiles of 16 rows of 64 bytes. Neither avo nor Go's assembler knows
// its instructions. Therefore this file encodes them (Intel SDM, volume 2, TDPBSSD and related: a
// VEX prefix, the opcode, ModRM and SIB), with physical registers.

const (
	tileRows16 = 16 // rows of a tile
	tileBytes  = 64 // bytes in a row
	tileWords  = tileBytes / 4
)

// tile is the number of a tile.
type tile uint8

// amxTile is the feature that has tiles but no products.
const amxTile = "AMXTILE"

// These are the prefixes of a VEX instruction.
const (
	noPrefix = iota
	prefix66
	prefixF3
	prefixF2
)

// vex emits an instruction of map 0F38 as bytes. vvvv is the second source. highBase and highIndex
// report whether the base and the index of the SIB byte are among R8 to R15.
func vex(
	c *build.Context, isa, text string, uses []operand.Op,
	prefix, vvvv, opcode byte, highBase, highIndex bool, rest ...byte,
) {
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

// strided is the memory of a tile: its first row is at base + disp, and rows are stride bytes
// apart.
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

// stream loads a tile that is not used again soon, with the hint that its cache lines need not stay
// in L1.
func (m strided) stream(c *build.Context, t tile) {
	m.emit(c, "TILELOADDT1", prefix66, t)
}

func (m strided) store(c *build.Context, t tile) {
	m.emit(c, "TILESTORED", prefixF3, t)
}

// multiply adds to acc the dot products of the rows of a with the columns of b: signed bytes, four
// to a word.
func multiply(c *build.Context, acc, a, b tile) {
	tileProduct(c, "AMXINT8", "TDPBSSD", prefixF2, 0x5e, acc, a, b)
}

// multiplySplit adds to acc the dot products of the rows of a with the columns of b: bfloat16
// values, two to a word. The first values of the words form one chain of fused multiply-adds and
// the second values another; then the two sums are added.
func multiplySplit(c *build.Context, acc, a, b tile) {
	tileProduct(c, "AMXBF16", "TDPBF16PS", prefixF3, 0x5c, acc, a, b)
}

func tileProduct(c *build.Context, isa, instruction string, prefix, opcode byte, acc, a, b tile) {
	text := fmt.Sprintf("%s tmm%d, tmm%d, tmm%d", instruction, b, a, acc)
	vex(c, isa, text, nil, prefix, byte(b), opcode, false, false, 0xc0|byte(acc)<<3|byte(a))
}

func zeroTile(c *build.Context, t tile) {
	vex(c, amxTile, fmt.Sprintf("TILEZERO tmm%d", t), nil, prefixF2, 0, 0x49, false, false, 0xc0|byte(t)<<3)
}

// configure gives all eight tiles 16 rows of 64 bytes. release frees them, so the system need not
// save them.
func configure(c *build.Context) {
	at := reg.RAX
	c.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol(shapesName), 0), at)
	vex(c, amxTile, "LDTILECFG (AX)", []operand.Op{at}, noPrefix, 0, 0x49, false, false, 0x00)
}

func release(c *build.Context) {
	vex(c, amxTile, "TILERELEASE", nil, noPrefix, 0, 0x49, false, false, 0xc0)
}

const shapesName = "tileShapes"

// tileShapes emits the operand of LDTILECFG: palette 1, then the bytes per row and the rows of each
// tile.
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

const int16Doc = `%[1]s scores strips of %[2]d queries against a panel of %[3]d candidates, and counts
candidates as PanelArgs describes. Words hold four signed codes. Words t < K/2 hold the coarse codes c of a query (c' of
a candidate), and the words after them hold the fine codes f (f'). The score is

	score[i][j] = coarse[i][j] + fine[i][j]/254
	coarse[i][j] = Σ_t Σ_b c[t][i].b·c'[t][j].b
	fine[i][j] = Σ_t Σ_b (c[t][i].b·f'[t][j].b + f[t][i].b·c'[t][j].b)

There are no products of two fine codes. Both sums are exact in int32 and rounded to float32; 1/254, the product
and the total are rounded.

	Psi     [K/16][%[2]d][16]: word t of query i of the first strip is Psi[t/16*16*%[2]d+16*i+t%%16]
	Scores  has %[2]d rows more than there are queries, for use as scratch memory
	Ahead   advances by eight cache lines for every 32 words of a strip

The result is the number of pairs in Undecided. The kernel ignores Add, ExitBelow and Active.

Requires K to be a multiple of 32 and TargetStart not to be nil.`

// tiles emits the panel kernel of two-byte codes and the ceiling of AMX.
func tiles(c *build.Context, args panelArgs) {
	tileShapes(c)
	int16Panel{vectors{c, "AMX", 16, c.ZMM}, args}.emit()
	int8TilePeak(c)
}

// int16Panel keeps the coarse and the fine sums of 16 queries and 48 candidates in six tiles. The
// other two tiles hold the operands.
type int16Panel struct {
	vectors
	args panelArgs
}

const (
	int16Vectors = 3
	int16NR      = int16Vectors * tileWords
)

func (c int16Panel) emit() {
	name := fmt.Sprintf("Int16Panel%dx%d%s", tileRows16, int16NR, c.set)
	function(c.Context, name, "func()")
	c.Signature(c.args.signature)
	doc(c.Context, fmt.Sprintf(int16Doc, name, tileRows16, int16NR))
	c.Pragma("noescape")
	at := c.progress(false, false)

	c.Comment("The offset in bytes of the fine codes in the panel, and the address of the scratch rows of scores")
	scratchAt, fineAt := c.AllocLocal(8), c.AllocLocal(8)
	bytes := field(c.Context, "K", c.GP64())
	c.IMUL3Q(operand.U32(int16NR*4/2), bytes, bytes)
	c.MOVQ(bytes, fineAt)
	scratch := field(c.Context, "Strips", c.GP64())
	c.IMUL3Q(operand.U32(tileRows16*int16NR*4), scratch, scratch)
	c.ADDQ(at.scores, scratch)
	c.MOVQ(scratch, scratchAt)
	configure(c.Context)

	c.Label("strip")
	c.accumulate(at, fineAt)
	c.storeSums(at.scores, scratchAt)
	left := c.GP64()
	c.MOVQ(operand.U32(tileRows16), left)
	holds(c.Context, "queries of the strip left", left)
	c.Label("row")
	row := c.finish(at.scores, scratchAt)
	targetStart := c.GP64()
	c.MOVQ(at.targetStart, targetStart)
	c.count([][]reg.VecVirtual{row}, targetStart, at.undecided)
	c.ADDQ(operand.Imm(4), at.targetStart)
	c.DECQ(left)
	c.JNE(operand.LabelRef("row"))

	c.Comment("The next strip")
	c.SUBQ(operand.U32(tileRows16*int16NR*4), scratchAt)
	stride := field(c.Context, "PsiStride", c.GP64())
	c.SHLQ(operand.Imm(2), stride)
	c.ADDQ(stride, at.psi)
	c.DECQ(at.stripsLeft)
	c.JNE(operand.LabelRef("strip"))
	c.returnPairs(at)
	release(c.Context)
	c.end()
}

// These are the address registers of the tiles. avo does not allocate them, and storeSums reuses
// them.
var (
	coarseQ, fineQ = reg.R8, reg.R9
	coarseE, fineE = reg.R10, reg.R11
	qRow, eRow     = reg.R12, reg.R13
)

// accumulate computes the sums of a strip in tiles 0 to 5.
func (c int16Panel) accumulate(at progress, fineAt operand.Mem) {
	c.MOVQ(at.psi, coarseQ)
	field(c.Context, "Phi", coarseE)
	n := field(c.Context, "K", c.GP64())
	c.MOVQ(n, fineQ)
	c.SHLQ(operand.Imm(5), fineQ) // 16 queries, with K/2 words of 4 bytes each
	c.ADDQ(coarseQ, fineQ)
	c.MOVQ(fineAt, fineE)
	c.ADDQ(coarseE, fineE)
	c.MOVQ(operand.U32(tileBytes), qRow)
	c.MOVQ(operand.U32(int16NR*4), eRow)
	ahead := c.GP64()
	c.MOVQ(at.ahead, ahead)
	step := field(c.Context, "AheadStride", c.GP64())
	holds(c.Context, "addresses of c and f, then of the stored sums", coarseQ, fineQ)
	holds(c.Context, "addresses of c' and f'", coarseE, fineE)
	holds(c.Context, "bytes between rows of tiles of ψ, and of tiles of φ or sums", qRow, eRow)
	holds(c.Context, "words left", n)
	holds(c.Context, "address and stride of the prefetches", ahead, step)
	c.Comment("Accumulate: tmm0–tmm2 hold coarse[i][j] for 16 candidates each, tmm3–tmm5 fine[i][j],",
		"tmm6 words of ψ and tmm7 words of φ")
	coarse, fine := []tile{0, 1, 2}, []tile{3, 4, 5}
	const a, b = tile(6), tile(7)
	for t := range tile(6) {
		zeroTile(c.Context, t)
	}
	c.Label("words")
	fetch := func() {
		c.PREFETCHT1(operand.Mem{Base: ahead})
		c.ADDQ(step, ahead)
	}
	column := func(base reg.GPPhysical, v int) strided { return strided{base, eRow, int32(v * tileBytes)} }
	c.Comment("fine += f·c'")
	strided{fineQ, qRow, 0}.load(c.Context, a)
	for v := range int16Vectors {
		column(coarseE, v).load(c.Context, b)
		multiply(c.Context, fine[v], a, b)
		fetch()
	}
	c.Comment("coarse += c·c'")
	strided{coarseQ, qRow, 0}.load(c.Context, a)
	for v := range int16Vectors {
		column(coarseE, v).load(c.Context, b)
		multiply(c.Context, coarse[v], a, b)
		fetch()
	}
	c.Comment("fine += c·f'")
	for v := range int16Vectors {
		column(fineE, v).load(c.Context, b)
		multiply(c.Context, fine[v], a, b)
		if v < 2 {
			fetch()
		}
	}
	for _, r := range []reg.GPPhysical{coarseQ, fineQ} {
		c.ADDQ(operand.U32(tileRows16*tileBytes), r)
	}
	for _, r := range []reg.GPPhysical{coarseE, fineE} {
		c.ADDQ(operand.U32(tileWords*int16NR*4), r)
	}
	c.SUBQ(operand.Imm(2*tileWords), n)
	c.JNE(operand.LabelRef("words"))
	c.MOVQ(ahead, at.ahead)
}

// storeSums stores the coarse sums in place of the scores and the fine sums in the scratch rows.
func (c int16Panel) storeSums(scoresAt, scratchAt operand.Mem) {
	c.Comment("Store the sums; a tile holds 16 of the 48 columns")
	c.MOVQ(scoresAt, coarseQ)
	c.MOVQ(scratchAt, fineQ)
	for v := range tile(int16Vectors) {
		strided{coarseQ, eRow, int32(v * tileBytes)}.store(c.Context, v)
		strided{fineQ, eRow, int32(v * tileBytes)}.store(c.Context, int16Vectors+v)
	}
}

// finish combines the sums of the next row into scores, stores the scores and returns them.
func (c int16Panel) finish(scoresAt, scratchAt operand.Mem) (row []reg.VecVirtual) {
	c.Comment("Finish a row: score = float32(coarse) + float32(fine)·(1/254)")
	unit := c.broadcast(operand.NewDataAddr(operand.NewStaticSymbol(fineUnitName), 0))
	scores, sums := c.GP64(), c.GP64()
	c.MOVQ(scoresAt, scores)
	c.MOVQ(scratchAt, sums)
	var fines []reg.VecVirtual
	for v := range int16Vectors {
		s, f := c.vec(), c.vec()
		c.VCVTDQ2PS(operand.Mem{Base: scores, Disp: v * tileBytes}, s)
		c.VCVTDQ2PS(operand.Mem{Base: sums, Disp: v * tileBytes}, f)
		c.VMULPS(unit, f, f)
		c.VADDPS(f, s, s)
		c.VMOVAPS(s, operand.Mem{Base: scores, Disp: v * tileBytes})
		row, fines = append(row, s), append(fines, f)
	}
	holds(c.Context, "1/254", unit)
	holds(c.Context, "scores of a query", row...)
	holds(c.Context, "fine sums of a query", fines...)
	c.ADDQ(operand.U32(int16NR*4), scores)
	c.MOVQ(scores, scoresAt)
	c.ADDQ(operand.U32(int16NR*4), sums)
	c.MOVQ(sums, scratchAt)
	return row
}

const fineUnitName = "fineUnit"

// int8TilePeak emits the ceiling of AMX: products of tiles that are loaded once.
func int8TilePeak(c *build.Context) {
	c.StaticGlobal(fineUnitName)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	c.AppendDatum(operand.F32(float32(1) / 254))

	tilePeak(c, "Int8PeakAMX", "64 by 64 × 16 signed bytes", multiply)
}

// tilePeak emits a loop of one kind of product.
func tilePeak(c *build.Context, name, operands string, multiply func(c *build.Context, acc, a, b tile)) {
	const chains = 6
	function(c, name, "func(n int, x *byte)")
	doc(c, fmt.Sprintf(`%s runs n rounds of %d products of tiles. Each multiplies 16 × %s. The tiles initially hold the
1,024 bytes at x and the next 1,024 bytes. The values of these bytes affect the speed, as in DotPeak. The loop has no
result: callers measure its time.

Requires n > 0.`, name, chains, operands))
	n := parameter(c, "n", c.GP64())
	parameter(c, "x", reg.R8)
	c.MOVQ(operand.U32(tileBytes), reg.R9)
	configure(c)
	for t := range tile(8) {
		strided{reg.R8, reg.R9, int32(t) % 2 * tileRows16 * tileBytes}.load(c, t)
	}
	c.Label("round")
	for t := range tile(chains) {
		multiply(c, t, 6, 7)
	}
	holds(c, "rounds left", n)
	c.SUBQ(operand.Imm(1), n)
	c.JNE(operand.LabelRef("round"))
	release(c)
	c.VZEROUPPER()
	c.RET()
}
