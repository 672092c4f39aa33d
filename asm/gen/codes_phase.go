package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the kernel for one-byte phases, Int8PhasePanel, and its ceiling Int8PhasePeak.
// They look up sines in a table of 128 bytes, which needs AVX-512 VBMI.

// vbmi is the instruction set of kernels that need both AVX-512 VBMI and AVX-512 VNNI.
func vbmi(c *build.Context) vectors { return vectors{c, "AVX512VBMI", 16, c.ZMM} }

// int8PhaseComparison packs four phases into a word. A difference of bytes is a difference of phases
// modulo a half-turn.
var int8PhaseComparison = comparison{
	name: "Int8Phase", group: 1, psi: 1, phi: 1, falling: true, rows512: 6, constants: loadSines,
	equation: `score[i][j] = −Σ_t Σ_b s(ψ[t][i].b − φ[t][j].b),  s(d) = 255·sin(π·min(|d|, 127)/256), rounded

over the four bytes b of a word, with differences d from −128 to 127 modulo 256. The sum is exact, and so is the
score in float32 if the sum is at most 2²⁴.`,
	update: func(c vectors, k fixed, psi []*entry, phi []reg.VecVirtual, acc reg.VecVirtual) {
		d := c.vec()
		c.VPSUBB(phi[0], psi[0].lanes(), d)
		c.VPABSB(d, d)
		c.VPMINUB(k.most, d, d) // the table ends with 127, and −128 has the absolute value 128
		c.VPERMI2B(k.sines[1], k.sines[0], d)
		c.addBytes(k.minusOnes, d, acc)
	},
	total: func(c vectors, acc reg.VecVirtual) { c.VCVTDQ2PS(acc, acc) },
}

const sinesName, mostName = "sines", "largest_difference"

// sineData defines the table of s(d) for d < 128, and the bytes 127.
func sineData(c *build.Context) {
	c.StaticGlobal(sinesName)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for d := range 128 {
		c.AppendDatum(operand.U8(math.RoundToEven(255 * math.Sin(math.Pi/256*float64(d)))))
	}
	c.StaticGlobal(mostName)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	c.AppendDatum(operand.U32(0x7f7f7f7f))
}

func loadSines(c vectors) (k fixed) {
	at := func(name string, disp int) operand.Mem {
		return operand.NewDataAddr(operand.NewStaticSymbol(name), disp)
	}
	for i := range k.sines {
		k.sines[i] = c.load(at(sinesName, 64*i))
	}
	k.most, k.minusOnes = c.broadcast(at(mostName, 0)), c.vec()
	c.VPTERNLOGD(operand.Imm(0xff), k.minusOnes, k.minusOnes, k.minusOnes)
	holds(c.Context, "s(d) for d < 128", k.sines[:]...)
	holds(c.Context, "−1 in every byte", k.minusOnes)
	holds(c.Context, "127 in every byte", k.most)
	return k
}
