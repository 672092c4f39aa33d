package kernel

import (
	"math"

	"github.com/mquine/mquine/asm"
	"github.com/mquine/mquine/internal/fmath"
)

// L1 is −Σ|ψ_i − φ_i|.
var L1 = define(spec{
	kind: KindL1, name: "l1", group: 1, psi: 1, phi: 1, falling: true, distance: true,
	limit: math.Inf(1), flops: 2,
	portOperations: 6, // a subtraction, a mask and another subtraction
	panelError: func(n, _ int, _ float64) (relative, absolute float64) {
		return Gamma(n+1, U32), 0
	},
	pairRoundings: 1,
	scores: func(psi, phi []float32, query int) (sums [genericNR]float32) {
		for t := 0; len(phi) > 0; t, phi = t+1, phi[genericNR:] {
			w := psi[t*genericMR+query]
			for j, v := range phi[:genericNR] {
				sums[j] -= fmath.Abs32(w - v)
			}
		}
		return sums
	},
	terms: func(x, row []float32) (a [32]float64) {
		for t, v := range x {
			a[t%32] -= math.Abs(float64(v) - float64(row[t]))
		}
		return a
	},
	tiers: [numTiers]comparer{
		AVX2:   {5, asm.L1Panel5x16AVX2, asm.PairL1AVX2, asm.L1PeakAVX2, 96},
		AVX512: {8, asm.L1Panel8x48AVX512, asm.PairL1AVX512, asm.L1PeakAVX512, 192},
	},
})
