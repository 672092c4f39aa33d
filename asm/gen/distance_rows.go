package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels of distances between one row and listed rows of a table: the terms of distance.go, without packing.

const rowScoreDoc = `adds up a distance of one row and each of some listed rows of a table:

	out[i] = Σ_p %[1]s,  i < count

float32. A row is n numbers, units of %[2]d; unit p of x is q (and q'), that of the row at table[ids[i]*stride] e (and e').
Unit p goes to lane p mod 32, one chain from 0 with p ascending, with the operations of %[3]sScores. Lanes l and l + 16
are added, then l and l + 8, l + 4, l + 2, and the last two.

The first n mod %[4]d words of masks are ones, the others up to %[4]d zeros.

Requires n > 0%[5]s, count > 0.`

const rowPullDoc = `adds the gradients of one row's distances from listed rows of a table to dx:

	dx[u] += Σ_i %s,  u < n, i < count

float32. y is number u of the row at table[ids[i]*stride], x is x[u] and g is weights[i]. The sum is one chain of fused
multiply-adds from 0 with i ascending, as in the kernels of blocks, and is then added to dx[u].

%sThe first n mod %d words of masks are ones, the others up to %[3]d zeros.

Requires n > 0%[4]s, count > 0; dx overlaps nothing else.`

// rowPullWidth is the number of vectors of coordinates whose sums a gradient kernel keeps in registers.
const rowPullWidth = 4

func distanceRows(c *build.Context) {
	k := constants{c, map[uint32]operand.Mem{}}
	for _, d := range distanceKinds {
		eachSet(c, func(c vectors) {
			c.rowScores(d, k)
			c.rowGradient(d, k)
		})
	}
}

// access loads and stores the vector of numbers i, i+1, … after base.
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

// masked accesses those of some numbers whose words of masks are ones. It loads zeros for the others, which need not be
// valid.
func (c vectors) masked(masks reg.Register, numbers int) access {
	if c.lanes == 8 { // no register is left for masks
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
	for i := 0; i < numbers; i += c.lanes {
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

// unit loads unit vectors of numbers i, i+1, …: pairs of numbers become a vector of the even and one of the odd ones.
func (c vectors) unit(unit int, a access, base reg.Register, i int) []reg.VecVirtual {
	first := a.load(base, i)
	if unit == 1 {
		return []reg.VecVirtual{first}
	}
	return c.evenOdd(first, a.load(base, i+c.lanes))
}

// rounds emits body for size numbers at a time, and then for the rest, if there is one. n is lost.
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
	round := sumLanes * d.unit
	c.begin(d.name+"RowScores"+c.set,
		"func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float32, masks *int32)",
		fmt.Sprintf(rowScoreDoc, d.score, d.unit, d.name, round, d.even()))
	r, masks := loadPair(c.Context), c.param("masks")
	add := d.add(c, k)

	c.Label("row")
	row, left := r.next(c.Context)
	x := c.GP64()
	c.MOVQ(r.x, x)
	c.MOVQ(r.n, left)
	sums := c.sums()
	c.rounds(left, round, masks, func(_ string, a access) {
		for v, s := range sums {
			i := v * d.unit * c.lanes
			add(c.unit(d.unit, a, x, i), c.unit(d.unit, a, row, i), s)
		}
		for _, p := range []reg.Register{x, row} {
			c.ADDQ(operand.U32(uint32(4*round)), p)
		}
	})
	c.VMOVSS(c.addUp(sums, d.unit), operand.Mem{Base: r.out})
	c.ADDQ(operand.Imm(4), r.ids)
	c.ADDQ(operand.Imm(4), r.out)
	c.DECQ(r.count)
	c.JNE(operand.LabelRef("row"))
	c.end()
}

// addUp adds 32 lanes up. Where pairs were taken apart, the even 64 bits of a vector have the lanes of the vector's first
// half, and the odd ones those of the second half.
func (c vectors) addUp(sums []reg.VecVirtual, unit int) reg.Register {
	for n := len(sums); n > 1; n /= 2 {
		for v := range n / 2 {
			c.VADDPS(sums[n/2+v], sums[v], sums[v])
		}
	}
	s := sums[0]
	low, high := s.AsX(), c.XMM()
	if c.lanes == 16 {
		if unit == 2 {
			swapped := c.vec()
			c.VPERMILPD(operand.Imm(0x55), s, swapped)
			c.VADDPS(swapped, s, s)
		}
		upper := c.YMM()
		c.VEXTRACTF64X4(operand.Imm(1), s, upper)
		c.VADDPS(upper, s.AsY(), s.AsY())
	} else if unit == 2 {
		swapped := c.vec()
		c.VPERMILPD(operand.Imm(0x5), s, swapped)
		c.VADDPS(swapped, s, s)
	}
	c.VEXTRACTF128(operand.Imm(1), s.AsY(), high)
	c.VADDPS(high, low, low)
	if unit == 1 {
		c.VMOVHLPS(low, low, high)
		c.VADDPS(high, low, low)
	}
	c.VMOVSHDUP(low, high)
	c.VADDSS(high, low, low)
	return low
}

func (c vectors) rowGradient(d distance, k constants) {
	size := rowPullWidth * c.lanes
	c.begin(d.name+"RowGradient"+c.set,
		"func(dx, x *float32, n int, table *float32, stride int, ids *int32, weights *float32, count int, masks *int32)",
		fmt.Sprintf(rowPullDoc, d.pull, d.pullNote, size, d.even()))
	dx, x, n := c.param("dx"), c.param("x"), c.param("n")
	table, stride, masks := c.param("table"), c.bytes("stride"), c.param("masks")
	add := d.addPull(c, k)
	c.rounds(n, size, masks, func(part string, a access) {
		id, weight, count := c.param("ids"), c.param("weights"), c.param("count")
		var xs, sums [][]reg.VecVirtual
		for i := 0; i < size; i += d.unit * c.lanes {
			xs = append(xs, c.unit(d.unit, a, x, i))
			sums = append(sums, matrixOf(c, 1, d.unit)[0])
		}
		c.loop(part+"Terms", count, 1, func() {
			y := c.GP64()
			c.MOVLQSX(operand.Mem{Base: id}, y)
			c.IMULQ(stride, y)
			c.ADDQ(table, y)
			g := c.broadcast(operand.Mem{Base: weight})
			for v := range xs {
				add(g, xs[v], c.unit(d.unit, a, y, v*d.unit*c.lanes), sums[v])
			}
			c.ADDQ(operand.Imm(4), id)
			c.ADDQ(operand.Imm(4), weight)
		})
		for v, s := range sums {
			if d.unit == 2 {
				c.sideBySide(s)
			}
			for u, sum := range s {
				i := (v*d.unit + u) * c.lanes
				c.VADDPS(a.load(dx, i), sum, sum)
				a.store(sum, dx, i)
			}
		}
		for _, p := range []reg.Register{x, dx, table} {
			c.ADDQ(operand.U32(uint32(4*size)), p)
		}
	})
	c.end()
}
