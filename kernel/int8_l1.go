package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// UnitWords is the number of words in a unit, which holds eight one-byte codes.
const UnitWords = 2

// unitBytes is the number of codes in a unit.
const unitBytes = UnitWords * WordBytes

// MaxInt8L1 is the largest K of Int8L1Panels whose scores are always exact: float32 represents
// every integer up to 2²⁴.
const MaxInt8L1 = 1 << 24 / (255 * unitBytes)

// Int8L1Panels returns the panels that score −Σ|ψ_i − φ_i| over unsigned one-byte codes. K counts
// units of eight codes, and PackUnits packs panels. Scores are exact if K is at most
// MaxInt8L1. They never rise with more coordinates, so the kernels use ExitBelow. The kernels are in
// assembly with FeatureAVX2 and FeatureAVX512.
func (b *Backend) Int8L1Panels() Panels {
	return Panels{
		MR: b.int8L1.mr, NR: b.NR, Multiple: 1, name: "int8-l1", psi: UnitWords, phi: UnitWords,
		chunk: chunkUnits, falling: true, kernel: b.int8L1.panel,
		pack: func(dst, rows []uint32, stride int, ids, terms []int32, width int) {
			PackUnits(dst, rows[terms[0]:], stride, ids, len(terms)/UnitWords, width)
		},
	}
}

// pairsOfLanes is the number of candidates whose units a panel of Int8L1Panels stores in the order
// 0, 2, 4, …, 1, 3, 5, …. The kernels add up eight bytes in 64 bits. They join the sums of an even
// and an odd candidate to get 32-bit sums in the order of the candidates.
const pairsOfLanes = 16

// unitAt returns the place of a row among width rows in a packed strip or panel.
func unitAt(row, width int) int {
	if width < pairsOfLanes {
		return row
	}
	group, lane := row&^(pairsOfLanes-1), row%pairsOfLanes
	return group + lane%2*(pairsOfLanes/2) + lane/2
}

// PackUnits interleaves the first k units of at most width rows, which ids lists, into dst, for
// Int8L1Panels. With width NR, it packs a panel. Missing rows become zeros.
func PackUnits(dst, rows []uint32, stride int, ids []int32, k, width int) {
	if len(ids) > width || len(dst) < k*UnitWords*width {
		panic(fmt.Sprintf("kernel: PackUnits: %d rows of %d units into width %d: room for %d words",
			len(ids), k, width, len(dst)))
	}
	dst = dst[:k*UnitWords*width]
	if len(ids) < width {
		clear(dst)
	}
	for i, id := range ids {
		row := rows[int(id)*stride:][:k*UnitWords]
		for at := UnitWords * unitAt(i, width); len(row) > 0; at, row = at+UnitWords*width, row[UnitWords:] {
			dst[at], dst[at+1] = row[0], row[1]
		}
	}
}

// Int16Codes returns the words as two-byte codes that share their memory.
func Int16Codes(words []uint32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(words))), 2*len(words))
}

const (
	// mostInt16L1 is the largest code of PairInt16L1: differences must fit in 16 bits with a sign.
	mostInt16L1 = math.MaxInt16
	// MaxInt16L1 is the largest number of words of PairInt16L1 whose sums always fit in int32.
	MaxInt16L1 = math.MaxInt32 / (2 * mostInt16L1)
)

// PairInt16L1 sets out[i] to the L1 distance of the two-byte codes of x and
// table[ids[i]*stride:][:len(x)], which are at most 2¹⁵ − 1. The distance is exact if it fits in
// int32 (MaxInt16L1). len(x), in words, must be a positive multiple of CodePairWidth.
func (b *Backend) PairInt16L1(out []int32, x, table []uint32, stride int, ids []int32) {
	checkPair(len(out), CodePairWidth, len(x), x, table, stride, ids)
	for len(ids) > 0 {
		n := min(len(ids), mostPairs)
		b.pairInt16L1(&x[0], len(x), &table[0], stride, &ids[0], n, &out[0])
		ids, out = ids[n:], out[n:]
	}
}

func pairInt16L1Generic(x *uint32, n int, table *uint32, stride int, ids *int32, count int, out *int32) {
	xs, sums := Int16Codes(unsafe.Slice(x, n)), unsafe.Slice(out, count)
	for i, id := range unsafe.Slice(ids, count) {
		start := unsafe.Add(unsafe.Pointer(table), uintptr(id)*uintptr(stride)*WordBytes)
		row := unsafe.Slice((*uint16)(start), len(xs))
		sum := int32(0)
		for t, v := range xs {
			d := int32(v) - int32(row[t])
			sum += max(d, -d)
		}
		sums[i] = sum
	}
}

// int8L1Generic is the portable twin of Int8L1Panels.
func int8L1Generic() comparer {
	const mr, nr = genericMR, genericNR
	panel := func(a *asm.PanelArgs) int {
		psi := unsafe.Slice((*[unitBytes]uint8)(unsafe.Pointer(a.Psi)), (a.Strips-1)*a.PsiStride/UnitWords+a.K*mr)
		phi := unsafe.Slice((*[unitBytes]uint8)(unsafe.Pointer(a.Phi)), a.K*nr)
		scores := unsafe.Slice(a.Scores, a.Strips*mr*nr)
		for s := range a.Strips {
			if a.ExitBelow != nil && unsafe.Slice(a.Active, a.Strips)[s] == 0 {
				continue
			}
			strip := psi[s*a.PsiStride/UnitWords:]
			for i := range mr {
				row := scores[(s*mr+i)*nr:][:nr]
				for j := range row {
					sum := int32(0)
					at := unitAt(j, nr)
					for t := range a.K {
						x, y := strip[t*mr+i], phi[t*nr+at]
						for u, v := range x {
							d := int32(v) - int32(y[u])
							sum += max(d, -d)
						}
					}
					score := 0 - float32(sum)
					if a.Add != 0 {
						score += row[j]
					}
					row[j] = score
				}
			}
		}
		markGeneric(a, nr, scores)
		return countGeneric(a, mr, nr, scores)
	}
	return comparer{mr: mr, panel: panel}
}
