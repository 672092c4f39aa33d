package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates BoxScores, ParallelogramScores and their gradients, for AVX512 and AVX2: the
// float32 kernels of regions for training, and the ceilings of both.
// kernel/linalg/generic_regions.go has the same operations and constants, and
// kernel/linalg/regions.go explains them. Every operation is rounded separately.

// Words of a prepared part of a query, in their order in memory.
const (
	regionFactor  = iota // a of a box, s of a parallelogram
	regionOffset         // c of a box, a of a parallelogram
	regionInverse        // i = 1/V
	regionV              // v = V
	regionKappa          // k
	regionInside         // w = ∂i/∂W
	regionOutside        // z, so ∂(v x − k)/∂W = x − z
	regionHalf           // h = W/2
	regionWords
)

const (
	regionLanes = 16 // lanes of a sum over coordinates
	// signedBy is the table of VPTERNLOGD for x ^ (y & z).
	signedBy = 0x78
)

const regionDoc = `

q has n values of each of the words %s. Every operation is rounded separately.

Requires n > 0 and count > 0. n is a multiple of 16.`

const regionScoreDoc = `scores a prepared part q of a query against listed rows of a table:

	sums[j] = Σ_u d²,  %s,  j < count

in float32, where b is value u < n of the row at table[ids[j]*stride]. Lane u mod 16 adds the terms of value u, in
one chain from 0 with u ascending. The kernel adds lanes l and l + 8, then l and l + 4, l + 2, and the last two.%s` +
	regionDoc

const regionPsiDoc = `adds to dq the gradient of a prepared part q of a query from listed rows of a table:

	dq[u]    += Σ_j %s
	dq[n+u]  −= Σ_j %s
	dq[2n+u] += Σ_j (g·d)·(x·w if inside, else x − z),  j < count

in float32, where b is value u < n of the row at table[ids[j]*stride], g is weights[j] and

	e = ((g·d)·(i if inside, else v))·sign(y)
	%s

A sum is one chain that begins at the value of dq, with j ascending. %s` + regionDoc

const regionPhiDoc = `adds to dx the gradient of a part x of a feature from prepared parts q of queries:

	dx[u] %s,  u < n, j < count

in float32, where b is x[u], the words of q begin at table[j*stride], g is weights[j] and

	e = ((g·d)·(i if inside, else v))·sign(y)
	%s

A sum is one chain that begins at the value of dx, with j ascending. %s` + regionDoc

// region describes the kernels of a kind of regions.
type region struct {
	name          string
	point         string    // for the documentation: y, x and d
	inside        string    // when a point is inside
	words         [3]string // the words that the scores, and the gradients of ψ and of φ, read
	first, second string    // terms of the first two gradients of ψ
	phi           string    // the sum of the gradient of φ
	box           bool
}

var regionKinds = []region{
	{
		name: "Box", box: true,
		point:  "d = max(x·i, x·v − k),  x = |y|,  y = c − r,  r = 1/(a·b + ½)",
		inside: "A point is inside if x·i > x·v − k. The kernel does not read inside.",
		words:  [3]string{"a, c, i, v, k", "a, c, i, v, k, w, z", "a, c, i, v, k"},
		first:  "e·(r·(2 − r))", second: "e", phi: "+= Σ_j e·(r·(2 − r))",
	},
	{
		name:   "Parallelogram",
		point:  "d = x·v − k,  x = |y|,  y = a − s·b",
		inside: "A pair is inside if its word of inside is −1; its d is x·i. For other pairs, the word is 0.",
		words:  [3]string{"s, a, i, v, k, w, z, h", "s, a, i, v, k, w, z", "s, a, i, v, k"},
		first:  "e", second: "e·b", phi: "−= Σ_j e·s",
	},
}

func regionKernels(c *build.Context) {
	k := constants{c, map[uint32]operand.Mem{}}
	for _, r := range regionKinds {
		eachSet(c, func(c vectors) {
			c.regionScores(r, k)
			c.regionPsi(r, k)
			c.regionPhi(r, k)
			c.regionPeaks(r, k)
		})
	}
}

