package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the panel kernels of float32 and of codes: DotPanel, L1Panel, NormPanel,
// PhasePanel, HakePanel, GroupNormPanel (groups.go), Int8L1Panel (codes_l1.go), Int16DotPanel,
// Int16Norm2Panel, Int16Norm4Panel and Int16GroupNormPanel (codes_norm.go) and, described in
// panel_regions.go, BoxEPanel and ExpressivePanel, for AVX512 (microtiles of MR×48) and AVX2 (MR×16).
// Int16DotPanel, Int16Norm4Panel and Int16GroupNormPanel also exist for AVX512VNNI and AVXVNNI,
// Int8Panel only for these, and Int8PhasePanel (codes_phase.go) only for AVX512VBMI. tiles.go has the
// panel of coarse and fine codes for dot products.

// These are predicates of VCMPPS.
const (
	notLess = 0x15 // NLT_UQ: !(a < b), true for NaN, quiet
	greater = 0x1e // GT_OQ: a > b, false for NaN, quiet
)

const unroll = 4 // coordinates

const entryOfPsi = "ψ[t][i] of a query in all lanes"

const panelDoc = `%[1]s scores strips of %[2]d queries against a panel of %[3]d candidates, and counts
candidates as PanelArgs describes. The score is

	%[4]s

The result is the number of pairs in Undecided.%[5]s`

// comparison describes the arithmetic of a panel kernel for every instruction set.
type comparison struct {
	name string
	// equation documents the score of query i and candidate j.
	equation string
	// group is the number of coordinates that are compared together, or anyGroup. psi and phi are the
	// numbers of words per coordinate in ψ and in φ.
	group, psi, phi int
	// falling reports whether additional coordinates never raise a score. The kernel may then leave
	// strips early.
	falling bool
	// integer reports whether the accumulators hold int32. The kernel converts them to float32
	// before it counts.
	integer bool
	// constants loads the registers that stay the same in every strip.
	constants func(c vectors) fixed
	// update adds one group to the accumulator, given its words of ψ and of φ.
	update func(c vectors, k fixed, psi []*entry, phi []reg.VecVirtual, acc reg.VecVirtual)
	// both adds one group to the accumulators of two queries. It replaces update where the order of the
	// instructions matters.
	both func(c vectors, k fixed, psi [][2]*entry, phi []reg.VecVirtual, acc [2]reg.VecVirtual)
	// groupSquares and groupRoot replace update if the size of a group is an argument. The first adds a coordinate
	// to the sums of squares of a group, and sets them if the coordinate is the first. The second
	// subtracts the roots of the sums from the accumulator.
	groupSquares func(c vectors, k fixed, psi *entry, phi, squares reg.VecVirtual, first bool)
	groupRoot    func(c vectors, k fixed, squares, acc reg.VecVirtual)
	// several describes a score that combines several sums. It replaces update.
	several *severalSums
	// rows512 and rows256 are the numbers of queries in a strip for AVX-512, with panels of 48
	// candidates, and for AVX2, with panels of 16: as many as the registers hold.
	rows512, rows256 int
	// units reports whether coordinates are units of eight one-byte codes (scoreUnits).
	units bool
	// total turns a sum, which is an int32, into a score if it is not nil.
	total func(c vectors, acc reg.VecVirtual)
}

// severalSums describes a score that combines several sums.
type severalSums struct {
	sums int
	// largest is the index of the "sum" that is in fact the largest of its terms, or 0 if there is
	// none.
	largest int
	// steps add a group to the sums, one after another. Each step loads only its own words, so few
	// registers hold words at the same time.
	steps []step
	// combine replaces acc[0], the first of the sums, with the score. It may change the other sums.
	combine func(c vectors, k fixed, acc []reg.VecVirtual)
	// chains512 and chains256 are the numbers of chains of each sum in the peak loop.
	chains512, chains256 int
}

// step adds a part of a group to the sums. psi and phi list the words that it reads.
type step struct {
	psi, phi []int
	update   func(c vectors, k fixed, psi []*entry, phi, acc []reg.VecVirtual)
}

// sumsOfScore returns the number of sums in a score.
func (k comparison) sumsOfScore() int {
	if k.several == nil {
		return 1
	}
	return k.several.sums
}

