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

const (
	chunk  = 256 // terms in one FMA chain; kernel.Chunk
	unroll = 4
)

const dotDoc = `%[1]s scores a strip of %[2]d queries against a panel of %[3]d candidates and
counts, for every truth of every query, the candidates that are certainly better.

	q      [k][%[2]d]  the strip: entry t of query i at q[t*%[2]d+i]
	e      [k][%[3]d]  the panel: entry t of candidate j at e[t*%[3]d+j]
	scores [%[2]d][%[3]d] out, 64-byte aligned: scores[i][j] = Σ_t q[t][i]·e[t][j], float32, a chain of fused
	       multiply-adds from 0 with t ascending for every %[4]d terms, the chains added in order
	rows   [%[2]d+1]   truths of query i are rows[i] ≤ t < rows[i+1]
	ends   [][2]    of truth t: lo, hi
	better []       of truth t: its count goes up by the number of valid candidates with score > hi
	undecided       a pair (t, mask) is appended for every truth with valid candidates of neither
	                score > hi nor score < lo (NaN is undecided); room for one pair more than truths
	valid           bit j set: candidate j counts
	ahead           the 128·⌊k/4⌋ bytes from here on, which need not exist, are fetched into the L2 cache

It returns the number of pairs appended. Requires k ≥ 0.`

// dotTile holds what differs between the instruction sets.
type dotTile struct {
	*build.Context
	mr, vectors, lanes int
	vec                func() reg.VecVirtual
}

func dotTiles(c *build.Context) {
	dotTile{c, 9, 3, 16, c.ZMM}.emit("DotTile9x48AVX512")
	dotTile{c, 6, 2, 8, c.YMM}.emit("DotTile6x16AVX2")
}

func (c dotTile) emit(name string) {
	nr := c.vectors * c.lanes
	function(c.Context, name, "func(q, e *float32, k int, scores *float32, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64, ahead *float32) int")
	doc(c.Context, fmt.Sprintf(dotDoc, name, c.mr, nr, chunk))
	c.Pragma("noescape")

	q := c.Load(c.Param("q"), c.GP64())
	e := c.Load(c.Param("e"), c.GP64())
	left := c.Load(c.Param("k"), c.GP64())
	scores := c.Load(c.Param("scores"), c.GP64())

	ahead := c.Load(c.Param("ahead"), c.GP64())

	acc := make([][]reg.VecVirtual, c.mr)
	for i := range acc {
		for range c.vectors {
			acc[i] = append(acc[i], c.vec())
		}
	}
	first := c.GP64()
	c.MOVQ(operand.U32(1), first)

	c.Label("chunk")
	for _, row := range acc {
		for _, a := range row {
			c.zero(a)
		}
	}
	n := c.GP64()
	c.MOVQ(left, n)
	limit := c.GP64()
	c.MOVQ(operand.U32(chunk), limit)
	c.CMPQ(n, limit)
	c.CMOVQGT(limit, n)
	c.SUBQ(n, left)

	c.Comment(fmt.Sprintf("%d terms a round: %d FMA, %d loads", unroll, unroll*c.mr*c.vectors, unroll*(c.mr+c.vectors)))
	c.SUBQ(operand.Imm(unroll), n)
	c.JLT(operand.LabelRef("rest"))
	c.Label("terms")
	for u := range unroll {
		c.term(q, e, u, acc)
		if u%2 == 0 {
			c.PREFETCHT1(operand.Mem{Base: ahead, Disp: 32 * u})
		}
	}
	c.SUBQ(operand.I8(-128), ahead)
	c.ADDQ(operand.U32(unroll*c.mr*4), q)
	c.ADDQ(operand.U32(unroll*nr*4), e)
	c.SUBQ(operand.Imm(unroll), n)
	c.JGE(operand.LabelRef("terms"))
	c.Label("rest")
	c.ADDQ(operand.Imm(unroll), n)
	c.JEQ(operand.LabelRef("add"))
	c.Label("term")
	c.term(q, e, 0, acc)
	c.ADDQ(operand.U32(c.mr*4), q)
	c.ADDQ(operand.U32(nr*4), e)
	c.DECQ(n)
	c.JNE(operand.LabelRef("term"))

	c.Comment("add the chain to the sum of those before it")
	c.Label("add")
	c.TESTQ(first, first)
	c.JNE(operand.LabelRef("store"))
	c.eachScore(acc, scores, func(a reg.VecVirtual, m operand.Mem) { c.VADDPS(m, a, a) })
	c.Label("store")
	c.eachScore(acc, scores, func(a reg.VecVirtual, m operand.Mem) { c.VMOVAPS(a, m) })
	c.XORQ(first, first)
	c.TESTQ(left, left)
	c.JNE(operand.LabelRef("chunk"))

	c.count(acc)
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
func (c dotTile) count(acc [][]reg.VecVirtual) {
	rows := c.Load(c.Param("rows"), c.GP64())
	ends := c.Load(c.Param("ends"), c.GP64())
	better := c.Load(c.Param("better"), c.GP64())
	out := c.Load(c.Param("undecided"), c.GP64())
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
	start := c.Load(c.Param("undecided"), c.GP64())
	c.SUBQ(start, out)
	c.SHRQ(operand.Imm(4), out)
	c.Store(out, c.ReturnIndex(0))
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
