package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the kernels for norms of groups whose size is an argument: GroupNormPanel,
// GroupNormPeak and PairGroupNorm, for AVX512 and AVX2. codes_norm.go uses its loops for codes.

// anyGroup stands for a group whose size is an argument.
const anyGroup = 0

// groupNormComparison has two accumulators for each vector of scores: the chain, and the sum of
// squares of the current group. The registers of AVX2 hold only the sums of squares. The chains are in
// memory, because a group needs them only once.
var groupNormComparison = comparison{
	name: "GroupNorm", group: anyGroup, psi: 1, phi: 1, falling: true, rows512: 4, rows256: 6, constants: loadTiny,
	equation: `score[i][j] = −Σ_g √(Σ_u (ψ[t+u][i] − φ[t+u][j])²), u < Group, t = g·Group

in float32, with g ascending. The root is approximate: √s ≈ s·r, where r ≈ 1/√s comes from the processor (14 bits in
AVX-512, nearly 12 in AVX2) and s is one chain of fused multiply-adds from 2⁻¹²⁶ with u ascending.`,
	groupSquares: vectors.addSquares,
	groupRoot:    func(c vectors, _ fixed, squares, acc reg.VecVirtual) { c.subtractRoot(squares, acc) },
}

// addSquares adds the squares of ψ − φ to the sums of squares. If first is set, the coordinate is
// the first of its group, and the sums start from 2⁻¹²⁶.
func (c vectors) addSquares(k fixed, psi *entry, phi, squares reg.VecVirtual, first bool) {
	if first {
		psi.subtract(c, phi, squares)
		c.VFMADD213PS(k.tiny, squares, squares)
		return
	}
	d := c.vec()
	psi.subtract(c, phi, d)
	c.VFMADD231PS(d, d, squares)
}

// subtractRoot subtracts the roots of squares from acc.
func (c vectors) subtractRoot(squares, acc reg.VecVirtual) {
	r := c.vec()
	c.inverseRoot(squares, r)
	c.VFNMADD231PS(squares, r, acc)
}

// scoreGroups is panel.score for groups of any size.
func (c panel) scoreGroups(at progress) (acc [][]reg.VecVirtual) {
	k := c.constants(c.vectors)
	psi, scores, ahead := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at.psi, psi)
	c.MOVQ(at.scores, scores)
	c.MOVQ(at.ahead, ahead)
	phi := field(c.Context, "Phi", c.GP64())
	left := field(c.Context, "K", c.GP64())
	group := field(c.Context, "Group", c.GP64())
	aheadStride := field(c.Context, "AheadStride", c.GP64())
	c.Comment("Prefetch after every coordinate, not every four")
	c.SHRQ(operand.Imm(2), aheadStride)
	squares, chains := matrixOf(c.vectors, c.mr, c.wide), c.chains()
	c.Comment("The chains begin at 0")
	for i, row := range squares {
		for v, s := range row {
			chains.begin(i, v, s)
		}
	}
	holds(c.Context, "address of ψ", psi)
	holds(c.Context, "address of φ", phi)
	holds(c.Context, "coordinates left, and coordinates in a group", left, group)
	holds(c.Context, "address and stride of the prefetches", ahead, aheadStride)
	holds(c.Context, "address of the strip's scores", scores)
	rest := c.GP64()

	coordinate := func(first bool) {
		candidates := make([]reg.VecVirtual, c.wide)
		for v := range candidates {
			candidates[v] = c.load(operand.Mem{Base: phi, Disp: 4 * v * c.lanes})
		}
		holds(c.Context, "φ[t][j] of the panel's candidates", candidates...)
		for i, row := range squares {
			query := &entry{c: c.vectors, at: operand.Mem{Base: psi, Disp: 4 * i}, what: entryOfPsi}
			c.perRegister(c.wide, func(piece vectors, v int) {
				c.groupSquares(piece, k, query, candidates[v], row[v], first)
			})
		}
		c.PREFETCHT1(operand.Mem{Base: ahead})
		c.ADDQ(aheadStride, ahead)
		c.ADDQ(operand.U32(c.mr*4), psi)
		c.ADDQ(operand.U32(c.nr()*4), phi)
		c.SUBQ(operand.Imm(1), rest)
	}
	c.Comment("The first coordinate of a group")
	c.Label("group")
	c.MOVQ(group, rest)
	holds(c.Context, "coordinates left in the group", rest)
	coordinate(true)
	holds(c.Context, "sums of squares of the group", slices.Concat(squares...)...)
	c.Comment("The other coordinates of the group")
	c.Label("coordinate")
	coordinate(false)
	c.JNE(operand.LabelRef("coordinate"))
	c.Comment("Subtract the roots")
	for i, row := range squares {
		for v, s := range row {
			chains.update(i, v, func(sum reg.VecVirtual) { c.groupRoot(c.vectors, k, s, sum) })
		}
	}
	c.SUBQ(group, left)
	c.JNE(operand.LabelRef("group"))
	acc = chains.load()
	holds(c.Context, fmt.Sprintf("sums: score[i][j] of query i < %d, %d registers per query", c.mr, c.wide),
		slices.Concat(acc...)...)
	c.finish(acc, scores, at)
	c.MOVQ(ahead, at.ahead)
	return acc
}