// steps returns the steps that add a group to the sums.
func (k comparison) steps() []step {
	switch {
	case k.several != nil:
		return k.several.steps
	case k.both != nil:
		return nil
	}
	words := func(n int) (list []int) {
		for t := range k.group * n {
			list = append(list, t)
		}
		return list
	}
	return []step{{words(k.psi), words(k.phi), func(c vectors, same fixed, psi []*entry, phi, acc []reg.VecVirtual) {
		k.update(c, same, psi, phi, acc[0])
	}}}
}

// fixed holds operands that are equal in all lanes.
type fixed struct {
	signMask reg.VecVirtual // all bits but the sign
	tiny     operand.Op     // 2⁻¹²⁶
	// sines is a table of bytes; most and minusOnes have the same byte everywhere (codes_phase.go).
	sines           [2]reg.VecVirtual
	most, minusOnes reg.VecVirtual
}

// panel is a panel kernel for one instruction set.
type panel struct {
	vectors
	comparison
	args panelArgs
	mr   int // queries in a strip
	wide int // registers for the candidates of a panel
}

func panels(c *build.Context, args panelArgs) {
	tinyData(c)
	regionData(c)
	sineData(c)
	emit := func(c vectors, k comparison) {
		if c.lanes == 16 {
			panel{c, k, args, k.rows512, 3}.emit()
		} else {
			panel{c, k, args, k.rows256, 2}.emit()
		}
	}
	eachVNNISet(c, func(c vectors) { emit(c, int8Comparison) })
	emit(vbmi(c), int8PhaseComparison)
	for _, k := range slices.Concat(comparisons, []comparison{int8L1Comparison, groupNormComparison,
		int16DotComparison(false), int16NormComparison(1, false), int16NormComparison(2, false),
		int16GroupNormComparison(false)}) {
		eachSet(c, func(c vectors) { emit(c, k) })
	}
	for _, k := range []comparison{
		int16DotComparison(true), int16NormComparison(2, true), int16GroupNormComparison(true),
	} {
		eachVNNISet(c, func(c vectors) { emit(c, k) })
	}
}

var comparisons = []comparison{dotComparison, l1Comparison, normComparison, phaseComparison, hakeComparison,
	boxComparison, expressiveComparison}

var dotComparison = comparison{
	name: "Dot", group: 1, psi: 1, phi: 1, rows512: 9, rows256: 6,
	equation: `score[i][j] = Σ_t ψ[t][i]·φ[t][j]

in float32: one chain of fused multiply-adds from 0 with t ascending.`,
	update: func(c vectors, _ fixed, psi []*entry, phi []reg.VecVirtual, acc reg.VecVirtual) {
		psi[0].multiplyAdd(c, phi[0], acc)
	},
}

// int8Comparison packs four codes into a word: signed bytes in the queries, unsigned bytes in the
// candidates.
var int8Comparison = comparison{
	name: "Int8", group: 1, psi: 1, phi: 1, integer: true, rows512: 9, rows256: 6,
	equation: `score[i][j] = Σ_t Σ_b ψ[t][i].b·φ[t][j].b

over the four bytes b of a word, signed in ψ and unsigned in φ, exactly in int32. The kernel converts the sums to
float32 if TargetStart is not nil, which marks the last call for these strips.`,
	update: func(c vectors, _ fixed, psi []*entry, phi []reg.VecVirtual, acc reg.VecVirtual) {
		c.addBytes(psi[0].lanes(), phi[0], acc)
	},
}

// int16DotComparison packs two signed codes into a word. vnni says that products are added to sums in one
// instruction.
func int16DotComparison(vnni bool) comparison {
	return comparison{
		name: "Int16Dot", group: 1, psi: 1, phi: 1, integer: true, rows512: 9, rows256: 6,
		equation: `score[i][j] = Σ_t Σ_x ψ[t][i].x·φ[t][j].x

over the two signed codes x of a word, in int32 without regard to overflow: the sum is exact if it fits. The kernel
converts the sums to float32 if TargetStart is not nil, which marks the last call for these strips.`,
		update: func(c vectors, _ fixed, psi []*entry, phi []reg.VecVirtual, acc reg.VecVirtual) {
			if vnni {
				c.addCodes(psi[0].lanes(), phi[0], acc)
				return
			}
			product := c.vec()
			c.VPMADDWD(psi[0].lanes(), phi[0], product)
			c.VPADDD(product, acc, acc)
		},
	}
}

