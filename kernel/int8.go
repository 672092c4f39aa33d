package kernel

import (
	"math"
	"unsafe"
)

// WordBytes is the number of dimensions in a term of Int8.
const WordBytes = 4

// MaxInt8 is the number of terms of Int8 whose sums cannot leave the range of int32: codes of ψ are
// at most 127 in size, those of φ at most 255.
const MaxInt8 = math.MaxInt32 / (127 * 255 * WordBytes)

// FastInt8 tells that Int8 has a kernel in assembly (AVX-512 VNNI). The portable one gives the same
// scores, slower than Dot.
func (b *Backend) FastInt8() bool { return b.fastInt8 }

// CodeInt8 writes x in terms of Int8, len(x)/WordBytes of them: the codes c_i = round(x_i/step), at
// most 127 in size, plus offset, which is 0 for ψ and 128 for φ. It returns the sum of the codes
// without the offset, and upper bounds of ‖c·step‖ and ‖x − c·step‖. len(x) is a multiple of
// WordBytes; x is finite, step positive.
func CodeInt8(words []float32, x []float64, step float64, offset uint8) (sum int32, norm, residual float64) {
	codes := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(words))), WordBytes*len(words))[:len(x)]
	inverse := 1 / step
	for i, v := range x {
		c := math.RoundToEven(max(-127, min(127, v*inverse)))
		back := c * step
		norm += back * back
		residual += (v - back) * (v - back)
		sum += int32(c)
		codes[i] = uint8(int8(c)) + offset
	}
	norm = math.Sqrt(norm) * (1 + 1e-9)
	return sum, norm, math.Sqrt(residual)*(1+1e-9) + 2*U64*norm // the roundings of back
}

// int8Generic is the portable twin of Int8's panels, for panels of nr candidates.
func int8Generic(nr int) comparer {
	const mr = genericMR
	panel := func(q *float32, qStride int, e *float32, k, strips int, scores *float32, addTo int, drop *float32, alive *uint8, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64, _ uintptr, _ int) int {
		qs := unsafe.Slice((*[WordBytes]int8)(unsafe.Pointer(q)), (strips-1)*qStride+k*mr)
		es := unsafe.Slice((*[WordBytes]uint8)(unsafe.Pointer(e)), k*nr)
		out := unsafe.Slice(scores, strips*mr*nr)
		sums := unsafe.Slice((*int32)(unsafe.Pointer(scores)), len(out))
		for s := range strips {
			strip, tile := qs[s*qStride:], sums[s*mr*nr:]
			for i := range mr {
				for j := range nr {
					sum := int32(0)
					if addTo != 0 {
						sum = tile[i*nr+j]
					}
					for t := range k {
						x, y := strip[t*mr+i], es[t*nr+j]
						for u := range WordBytes {
							sum += int32(x[u]) * int32(y[u])
						}
					}
					tile[i*nr+j] = sum
				}
			}
		}
		if rows == nil {
			return 0
		}
		for i, sum := range sums {
			out[i] = float32(sum)
		}
		return countGeneric(mr, nr, strips, out, drop, alive, rows, ends, better, undecided, valid)
	}
	return comparer{mr: mr, panel: panel}
}