// regionScores emits the kernel of the sums of squares.
func (c vectors) regionScores(r region, k constants) {
	most := ""
	if !r.box {
		most = "\n\nmost[j] is the largest x − h of the row."
	}
	c.begin(r.name+"Scores"+c.set,
		"func(q *float32, n int, table *float32, stride int, ids *int32, count int, sums, most *float32)",
		fmt.Sprintf(regionScoreDoc, r.point, most, r.words[0]))
	q, n, id, count := c.param("q"), c.param("n"), c.param("ids"), c.param("count")
	table, stride, out := c.param("table"), c.operand("stride"), c.param("sums")
	words := c.rows(q, c.bytes("n"), regionWords)
	var largest reg.GPVirtual
	if !r.box {
		largest = c.param("most")
	}
	t := c.regionConstants(k)

	c.Label("row")
	row, left := c.GP64(), c.GP64()
	holds(c.Context, "address of the row, and values left", row, left)
	c.MOVLQSX(operand.Mem{Base: id}, row)
	c.IMULQ(stride, row)
	c.LEAQ(operand.Mem{Base: table, Index: row, Scale: 4}, row)
	c.MOVQ(n, left)
	var sums, beyond []reg.VecVirtual
	for range regionLanes / c.lanes {
		sums = append(sums, c.zero())
		if !r.box {
			beyond = append(beyond, c.load(k.number(-math.MaxFloat32)))
		}
	}
	holds(c.Context, "sums of the lanes", sums...)
	c.loop("values", left, regionLanes, func() {
		for v, sum := range sums {
			at := func(word int) operand.Mem { return words.at(word, 4*v*c.lanes) }
			b := c.load(operand.Mem{Base: row, Disp: 4 * v * c.lanes})
			to := []reg.VecVirtual{sum}
			if !r.box {
				to = append(to, beyond[v])
			}
			t.addScore(r, b, func(word int) operand.Op { return at(word) }, to)
		}
		c.ADDQ(operand.Imm(4*regionLanes), row)
		words.advance(operand.Imm(4 * regionLanes))
	})
	c.VMOVSS(c.addUp(sums, 1), operand.Mem{Base: out})
	if !r.box {
		c.VMOVSS(c.largest(beyond), operand.Mem{Base: largest})
		c.ADDQ(operand.Imm(4), largest)
	}
	c.Comment("Return to the first words")
	c.SHLQ(operand.Imm(2), n)
	for _, b := range words.base {
		c.SUBQ(n, b)
	}
	c.SHRQ(operand.Imm(2), n)
	c.ADDQ(operand.Imm(4), id)
	c.ADDQ(operand.Imm(4), out)
	c.DECQ(count)
	c.JNE(operand.LabelRef("row"))
	c.end()
}

// addScore adds the term of a score to sums[0]. For a parallelogram, sums[1] holds the largest x − h.
func (t regionTerm) addScore(r region, b reg.VecVirtual, word func(int) operand.Op, sums []reg.VecVirtual) {
	c := t.c
	_, y := t.point(r, b, word)
	x := t.absolute(y)
	d := c.vec()
	c.VMULPS(word(regionV), x, d)
	c.VSUBPS(word(regionKappa), d, d)
	if r.box {
		c.VMULPS(word(regionInverse), x, x)
		c.VMAXPS(d, x, d)
	} else {
		c.VSUBPS(word(regionHalf), x, x)
		c.VMAXPS(sums[1], x, sums[1])
	}
	c.VMULPS(d, d, d)
	c.VADDPS(d, sums[0], sums[0])
}

