package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Predicates of VCMPPS.
const (
	notLess = 0x15 // NLT_UQ: !(a < b), true for NaN, quiet
	greater = 0x1e // GT_OQ: a > b, false for NaN, quiet
)

const unroll = 4

const dotDoc = `%[1]s scores strips of %[2]d queries against k terms of a panel of %[3]d candidates;
with the last terms it counts, for every truth of every query, the candidates that are
certainly better.

	q      [k][%[2]d]  terms of the first strip: entry t of query i at q[t*%[2]d+i]; those of the next
	                  strip lie qStride elements further on
	e      [k][%[3]d]  terms of the panel: entry t of candidate j at e[t*%[3]d+j]
	scores [strips*%[2]d][%[3]d] 64-byte aligned: Σ_t q[t][i]·e[t][j], float32, one chain of fused
	                  multiply-adds from 0 with t ascending; if add is not 0, it is added to the
	                  score that was there
	rows   [strips*%[2]d+1]  truths of query i are rows[i] ≤ t < rows[i+1]; nil: do not count
	ends   [][2]      of truth t: lo, hi
	better []         of truth t: its count goes up by the number of valid candidates with score > hi
	undecided         a pair (t, mask) is appended for every truth with valid candidates of neither
	                  score > hi nor score < lo (NaN is undecided); room for one pair more than truths
	valid             bit j set: candidate j counts
	ahead, step       every four terms of a strip, the cache line at this address, which need not be
	                  valid, is fetched into L2, and the address goes up by step bytes

It returns the number of pairs appended. Requires k > 0, strips > 0.`

// dotTile holds what differs between the instruction sets.
type dotTile struct {
	*build.Context
	mr, vectors, lanes int
	vec                func() reg.VecVirtual
}

func dotPanels(c *build.Context) {
	dotTile{c, 9, 3, 16, c.ZMM}.emit("DotPanel9x48AVX512")
	dotTile{c, 6, 2, 8, c.YMM}.emit("DotPanel6x16AVX2")
}

func (c dotTile) emit(name string) {
	nr := c.vectors * c.lanes
	function(c.Context, name, "func(q *float32, qStride int, e *float32, k, strips int, scores *float32, add int, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64, ahead uintptr, step int) int")
	doc(c.Context, fmt.Sprintf(dotDoc, name, c.mr, nr))
	c.Pragma("noescape")

	// The state of the loop over strips lives in memory: counting wants the registers.
	state := func(param string) operand.Mem {
		m := c.AllocLocal(8)
		if param != "" {
			c.MOVQ(c.Load(c.Param(param), c.GP64()), m)
		}
		return m
	}
	qAt, stripsLeft, scoresAt := state("q"), state("strips"), state("scores")
	rowsAt, outAt, aheadAt := state("rows"), state("undecided"), state("ahead")

	c.Label("strip")
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
	c.Comment(fmt.Sprintf("%d terms a round: %d FMA, %d loads", unroll, unroll*c.mr*c.vectors, unroll*(c.mr+c.vectors)+1))
	c.SUBQ(operand.Imm(unroll), n)
	c.JLT(operand.LabelRef("rest"))
	c.Label("terms")
	for u := range unroll {
		c.term(q, e, u, acc)
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
	c.term(q, e, 0, acc)
	c.ADDQ(operand.U32(c.mr*4), q)
	c.ADDQ(operand.U32(nr*4), e)
	c.DECQ(n)
	c.JNE(operand.LabelRef("term"))

	c.Label("sum")
	add := c.Load(c.Param("add"), c.GP64())
	c.TESTQ(add, add)
	c.JEQ(operand.LabelRef("store"))
	c.eachScore(acc, scores, func(a reg.VecVirtual, m operand.Mem) { c.VADDPS(m, a, a) })
	c.Label("store")
	c.eachScore(acc, scores, func(a reg.VecVirtual, m operand.Mem) { c.VMOVAPS(a, m) })
	c.MOVQ(ahead, aheadAt)
	c.ADDQ(operand.U32(4*c.mr*nr), scores)
	c.MOVQ(scores, scoresAt)

	rows := c.GP64()
	c.MOVQ(rowsAt, rows)
	c.TESTQ(rows, rows)
	c.JEQ(operand.LabelRef("next"))
	c.count(acc, rows, outAt)
	c.ADDQ(operand.U32(4*c.mr), rowsAt)

	c.Label("next")
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
	c.VZEROUPPER()
	c.RET()
}

func (c dotTile) zero(a reg.VecVirtual) {
	if c.lanes == 16 {
		c.VPXORD(a, a, a)
	} else {
		c.VXORPS(a, a, a)
	}
}

// term adds the products of one index of the summation.
func (c dotTile) term(q, e reg.Register, u int, acc [][]reg.VecVirtual) {
	bytes := c.lanes * 4
	es := make([]reg.VecVirtual, c.vectors)
	for v := range es {
		es[v] = c.vec()
		c.VMOVUPS(operand.Mem{Base: e, Disp: (u*c.vectors + v) * bytes}, es[v])
	}
	for i, row := range acc {
		b := c.vec()
		c.VBROADCASTSS(operand.Mem{Base: q, Disp: (u*c.mr + i) * 4}, b)
		for v, a := range row {
			c.VFMADD231PS(es[v], b, a)
		}
	}
}

func (c dotTile) eachScore(acc [][]reg.VecVirtual, scores reg.Register, f func(reg.VecVirtual, operand.Mem)) {
	for i, row := range acc {
		for v, a := range row {
			f(a, operand.Mem{Base: scores, Disp: (i*c.vectors + v) * c.lanes * 4})
		}
	}
}

// count compares every row, still in registers, with the two ends of each of its truths.
func (c dotTile) count(acc [][]reg.VecVirtual, rows reg.Register, outAt operand.Mem) {
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
func (c dotTile) masks512(row []reg.VecVirtual, lo, hi reg.VecVirtual, valid []reg.OpmaskVirtual, above, open reg.GPVirtual) {
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

func (c dotTile) masks256(row []reg.VecVirtual, lo, hi reg.VecVirtual, valid reg.GPVirtual, above, open reg.GPVirtual) {
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