const tinyName = "tiny"

func tinyData(c *build.Context) {
	c.StaticGlobal(tinyName)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for range 8 {
		c.AppendDatum(operand.U32(0x00800000))
	}
}

// loadTiny returns 2⁻¹²⁶ in all lanes.
func loadTiny(c vectors) fixed {
	if c.lanes == 8 { // no register is free
		return fixed{tiny: operand.NewDataAddr(operand.NewStaticSymbol(tinyName), 0)}
	}
	r := c.vec()
	c.VPTERNLOGD(operand.Imm(0xff), r, r, r)
	c.VPSRLD(operand.Imm(31), r, r)
	c.VPSLLD(operand.Imm(23), r, r)
	holds(c.Context, "2⁻¹²⁶", r)
	return fixed{tiny: r}
}

func signMask(c vectors) fixed {
	m := c.vec()
	if c.lanes == 16 {
		c.VPTERNLOGD(operand.Imm(0xff), m, m, m)
	} else {
		c.VPCMPEQD(m, m, m)
	}
	c.VPSRLD(operand.Imm(1), m, m)
	holds(c.Context, "sign mask: all bits but the sign", m)
	return fixed{signMask: m}
}

// absolute clears the signs of x.
func (k fixed) absolute(c vectors, x reg.VecVirtual) {
	if c.lanes == 16 {
		c.VPANDD(k.signMask, x, x)
	} else {
		c.VANDPS(k.signMask, x, x)
	}
}

var l1Comparison = comparison{
	name: "L1", group: 1, psi: 1, phi: 1, falling: true, rows512: 8, rows256: 5, constants: signMask,
	equation: `score[i][j] = −Σ_t |ψ[t][i] − φ[t][j]|

in float32: one chain of subtractions from 0 with t ascending.`,
	update: func(c vectors, k fixed, psi []*entry, phi []reg.VecVirtual, acc reg.VecVirtual) {
		d := c.vec()
		psi[0].subtract(c, phi[0], d)
		k.absolute(c, d)
		c.VSUBPS(d, acc, acc)
	},
}

var normComparison = comparison{
	name: "Norm", group: 2, psi: 1, phi: 1, falling: true, rows512: 6, rows256: 4,
	constants: loadTiny,
	equation: `score[i][j] = −Σ_t √(x² + y²),  x = ψ[t][i] − φ[t][j],  y = ψ[t+1][i] − φ[t+1][j],  t = 0, 2, …

in float32. The root is approximate: √s ≈ s·r, where r ≈ 1/√s comes from the processor (14 bits in AVX-512, nearly
12 in AVX2) and s = y² + (x² + 2⁻¹²⁶), with both sums fused.`,
	update: func(c vectors, k fixed, psi []*entry, phi []reg.VecVirtual, acc reg.VecVirtual) {
		x, y := c.vec(), c.vec()
		psi[0].subtract(c, phi[0], x)
		psi[1].subtract(c, phi[1], y)
		c.VFMADD213PS(k.tiny, x, x)
		c.VFMADD231PS(y, y, x)
		c.inverseRoot(x, y)
		c.VFNMADD231PS(x, y, acc)
	},
}

// inverseRoot sets y to an approximation of 1/√x.
func (c vectors) inverseRoot(x, y reg.VecVirtual) {
	if c.lanes == 16 {
		c.VRSQRT14PS(x, y)
	} else {
		c.VRSQRTPS(x, y)
	}
}

var phaseComparison = comparison{
	name: "Phase", group: 2, psi: 1, phi: 1, falling: true, rows512: 6, rows256: 4, constants: signMask,
	equation: `score[i][j] = −Σ_t |ψ[t][i]·φ[t][j] + ψ[t+1][i]·φ[t+1][j]|,  t = 0, 2, …

in float32: one chain of subtractions from 0, with the second product fused.`,
	update: func(c vectors, k fixed, psi []*entry, phi []reg.VecVirtual, acc reg.VecVirtual) {
		p := c.vec()
		psi[0].multiply(c, phi[0], p)
		psi[1].multiplyAdd(c, phi[1], p)
		k.absolute(c, p)
		c.VSUBPS(p, acc, acc)
	},
}