// operand returns the address of an argument, for kernels without a free register.
func (c vectors) operand(name string) operand.Mem {
	p, err := c.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// largest returns the largest of 16 lanes.
func (c vectors) largest(x []reg.VecVirtual) reg.Register {
	for _, v := range x[1:] {
		c.VMAXPS(v, x[0], x[0])
	}
	s := x[0]
	if c.lanes == 16 {
		upper := c.YMM()
		c.VEXTRACTF64X4(operand.Imm(1), s, upper)
		c.VMAXPS(upper, s.AsY(), s.AsY())
	}
	low, high := s.AsX(), c.XMM()
	c.VEXTRACTF128(operand.Imm(1), s.AsY(), high)
	c.VMAXPS(high, low, low)
	c.VMOVHLPS(low, low, high)
	c.VMAXPS(high, low, low)
	c.VMOVSHDUP(low, high)
	c.VMAXSS(high, low, low)
	return low
}

// regionTerm emits the terms of regions. With AVX-512, the constants stay in registers.
type regionTerm struct {
	c                         vectors
	magnitude, half, one, two operand.Op
	sign                      operand.Op
}

func (c vectors) regionConstants(k constants) regionTerm {
	op := func(m operand.Mem) operand.Op {
		if c.lanes == 16 {
			return c.load(m)
		}
		return m
	}
	return regionTerm{
		c, op(k.bits(math.MaxInt32)), op(k.number(0.5)), op(k.number(1)), op(k.number(2)), op(k.bits(1 << 31)),
	}
}

// register returns x in a register.
func (t regionTerm) register(x operand.Op) reg.VecVirtual {
	if m, ok := x.(operand.Mem); ok {
		return t.c.load(m)
	}
	return x.(reg.VecVirtual)
}

// point returns y, and r for a box. word returns a word as an operand.
func (t regionTerm) point(r region, b reg.VecVirtual, word func(int) operand.Op) (inverse, y reg.VecVirtual) {
	c := t.c
	y = c.vec()
	c.VMULPS(word(regionFactor), b, y)
	if !r.box {
		c.VSUBPS(y, t.register(word(regionOffset)), y)
		return nil, y
	}
	inverse = c.vec()
	c.VADDPS(t.half, y, y)
	c.VDIVPS(y, t.register(t.one), inverse)
	c.VSUBPS(inverse, t.register(word(regionOffset)), y)
	return inverse, y
}

// absolute returns |y|.
func (t regionTerm) absolute(y reg.VecVirtual) reg.VecVirtual {
	x := t.c.vec()
	if t.c.lanes == 16 {
		t.c.VPANDD(t.magnitude, y, x)
	} else {
		t.c.VANDPS(t.magnitude, y, x)
	}
	return x
}

// choose sets d to x where mask holds and to y elsewhere.
func (t regionTerm) choose(mask reg.Register, x operand.Op, y reg.VecVirtual, d reg.VecVirtual) {
	if t.c.lanes == 16 {
		t.c.VBLENDMPS(x, y, mask, d)
	} else {
		t.c.VBLENDVPS(mask, x, y, d)
	}
}

// insideMask loads the mask of a pair from its word.
func (t regionTerm) insideMask(at operand.Mem) reg.Register {
	v := t.c.broadcast(at)
	if t.c.lanes == 8 {
		return v
	}
	mask := t.c.K()
	t.c.VPMOVD2M(v, mask)
	return mask
}

// slope computes x = |y|, g·d and e, given y. If mask is nil, it decides which points are inside.
func (t regionTerm) slope(
	y reg.VecVirtual, g *entry, word func(int) operand.Op, mask reg.Register,
) (x, gd, e reg.VecVirtual, inside reg.Register) {
	c := t.c
	x, gd, e = t.absolute(y), c.vec(), c.vec()
	if mask == nil {
		near := c.vec()
		c.VMULPS(word(regionInverse), x, near)
		c.VMULPS(word(regionV), x, gd)
		c.VSUBPS(word(regionKappa), gd, gd)
		if c.lanes == 16 {
			mask = c.K()
		} else {
			mask = c.vec()
		}
		c.VCMPPS(operand.Imm(greater), gd, near, mask)
		c.VMAXPS(gd, near, gd)
		t.choose(mask, word(regionInverse), t.register(word(regionV)), e)
	} else {
		t.choose(mask, word(regionInverse), t.register(word(regionV)), e)
		c.VMULPS(e, x, gd)
		kappa := c.vec()
		if c.lanes == 16 {
			outside := c.K()
			c.KNOTW(mask, outside)
			c.VMOVUPS_Z(word(regionKappa), outside, kappa)
		} else {
			c.VANDNPS(word(regionKappa), mask, kappa)
		}
		c.VSUBPS(kappa, gd, gd)
	}
	g.multiply(c, gd, gd)
	c.VMULPS(e, gd, e)
	if c.lanes == 16 {
		c.VPTERNLOGD(operand.Imm(signedBy), t.sign, y, e)
	} else {
		c.VANDPS(t.sign, y, y)
		c.VXORPS(y, e, e)
	}
	return x, gd, e, mask
}

// complement replaces r with e·(r·(2 − r)).
func (t regionTerm) complement(e, r reg.VecVirtual) {
	d := t.c.vec()
	t.c.VSUBPS(r, t.register(t.two), d)
	t.c.VMULPS(d, r, r)
	t.c.VMULPS(e, r, r)
}

// weight returns the weight of a pair at an address.
func (t regionTerm) weight(address reg.Register) *entry {
	return &entry{c: t.c, at: operand.Mem{Base: address}, what: "weight of a pair in all lanes"}
}

// maskOf returns the mask of a pair for slope: nil for a box.
func (r region) maskOf(inside func() reg.Register) reg.Register {
	if r.box {
		return nil
	}
	return inside()
}

// addPsi adds the term of a gradient of ψ to three sums. inside returns the mask of the pair.
func (t regionTerm) addPsi(
	r region, b reg.VecVirtual, word func(int) operand.Op, g *entry, inside func() reg.Register, sums []reg.VecVirtual,
) {
	c := t.c
	inverse, y := t.point(r, b, word)
	x, gd, e, mask := t.slope(y, g, word, r.maskOf(inside))
	if r.box {
		t.complement(e, inverse)
		c.VADDPS(inverse, sums[0], sums[0])
		c.VSUBPS(e, sums[1], sums[1])
	} else {
		c.VADDPS(e, sums[0], sums[0])
		c.VMULPS(b, e, e)
		c.VSUBPS(e, sums[1], sums[1])
	}
	near := c.vec()
	c.VMULPS(word(regionInside), x, near)
	c.VSUBPS(word(regionOutside), x, x)
	t.choose(mask, near, x, x)
	c.VMULPS(x, gd, gd)
	c.VADDPS(gd, sums[2], sums[2])
}

// addPhi adds the term of a gradient of φ to a sum. inside returns the mask of the pair.
func (t regionTerm) addPhi(
	r region, b reg.VecVirtual, word func(int) operand.Op, g *entry, inside func() reg.Register, sum reg.VecVirtual,
) {
	c := t.c
	inverse, y := t.point(r, b, word)
	_, _, e, _ := t.slope(y, g, word, r.maskOf(inside))
	if r.box {
		t.complement(e, inverse)
		c.VADDPS(inverse, sum, sum)
	} else {
		c.VMULPS(word(regionFactor), e, e)
		c.VSUBPS(e, sum, sum)
	}
}

// regionChains is the number of chains in the loops that measure the ceilings of regions: enough to
// hide the latency of the addition that ends a term.
const regionChains = 2

// regionPeaks emits the ceilings: loops that do the arithmetic of the kernels on registers alone.
// With AVX2, the constants are in memory, as in the kernels. No pair is inside its parallelogram.
func (c vectors) regionPeaks(r region, k constants) {
	sums := 1
	if !r.box {
		sums = 2
	}
	const b, g, words = 0, 1, 2 // positions of the operands; the words of a query share two registers
	wordOf := func(x []reg.VecVirtual) func(int) operand.Op {
		return func(i int) operand.Op { return x[words+i%2] }
	}
	peak := func(name string, sums int, add func(t regionTerm, inside func() reg.Register, x, sum []reg.VecVirtual)) {
		c.peak(r.name+name, words+2, regionChains, 1, sums, func() func(x, sum []reg.VecVirtual) {
			t := c.regionConstants(k)
			var mask reg.Register
			if !r.box && name != "Scores" {
				mask = t.noneInside()
			}
			inside := func() reg.Register { return mask }
			return func(x, sum []reg.VecVirtual) { add(t, inside, x, sum) }
		})
	}
	peak("Scores", sums, func(t regionTerm, _ func() reg.Register, x, sum []reg.VecVirtual) {
		t.addScore(r, x[b], wordOf(x), sum)
	})
	peak("PsiGradient", 3, func(t regionTerm, inside func() reg.Register, x, sum []reg.VecVirtual) {
		t.addPsi(r, x[b], wordOf(x), &entry{register: x[g]}, inside, sum)
	})
	peak("PhiGradient", 1, func(t regionTerm, inside func() reg.Register, x, sum []reg.VecVirtual) {
		t.addPhi(r, x[b], wordOf(x), &entry{register: x[g]}, inside, sum[0])
	})
}

// noneInside returns the mask of a pair that is not inside its parallelogram.
func (t regionTerm) noneInside() reg.Register {
	if t.c.lanes == 8 {
		return t.c.zero()
	}
	mask := t.c.K()
	t.c.KXORW(mask, mask, mask)
	return mask
}

// regionPsi emits the kernel of the gradients of a part of ψ. A vector of values stays in registers
// while the rows stream past.
func (c vectors) regionPsi(r region, k constants) {
	c.begin(r.name+"PsiGradient"+c.set,
		"func(dq, q *float32, n int, table *float32, stride int, ids *int32, weights *float32, inside *int32, "+
			"count int)",
		fmt.Sprintf(regionPsiDoc, r.first, r.second, r.point, r.inside, r.words[1]))
	dq, q, n, table := c.param("dq"), c.param("q"), c.param("n"), c.param("table")
	words := c.rows(q, c.bytes("n"), regionWords)
	gradient := &rows{c: c, stride: words.stride, stride3: words.stride3, base: [2]reg.GPVirtual{dq}}
	t, stride := c.regionConstants(k), c.operand("stride")

	c.Label("value")
	var held [regionWords]operand.Op
	word := func(i int) operand.Op {
		if c.lanes == 8 {
			return words.at(i, 0)
		}
		return held[i]
	}
	if c.lanes == 16 {
		for i := range regionHalf {
			held[i] = c.load(words.at(i, 0))
			holds(c.Context, "words", held[i].(reg.VecVirtual))
		}
	}
	var sums []reg.VecVirtual
	for i := range 3 {
		sums = append(sums, c.load(gradient.at(i, 0)))
	}
	holds(c.Context, "sums", sums...)
	id, weight, count := c.param("ids"), c.param("weights"), c.param("count")
	var flag reg.GPVirtual
	if !r.box {
		flag = c.param("inside")
	}
	c.loop("row", count, 1, func() {
		row := c.GP64()
		c.MOVLQSX(operand.Mem{Base: id}, row)
		c.IMULQ(stride, row)
		b := c.load(operand.Mem{Base: table, Index: row, Scale: 4})
		inside := func() reg.Register { return t.insideMask(operand.Mem{Base: flag}) }
		t.addPsi(r, b, word, t.weight(weight), inside, sums)
		c.ADDQ(operand.Imm(4), id)
		c.ADDQ(operand.Imm(4), weight)
		if !r.box {
			c.ADDQ(operand.Imm(4), flag)
		}
	})
	for i, s := range sums {
		c.VMOVUPS(s, gradient.at(i, 0))
	}
	next := operand.Imm(uint64(4 * c.lanes))
	words.advance(next)
	gradient.advance(next)
	c.ADDQ(next, table)
	c.SUBQ(operand.Imm(uint64(c.lanes)), n)
	c.JNE(operand.LabelRef("value"))
	c.end()
}

// regionPhi emits the kernel of the gradients of a part of φ. A vector of values stays in registers
// while the queries stream past.
func (c vectors) regionPhi(r region, k constants) {
	c.begin(r.name+"PhiGradient"+c.set,
		"func(dx, x *float32, n int, table *float32, stride int, weights *float32, inside *int32, count int)",
		fmt.Sprintf(regionPhiDoc, r.phi, r.point, r.inside, r.words[2]))
	dx, from, n, table, stride := c.param("dx"), c.param("x"), c.param("n"), c.param("table"), c.bytes("stride")
	words := c.rows(table, c.bytes("n"), 4)
	t := c.regionConstants(k)

	c.Label("value")
	b, sum := c.load(operand.Mem{Base: from}), c.load(operand.Mem{Base: dx})
	holds(c.Context, "values of x", b)
	holds(c.Context, "sums", sum)
	c.MOVQ(table, words.base[0])
	weight, count := c.param("weights"), c.param("count")
	var flag reg.GPVirtual
	if !r.box {
		flag = c.param("inside")
	}
	word := func(i int) operand.Op {
		if i == regionKappa {
			return operand.Mem{Base: words.base[0], Index: words.stride, Scale: 4}
		}
		return words.at(i, 0)
	}
	c.loop("query", count, 1, func() {
		inside := func() reg.Register { return t.insideMask(operand.Mem{Base: flag}) }
		t.addPhi(r, b, word, t.weight(weight), inside, sum)
		if !r.box {
			c.ADDQ(operand.Imm(4), flag)
		}
		c.ADDQ(operand.Imm(4), weight)
		c.ADDQ(stride, words.base[0])
	})
	c.VMOVUPS(sum, operand.Mem{Base: dx})
	for _, p := range []reg.GPVirtual{dx, from, table} {
		c.ADDQ(operand.Imm(uint64(4*c.lanes)), p)
	}
	c.SUBQ(operand.Imm(uint64(c.lanes)), n)
	c.JNE(operand.LabelRef("value"))
	c.end()
}
