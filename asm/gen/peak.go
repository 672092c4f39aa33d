package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the ceilings: loops that do only arithmetic on registers. DotPeak, L1Peak,
// NormPeak, PhasePeak, HakePeak, BoxEPeak, ExpressivePeak, GroupNormPeak (groups.go), Int8L1Peak
// (codes_l1.go), Int16DotPeak, Int16Norm2Peak, Int16Norm4Peak and Int16GroupNormPeak
// (codes_norm.go) do the arithmetic of the panel kernels. FMA64Peak, MulAdd64Peak and Int8Peak do
// the arithmetic of other kernels. Each exists for AVX512 and AVX2; some also exist for AVX512VNNI
// and AVXVNNI. BFloat16Peak exists for AVX512BF16.

// peakChains is the number of independent chains: enough to hide the latency of the operations on
// every port.
const peakChains = 12

// peakOperands is the largest number of vectors that the loop of a comparison loads before its first
// round.
const peakOperands = 4

// peaks emits the ceilings. The ceiling of the dot product is the FMA ceiling of the machine.
func peaks(c *build.Context) {
	tinyData(c)
	regionData(c)
	sineData(c)
	for _, k := range append(slices.Clone(comparisons), int16DotComparison(false), int16NormComparison(1, false),
		int16NormComparison(2, false)) {
		eachSet(c, k.emitPeak)
	}
	for _, k := range []comparison{groupNormComparison, int16GroupNormComparison(false)} {
		eachSet(c, k.emitGroupPeak)
	}
	eachVNNISet(c, func(c vectors) {
		int16DotComparison(true).emitPeak(c)
		int16NormComparison(2, true).emitPeak(c)
		int16GroupNormComparison(true).emitGroupPeak(c)
		int8Quads.emit(c)
	})
	int8PhaseComparison.emitPeak(vbmi(c))
	eachSet(c, int8L1Peak)
	for _, k := range []arithmetic{fma64, mulAdd64, int8Pairs} {
		eachSet(c, k.emit)
	}
	bfloat16Pairs.emit(vectors{c, bfloat16Set, 16, c.ZMM})
}

func (k comparison) emitPeak(c vectors) {
	name := k.name + "Peak" + c.set
	chains := peakChains
	switch { // the most that the registers hold
	case k.several != nil && c.lanes == 16:
		chains = k.several.chains512
	case k.several != nil:
		chains = k.several.chains256
	case c.lanes == 8 && (k.group == 2 || k.both != nil):
		chains = 8
	}
	operands := min(2*k.group*max(k.psi, k.phi), peakOperands)
	function(c.Context, name, "func(n int, x *float32)")
	doc(c.Context, fmt.Sprintf(`%s runs n rounds of the arithmetic of %d terms of the %s panel kernel, each for
%d candidates. It works on registers alone, which initially hold x[0..%d]. The values of x affect the speed: multiplying
zeros draws less power, so the processor runs faster.

Requires n > 0.`,
		name, chains*k.group, k.name, c.lanes, operands*c.lanes-1))
	n := c.param("n")
	x := c.param("x")
	var same fixed
	if k.constants != nil {
		same = k.constants(c)
	}
	load := func(i int) reg.VecVirtual { return c.load(at(x, i*c.lanes)) }
	acc := make([][]reg.VecVirtual, chains)
	for i := range acc {
		for range k.sumsOfScore() {
			acc[i] = append(acc[i], load(0))
		}
		holds(c.Context, "sums", acc[i]...)
	}
	words := make([]reg.VecVirtual, operands)
	for i := range words {
		words[i] = load(i)
	}
	var psi, phi []reg.VecVirtual
	for i := range k.group * k.psi {
		psi = append(psi, words[2*i%operands])
	}
	for i := range k.group * k.phi {
		phi = append(phi, words[(2*i+1)%operands])
	}
	holds(c.Context, "ψ", psi...)
	holds(c.Context, "φ", phi...)
	choose := func(words []reg.VecVirtual, list []int) (some []reg.VecVirtual) {
		for _, t := range list {
			some = append(some, words[t])
		}
		return some
	}
	c.Label("round")
	for i := 0; k.both != nil && i < chains; i += 2 {
		both := make([][2]*entry, len(psi))
		for t, x := range psi {
			both[t] = [2]*entry{{register: x}, {register: x}}
		}
		k.both(c, same, both, phi, [2]reg.VecVirtual{acc[i][0], acc[i+1][0]})
	}
	for _, step := range k.steps() {
		for _, a := range acc {
			step.update(c, same, inRegisters(choose(psi, step.psi)), choose(phi, step.phi), a)
		}
	}
	c.SUBQ(operand.Imm(1), n)
	c.JNE(operand.LabelRef("round"))
	c.end()
}