var hakeComparison = comparison{
	name: "Hake", group: 1, psi: 4, phi: 3, falling: true, rows512: 3, rows256: 2, constants: signMask,
	equation: `score[i][j] = −Σ_t |α·c + β·s| − √Σ_t (a − b·m)²,  α, β, a, b = ψ[4t…4t+3][i],  c, s, m = φ[3t…3t+2][j]

in float32: one chain of subtractions and one of additions from 0 with t ascending. The second product in the
modulus, both products in the parentheses and the square are fused with the operations that follow. A coordinate has
four words of ψ and three of φ. The square root is rounded once.`,
	several: &severalSums{
		sums: 2, chains512: 8, chains256: 3,
		steps: []step{
			{[]int{0, 1}, []int{0, 1}, func(c vectors, k fixed, psi []*entry, phi, acc []reg.VecVirtual) {
				p := c.vec()
				psi[0].multiply(c, phi[0], p)
				psi[1].multiplyAdd(c, phi[1], p)
				k.absolute(c, p)
				c.VSUBPS(p, acc[0], acc[0])
			}},
			{[]int{2, 3}, []int{2}, func(c vectors, _ fixed, psi []*entry, phi, acc []reg.VecVirtual) {
				v := psi[0].variable(c)
				psi[1].multiplySubtract(c, phi[0], v)
				c.VFMADD231PS(v, v, acc[1])
			}},
		},
		combine: func(c vectors, _ fixed, acc []reg.VecVirtual) {
			c.VSQRTPS(acc[1], acc[1])
			c.VSUBPS(acc[1], acc[0], acc[0])
		},
	},
}

// progress is the state of the loop over strips. It lives on the stack because counting needs the
// registers.
type progress struct {
	psi, stripsLeft, scores, sums, targetStart, undecided, ahead, exitBelow, active operand.Mem
}

func (c vectors) progress(falling, several bool) progress {
	local := func(name string) operand.Mem {
		m := c.AllocLocal(8)
		c.MOVQ(field(c.Context, name, c.GP64()), m)
		return m
	}
	c.Comment("The state of the loop over strips")
	p := progress{
		psi: local("Psi"), stripsLeft: local("Strips"), scores: local("Scores"),
		targetStart: local("TargetStart"), undecided: local("Undecided"), ahead: local("Ahead"),
	}
	if falling {
		p.exitBelow, p.active = local("ExitBelow"), local("Active")
	}
	if several {
		p.sums = local("Sums")
	}
	return p
}

// nr is the number of candidates in a panel.
func (c panel) nr() int { return c.wide * c.lanes }

func (c panel) emit() {
	nr := c.nr()
	name := fmt.Sprintf("%sPanel%dx%d%s", c.name, c.mr, nr, c.set)
	function(c.Context, name, "func()")
	c.Signature(c.args.signature)
	requires := ""
	switch {
	case c.group > 1:
		requires = fmt.Sprintf("\n\nRequires K to be a multiple of %d.", c.group)
	case c.group == anyGroup:
		requires = "\n\nRequires Group > 1, and K to be a multiple of Group."
	}
	doc(c.Context, fmt.Sprintf(panelDoc, name, c.mr, nr, c.equation, requires))
	c.Pragma("noescape")
	at := c.progress(c.falling, c.several != nil)

	c.Label("strip")
	if c.falling {
		c.skipInactive(at)
	}
	score := c.score
	switch {
	case c.group == anyGroup:
		score = c.scoreGroups
	case c.units:
		score = c.scoreUnits
	}
	acc := score(at)
	if c.falling {
		c.ifNotNil(at.exitBelow, "look", func() { c.markActive(acc, at) })
	}
	targetStart := c.GP64()
	c.MOVQ(at.targetStart, targetStart)
	c.TESTQ(targetStart, targetStart)
	c.JEQ(operand.LabelRef("next"))
	c.count(acc, targetStart, at.undecided)

	c.Label("next")
	c.nextStrip(at)
	c.returnPairs(at)
	c.end()
}

