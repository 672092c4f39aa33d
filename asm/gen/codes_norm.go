package main

import (
	"github.com/mmcloughlin/avo/reg"
)

// This file generates the kernels for group norms of two-byte codes: Int16NormPanel for groups of one
// word, Int16GroupNormPanel for larger groups, and the ceilings Int16NormPeak and
// Int16GroupNormPeak.

// int16NormComparison compares words of two codes. Its operations do not fill the units if the
// processor computes one root after the other, so update takes two.
var int16NormComparison = comparison{
	name: "Int16Norm", group: 1, psi: 1, phi: 1, falling: true, codes: true, rows512: 6, rows256: 4,
	constants: loadTiny,
	equation: `score[i][j] = −Σ_t √(Σ_x (ψ[t][i].x − φ[t][j].x)²)

over the two signed codes x of a word. The sum of squares is an exact int32, which the kernel converts to float32, and
the root is approximate, as in NormPanel. Requires codes whose differences fit in 16 bits, and their sums of squares in
32 bits, with a sign.`,
	both: func(c vectors, k fixed, psi [2]*entry, phi reg.VecVirtual, acc [2]reg.VecVirtual) {
		var d, r [2]reg.VecVirtual
		for i := range d {
			d[i], r[i] = c.vec(), c.vec()
			c.VPSUBW(phi, psi[i].lanes(), d[i])
		}
		for i := range d {
			c.VPMADDWD(d[i], d[i], d[i])
		}
		for i := range d {
			c.VCVTDQ2PS(d[i], d[i])
		}
		for i := range d {
			c.VADDPS(k.tiny, d[i], d[i])
		}
		for i := range d {
			c.inverseRoot(d[i], r[i])
		}
		for i := range d {
			c.VFNMADD231PS(d[i], r[i], acc[i])
		}
	},
}

// int16GroupNormComparison compares groups of several words of two codes. vnni says that products are
// added to sums in one instruction.
func int16GroupNormComparison(vnni bool) comparison {
	return comparison{
		name: "Int16GroupNorm", group: anyGroup, psi: 1, phi: 1, falling: true, codes: true, rows512: 4, rows256: 6,
		constants: loadTiny,
		equation: `score[i][j] = −Σ_g √(Σ_u Σ_x (ψ[t+u][i].x − φ[t+u][j].x)²), u < Group, t = g·Group

over the two signed codes x of a word. The sum of squares is an exact int32, which the kernel converts to float32, and
the root is approximate, as in GroupNormPanel. Requires codes whose differences fit in 16 bits, and their sums of
squares in 32 bits, with a sign.`,
		groupSquares: func(c vectors, _ fixed, psi *entry, phi, squares reg.VecVirtual, first bool) {
			if first {
				c.VPSUBW(phi, psi.lanes(), squares)
				c.VPMADDWD(squares, squares, squares)
				return
			}
			d := c.vec()
			c.VPSUBW(phi, psi.lanes(), d)
			if vnni {
				c.VPDPWSSD(d, d, squares)
				return
			}
			c.VPMADDWD(d, d, d)
			c.VPADDD(d, squares, squares)
		},
		groupRoot: func(c vectors, k fixed, squares, acc reg.VecVirtual) {
			c.VCVTDQ2PS(squares, squares)
			c.VADDPS(k.tiny, squares, squares)
			c.subtractRoot(squares, acc)
		},
	}
}
