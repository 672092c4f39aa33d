package kernel

import (
	"math"

	"github.com/mquine/mquine/asm"
	"github.com/mquine/mquine/internal/fmath"
)

// Expressive compares pairs of entities with the parallelograms of ExpressivE
// (docs/models/expressive.md). Every coordinate φ_i has two terms. For each term, ψ contains the
// numbers a, s, w, k, l and v. With x = |a − s φ_i|, the score is
//
//	−Σ(w x − k)²   if x > 1 for any term (outside),
//	−Σ(v x)²       if x ≤ l for every term (inside),
//
// and NaN, which leaves a candidate undecided, if neither holds. A panel computes outside scores
// only: its score is NaN for all other pairs. A panel rounds x, so its score is an outside score
// only if x > 1 − 3u₃₂(|a| + |s φ_i|) for a term, and NaN only if x ≤ 1 + 3u₃₂(|a| + |s φ_i|) for
// every term.
//
// Errors are relative to the product of two numbers that take the place of ‖ψ‖ and ‖φ‖ (PsiNorm,
// PhiNorm): Σ(max(|v|, |w|)(|a| + |s| + 2⁻¹⁰⁰) + |k|)² and max(1, max φ²).
var Expressive = define(spec{
	kind: KindExpressive, name: "expressive", group: 1, psi: 2 * expressiveTerm, phi: 1,
	falling: true, products: true, exits: true, limit: productLimit,
	// Each of the two terms needs a product and a difference, a product and a difference, a square
	// and the sum over coordinates.
	flops:          12,
	portOperations: 20, // each of the two terms: three multiply-adds, a mask and a maximum
	panelError: func(n, k int, _ float64) (relative, absolute float64) {
		return Gamma(2*n+12, U32), float64(k) * 0x1p-147
	},
	pairRoundings: 12,
	scores: func(psi, phi []float32, query int) (sums [genericNR]float32) {
		for ; len(phi) > 0; psi, phi = psi[2*expressiveTerm*genericMR:], phi[genericNR:] {
			for u := 0; u < 2*expressiveTerm; u += expressiveTerm {
				at := func(word int) float32 { return psi[(u+word)*genericMR+query] }
				a, s, w, k := at(0), at(1), at(2), at(3)
				for j, v := range phi[:genericNR] {
					z := float32(w*fmath.Abs32(a-float32(s*v))) - k
					sums[j] -= float32(z * z)
				}
			}
		}
		return sums
	},
	second: &secondSum{
		largest: true,
		scores: func(psi, phi []float32, query int) (largest [genericNR]float32) {
			for ; len(phi) > 0; psi, phi = psi[2*expressiveTerm*genericMR:], phi[genericNR:] {
				for u := 0; u < 2*expressiveTerm; u += expressiveTerm {
					a, s := psi[u*genericMR+query], psi[(u+1)*genericMR+query]
					for j, v := range phi[:genericNR] {
						if x := fmath.Abs32(a - float32(s*v)); x > largest[j] {
							largest[j] = x
						}
					}
				}
			}
			return largest
		},
		combine: func(sum, largest float32) float32 {
			if largest > 1 {
				return sum
			}
			return float32(math.NaN())
		},
	},
	pair:    expressivePair,
	psiNorm: expressivePsi,
	phiNorm: expressivePhi,
	tiers: [numTiers]comparer{
		AVX2: {
			mr: 2, panel: asm.ExpressivePanel2x16AVX2, peak: asm.ExpressivePeakAVX2, peakTerms: 4 * 8,
		},
		AVX512: {
			mr: 3, panel: asm.ExpressivePanel3x48AVX512, peak: asm.ExpressivePeakAVX512, peakTerms: 8 * 16,
		},
	},
})

// expressiveTerm is the number of values of a term in ψ.
const expressiveTerm = 6

// expressivePair returns the score of ψ and φ in float64. Coordinate t goes to lane t mod 32.
func expressivePair(x, row []float32) float64 {
	var insides, outsides [32]float64
	inside, outside := true, false
	for t, e := range row {
		var in, out float64
		for p := x[2*expressiveTerm*t:][:2*expressiveTerm]; len(p) > 0; p = p[expressiveTerm:] {
			d := math.Abs(float64(p[0]) - float64(float64(p[1])*float64(e)))
			y, z := float64(float64(p[5])*d), float64(float64(p[2])*d)-float64(p[3])
			in += float64(y * y)
			out += float64(z * z)
			inside = inside && d <= float64(p[4])
			outside = outside || d > 1
		}
		insides[t%32] -= in
		outsides[t%32] -= out
	}
	switch {
	case outside:
		return addLanes(outsides)
	case inside:
		return addLanes(insides)
	}
	return math.NaN()
}

// expressivePsi and expressivePhi return upper bounds on two numbers. The errors of Expressive are
// relative to their product.
func expressivePsi(psi []float32) float64 {
	var squares float64
	for ; len(psi) >= expressiveTerm; psi = psi[expressiveTerm:] {
		abs := func(i int) float64 { return math.Abs(float64(psi[i])) }
		z := max(abs(2), abs(5))*(abs(0)+abs(1)+0x1p-100) + abs(3)
		squares += z * z
	}
	return squares * fmath.NormSlack
}

func expressivePhi(phi []float32) float64 {
	largest := 1.0
	for _, v := range phi {
		largest = max(largest, math.Abs(float64(v)))
	}
	return largest * largest * fmath.NormSlack
}
