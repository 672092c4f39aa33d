package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates L1RowScores, L2RowScores, NormRowScores, PhaseRowScores and
// ProductNormRowScores, and their gradients, for AVX512 and AVX2: distances between one row and
// listed rows of a table. The terms are the same as in distance.go, but nothing is packed.

const rowScoreDoc = `scores one row against listed rows of a table:

	out[i] = Σ_p %[1]s,  i < count

in float32. A row has n values in groups of %[2]d. q (and q') is group p of x, and e (and e') is group p of the row at
table[ids[i]*stride]. Group p goes to lane p mod 32. A lane is one chain from 0 with p ascending and the operations of
%[3]sScores. The kernel adds lanes l and l + 16, then l and l + 8, l + 4, l + 2, and the last two.

The first n mod %[4]d words of masks are −1; the others, up to %[4]d, are 0.

Requires n > 0%[5]s, and count > 0.`

const rowGradientDoc = `adds to dx the gradient of a loss with respect to the row x, whose scores against listed rows of
a table enter the loss:

	dx[u] += Σ_i %s,  u < n, i < count

in float32. y is value u of the row at table[ids[i]*stride], x is x[u] and g is weights[i]. The terms are added to
dx[u] with fused multiply-adds and i ascending, as in the Gradient kernels.%s

The first n mod %d words of masks are −1; the others, up to %[3]d, are 0.

Requires n > 0%[4]s, and count > 0. dx must not overlap the other operands.`

// rowGradientWidth is the number of vectors of sums that a gradient kernel keeps in registers.
const rowGradientWidth = 4

func distanceRows(c *build.Context) {
	k := constants{c, map[uint32]operand.Mem{}}
	for _, d := range distanceKinds {
		eachSet(c, func(c vectors) {
			c.rowScores(d, k)
			c.rowGradient(d, k)
		})
	}
}

// access loads and stores vectors of values i, i+1, … at base.
type access struct {
	load  func(base reg.Register, i int) reg.VecVirtual
	store func(v reg.VecVirtual, base reg.Register, i int)
}

func (c vectors) whole() access {
	return access{
		func(base reg.Register, i int) reg.VecVirtual { return c.load(at(base, i)) },
		func(v reg.VecVirtual, base reg.Register, i int) { c.VMOVUPS(v, at(base, i)) },
	}
}

// masked returns an access to those values among n whose words in masks are −1. It loads zeros for
// the other values, whose addresses need not be valid.
func (c vectors) masked(masks reg.Register, n int) access {
	if c.lanes == 8 { // all registers are taken
		return access{
			func(base reg.Register, i int) reg.VecVirtual {
				mask, r := c.load(at(masks, i)), c.vec()
				c.VMASKMOVPS(at(base, i), mask, r)
				return r
			},
			func(v reg.VecVirtual, base reg.Register, i int) { c.VMASKMOVPS(v, c.load(at(masks, i)), at(base, i)) },
		}
	}
	var some []reg.Register
	for i := 0; i < n; i += c.lanes {
		k := c.K()
		c.VPMOVD2M(c.load(at(masks, i)), k)
		some = append(some, k)
	}
	return access{
		func(base reg.Register, i int) reg.VecVirtual {
			r := c.vec()
			c.VMOVUPS_Z(at(base, i), some[i/c.lanes], r)
			return r
		},
		func(v reg.VecVirtual, base reg.Register, i int) { c.VMOVUPS(v, some[i/c.lanes], at(base, i)) },
	}
}

// accessGroup loads a group of size vectors of values i, i+1, … at base. For size 2, the first
// vector gets the even values and the second the odd ones.
func (c vectors) accessGroup(size int, a access, base reg.Register, i int) []reg.VecVirtual {
	first := a.load(base, i)
	if size == 1 {
		return []reg.VecVirtual{first}
	}
	return c.evenOdd(first, a.load(base, i+c.lanes))
}

// rounds emits a loop that runs body on size values at a time, and body once more for the
// remainder. It overwrites n.
func (c vectors) rounds(n reg.Register, size int, masks reg.Register, body func(part string, a access)) {
	c.SUBQ(operand.U32(uint32(size)), n)
	c.JLT(operand.LabelRef("rest"))
	c.Label("round")
	body("round", c.whole())
	c.SUBQ(operand.U32(uint32(size)), n)
	c.JGE(operand.LabelRef("round"))
	c.Label("rest")
	c.ADDQ(operand.U32(uint32(size)), n)
	c.JEQ(operand.LabelRef("done"))
	body("rest", c.masked(masks, size))
	c.Label("done")
}

