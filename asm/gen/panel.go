package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Predicates of VCMPPS.
const (
	notLess = 0x15 // NLT_UQ: !(a < b), true for NaN, quiet
	greater = 0x1e // GT_OQ: a > b, false for NaN, quiet
)

const unroll = 4 // terms

const panelDoc = `%[1]s scores strips of %[2]d queries against k terms of a panel of %[3]d candidates;
with the last terms it counts, for every truth of every query, the candidates that are
certainly better.

	q      [k][%[2]d]  terms of the first strip: entry t of query i at q[t*%[2]d+i]; those of the next
	                  strip lie qStride elements further on
	e      [k][%[3]d]  terms of the panel: entry t of candidate j at e[t*%[3]d+j]
	scores [strips*%[2]d][%[3]d] 64-byte aligned: %[4]s;
	                  if add is not 0, the sum is added to the score that was there
%[5]s	rows   [strips*%[2]d+1]  truths of query i are rows[i] ≤ t < rows[i+1]; nil: do not count
	ends   [][2]      of truth t: lo, hi
	better []         of truth t: its count goes up by the number of valid candidates with score > hi
	undecided         a pair (t, mask) is appended for every truth with valid candidates of neither
	                  score > hi nor score < lo (NaN is undecided); room for one pair more than truths
	valid             bit j set: candidate j counts
	ahead, step       every four terms of a strip, the cache line at this address, which need not be
	                  valid, is fetched into L2, and the address goes up by step bytes

It returns the number of pairs appended. Requires k > 0%[6]s, strips > 0.`

const dropDoc = `	drop   [strips*%d] no final score below this matters to the query; nil: do not look
	alive  [strips]   a strip with 0 is passed over; becomes 0 when every score is below its drop
`

// panel is a kernel that scores and counts: what differs between the comparisons and the
// instruction sets.
type panel struct {
	*build.Context
	name               string
	mr, vectors, lanes int
	vec                func() reg.VecVirtual
	// score is the doc comment of a score.
	score string
	// unit is the number of terms that belong together, 1 or 2.
	unit int
	// falling says that more terms never raise a score, so that strips can be dropped early.
	falling bool
	// integer says that the accumulators hold int32; they are converted to float32 for counting.
	integer bool
	// constants prepares registers that stay the same in every strip.
	constants func(panel)
	// update adds one unit to the accumulator, given the query's and the candidates' registers.
	update func(c panel, q, e []reg.VecVirtual, acc reg.VecVirtual)
}

func panels(c *build.Context) {
	tinyData(c)
	bytes := int8Panel
	bytes.Context, bytes.lanes, bytes.vectors, bytes.vec, bytes.mr = c, 16, 3, c.ZMM, 9
	bytes.emit("AVX512VNNI")
	for _, k := range []panel{dotPanel, l1Panel, normPanel, phasePanel} {
		k512, k256 := k, k
		k512.Context, k512.lanes, k512.vectors, k512.vec = c, 16, 3, c.ZMM
		k256.Context, k256.lanes, k256.vectors, k256.vec = c, 8, 2, c.YMM
		rows := tileRows[k.name]
		k512.mr, k256.mr = rows[0], rows[1]
		k512.emit("AVX512")
		k256.emit("AVX2")
	}
}

// tileRows holds the queries in a tile: with 48 candidates in AVX-512, with 16 in AVX2, as many as
// the registers hold.
var tileRows = map[string][2]int{"Dot": {9, 6}, "L1": {8, 5}, "Norm": {6, 4}, "Phase": {6, 4}}

var dotPanel = panel{
	name: "Dot", unit: 1,
	score: `Σ_t q[t][i]·e[t][j], float32, one chain of
	                  fused multiply-adds from 0 with t ascending`,
	update: func(c panel, q, e []reg.VecVirtual, acc reg.VecVirtual) { c.VFMADD231PS(e[0], q[0], acc) },
}

// int8Panel takes four dimensions as one term: the bytes of a 32-bit word, signed in the queries,
// unsigned in the candidates.
var int8Panel = panel{
	name: "Int8", unit: 1, integer: true,
	score: `Σ_t q[t][i]·e[t][j], where · is the dot product of
	                  four signed bytes of q and four unsigned bytes of e, exact in int32;
	                  with the last terms, if rows is not nil, rounded to float32`,
	update: func(c panel, q, e []reg.VecVirtual, acc reg.VecVirtual) { c.VPDPBUSD(q[0], e[0], acc) },
}

