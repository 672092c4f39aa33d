package kernel

import (
	"math"

	"github.com/mquine/mquine/asm"
	"github.com/mquine/mquine/internal/fmath"
)

// Hake is −Σ|α_i c_i + β_i s_i| − √Σ(a_i − b_i m_i)², where ψ consists of (α_i, β_i, a_i, b_i) and φ of
// (c_i, s_i, m_i). It compares the phases and the moduli of HAKE (docs/models/hake.md).
var Hake = define(spec{
	kind: KindHake, name: "hake", group: 1, psi: hakePsi, phi: hakePhi,
	falling: true, distance: true, products: true,
	limit: 0x1p60,
	// The phases need two products, their sum and the sum over coordinates. The moduli need a
	// product, a difference, a square and the sum over coordinates.
	flops:          8,
	portOperations: 12, // a product, three multiply-adds, a mask and a subtraction
	panelError: func(n, k int, _ float64) (relative, absolute float64) {
		return Gamma(n+3, U32), float64(k)*0x1p-149 + math.Sqrt(float64(k))*0x1p-74
	},
	pairRoundings: 2,
	scores: func(psi, phi []float32, query int) (sums [genericNR]float32) {
		for t := 0; len(phi) > 0; t, phi = t+hakePsi, phi[hakePhi*genericNR:] {
			alpha, beta := psi[t*genericMR+query], psi[(t+1)*genericMR+query]
			for j := range sums {
				sums[j] -= fmath.Abs32(float32(alpha*phi[j]) + float32(beta*phi[genericNR+j]))
			}
		}
		return sums
	},
	terms: func(x, row []float32) (a [32]float64) {
		for t := range len(x) / hakePsi {
			q, e := x[hakePsi*t:], row[hakePhi*t:]
			a[t%32] -= math.Abs(float64(float64(q[0])*float64(e[0])) + float64(float64(q[1])*float64(e[1])))
		}
		return a
	},
	second: &secondSum{
		scores: func(psi, phi []float32, query int) (sums [genericNR]float32) {
			for t := 0; len(phi) > 0; t, phi = t+hakePsi, phi[hakePhi*genericNR:] {
				a, b := psi[(t+2)*genericMR+query], psi[(t+3)*genericMR+query]
				for j := range sums {
					v := a - float32(b*phi[2*genericNR+j])
					sums[j] += float32(v * v)
				}
			}
			return sums
		},
		terms: func(x, row []float32) (a [32]float64) {
			for t := range len(x) / hakePsi {
				q, e := x[hakePsi*t:], row[hakePhi*t:]
				v := float64(q[2]) - float64(float64(q[3])*float64(e[2]))
				a[t%32] += float64(v * v)
			}
			return a
		},
		combine:   func(phases, squares float32) float32 { return phases - float32(math.Sqrt(float64(squares))) },
		combine64: func(phases, squares float64) float64 { return phases - math.Sqrt(squares) },
	},
	tiers: [numTiers]comparer{
		AVX2:   {2, asm.HakePanel2x16AVX2, nil, asm.HakePeakAVX2, 24},
		AVX512: {3, asm.HakePanel3x48AVX512, nil, asm.HakePeakAVX512, 128},
	},
})

// hakePsi and hakePhi are the numbers of values per coordinate in ψ and φ.
const hakePsi, hakePhi = 4, 3