func (c vectors) rowScores(d distance, k constants) {
	round := sumLanes * d.group
	c.begin(d.name+"RowScores"+c.set,
		"func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float32, masks *int32)",
		fmt.Sprintf(rowScoreDoc, d.score, d.group, d.name, round, d.even()))
	r, masks := loadPair(c.Context), c.param("masks")
	add := d.addScore(c, k)

	c.Label("row")
	row, left := r.next(c.Context)
	x := c.GP64()
	c.MOVQ(r.x, x)
	c.MOVQ(r.n, left)
	sums := c.sums()
	c.rounds(left, round, masks, func(_ string, a access) {
		for v, s := range sums {
			i := v * d.group * c.lanes
			add(inRegisters(c.accessGroup(d.group, a, x, i)), c.accessGroup(d.group, a, row, i), s)
		}
		for _, p := range []reg.Register{x, row} {
			c.ADDQ(operand.U32(uint32(4*round)), p)
		}
	})
	c.VMOVSS(c.addUp(sums, d.group), operand.Mem{Base: r.out})
	c.ADDQ(operand.Imm(4), r.ids)
	c.ADDQ(operand.Imm(4), r.out)
	c.DECQ(r.count)
	c.JNE(operand.LabelRef("row"))
	c.end()
}

// addUp adds up 32 lanes. If groups have two values, evenOdd has permuted the lanes: the even
// 64-bit parts of a vector hold the lanes of its first half, and the odd parts hold the lanes of
// its second half.
func (c vectors) addUp(sums []reg.VecVirtual, group int) reg.Register {
	for n := len(sums); n > 1; n /= 2 {
		for v := range n / 2 {
			c.VADDPS(sums[n/2+v], sums[v], sums[v])
		}
	}
	s := sums[0]
	low, high := s.AsX(), c.XMM()
	if c.lanes == 16 {
		if group == 2 {
			swapped := c.vec()
			c.VPERMILPD(operand.Imm(0x55), s, swapped)
			c.VADDPS(swapped, s, s)
		}
		upper := c.YMM()
		c.VEXTRACTF64X4(operand.Imm(1), s, upper)
		c.VADDPS(upper, s.AsY(), s.AsY())
	} else if group == 2 {
		swapped := c.vec()
		c.VPERMILPD(operand.Imm(0x5), s, swapped)
		c.VADDPS(swapped, s, s)
	}
	c.VEXTRACTF128(operand.Imm(1), s.AsY(), high)
	c.VADDPS(high, low, low)
	if group == 1 {
		c.VMOVHLPS(low, low, high)
		c.VADDPS(high, low, low)
	}
	c.VMOVSHDUP(low, high)
	c.VADDSS(high, low, low)
	return low
}

func (c vectors) rowGradient(d distance, k constants) {
	size := rowGradientWidth * c.lanes
	c.begin(d.name+"RowGradient"+c.set,
		"func(dx, x *float32, n int, table *float32, stride int, ids *int32, weights *float32, count int, "+
			"masks *int32)",
		fmt.Sprintf(rowGradientDoc, d.gradient, d.gradientNote, size, d.even()))
	dx, x, n := c.param("dx"), c.param("x"), c.param("n")
	table, stride, masks := c.param("table"), c.bytes("stride"), c.param("masks")
	add := d.addGradient(c, k)
	c.rounds(n, size, masks, func(part string, a access) {
		id, weight, count := c.param("ids"), c.param("weights"), c.param("count")
		var xs, sums [][]reg.VecVirtual
		for i := 0; i < size; i += d.group * c.lanes {
			xs = append(xs, c.accessGroup(d.group, a, x, i))
			sums = append(sums, c.accessGroup(d.group, a, dx, i))
		}
		c.loop(part+"Terms", count, 1, func() {
			y := c.GP64()
			c.MOVLQSX(operand.Mem{Base: id}, y)
			c.IMULQ(stride, y)
			c.ADDQ(table, y)
			g := &entry{c: c, at: operand.Mem{Base: weight}, what: "weight in all lanes"}
			for v := range xs {
				add(g, xs[v], c.accessGroup(d.group, a, y, v*d.group*c.lanes), sums[v])
			}
			c.ADDQ(operand.Imm(4), id)
			c.ADDQ(operand.Imm(4), weight)
		})
		for v, s := range sums {
			if d.group == 2 {
				c.interleave(s)
			}
			for u, sum := range s {
				a.store(sum, dx, (v*d.group+u)*c.lanes)
			}
		}
		for _, p := range []reg.Register{x, dx, table} {
			c.ADDQ(operand.U32(uint32(4*size)), p)
		}
	})
	c.end()
}