// signMask and tiny, 2⁻¹²⁶ in every lane, are constants of a kernel, set by its constants function.
var (
	signMask reg.VecVirtual
	tiny     operand.Op
)

const tinyName = "tiny"

func tinyData(c *build.Context) {
	c.StaticGlobal(tinyName)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for range 8 {
		c.AppendDatum(operand.U32(0x00800000))
	}
}

func setSignMask(c panel) {
	signMask = c.vec()
	if c.lanes == 16 {
		c.VPTERNLOGD(operand.Imm(0xff), signMask, signMask, signMask)
	} else {
		c.VPCMPEQD(signMask, signMask, signMask)
	}
	c.VPSRLD(operand.Imm(1), signMask, signMask)
}

func (c panel) absolute(x reg.VecVirtual) {
	if c.lanes == 16 {
		c.VPANDD(signMask, x, x)
	} else {
		c.VANDPS(signMask, x, x)
	}
}

var l1Panel = panel{
	name: "L1", unit: 1, falling: true, constants: setSignMask,
	score: `−Σ_t |q[t][i] − e[t][j]|, float32, one chain of
	                  subtractions from 0 with t ascending`,
	update: func(c panel, q, e []reg.VecVirtual, acc reg.VecVirtual) {
		d := c.vec()
		c.VSUBPS(e[0], q[0], d)
		c.absolute(d)
		c.VSUBPS(d, acc, acc)
	},
}

var normPanel = panel{
	name: "Norm", unit: 2, falling: true,
	constants: func(c panel) {
		if c.lanes == 16 {
			r := c.vec()
			c.VPTERNLOGD(operand.Imm(0xff), r, r, r)
			c.VPSRLD(operand.Imm(31), r, r)
			c.VPSLLD(operand.Imm(23), r, r)
			tiny = r
			return
		}
		tiny = operand.NewDataAddr(operand.NewStaticSymbol(tinyName), 0) // no register is left
	},
	score: `−Σ √(x² + y²), float32, t = 0, 2, …, with x, y the
	                  differences q − e of terms t and t+1; the root is approximate, √s ≈ s/√s
	                  with the processor's 1/√s (14 bits in AVX-512, nearly 12 in AVX2),
	                  s = x² + y² + 2⁻¹²⁶`,
	update: func(c panel, q, e []reg.VecVirtual, acc reg.VecVirtual) {
		x, y := c.vec(), c.vec()
		c.VSUBPS(e[0], q[0], x)
		c.VSUBPS(e[1], q[1], y)
		c.VFMADD213PS(tiny, x, x)
		c.VFMADD231PS(y, y, x)
		if c.lanes == 16 {
			c.VRSQRT14PS(x, y)
		} else {
			c.VRSQRTPS(x, y)
		}
		c.VFNMADD231PS(x, y, acc)
	},
}

var phasePanel = panel{
	name: "Phase", unit: 2, falling: true, constants: setSignMask,
	score: `−Σ |q[t][i]·e[t][j] + q[t+1][i]·e[t+1][j]|, float32,
	                  t = 0, 2, …, the second product fused, one chain of subtractions from 0`,
	update: func(c panel, q, e []reg.VecVirtual, acc reg.VecVirtual) {
		p := c.vec()
		c.VMULPS(q[0], e[0], p)
		c.VFMADD231PS(q[1], e[1], p)
		c.absolute(p)
		c.VSUBPS(p, acc, acc)
	},
}

