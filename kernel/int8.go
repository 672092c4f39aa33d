package kernel

import (
	"math"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// WordBytes is the number of codes in a word.
const WordBytes = 4

// MaxInt8 is the largest K of Int8Panels whose sums always fit in int32. Codes of ψ are at most 127
// in magnitude, codes of φ at most 255.
const MaxInt8 = math.MaxInt32 / (127 * 255 * WordBytes)

// Int8Panels returns the panels that score Σ ψ_i φ_i over one-byte codes (CodeInt8). The codes of ψ
// are signed, with offset 0, and the codes of φ are unsigned, with offset 128. K counts words of
// four codes. The sum must fit in int32 (MaxInt8). The score is the sum rounded to float32. The
// portable kernel gives the same scores as those in assembly (HasVNNI) but is slower than Dot.
func (b *Backend) Int8Panels() Panels {
	return Panels{
		MR: b.int8.mr, NR: b.NR, Multiple: 1, name: "int8", psi: 1, phi: 1, chunk: Chunk,
		kernel: b.int8.panel, pack: PackRows,
	}
}

// HasVNNI reports whether the kernels of codes use FeatureVNNI or FeatureAVXVNNI. Int8Panels and
// PairInt8 are in assembly only then.
func (b *Backend) HasVNNI() bool { return b.Features&(FeatureVNNI|FeatureAVXVNNI) != 0 }

// Int8Code describes the codes of a vector x: the coarse codes c approximate x in units of a step, and
// the fine codes f approximate the remainder in units of step/Fine.
type Int8Code struct {
	// Sum and FineSum are the sums of c and of f.
	Sum, FineSum int32
	// Norm and FineNorm are upper bounds on ‖c·step‖ and ‖f·step/Fine‖. Residual and
	// FineResidual are upper bounds on ‖x − c·step‖ and ‖x − c·step − f·step/Fine‖.
	Norm, FineNorm, Residual, FineResidual float64
}

// Fine is the ratio of the step of coarse codes to the step of fine codes.
const Fine = 254

// CodeInt8 quantises x, which must be finite: c_i is x_i/step, rounded and clamped to ±127, and
// f_i is the remainder x_i − c_i·step in units of step/Fine, rounded and clamped in the same
// way. It adds offset to every code, 0 for ψ and 128 for φ, and writes them to coarse and fine,
// which have room for len(x) codes. step must be positive.
func CodeInt8(coarse, fine []uint8, x []float64, step float64, offset uint8) Int8Code {
	coarse, fine = coarse[:len(x)], fine[:len(x)]
	var r Int8Code
	inverse, fineStep := 1/step, step/Fine
	fineInverse := 1 / fineStep
	for i, v := range x {
		c := clampedRound(v * inverse)
		back := c * step
		rest := v - back
		f := clampedRound(rest * fineInverse)
		fineBack := f * fineStep
		r.Norm += back * back
		r.FineNorm += fineBack * fineBack
		r.Residual += rest * rest
		r.FineResidual += (rest - fineBack) * (rest - fineBack)
		r.Sum += int32(c)
		r.FineSum += int32(f)
		coarse[i], fine[i] = uint8(int8(c))+offset, uint8(int8(f))+offset
	}
	for _, n := range []*float64{&r.Norm, &r.FineNorm, &r.Residual, &r.FineResidual} {
		*n = math.Sqrt(*n) * (1 + 1e-9)
	}
	// These terms cover the rounding errors of back, fineStep, fineBack and rest. All other
	// rounding errors are relative to the measured norms and are covered by the factor above.
	r.Residual += U64 * r.Norm
	r.FineResidual += U64 * (r.Norm + 3*r.FineNorm)
	return r
}

// clampedRound rounds v to the nearest integer and clamps it to ±127.
func clampedRound(v float64) float64 {
	if v > 127 {
		return 127
	}
	if v < -127 {
		return -127
	}
	const shift = 1.5 * (1 << 52) // a sum with it has no fraction
	return float64(v+shift) - shift
}

// Codes returns the bytes of words as codes that share their memory.
func Codes(words []uint32) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(words))), WordBytes*len(words))
}

// CodePairWidth must divide the number of words in a row of PairInt8 and of PairInt16L1. Rows are
// padded with zeros.
const CodePairWidth = 64

// PairInt8 sets out[i] to the dot product of the signed codes of x and the unsigned codes of
// table[ids[i]*stride:][:len(x)]. The product is exact if it fits in int32. len(x), in words, must
// be a positive multiple of CodePairWidth.
func (b *Backend) PairInt8(out []int32, x, table []uint32, stride int, ids []int32) {
	checkPair(len(out), CodePairWidth, len(x), x, table, stride, ids)
	for len(ids) > 0 {
		n := min(len(ids), mostPairs)
		b.pairInt8(&x[0], len(x), &table[0], stride, &ids[0], n, &out[0])
		ids, out = ids[n:], out[n:]
	}
}

func pairInt8Generic(x *uint32, n int, table *uint32, stride int, ids *int32, count int, out *int32) {
	xs, sums := unsafe.Slice((*int8)(unsafe.Pointer(x)), WordBytes*n), unsafe.Slice(out, count)
	for i, id := range unsafe.Slice(ids, count) {
		start := unsafe.Add(unsafe.Pointer(table), uintptr(id)*uintptr(stride)*WordBytes)
		row := unsafe.Slice((*uint8)(start), WordBytes*n)
		sum := int32(0)
		for t, v := range xs {
			sum += int32(v) * int32(row[t])
		}
		sums[i] = sum
	}
}

// int8Generic returns the portable twin of Int8Panels for panels of nr candidates.
func int8Generic(nr int) comparer {
	const mr = genericMR
	panel := func(a *asm.PanelArgs) int {
		psi := unsafe.Slice((*[WordBytes]int8)(unsafe.Pointer(a.Psi)), (a.Strips-1)*a.PsiStride+a.K*mr)
		phi := unsafe.Slice((*[WordBytes]uint8)(unsafe.Pointer(a.Phi)), a.K*nr)
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
						for u := range WordBytes {
							sum += int32(x[u]) * int32(y[u])
						}
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
	return comparer{mr: mr, panel: panel}
}