// chains holds the scores of a strip while scoreGroups adds groups to them: in registers, or from
// Sums in memory if address is not nil.
type chains struct {
	panel
	address   reg.Register
	registers [][]reg.VecVirtual
}

func (c panel) chains() chains {
	r := chains{panel: c}
	if c.lanes == 16 {
		r.registers = matrixOf(c.vectors, c.mr, c.wide)
		return r
	}
	r.address = field(c.Context, "Sums", c.GP64())
	holds(c.Context, "address of the chains", r.address)
	return r
}

func (c chains) at(i, v int) operand.Mem { return at(c.address, (i*c.wide+v)*c.lanes) }

// begin stores zero, a register that is 0, unless the chains are in registers.
func (c chains) begin(i, v int, zero reg.VecVirtual) {
	if c.address != nil {
		c.VMOVAPS(zero, c.at(i, v))
	}
}

// update applies change to register v of the scores of query i.
func (c chains) update(i, v int, change func(sum reg.VecVirtual)) {
	if c.address == nil {
		change(c.registers[i][v])
		return
	}
	sum := c.vectors.load(c.at(i, v))
	change(sum)
	c.VMOVAPS(sum, c.at(i, v))
}

// load returns registers with the scores.
func (c chains) load() [][]reg.VecVirtual {
	if c.address == nil {
		return c.registers
	}
	acc := make([][]reg.VecVirtual, c.mr)
	for i := range acc {
		for v := range c.wide {
			acc[i] = append(acc[i], c.vectors.load(c.at(i, v)))
		}
	}
	return acc
}

// emitGroupPeak emits the loop with the arithmetic of a panel kernel for groups of any size.
func (k comparison) emitGroupPeak(c vectors) {
	groups, sums := peakChains, peakChains
	if c.lanes == 8 {
		// 16 registers hold enough sums of squares to hide the latency of the additions if groups share
		// the sums of roots.
		groups, sums = 8, 4
	}
	name := k.name + "Peak" + c.set
	function(c.Context, name, "func(n, group int, x *float32)")
	doc(c.Context, fmt.Sprintf(`%s runs n rounds of the arithmetic of %d groups of the %s panel kernel, each
for %d candidates. It works on registers alone, which initially hold x[0..%d]. The values of x affect the speed, as in
NormPeak.

Requires n > 0 and group > 1.`, name, groups, k.name, c.lanes, 2*c.lanes-1))
	n, group, x := c.param("n"), c.param("group"), c.param("x")
	same := k.constants(c)
	psi, phi := &entry{register: c.load(at(x, 0))}, c.load(at(x, c.lanes))
	acc, squares := make([]reg.VecVirtual, sums), make([]reg.VecVirtual, groups)
	for i := range acc {
		acc[i] = c.load(at(x, 0))
	}
	for i := range squares {
		squares[i] = c.vec()
	}
	holds(c.Context, "sums", acc...)
	holds(c.Context, "ψ and φ", psi.register, phi)
	rest := c.GP64()
	c.Label("group")
	for _, s := range squares {
		k.groupSquares(c, same, psi, phi, s, true)
	}
	holds(c.Context, "sums of squares", squares...)
	c.MOVQ(group, rest)
	holds(c.Context, "coordinates left in the group", rest)
	c.SUBQ(operand.Imm(1), rest)
	c.Label("coordinate")
	for _, s := range squares {
		k.groupSquares(c, same, psi, phi, s, false)
	}
	c.SUBQ(operand.Imm(1), rest)
	c.JNE(operand.LabelRef("coordinate"))
	for i, s := range squares {
		k.groupRoot(c, same, s, acc[i%sums])
	}
	c.SUBQ(operand.Imm(1), n)
	c.JNE(operand.LabelRef("group"))
	c.end()
}

const pairGroupNormDoc = `%s compares one row with listed rows of a table, in float64 from the float32 entries:

	out[i] = −Σ_g √(Σ_u (x[t+u] − table[ids[i]*stride+t+u])²),   g < groups, u < group, t = g·group, i < count

Square u of a group goes to lane u mod 8. The lanes a[0..7] of a group are added up: a[i] += a[i+4] for i < 4, a[i] +=
a[i+2] for i < 2, then a[0] + a[1]. Every operation is rounded.

Requires groups > 0, group > 0 and count > 0.`

// maskName is the symbol of eight words of −1 and eight zeros.
const maskName = "group_masks"