func (c panel) emit(set string) {
	nr := c.vectors * c.lanes
	name := fmt.Sprintf("%sPanel%dx%d%s", c.name, c.mr, nr, set)
	function(c.Context, name, "func(q *float32, qStride int, e *float32, k, strips int, scores *float32, add int, drop *float32, alive *uint8, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64, ahead uintptr, step int) int")
	drop, even := "	drop, alive       not used\n", ""
	if c.falling {
		drop = fmt.Sprintf(dropDoc, c.mr)
	}
	if c.unit == 2 {
		even = " and even"
	}
	doc(c.Context, fmt.Sprintf(panelDoc, name, c.mr, nr, c.score, drop, even))
	c.Pragma("noescape")

	qAt, stripsLeft, scoresAt := c.state("q"), c.state("strips"), c.state("scores")
	rowsAt, outAt, aheadAt := c.state("rows"), c.state("undecided"), c.state("ahead")
	var dropAt, aliveAt operand.Mem
	if c.falling {
		dropAt, aliveAt = c.state("drop"), c.state("alive")
	}

	c.Label("strip")
	if c.falling {
		c.ifDropping(dropAt, "begin", func() {
			alive := c.GP64()
			c.MOVQ(aliveAt, alive)
			c.CMPB(operand.Mem{Base: alive}, operand.Imm(0))
			c.JEQ(operand.LabelRef("next"))
		})
	}
	if c.constants != nil {
		c.constants(c)
	}
	q, scores, ahead := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(qAt, q)
	c.MOVQ(scoresAt, scores)
	c.MOVQ(aheadAt, ahead)
	e := c.Load(c.Param("e"), c.GP64())
	n := c.Load(c.Param("k"), c.GP64())
	step := c.Load(c.Param("step"), c.GP64())
	acc := make([][]reg.VecVirtual, c.mr)
	for i := range acc {
		for range c.vectors {
			acc[i] = append(acc[i], c.vec())
		}
	}
	for _, row := range acc {
		for _, a := range row {
			c.zero(a)
		}
	}
	c.Comment(fmt.Sprintf("%d terms a round", unroll))
	c.SUBQ(operand.Imm(unroll), n)
	c.JLT(operand.LabelRef("rest"))
	c.Label("terms")
	for u := 0; u < unroll; u += c.unit {
		c.terms(q, e, u, acc)
	}
	c.PREFETCHT1(operand.Mem{Base: ahead})
	c.ADDQ(step, ahead)
	c.ADDQ(operand.U32(unroll*c.mr*4), q)
	c.ADDQ(operand.U32(unroll*nr*4), e)
	c.SUBQ(operand.Imm(unroll), n)
	c.JGE(operand.LabelRef("terms"))
	c.Label("rest")
	c.ADDQ(operand.Imm(unroll), n)
	c.JEQ(operand.LabelRef("sum"))
	c.Label("term")
	c.terms(q, e, 0, acc)
	c.ADDQ(operand.U32(c.unit*c.mr*4), q)
	c.ADDQ(operand.U32(c.unit*nr*4), e)
	c.SUBQ(operand.Imm(uint64(c.unit)), n)
	c.JNE(operand.LabelRef("term"))

	c.Label("sum")
	add := c.Load(c.Param("add"), c.GP64())
	c.TESTQ(add, add)
	c.JEQ(operand.LabelRef("store"))
	c.eachScore(acc, scores, func(a reg.VecVirtual, m operand.Mem) {
		if c.integer {
			c.VPADDD(m, a, a)
			return
		}
		c.VADDPS(m, a, a)
	})
	c.Label("store")
	if c.integer {
		c.ifNotNil(rowsAt, "last", func() {
			for _, row := range acc {
				for _, a := range row {
					c.VCVTDQ2PS(a, a)
				}
			}
		})
	}
	c.eachScore(acc, scores, func(a reg.VecVirtual, m operand.Mem) { c.VMOVAPS(a, m) })
	c.MOVQ(ahead, aheadAt)
	if c.falling {
		c.ifDropping(dropAt, "look", func() { c.markAlive(acc, dropAt, aliveAt) })
	}

	rows := c.GP64()
	c.MOVQ(rowsAt, rows)
	c.TESTQ(rows, rows)
	c.JEQ(operand.LabelRef("next"))
	c.count(acc, rows, outAt)

	c.Label("next")
	stride := c.Load(c.Param("qStride"), c.GP64())
	c.SHLQ(operand.Imm(2), stride)
	c.ADDQ(stride, qAt)
	c.ADDQ(operand.U32(4*c.mr*nr), scoresAt)
	c.ifNotNil(rowsAt, "rows", func() { c.ADDQ(operand.U32(4*c.mr), rowsAt) })
	if c.falling {
		c.ifDropping(dropAt, "step", func() {
			c.ADDQ(operand.U32(4*c.mr), dropAt)
			c.INCQ(aliveAt)
		})
	}
	c.DECQ(stripsLeft)
	c.JNE(operand.LabelRef("strip"))
	out, start := c.GP64(), c.Load(c.Param("undecided"), c.GP64())
	c.MOVQ(outAt, out)
	c.SUBQ(start, out)
	c.SHRQ(operand.Imm(4), out)
	c.Store(out, c.ReturnIndex(0))
	c.VZEROUPPER()
	c.RET()
}

