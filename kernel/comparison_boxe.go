package kernel

import (
	"math"

	"github.com/mquine/mquine/asm"
	"github.com/mquine/mquine/internal/fmath"
)

// BoxE is the comparison of BoxE (docs/models/boxe.md). A coordinate of φ contains the exponentials
// b₁ and b₂ ≥ 0 of a bump and of a position, and a coordinate of ψ the numbers a ≥ 0, c, v, w and k
// of the two boxes. With
//
//	x = |c − 1/(ab + ½)|,   d = max(v x, w x − k)
//
// for both boxes, the score is −√Σd₁² − √Σd₂².
//
// Errors are relative to a number that takes the place of ‖ψ‖ (PsiNorm): the sum over both boxes of
// √Σ(max(|v|, |w|)(|c| + 2) + |k|)². PhiNorm is 1. PsiNorm is infinite if any a is negative, and
// PhiNorm is infinite if any b is negative.
var BoxE = define(spec{
	kind: KindBoxE, name: "boxe", group: 1, psi: 2 * boxTerm, phi: 2,
	falling: true, products: true, exits: true, limit: 0x1p60,
	// Each of the two boxes needs a product and a sum, a quotient, a difference, a product, a
	// product and a difference, a square and the sum over coordinates.
	flops: 18,
	panelError: func(n, k int, _ float64) (relative, absolute float64) {
		return Gamma(n+16, U32), math.Sqrt(float64(k)) * 0x1p-72
	},
	pairRoundings: 14,
	scores:        func(psi, phi []float32, query int) [genericNR]float32 { return boxScores(psi, phi, query, 0) },
	second: &secondSum{
		scores: func(psi, phi []float32, query int) [genericNR]float32 { return boxScores(psi, phi, query, 1) },
		combine: func(first, second float32) float32 {
			return -float32(math.Sqrt(float64(first))) - float32(math.Sqrt(float64(second)))
		},
	},
	pair:    boxPair,
	psiNorm: boxPsi,
	phiNorm: boxPhi,
	tiers: [numTiers]comparer{
		AVX2:   {mr: 1, panel: asm.BoxEPanel1x16AVX2, peak: asm.BoxEPeakAVX2, peakTerms: 4 * 8},
		AVX512: {mr: 2, panel: asm.BoxEPanel2x48AVX512, peak: asm.BoxEPeakAVX512, peakTerms: 8 * 16},
	},
})

// boxTerm is the number of values of a box in a coordinate of ψ.
const boxTerm = 5

// boxScores returns Σd² for box 0 or 1.
func boxScores(psi, phi []float32, query, box int) (sums [genericNR]float32) {
	for ; len(phi) > 0; psi, phi = psi[2*boxTerm*genericMR:], phi[2*genericNR:] {
		at := func(word int) float32 { return psi[(box*boxTerm+word)*genericMR+query] }
		a, c, v, w, k := at(0), at(1), at(2), at(3), at(4)
		for j, b := range phi[box*genericNR:][:genericNR] {
			x := fmath.Abs32(c - 1/(float32(a*b)+0.5))
			d := max(float32(v*x), float32(w*x)-k)
			sums[j] += float32(d * d)
		}
	}
	return sums
}

// boxPair returns the score of ψ and φ in float64. Coordinate t goes to lane t mod 32.
func boxPair(x, row []float32) float64 {
	var sums [2][32]float64
	for t := range len(row) / 2 {
		for box := range sums {
			p := x[(2*t+box)*boxTerm:][:boxTerm]
			v := math.Abs(float64(p[1]) - 1/(float64(float64(p[0])*float64(row[2*t+box]))+0.5))
			d := max(float64(float64(p[2])*v), float64(float64(p[3])*v)-float64(p[4]))
			sums[box][t%32] += float64(d * d)
		}
	}
	return -math.Sqrt(addLanes(sums[0])) - math.Sqrt(addLanes(sums[1]))
}

// boxPsi and boxPhi return upper bounds on two numbers. The errors of BoxE are relative to their
// product.
func boxPsi(psi []float32) float64 {
	var squares [2]float64
	for i := 0; i+boxTerm <= len(psi); i += boxTerm {
		abs := func(word int) float64 { return math.Abs(float64(psi[i+word])) }
		z := max(abs(2), abs(3))*(abs(1)+2) + abs(4)
		if !(psi[i] >= 0) {
			z = math.Inf(1)
		}
		squares[i/boxTerm%2] += z * z
	}
	return (math.Sqrt(squares[0]) + math.Sqrt(squares[1])) * fmath.NormSlack
}

func boxPhi(phi []float32) float64 {
	for _, b := range phi {
		if !(b >= 0) {
			return math.Inf(1)
		}
	}
	return 1
}
