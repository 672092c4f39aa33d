package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/reg"
)

// This file generates the kernels for group norms of two-byte codes: Int16Norm2Panel and
// Int16Norm4Panel for groups of one and of two words, Int16GroupNormPanel for larger groups, and the
// ceilings Int16Norm2Peak, Int16Norm4Peak and Int16GroupNormPeak, for AVX512 and AVX2. All but those for
// groups of one word also exist for AVX512VNNI and AVXVNNI.

const int16NormRest = `

over the two signed codes x of a word. The sum of squares is an exact int32, which the kernel converts to float32. The
root is approximate, as in GroupNormPanel. Differences of codes must fit in 16 bits, and sums of squares in 32 bits,
with a sign.`

// int16NormComparison compares groups of one or two words of two codes. vnni says that products are added
// to sums in one instruction. The operations of one group after the other do not fill the units, so the
// kernel takes two.
func int16NormComparison(words int, vnni bool) comparison {
	c := comparison{
		name: fmt.Sprintf("Int16Norm%d", 2*words), group: words, psi: 1, phi: 1, falling: true,
		rows512: 6, rows256: 4, constants: loadTiny,
		equation: `score[i][j] = −Σ_g √(Σ_u Σ_x (ψ[t+u][i].x − φ[t+u][j].x)²), u < ` + fmt.Sprint(words) + `, t = g·` +
			fmt.Sprint(words) + int16NormRest,
		both: func(c vectors, k fixed, psi [][2]*entry, phi []reg.VecVirtual, acc [2]reg.VecVirtual) {
			var d, s, r [2]reg.VecVirtual
			for u := range phi {
				for i := range d {
					d[i] = c.vec()
					c.VPSUBW(phi[u], psi[u][i].lanes(), d[i])
				}
				if u == 0 {
					s = d
				}
				for i := range d {
					c.addSquaresOfCodes(d[i], s[i], u == 0, vnni)
				}
			}
			for i := range s {
				c.VCVTDQ2PS(s[i], s[i])
			}
			for i := range s {
				c.VADDPS(k.tiny, s[i], s[i])
			}
			for i := range s {
				r[i] = c.vec()
				c.inverseRoot(s[i], r[i])
			}
			for i := range s {
				c.VFNMADD231PS(s[i], r[i], acc[i])
			}
		},
	}
	if words == 2 {
		c.rows512, c.rows256 = 4, 2
	}
	return c
}

// addSquaresOfCodes adds the squares of the two codes in each word of d to s, or replaces s with them.
func (c vectors) addSquaresOfCodes(d, s reg.VecVirtual, replace, vnni bool) {
	switch {
	case replace:
		c.VPMADDWD(d, d, s)
	case vnni:
		c.addCodes(d, d, s)
	default:
		c.VPMADDWD(d, d, d)
		c.VPADDD(d, s, s)
	}
}

// int16GroupNormComparison compares groups of any number of words.
func int16GroupNormComparison(vnni bool) comparison {
	return comparison{
		name: "Int16GroupNorm", group: anyGroup, psi: 1, phi: 1, falling: true, rows512: 4, rows256: 6,
		constants: loadTiny,
		equation:  `score[i][j] = −Σ_g √(Σ_u Σ_x (ψ[t+u][i].x − φ[t+u][j].x)²), u < Group, t = g·Group` + int16NormRest,
		groupSquares: func(c vectors, _ fixed, psi *entry, phi, squares reg.VecVirtual, first bool) {
			d := squares
			if !first {
				d = c.vec()
			}
			c.VPSUBW(phi, psi.lanes(), d)
			c.addSquaresOfCodes(d, squares, first, vnni)
		},
		groupRoot: func(c vectors, k fixed, squares, acc reg.VecVirtual) {
			c.VCVTDQ2PS(squares, squares)
			c.VADDPS(k.tiny, squares, squares)
			c.subtractRoot(squares, acc)
		},
	}
}