// skipInactive emits code that jumps to the next strip if this one is inactive.
func (c panel) skipInactive(at progress) {
	c.ifNotNil(at.exitBelow, "begin", func() {
		c.Comment("Skip inactive strips")
		active := c.GP64()
		c.MOVQ(at.active, active)
		c.CMPB(operand.Mem{Base: active}, operand.Imm(0))
		c.JEQ(operand.LabelRef("next"))
	})
}

// score emits code that computes a strip's scores over the coordinates of the call and stores them.
// It returns the registers that hold the scores.
func (c panel) score(at progress) (acc [][]reg.VecVirtual) {
	var k fixed
	if c.constants != nil {
		k = c.constants(c.vectors)
	}
	psi, scores, ahead := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at.psi, psi)
	c.MOVQ(at.scores, scores)
	c.MOVQ(at.ahead, ahead)
	phi := field(c.Context, "Phi", c.GP64())
	left := field(c.Context, "K", c.GP64())
	aheadStride := field(c.Context, "AheadStride", c.GP64())
	sums := make([][][]reg.VecVirtual, c.sumsOfScore())
	for s := range sums {
		sums[s] = matrixOf(c.vectors, c.mr, c.wide)
		what := "sums: score[i][j]"
		if c.several != nil {
			what = fmt.Sprintf("sum %d of score[i][j]", s)
		}
		holds(c.Context, fmt.Sprintf("%s of query i < %d, %d registers per query", what, c.mr, c.wide),
			slices.Concat(sums[s]...)...)
	}
	holds(c.Context, "address of ψ", psi)
	holds(c.Context, "address of φ", phi)
	holds(c.Context, "coordinates left", left)
	holds(c.Context, "address and stride of the prefetches", ahead, aheadStride)
	holds(c.Context, "address of the strip's scores", scores)

	// terms adds the given number of coordinates to the sums.
	terms := func(coordinates int, prefetch func()) {
		for u := 0; u < coordinates; u += c.group {
			c.accumulate(k, psi, phi, u, sums)
		}
		prefetch()
		c.ADDQ(operand.U32(coordinates*c.psi*c.mr*4), psi)
		c.ADDQ(operand.U32(coordinates*c.phi*c.nr()*4), phi)
		c.SUBQ(operand.Imm(uint64(coordinates)), left)
	}
	c.Comment(fmt.Sprintf("Accumulate: %d coordinates per round", unroll))
	c.SUBQ(operand.Imm(unroll), left)
	c.JLT(operand.LabelRef("rest"))
	c.Label("round")
	terms(unroll, func() {
		c.PREFETCHT1(operand.Mem{Base: ahead})
		c.ADDQ(aheadStride, ahead)
	})
	c.JGE(operand.LabelRef("round"))
	c.Label("rest")
	c.Comment("Accumulate the last coordinates, one group per round")
	c.ADDQ(operand.Imm(unroll), left)
	c.JEQ(operand.LabelRef("finish"))
	c.Label("group")
	terms(c.group, func() {})
	c.JNE(operand.LabelRef("group"))
	c.Label("finish")
	if c.total != nil {
		c.Comment("Turn the sums into scores")
		for _, sum := range slices.Concat(sums[0]...) {
			c.total(c.vectors, sum)
		}
	}
	if c.several == nil {
		c.finish(sums[0], scores, at)
	}
	c.MOVQ(ahead, at.ahead)
	if c.several != nil {
		c.finishSums(k, sums, scores, at)
	}
	return sums[0]
}