func pairGroupNorm(c *build.Context, set string, lanes int) {
	const squareLanes = 8
	if lanes == 8 { // AVX512 comes first, and AVX2 uses the same masks
		c.StaticGlobal(maskName)
		c.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 2 * squareLanes {
			word := uint32(0)
			if i < squareLanes {
				word = 1<<32 - 1
			}
			c.AppendDatum(operand.U32(word))
		}
	}
	vec, half := c.ZMM, c.YMM // a vector of float64, and half a vector of float32
	if lanes == 4 {
		vec, half = c.YMM, c.XMM
	}
	name := "PairGroupNorm" + set
	function(c, name,
		"func(x *float32, groups, group int, table *float32, stride int, ids *int32, count int, out *float64)")
	doc(c, fmt.Sprintf(pairGroupNormDoc, name))
	c.Pragma("noescape")
	load := func(name string) reg.GPVirtual { return parameter(c, name, c.GP64()) }
	x, group, table, stride := load("x"), load("group"), load("table"), load("stride")
	ids, count, out := load("ids"), load("count"), load("out")
	c.SHLQ(operand.Imm(2), stride)

	c.Comment("The masks of the values after the last multiple of 8 in a group: −1 for these values")
	tail, masks := c.GP64(), c.GP64()
	c.MOVQ(group, tail)
	c.ANDQ(operand.Imm(squareLanes-1), tail)
	c.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol(maskName), 4*squareLanes), masks)
	c.NEGQ(tail)
	c.LEAQ(operand.Mem{Base: masks, Index: tail, Scale: 4}, masks)
	c.NEGQ(tail)
	holds(c, "values after the last multiple of 8 in a group", tail)
	vectors := squareLanes / lanes
	some := make([]reg.Register, vectors) // mask registers, or vectors of masks
	for v := range some {
		m := half()
		c.VMOVUPS(operand.Mem{Base: masks, Disp: 4 * lanes * v}, m)
		some[v] = m
		if lanes == 8 {
			k := c.K()
			c.VPMOVD2M(m, k)
			some[v] = k
		}
	}
	holds(c, "masks of these values", some...)

	c.Comment("The next row: table + ids[i]*stride")
	c.Label("row")
	row, at, left, rest := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.MOVLQSX(operand.Mem{Base: ids}, row)
	c.IMULQ(stride, row)
	c.ADDQ(table, row)
	c.XORQ(at, at)
	c.Load(c.Param("groups"), left)
	holds(c, "address of the row, and value t", row, at)
	holds(c, "groups left", left)
	sum := c.XMM()
	c.VXORPD(sum, sum, sum)
	holds(c, "sum", sum)

	c.Label("group")
	acc := make([]reg.VecVirtual, vectors)
	for v := range acc {
		acc[v] = vec()
		c.VXORPD(acc[v].AsX(), acc[v].AsX(), acc[v].AsX()) // also clears the upper half of the register
	}
	holds(c, "sums of the eight lanes", acc...)
	square := func(v int, a, b reg.VecVirtual) {
		c.VSUBPD(b, a, a)
		c.VMULPD(a, a, a)
		c.VADDPD(a, acc[v], acc[v])
	}
	value := func(base reg.Register, v int) operand.Mem {
		return operand.Mem{Base: base, Index: at, Scale: 4, Disp: 4 * lanes * v}
	}
	c.MOVQ(group, rest)
	holds(c, "values left in the group", rest)
	c.SUBQ(operand.Imm(squareLanes), rest)
	c.JLT(operand.LabelRef("tail"))
	c.Comment("Eight values")
	c.Label("eight")
	for v := range acc {
		a, b := vec(), vec()
		c.VCVTPS2PD(value(x, v), a)
		c.VCVTPS2PD(value(row, v), b)
		square(v, a, b)
	}
	c.ADDQ(operand.Imm(squareLanes), at)
	c.SUBQ(operand.Imm(squareLanes), rest)
	c.JGE(operand.LabelRef("eight"))
	c.Comment("Fewer than eight values")
	c.Label("tail")
	c.TESTQ(tail, tail)
	c.JEQ(operand.LabelRef("root"))
	for v := range acc {
		masked := func(base reg.Register) reg.VecVirtual {
			wide := vec()
			if lanes == 8 {
				c.VCVTPS2PD_Z(value(base, v), some[v], wide)
				return wide
			}
			r := half()
			c.VMASKMOVPS(value(base, v), some[v], r)
			c.VCVTPS2PD(r, wide)
			return wide
		}
		square(v, masked(x), masked(row))
	}
	c.ADDQ(tail, at)
	c.Comment("Add the lanes, and subtract the root")
	c.Label("root")
	upper := acc[len(acc)-1]
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
	c.VSQRTSD(s2, s2, s2)
	c.VSUBSD(s2, sum, sum)
	c.DECQ(left)
	c.JNE(operand.LabelRef("group"))
	c.VMOVSD(sum, operand.Mem{Base: out})
	c.ADDQ(operand.Imm(4), ids)
	c.ADDQ(operand.Imm(8), out)
	c.DECQ(count)
	c.JNE(operand.LabelRef("row"))
	c.VZEROUPPER()
	c.RET()
}