// arithmetic is a loop on registers alone that does not belong to a comparison.
type arithmetic struct {
	name, element string // name of the function, and Go type of an element
	bytes         int    // size of an element
	doc           string
	operands      int // number of vectors
	// update multiplies x[0] by x[1] and adds the products to acc.
	update func(c vectors, x []reg.VecVirtual, acc, scratch reg.VecVirtual)
}

var (
	fma64 = arithmetic{"FMA64", "float64", 8, "a[i] = fma(x[i], y[i], a[i])", 2,
		func(c vectors, x []reg.VecVirtual, acc, _ reg.VecVirtual) { c.VFMADD231PD(x[0], x[1], acc) }}
	mulAdd64 = arithmetic{"MulAdd64", "float64", 8, "a[i] += x[i]*y[i], both operations rounded", 2,
		func(c vectors, x []reg.VecVirtual, acc, scratch reg.VecVirtual) {
			c.VMULPD(x[0], x[1], scratch)
			c.VADDPD(scratch, acc, acc)
		}}
	// int8Pairs is for processors without VNNI. It adds two products in 16 bits, and then adds two of these
	// sums in 32 bits by multiplying them by the ones in a third operand.
	int8Pairs = arithmetic{"Int8", "byte", 1,
		int8Doc + ",\n\twith intermediate sums of 16 bits; the third operand has ones of 16 bits", 3,
		func(c vectors, x []reg.VecVirtual, acc, scratch reg.VecVirtual) {
			c.VPMADDUBSW(x[1], x[0], scratch)
			c.VPMADDWD(x[2], scratch, scratch)
			c.VPADDD(scratch, acc, acc)
		}}
	int8Quads = arithmetic{"Int8", "byte", 1, int8Doc, 2,
		func(c vectors, x []reg.VecVirtual, acc, _ reg.VecVirtual) { c.addBytes(x[1], x[0], acc) }}
)

// bfloat16Pairs adds the two products of a word one after the other, in fused multiply-adds.
var bfloat16Pairs = arithmetic{"BFloat16", "byte", 1,
	"a[i] += x[2i+1]·y[2i+1], then a[i] += x[2i]·y[2i], with bfloat16 values x and y and float32 sums a", 2,
	func(c vectors, x []reg.VecVirtual, acc, _ reg.VecVirtual) {
		encoded(c.Context, "VDPBF16PS", x[1], x[0], acc)
	}}

const int8Doc = "a[i] += Σ x[j]·y[j], 4i ≤ j < 4i+4, with unsigned bytes x, signed bytes y and 32-bit sums a"

// arithmeticChains is the number of sums: 16 registers hold them and the operands.
const arithmeticChains = 12

func (k arithmetic) emit(c vectors) {
	name, vectorBytes := k.name+"Peak"+c.set, 4*c.lanes
	function(c.Context, name, fmt.Sprintf("func(n int, x *%s)", k.element))
	doc(c.Context, fmt.Sprintf(`%s runs n rounds of this operation on %d vectors of %d bytes, in registers alone:

	%s

The %d operands are adjacent at x. Their values affect the speed, as in DotPeak. The loop has no
result: callers measure its time.

Requires n > 0.`, name, arithmeticChains, vectorBytes, k.doc, k.operands))
	n, x := c.param("n"), c.param("x")
	load := func(i int) reg.VecVirtual { return c.load(at(x, i*c.lanes)) }
	var operands, acc []reg.VecVirtual
	for i := range k.operands {
		operands = append(operands, load(i))
	}
	for range arithmeticChains {
		acc = append(acc, load(0))
	}
	scratch := c.vec()
	holds(c.Context, "operands", operands...)
	holds(c.Context, "sums", acc...)
	c.Label("round")
	for _, a := range acc {
		k.update(c, operands, a, scratch)
	}
	c.SUBQ(operand.Imm(1), n)
	c.JNE(operand.LabelRef("round"))
	c.end()
}