// nextStrip emits the step to the next strip.
func (c panel) nextStrip(at progress) {
	c.Comment("The next strip")
	stride := field(c.Context, "PsiStride", c.GP64())
	c.SHLQ(operand.Imm(2), stride)
	c.ADDQ(stride, at.psi)
	c.ADDQ(operand.U32(4*c.mr*c.nr()), at.scores)
	if c.several != nil {
		c.ADDQ(operand.U32(4*c.sumsOfScore()*c.mr*c.nr()), at.sums)
	}
	c.ifNotNil(at.targetStart, "rows", func() { c.ADDQ(operand.U32(4*c.mr), at.targetStart) })
	if c.falling {
		c.ifNotNil(at.exitBelow, "step", func() {
			c.ADDQ(operand.U32(4*c.mr), at.exitBelow)
			c.INCQ(at.active)
		})
	}
	c.DECQ(at.stripsLeft)
	c.JNE(operand.LabelRef("strip"))
}

// returnPairs returns the number of pairs that the kernel appended to Undecided.
func (c vectors) returnPairs(at progress) {
	c.Comment("The number of pairs: 16 bytes each")
	out, start := c.GP64(), field(c.Context, "Undecided", c.GP64())
	c.MOVQ(at.undecided, out)
	c.SUBQ(start, out)
	c.SHRQ(operand.Imm(4), out)
	c.Store(out, c.ReturnIndex(0))
}

// ifNotNil emits code that runs only if the pointer at an address is not nil.
func (c vectors) ifNotNil(at operand.Mem, label string, emit func()) {
	p := c.GP64()
	c.MOVQ(at, p)
	c.TESTQ(p, p)
	c.JEQ(operand.LabelRef("not_" + label))
	emit()
	c.Label("not_" + label)
}

// accumulate adds the group of coordinates at offset u of psi and phi to every sum.
func (c panel) accumulate(k fixed, psi, phi reg.Register, u int, sums [][][]reg.VecVirtual) {
	if c.both != nil {
		c.accumulateBoth(k, psi, phi, u, sums[0])
		return
	}
	loaded := map[int]reg.VecVirtual{} // by the number of the register in the panel
	for _, step := range c.steps() {
		words := make([][]reg.VecVirtual, c.wide)
		for v := range words {
			for _, t := range step.phi {
				i := (u*c.phi+t)*c.wide + v
				if loaded[i] == nil {
					loaded[i] = c.load(at(phi, i*c.lanes))
					holds(c.Context, "φ[t][j] of the panel's candidates", loaded[i])
				}
				words[v] = append(words[v], loaded[i])
			}
		}
		for i := range c.mr {
			var query []*entry
			for _, t := range step.psi {
				query = append(query, &entry{c: c.vectors, at: at(psi, (u*c.psi+t)*c.mr+i), what: entryOfPsi})
			}
			c.perRegister(c.wide, func(piece vectors, v int) {
				for _, e := range query {
					e.last = v == c.wide-1
				}
				step.update(piece, k, query, words[v], sumsAt(sums, i, v))
			})
		}
	}
}

// accumulateBoth is accumulate for comparisons that add to two queries at a time.
func (c panel) accumulateBoth(k fixed, psi, phi reg.Register, u int, sums [][]reg.VecVirtual) {
	candidates := make([][]reg.VecVirtual, c.wide)
	for v := range candidates {
		for t := range c.group {
			candidates[v] = append(candidates[v], c.load(at(phi, ((u+t)*c.wide+v)*c.lanes)))
		}
		holds(c.Context, "φ[t][j] of the panel's candidates", candidates[v]...)
	}
	for i := 0; i < c.mr; i += 2 {
		queries := make([][2]*entry, c.group)
		for t := range queries {
			for q := range queries[t] {
				queries[t][q] = &entry{c: c.vectors, at: at(psi, (u+t)*c.mr+i+q), what: entryOfPsi}
			}
		}
		for v, x := range candidates {
			c.both(c.vectors, k, queries, x, [2]reg.VecVirtual{sums[i][v], sums[i+1][v]})
		}
	}
}

// sumsAt returns the registers with all sums of query i and register v of the candidates.
func sumsAt(sums [][][]reg.VecVirtual, i, v int) (list []reg.VecVirtual) {
	for _, s := range sums {
		list = append(list, s[i][v])
	}
	return list
}

