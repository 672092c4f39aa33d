package kernel

import "github.com/mquine/mquine/asm"

// Dot is ψ·φ.
var Dot = define(spec{
	kind: KindDot, name: "dot", group: 1, psi: 1, phi: 1, products: true, rounding: true,
	limit: productLimit, flops: 2, portOperations: 2,
	panelError: func(n, k int, _ float64) (relative, absolute float64) {
		return Gamma(n, U32), float64(k) * 0x1p-149
	},
	scores: func(psi, phi []float32, query int) (sums [genericNR]float32) {
		for t := 0; len(phi) > 0; t, phi = t+1, phi[genericNR:] {
			w := psi[t*genericMR+query]
			for j, v := range phi[:genericNR] {
				sums[j] += float32(w * v)
			}
		}
		return sums
	},
	terms: func(x, row []float32) (a [32]float64) {
		for t, v := range x {
			a[t%32] += float64(float64(v) * float64(row[t]))
		}
		return a
	},
	tiers: [numTiers]comparer{
		AVX2:   {6, asm.DotPanel6x16AVX2, asm.PairDotAVX2, asm.DotPeakAVX2, 96},
		AVX512: {9, asm.DotPanel9x48AVX512, asm.PairDotAVX512, asm.DotPeakAVX512, 192},
	},
})

// productLimit is the smallest product of norms for which a sum of products may overflow in a panel.
const productLimit = 0x1p124
