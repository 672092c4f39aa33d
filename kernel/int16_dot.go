package kernel

import (
	"math"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// MaxInt16Dot is the largest Euclidean norm of the codes of a vector for Int16DotPanels. By Cauchy's
// inequality, the sums of two such vectors fit in int32.
const MaxInt16Dot = 46340

// Int16DotPanels returns the panels that score Σ ψ_i φ_i over signed two-byte codes (CodeInt16). K counts
// words of two codes. The codes are at most 32,767 in magnitude. The score is the sum rounded to float32,
// and the sum is exact if it fits in int32, whether or not the sums of parts of the vectors fit
// (MaxInt16Dot). The kernels are in assembly with FeatureAVX2 and FeatureAVX512, and faster with
// FeatureVNNI and FeatureAVXVNNI.
func (b *Backend) Int16DotPanels() Panels {
	return Panels{
		MR: b.int16Dot.mr, NR: b.NR, Multiple: 1, name: "int16-dot", psi: 1, phi: 1, chunk: Chunk,
		kernel: b.int16Dot.panel, pack: PackRows,
	}
}

// Int16DotPeak is Peak for Int16DotPanels. A term is a product of two codes.
func (b *Backend) Int16DotPeak() (loop func(rounds int, operands *float32), terms int) {
	return b.int16Dot.peak, b.int16Dot.peakTerms
}

// int16DotGeneric returns the portable twin of Int16DotPanels.
func int16DotGeneric() comparer {
	const mr, nr = genericMR, genericNR
	panel := func(a *asm.PanelArgs) int {
		psi := unsafe.Slice((*[WordCodes]int16)(unsafe.Pointer(a.Psi)), (a.Strips-1)*a.PsiStride+a.K*mr)
		phi := unsafe.Slice((*[WordCodes]int16)(unsafe.Pointer(a.Phi)), a.K*nr)
		scores := unsafe.Slice(a.Scores, a.Strips*mr*nr)
		sums := unsafe.Slice((*int32)(unsafe.Pointer(a.Scores)), len(scores))
		for s := range a.Strips {
			strip := psi[s*a.PsiStride:]
			for i := range mr {
				row := sums[(s*mr+i)*nr:][:nr]
				for j := range row {
					sum := int32(0)
					if a.Add != 0 {
						sum = row[j]
					}
					for t := range a.K {
						x, y := strip[t*mr+i], phi[t*nr+j]
						sum += int32(x[0])*int32(y[0]) + int32(x[1])*int32(y[1])
					}
					row[j] = sum
				}
			}
		}
		if a.TargetStart == nil {
			return 0
		}
		for i, sum := range sums {
			scores[i] = float32(sum)
		}
		return countGeneric(a, mr, nr, scores)
	}
	peak := func(n int, _ *float32) { // like peakGeneric
		strip, candidates, scores := make([]uint32, Chunk*mr), make([]uint32, Chunk*nr), make([]float32, mr*nr)
		a := asm.PanelArgs{Psi: &strip[0], Phi: &candidates[0], K: Chunk, Strips: 1, Scores: &scores[0]}
		for range (n + mr - 1) / mr {
			panel(&a)
		}
	}
	return comparer{mr: mr, panel: panel, peak: peak, peakTerms: Chunk * WordCodes * nr}
}

// Int16Code describes the codes c of a vector x in units of a step: upper bounds on ‖c·step‖ and ‖x − c·step‖.
type Int16Code struct{ Norm, Residual float64 }

// CodeInt16 quantises x, which must be finite: c_i is x_i/step, rounded and clamped to ±32,767. It
// writes the codes to codes, which has room for len(x) of them. step must be positive. If step is at
// least ‖x‖/(MaxInt16Dot − √len(x)/2 − 1), the norm of the codes is at most MaxInt16Dot.
func CodeInt16(codes []uint16, x []float64, step float64) Int16Code {
	codes = codes[:len(x)]
	var r Int16Code
	inverse := 1 / step
	for i, v := range x {
		const shift = 1.5 * (1 << 52) // a sum with it has no fraction
		c := float64(min(max(v*inverse, -math.MaxInt16), math.MaxInt16)+shift) - shift
		back := c * step
		rest := v - back
		r.Norm += back * back
		r.Residual += rest * rest
		codes[i] = uint16(int16(c))
	}
	for _, n := range []*float64{&r.Norm, &r.Residual} {
		*n = math.Sqrt(*n) * (1 + 1e-9)
	}
	// This term covers the rounding errors of back and rest. All other rounding errors are relative to the
	// measured norms and are covered by the factor above.
	r.Residual += U64 * r.Norm
	return r
}
