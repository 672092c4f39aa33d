package kernel

import (
	"math"

	"github.com/mquine/mquine/asm"
)

// GroupNorm is −Σ √((ψ_2i − φ_2i)² + (ψ_2i+1 − φ_2i+1)²).
var GroupNorm = define(spec{
	kind: KindGroupNorm, name: "group-norm", group: 2, psi: 1, phi: 1, falling: true, distance: true,
	limit: 0x1p60,
	flops: 3.5, // 7 for two coordinates: two differences, two squares, their sum, its root, the sum over groups
	panelError: func(n, k int, root float64) (relative, absolute float64) {
		return Gamma(n+4, U32) + root*(1+Gamma(n+4, U32)), float64(k) * 0x1p-63
	},
	pairRoundings: 4,
	scores: func(psi, phi []float32, query int) (sums [genericNR]float32) {
		for t := 0; len(phi) > 0; t, phi = t+2, phi[2*genericNR:] {
			w0, w1 := psi[t*genericMR+query], psi[(t+1)*genericMR+query]
			for j := range sums {
				x, y := w0-phi[j], w1-phi[genericNR+j]
				s := float32(x*x) + float32(y*y)
				sums[j] -= float32(math.Sqrt(float64(s)))
			}
		}
		return sums
	},
	terms: func(x, row []float32) (a [32]float64) {
		for t := 0; t < len(x); t += 2 {
			d, e := float64(x[t])-float64(row[t]), float64(x[t+1])-float64(row[t+1])
			r := math.Sqrt(float64(d*d) + float64(e*e))
			a[t%32] -= r
			a[t%32+1] -= r
		}
		return a
	},
	tiers: [numTiers]comparer{
		AVX2:   {4, asm.NormPanel4x16AVX2, asm.PairNormAVX2, asm.NormPeakAVX2, 128},
		AVX512: {6, asm.NormPanel6x48AVX512, asm.PairNormAVX512, asm.NormPeakAVX512, 384},
	},
})

// rootErrors bounds the relative error of the square root in the panels of group norms. Generic
// rounds the root correctly, AVX2 approximates it with VRSQRTPS, and AVX512 approximates it with
// VRSQRT14PS.
var rootErrors = [numTiers]float64{Generic: U32, AVX2: 1.5 * 0x1p-12, AVX512: 0x1p-14}