// finishSums adds the earlier sums if Add is set and stores the new sums. If something reads the
// scores, it also combines the sums into scores.
func (c panel) finishSums(k fixed, sums [][][]reg.VecVirtual, scores reg.Register, at progress) {
	all := slices.Concat(sums...)
	address := c.GP64()
	c.MOVQ(at.sums, address)
	each := func(f func(sum int, a reg.VecVirtual, m operand.Mem)) {
		for r, row := range all {
			for v, a := range row {
				f(r/c.mr, a, operand.Mem{Base: address, Disp: (r*c.wide + v) * c.lanes * 4})
			}
		}
	}
	c.Comment("Finish: add the earlier sums, if any, and store the sums")
	add := field(c.Context, "Add", c.GP64())
	c.TESTQ(add, add)
	c.JEQ(operand.LabelRef("store"))
	each(func(sum int, a reg.VecVirtual, m operand.Mem) {
		if sum > 0 && sum == c.several.largest {
			c.VMAXPS(m, a, a)
		} else {
			c.VADDPS(m, a, a)
		}
	})
	c.Label("store")
	each(func(_ int, a reg.VecVirtual, m operand.Mem) { c.VMOVAPS(a, m) })
	c.Comment("Combine the sums, unless TargetStart and ExitBelow are nil")
	needed := c.GP64()
	c.MOVQ(at.targetStart, needed)
	if c.falling {
		c.ORQ(at.exitBelow, needed)
	}
	c.TESTQ(needed, needed)
	c.JEQ(operand.LabelRef("next"))
	for i := range c.mr {
		for v := range c.wide {
			c.several.combine(c.vectors, k, sumsAt(sums, i, v))
			c.VMOVAPS(sums[0][i][v], operand.Mem{Base: scores, Disp: (i*c.wide + v) * c.lanes * 4})
		}
	}
}

// finish adds the sums to the earlier scores if Add is set, and stores them.
func (c panel) finish(acc [][]reg.VecVirtual, scores reg.Register, at progress) {
	each := func(f func(reg.VecVirtual, operand.Mem)) {
		for i, row := range acc {
			for v, a := range row {
				f(a, operand.Mem{Base: scores, Disp: (i*c.wide + v) * c.lanes * 4})
			}
		}
	}
	c.Comment("Finish: add the sums of earlier coordinates, if any, and store")
	add := field(c.Context, "Add", c.GP64())
	c.TESTQ(add, add)
	c.JEQ(operand.LabelRef("store"))
	each(func(a reg.VecVirtual, m operand.Mem) {
		if c.integer {
			c.VPADDD(m, a, a)
		} else {
			c.VADDPS(m, a, a)
		}
	})
	c.Label("store")
	if c.integer {
		c.ifNotNil(at.targetStart, "last", func() {
			c.Comment("The last words: convert int32 to float32")
			each(func(a reg.VecVirtual, _ operand.Mem) { c.VCVTDQ2PS(a, a) })
		})
	}
	each(func(a reg.VecVirtual, m operand.Mem) { c.VMOVAPS(a, m) })
}

// markActive clears the strip's entry of Active if every score is below ExitBelow.
func (c panel) markActive(acc [][]reg.VecVirtual, at progress) {
	c.Comment("Early exit: the strip stays active if any score[i][j] ≥ ExitBelow[i], or is NaN")
	limits, active := c.GP64(), c.GP64()
	c.MOVQ(at.exitBelow, limits)
	c.MOVQ(at.active, active)
	if c.lanes == 16 {
		some, k := c.K(), c.K()
		c.KXORW(some, some, some)
		for i, row := range acc {
			limit := c.broadcast(operand.Mem{Base: limits, Disp: 4 * i})
			for _, a := range row {
				c.VCMPPS(operand.Imm(notLess), limit, a, k)
				c.KORW(k, some, some)
			}
		}
		c.KORTESTW(some, some)
	} else {
		some, m, limit := c.vec(), c.vec(), c.vec()
		c.VXORPS(some, some, some)
		for i, row := range acc {
			c.VBROADCASTSS(operand.Mem{Base: limits, Disp: 4 * i}, limit)
			for _, a := range row {
				c.VCMPPS(operand.Imm(notLess), limit, a, m)
				c.VORPS(m, some, some)
			}
		}
		mask := c.GP32()
		c.VMOVMSKPS(some, mask)
		c.TESTL(mask, mask)
	}
	c.SETNE(operand.Mem{Base: active})
}

