package kernel

import (
	"math"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// The panels of bytes score dot products: a word is four signed codes of ψ or four unsigned codes of φ.

// WordBytes is the number of codes in a word.
const WordBytes = 4

// MaxInt8 is the number of words in Int8Panels whose sums cannot leave the range of int32: codes of ψ are
// at most 127 in size, those of φ at most 255.
const MaxInt8 = math.MaxInt32 / (127 * 255 * WordBytes)

// Int8Panels returns the panels that score Σ ψ_i φ_i over the codes of CodeInt8, without an offset for ψ and
// with 128 for φ. The sum must not leave the range of int32 (MaxInt8); as a score it is rounded to
// float32. The kernel is in assembly with FeatureVNNI; without it, a slow portable one gives the same scores.
func (b *Backend) Int8Panels() Panels {
	return Panels{
		MR: b.int8.mr, NR: b.NR, Multiple: 1, name: "int8", psi: 1, phi: 1, chunk: Chunk, kernel: b.int8.panel,
	}
}

// Int8Code tells how codes stand for a vector x with a step: c for x/step, and f, the fine codes, for
// what c leaves, in units of step/Fine.
type Int8Code struct {
	// Sum and FineSum are those of c and f.
	Sum, FineSum int32
	// Norm, FineNorm and Residual are upper bounds of ‖c·step‖, ‖f·step/Fine‖ and ‖x − c·step‖,
	// FineResidual one of ‖x − c·step − f·step/Fine‖.
	Norm, FineNorm, Residual, FineResidual float64
}

// Fine is the number of steps of fine codes in a step.
const Fine = 254

// CodeInt8 writes the codes of x, each at most 127 in size, plus offset, which is 0 for ψ and 128
// for φ: c_i = round(x_i/step) to coarse, and what rounds the rest to fine. x is finite, step positive.
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
	// The roundings of back, and those of fineStep, fineBack and rest. The other rounding errors are relative to what
	// is measured, and the factor above covers them.
	r.Residual += U64 * r.Norm
	r.FineResidual += U64 * (r.Norm + 3*r.FineNorm)
	return r
}

// clampedRound returns the whole number next to v, at most 127 in size.
func clampedRound(v float64) float64 {
	if v > 127 {
		return 127
	}
	if v < -127 {
		return -127
	}
	const unit = 1.5 * (1 << 52) // sums with it have no fraction
	return float64(v+unit) - unit
}

// Codes returns the bytes of words, in the same memory.
func Codes(words []uint32) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(words))), WordBytes*len(words))
}

// Int8PairWidth is the multiple to which PairInt8's rows are padded with zeros.
const Int8PairWidth = 64

// PairInt8 writes to out[i] the dot product of the signed bytes of x and the unsigned bytes of
// table[ids[i]·stride:][:len(x)], exact as long as it stays in the range of int32. len(x), in words,
// must be a positive multiple of Int8PairWidth.
func (b *Backend) PairInt8(out []int32, x, table []uint32, stride int, ids []int32) {
	checkPair(len(out), Int8PairWidth, x, table, stride, ids)
	for len(ids) > 0 {
		n := min(len(ids), mostPairs)
		b.pairInt8(&x[0], len(x), &table[0], stride, &ids[0], n, &out[0])
		ids, out = ids[n:], out[n:]
	}
}

func pairInt8Generic(x *uint32, n int, table *uint32, stride int, ids *int32, count int, out *int32) {
	xs, sums := unsafe.Slice((*int8)(unsafe.Pointer(x)), WordBytes*n), unsafe.Slice(out, count)
	for i, id := range unsafe.Slice(ids, count) {
		row := unsafe.Slice((*uint8)(unsafe.Add(unsafe.Pointer(table), uintptr(id)*uintptr(stride)*WordBytes)), WordBytes*n)
		sum := int32(0)
		for t, v := range xs {
			sum += int32(v) * int32(row[t])
		}
		sums[i] = sum
	}
}

// int8Generic is the portable twin of Int8Panels, for panels of nr candidates.
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
