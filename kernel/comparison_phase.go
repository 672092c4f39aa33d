package kernel

import (
	"math"

	"github.com/mquine/mquine/asm"
	"github.com/mquine/mquine/internal/fmath"
)

// Phase is −Σ|ψ_2i φ_2i + ψ_2i+1 φ_2i+1|.
var Phase = define(spec{
	kind: KindPhase, name: "phase", group: 2, psi: 1, phi: 1, falling: true, products: true,
	limit: productLimit,
	flops: 2, // 4 for two coordinates: two products, their sum, the sum over groups
	panelError: func(n, k int, _ float64) (relative, absolute float64) {
		return Gamma(n+3, U32), float64(k) * 0x1p-149
	},
	pairRoundings: 2,
	scores: func(psi, phi []float32, query int) (sums [genericNR]float32) {
		for t := 0; len(phi) > 0; t, phi = t+2, phi[2*genericNR:] {
			w0, w1 := psi[t*genericMR+query], psi[(t+1)*genericMR+query]
			for j := range sums {
				sums[j] -= fmath.Abs32(float32(w0*phi[j]) + float32(w1*phi[genericNR+j]))
			}
		}
		return sums
	},
	terms: func(x, row []float32) (a [32]float64) {
		for t := 0; t < len(x); t += 2 {
			p := math.Abs(float64(float64(x[t])*float64(row[t])) + float64(float64(x[t+1])*float64(row[t+1])))
			a[t%32] -= p
			a[t%32+1] -= p
		}
		return a
	},
	tiers: [numTiers]comparer{
		AVX2:   {4, asm.PhasePanel4x16AVX2, asm.PairPhaseAVX2, asm.PhasePeakAVX2, 128},
		AVX512: {6, asm.PhasePanel6x48AVX512, asm.PairPhaseAVX512, asm.PhasePeakAVX512, 384},
	},
})