// state copies a parameter to memory, where the state of the loop over strips lives: counting wants
// the registers.
func (c panel) state(param string) operand.Mem {
	m := c.AllocLocal(8)
	c.MOVQ(c.Load(c.Param(param), c.GP64()), m)
	return m
}

// ifNotNil runs emit if the pointer in memory is not nil.
func (c panel) ifNotNil(at operand.Mem, label string, emit func()) {
	p := c.GP64()
	c.MOVQ(at, p)
	c.TESTQ(p, p)
	c.JEQ(operand.LabelRef("not_" + label))
	emit()
	c.Label("not_" + label)
}

func (c panel) ifDropping(dropAt operand.Mem, label string, emit func()) {
	c.ifNotNil(dropAt, label, emit)
}

// markAlive clears the strip's mark if every score is below its query's drop.
func (c panel) markAlive(acc [][]reg.VecVirtual, dropAt, aliveAt operand.Mem) {
	drop, alive := c.GP64(), c.GP64()
	c.MOVQ(dropAt, drop)
	c.MOVQ(aliveAt, alive)
	if c.lanes == 16 {
		any, k := c.K(), c.K()
		c.KXORW(any, any, any)
		for i, row := range acc {
			limit := c.vec()
			c.VBROADCASTSS(operand.Mem{Base: drop, Disp: 4 * i}, limit)
			for _, a := range row {
				c.VCMPPS(operand.Imm(notLess), limit, a, k)
				c.KORW(k, any, any)
			}
		}
		c.KORTESTW(any, any)
	} else {
		any, m, limit := c.vec(), c.vec(), c.vec()
		c.VXORPS(any, any, any)
		for i, row := range acc {
			c.VBROADCASTSS(operand.Mem{Base: drop, Disp: 4 * i}, limit)
			for _, a := range row {
				c.VCMPPS(operand.Imm(notLess), limit, a, m)
				c.VORPS(m, any, any)
			}
		}
		mask := c.GP32()
		c.VMOVMSKPS(any, mask)
		c.TESTL(mask, mask)
	}
	c.SETNE(operand.Mem{Base: alive})
}

func (c panel) zero(a reg.VecVirtual) {
	if c.lanes == 16 {
		c.VPXORD(a, a, a)
	} else {
		c.VXORPS(a, a, a)
	}
}

// terms adds one unit of terms to every score.
func (c panel) terms(q, e reg.Register, u int, acc [][]reg.VecVirtual) {
	load := func(x reg.Register, index, bytes int) operand.Mem { return operand.Mem{Base: x, Disp: index * bytes} }
	es := make([][]reg.VecVirtual, c.vectors)
	for v := range es {
		for t := range c.unit {
			r := c.vec()
			c.VMOVUPS(load(e, (u+t)*c.vectors+v, c.lanes*4), r)
			es[v] = append(es[v], r)
		}
	}
	for i, row := range acc {
		var qs []reg.VecVirtual
		for t := range c.unit {
			r := c.vec()
			c.VBROADCASTSS(load(q, (u+t)*c.mr+i, 4), r)
			qs = append(qs, r)
		}
		for v, a := range row {
			c.update(c, qs, es[v], a)
		}
	}
}

func (c panel) eachScore(acc [][]reg.VecVirtual, scores reg.Register, f func(reg.VecVirtual, operand.Mem)) {
	for i, row := range acc {
		for v, a := range row {
			f(a, operand.Mem{Base: scores, Disp: (i*c.vectors + v) * c.lanes * 4})
		}
	}
}