// count compares the scores of every query, still in registers, with the two thresholds of each of
// its targets.
func (c vectors) count(acc [][]reg.VecVirtual, targetStart reg.Register, undecidedAt operand.Mem) {
	c.Comment("Count: for every target t of query i, above = {j: score[i][j] > hi[t]} and",
		"open = {j: neither score[i][j] > hi[t] nor score[i][j] < lo[t]}, for valid lanes j")
	thresholds := field(c.Context, "Thresholds", c.GP64())
	counts := field(c.Context, "Counts", c.GP64())
	out := c.GP64()
	c.MOVQ(undecidedAt, out)
	valid := field(c.Context, "ValidLanes", c.GP64())
	holds(c.Context, "counting: address of the first target of each query", targetStart)
	holds(c.Context, "counting: address of the thresholds [t][lo, hi]", thresholds)
	holds(c.Context, "counting: address of the counts [t]", counts)
	holds(c.Context, "counting: address of the next undecided pair", out)

	var validK []reg.OpmaskVirtual
	if c.lanes == 16 {
		for v := range acc[0] {
			k := c.K()
			c.KMOVW(valid.As32(), k)
			holds(c.Context, "counting: valid lanes", k)
			validK = append(validK, k)
			if v+1 < len(acc[0]) {
				c.SHRQ(operand.Imm(16), valid)
			}
		}
	} else {
		holds(c.Context, "counting: valid lanes", valid)
	}
	t, end := c.GP64(), c.GP64()
	holds(c.Context, "counting: target t, and the end of the targets of the query", t, end)
	for i, row := range acc {
		next, done := fmt.Sprintf("target%d", i), fmt.Sprintf("query%d", i+1)
		c.MOVLQSX(operand.Mem{Base: targetStart, Disp: 4 * i}, t)
		c.MOVLQSX(operand.Mem{Base: targetStart, Disp: 4 * (i + 1)}, end)
		c.CMPQ(t, end)
		c.JGE(operand.LabelRef(done))
		c.Label(next)
		if i == 0 {
			c.Comment("Compare with the thresholds")
		}
		lo := c.broadcast(operand.Mem{Base: thresholds, Index: t, Scale: 8})
		hi := c.broadcast(operand.Mem{Base: thresholds, Index: t, Scale: 8, Disp: 4})
		holds(c.Context, "counting: lo and hi of target t in all lanes", lo, hi)
		above, open := c.GP64(), c.GP64()
		holds(c.Context, "counting: masks above and open", above, open)
		if c.lanes == 16 {
			c.masks512(row, lo, hi, validK, above, open)
		} else {
			c.masks256(row, lo, hi, valid, above, open)
		}
		if i == 0 {
			c.Comment("Undecided: write the pair (t, open), and advance if open is not empty")
		}
		c.MOVQ(t, operand.Mem{Base: out})
		c.MOVQ(open, operand.Mem{Base: out, Disp: 8})
		keep := c.GP64()
		c.XORL(keep.As32(), keep.As32())
		c.TESTQ(open, open)
		c.SETNE(keep.As8())
		c.SHLQ(operand.Imm(4), keep)
		c.ADDQ(keep, out)
		if i == 0 {
			c.Comment("Counts[t] += |above|")
		}
		c.POPCNTQ(above, above)
		c.ADDL(above.As32(), operand.Mem{Base: counts, Index: t, Scale: 4})
		c.INCQ(t)
		c.CMPQ(t, end)
		c.JLT(operand.LabelRef(next))
		c.Label(done)
	}
	c.MOVQ(out, undecidedAt)
}

// masks512 sets above to the valid lanes with score > hi, and open to the valid lanes with neither
// score > hi nor score < lo. Since hi ≥ lo, above is a subset of the lanes that are not below lo.
func (c vectors) masks512(
	row []reg.VecVirtual, lo, hi reg.VecVirtual, valid []reg.OpmaskVirtual, above, open reg.GPVirtual,
) {
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

// masks256 is masks512 for AVX2, which has no mask registers.
func (c vectors) masks256(row []reg.VecVirtual, lo, hi reg.VecVirtual, valid, above, open reg.GPVirtual) {
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
