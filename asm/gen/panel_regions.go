package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file describes the arithmetic of the panels of region models: ExpressivePanel and BoxEPanel.

// notGreater is a predicate of VCMPPS: NGT_UQ, !(a > b), true for NaN, quiet.
const notGreater = 0x1a

// regionConstants are the constants of the region kernels. The kernels read 16 copies of each from
// memory, because the sums occupy the registers.
var regionConstants = map[string]float32{"half": 0.5, "one": 1, "two": 2}

// regionData emits the constants. Every assembly file with region kernels contains them.
func regionData(c *build.Context) {
	for _, name := range []string{"half", "one", "two"} {
		c.StaticGlobal(name)
		c.DataAttributes(attr.RODATA | attr.NOPTR)
		for range 16 {
			c.AppendDatum(operand.U32(math.Float32bits(regionConstants[name])))
		}
	}
}

func constant(name string) operand.Op {
	return operand.NewDataAddr(operand.NewStaticSymbol(name), 0)
}

var expressiveComparison = comparison{
	name: "Expressive", group: 1, psi: 12, phi: 1, falling: true, rows512: 3, rows256: 2, constants: signMask,
	equation: `score[i][j] = −Σ_t (w x − k)² over the terms of all coordinates if the largest x exceeds 1, otherwise NaN

where x = |a − s·φ[t][j]|. The two terms of coordinate t read a, s, w, k from ψ[12t…12t+3][i] and ψ[12t+6…12t+9][i].
In float32: one chain of fused operations from 0 with t ascending, the first term of a coordinate first. x and w x − k
are rounded once. A coordinate has twelve words of ψ and one of φ.`,
	several: &severalSums{
		sums: 2, largest: 1, chains512: 8, chains256: 4,
		steps: []step{
			{[]int{0, 1, 2, 3}, []int{0}, expressiveTerm},
			{[]int{6, 7, 8, 9}, []int{0}, expressiveTerm},
		},
		combine: func(c vectors, _ fixed, acc []reg.VecVirtual) {
			if c.lanes == 16 {
				inside := c.K()
				c.VCMPPS(operand.Imm(notGreater), constant("one"), acc[1], inside)
				c.VPTERNLOGD(operand.Imm(0xff), acc[0], acc[0], inside, acc[0])
			} else {
				c.VCMPPS(operand.Imm(notGreater), constant("one"), acc[1], acc[1])
				c.VORPS(acc[1], acc[0], acc[0])
			}
		},
	},
}

// expressiveTerm adds the term with the words a, s, w, k to the sum acc[0] and updates the maximum
// acc[1].
func expressiveTerm(c vectors, k fixed, psi []*entry, phi, acc []reg.VecVirtual) {
	x := psi[0].variable(c)
	psi[1].multiplySubtract(c, phi[0], x)
	k.absolute(c, x)
	c.VMAXPS(x, acc[1], acc[1])
	c.VFMSUB213PS(psi[3].lanes(), psi[2].lanes(), x)
	c.VFNMADD231PS(x, x, acc[0])
}

var boxComparison = comparison{
	name: "BoxE", group: 1, psi: 10, phi: 2, falling: true, rows512: 2, rows256: 1, constants: signMask,
	equation: `score[i][j] = −√(Σ_t d₁²) − √(Σ_t d₂²),  d = max(v x, w x − k),  x = |c − 1/(a b + ½)|

where d₁ reads a, c, v, w, k from ψ[10t…10t+4][i] and b from φ[2t][j], and d₂ reads ψ[10t+5…10t+9][i] and φ[2t+1][j]. In
float32: two chains of fused multiply-adds from 0 with t ascending. The reciprocal is approximate: with r ≈ 1/y from the
processor (14 bits in AVX-512, nearly 12 in AVX2), 1/y ≈ r(2 − y r). The square roots are rounded once. A coordinate has
ten words of ψ and two of φ.`,
	several: &severalSums{
		sums: 2, chains512: 8, chains256: 4,
		steps: []step{
			{[]int{0, 1, 2, 3, 4}, []int{0}, boxTerm(0)},
			{[]int{5, 6, 7, 8, 9}, []int{1}, boxTerm(1)},
		},
		combine: func(c vectors, _ fixed, acc []reg.VecVirtual) {
			c.VSQRTPS(acc[0], acc[0])
			c.VSQRTPS(acc[1], acc[1])
			c.VADDPS(acc[1], acc[0], acc[1])
			zero := c.zero()
			c.VSUBPS(acc[1], zero, acc[0])
		},
	},
}

// boxTerm returns a function that adds d² to acc[sum]. The words in psi are a, c, v, w, k.
func boxTerm(sum int) func(c vectors, k fixed, psi []*entry, phi, acc []reg.VecVirtual) {
	return func(c vectors, k fixed, psi []*entry, phi, acc []reg.VecVirtual) {
		y, x := c.vec(), c.vec()
		c.VMOVAPS(phi[0], y)
		c.VFMADD213PS(constant("half"), psi[0].lanes(), y)
		if c.lanes == 16 {
			c.VRCP14PS(y, x)
		} else {
			c.VRCPPS(y, x)
		}
		c.VFNMADD213PS(constant("two"), x, y)
		c.VFNMADD213PS(psi[1].lanes(), y, x)
		k.absolute(c, x)
		psi[2].multiply(c, x, y)
		c.VFMSUB213PS(psi[4].lanes(), psi[3].lanes(), x)
		c.VMAXPS(y, x, x)
		c.VFMADD231PS(x, x, acc[sum])
	}
}