// count compares every row, still in registers, with the two ends of each of its truths.
func (c panel) count(acc [][]reg.VecVirtual, rows reg.Register, outAt operand.Mem) {
	ends := c.Load(c.Param("ends"), c.GP64())
	better := c.Load(c.Param("better"), c.GP64())
	out := c.GP64()
	c.MOVQ(outAt, out)
	valid := c.GP64()
	c.Load(c.Param("valid"), valid)

	var validK []reg.OpmaskVirtual
	if c.lanes == 16 {
		for v := range c.vectors {
			k := c.K()
			c.KMOVW(valid.As32(), k)
			validK = append(validK, k)
			if v+1 < c.vectors {
				c.SHRQ(operand.Imm(16), valid)
			}
		}
	}
	t, end := c.GP64(), c.GP64()
	for i, row := range acc {
		next, done := fmt.Sprintf("truth%d", i), fmt.Sprintf("row%d", i+1)
		c.MOVLQSX(operand.Mem{Base: rows, Disp: 4 * i}, t)
		c.MOVLQSX(operand.Mem{Base: rows, Disp: 4 * (i + 1)}, end)
		c.CMPQ(t, end)
		c.JGE(operand.LabelRef(done))
		c.Label(next)
		lo, hi := c.vec(), c.vec()
		c.VBROADCASTSS(operand.Mem{Base: ends, Index: t, Scale: 8}, lo)
		c.VBROADCASTSS(operand.Mem{Base: ends, Index: t, Scale: 8, Disp: 4}, hi)
		above, open := c.GP64(), c.GP64()
		if c.lanes == 16 {
			c.masks512(row, lo, hi, validK, above, open)
		} else {
			c.masks256(row, lo, hi, valid, above, open)
		}
		c.MOVQ(t, operand.Mem{Base: out})
		c.MOVQ(open, operand.Mem{Base: out, Disp: 8})
		c.Comment("keep the pair if its mask is not empty")
		keep := c.GP64()
		c.XORL(keep.As32(), keep.As32())
		c.TESTQ(open, open)
		c.SETNE(keep.As8())
		c.SHLQ(operand.Imm(4), keep)
		c.ADDQ(keep, out)
		c.POPCNTQ(above, above)
		c.ADDL(above.As32(), operand.Mem{Base: better, Index: t, Scale: 4})
		c.INCQ(t)
		c.CMPQ(t, end)
		c.JLT(operand.LabelRef(next))
		c.Label(done)
	}
	c.MOVQ(out, outAt)
}

// masks512 sets above to the valid lanes with score > hi, open to those with neither
// score > hi nor score < lo. hi ≥ lo, so above is a subset of the lanes not below lo.
func (c panel) masks512(row []reg.VecVirtual, lo, hi reg.VecVirtual, valid []reg.OpmaskVirtual, above, open reg.GPVirtual) {
	for v, a := range row {
		notBelow, over := c.K(), c.K()
		c.VCMPPS(operand.Imm(notLess), lo, a, valid[v], notBelow)
		c.VCMPPS(operand.Imm(greater), hi, a, notBelow, over)
		if v == 0 {
			c.KMOVW(notBelow, open.As32())
			c.KMOVW(over, above.As32())
			continue
		}
		o, m := c.GP64(), c.GP64()
		c.KMOVW(notBelow, o.As32())
		c.KMOVW(over, m.As32())
		c.SHLQ(operand.Imm(uint64(16*v)), o)
		c.SHLQ(operand.Imm(uint64(16*v)), m)
		c.ORQ(o, open)
		c.ORQ(m, above)
	}
	c.XORQ(above, open)
}

func (c panel) masks256(row []reg.VecVirtual, lo, hi reg.VecVirtual, valid reg.GPVirtual, above, open reg.GPVirtual) {
	m := c.vec()
	high := c.GP64()
	c.VCMPPS(operand.Imm(notLess), lo, row[1], m)
	c.VMOVMSKPS(m, open.As32())
	c.SHLQ(operand.Imm(8), open)
	c.VCMPPS(operand.Imm(notLess), lo, row[0], m)
	c.VMOVMSKPS(m, high.As32())
	c.ORQ(high, open)
	c.ANDQ(valid, open)
	c.VCMPPS(operand.Imm(greater), hi, row[1], m)
	c.VMOVMSKPS(m, above.As32())
	c.SHLQ(operand.Imm(8), above)
	c.VCMPPS(operand.Imm(greater), hi, row[0], m)
	c.VMOVMSKPS(m, high.As32())
	c.ORQ(high, above)
	c.ANDQ(open, above)
	c.XORQ(above, open)
}
