package engine

import "math"

// Balance shifts and scales φ, and scales ψ, so low-precision formats represent both well. For any
// μ and any weights,
//
//	ψ·φ = ψ·μ + Σ_t (ψ_t / w_t) · ((φ_t − μ_t) · w_t)
//
// so a Balance affects how many pairs a screen decides but not the decisions. Weights are powers of
// two, so scaling is exact.
type Balance struct {
	Mean     []float64 // μ
	Exponent []int     // w_t = 2^Exponent[t]
}

// NewBalance returns the balance for samples of ψ and φ. μ is the mean of φ. The weight of an entry
// is about √(p/q), where p and q are the root mean squares of the entry in ψ and in φ − μ. This
// choice minimises the product of the norms ‖ψ/w‖·‖(φ − μ)w‖ in the screens' bands.
func NewBalance(psi, phi [][]float32, width int) Balance {
	const (
		// Entries that are almost always 0 in the samples get this share of the mean size, which gives
		// them a sensible weight.
		least = 1e-3
		limit = 0x1p60
	)
	mean, candidates := moments(phi, width, true)
	_, queries := moments(psi, width, false)
	floorQ, floorC := least*average(queries), least*average(candidates)
	b := Balance{Mean: mean, Exponent: make([]int, width)}
	for t := range width {
		w := math.Sqrt(max(queries[t], floorQ) / max(candidates[t], floorC))
		if !math.IsNaN(w) { // w is NaN if a sample is not finite
			b.Exponent[t] = int(math.Round(math.Log2(min(max(w, 1/limit), limit))))
		}
	}
	return b
}

// moments returns the mean of rows, or zeros if centred is false, and the root mean square of the
// rows' differences from this mean.
func moments(rows [][]float32, width int, centred bool) (mean, rms []float64) {
	mean, rms = make([]float64, width), make([]float64, width)
	n := float64(len(rows))
	if centred {
		for _, row := range rows {
			for t, v := range row[:width] {
				mean[t] += float64(v) / n
			}
		}
	}
	for _, row := range rows {
		for t, v := range row[:width] {
			d := float64(v) - mean[t]
			rms[t] += d * d / n
		}
	}
	for t := range rms {
		rms[t] = math.Sqrt(rms[t])
	}
	return mean, rms
}

// average returns the mean of x, or a small positive number if x is all zeros.
func average(x []float64) float64 {
	sum := math.SmallestNonzeroFloat32
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}
