package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

const (
	// tileWords is the number of words in a row of an AMX tile.
	tileWords = 16
	// int16MR is the MR of Int16Panels in every tier: the number of rows of a tile.
	int16MR = 16
	// maxNR is the largest NR of any tier.
	maxNR = 48
)

// Int16Multiple must divide the K of Int16Panels, which is the number of words.
const Int16Multiple = 2 * tileWords

// Int16Panels returns the panels that score dot products of two-byte codes: each coordinate of a
// vector has a coarse and a fine code (CodeInt8 with offset 0). The first half of the K words holds
// the coarse codes c, and the second half holds the fine codes f. The score is Σ c c' + (Σ c f' + f
// c')/Fine, without the products of two fine codes. Both sums, the quotient and the total are
// rounded to float32. The sums must fit in int32 (MaxInt16). The kernel
// is in assembly with FeatureAMX. The portable kernel gives the same scores but is slower than the
// panels of Dot.
func (b *Backend) Int16Panels() Panels {
	return Panels{
		MR: b.int16.mr, NR: b.NR, Multiple: Int16Multiple,
		name: "int16", psi: 1, phi: 1, spare: int16MR, kernel: b.int16.panel,
		pack: func(dst, rows []uint32, stride int, ids, terms []int32, _ int) {
			packTiles(dst, rows, stride, ids, len(terms))
		},
	}
}

// MaxInt16 is the largest K of Int16Panels whose sums always fit in int32. The sum of the mixed
// products is the longest: it covers K words of four products each. Every code is at most 127 in
// magnitude.
const MaxInt16 = math.MaxInt32 / (127 * 127 * WordBytes)

// packTiles packs a strip for Int16Panels, [k/16][MR][16], from at most MR rows of k words that ids
// lists: word t of row i, rows[ids[i]*stride+t], goes to dst[t/16*16*MR+16*i+t%16]. Missing rows
// become zeros. k is a multiple of 16.
func packTiles(dst, rows []uint32, stride int, ids []int32, k int) {
	if len(ids) > int16MR || k%tileWords != 0 || len(dst) < k*int16MR {
		panic(fmt.Sprintf("kernel: PackStrip: %d rows of %d: room for %d words", len(ids), k, len(dst)))
	}
	dst = dst[:k*int16MR]
	if len(ids) < int16MR {
		clear(dst)
	}
	for i, id := range ids {
		row := rows[int(id)*stride:][:k]
		for t := 0; t < k; t += tileWords {
			copy(dst[t*int16MR+i*tileWords:][:tileWords], row[t:t+tileWords])
		}
	}
}

// int16Generic returns the portable twin of Int16Panels for panels of nr candidates.
func int16Generic(nr int) comparer {
	const mr = int16MR
	panel := func(a *asm.PanelArgs) int {
		psi := unsafe.Slice((*[WordBytes]int8)(unsafe.Pointer(a.Psi)), (a.Strips-1)*a.PsiStride+a.K*mr)
		phi := unsafe.Slice((*[WordBytes]int8)(unsafe.Pointer(a.Phi)), a.K*nr)
		scores := unsafe.Slice(a.Scores, a.Strips*mr*nr)
		product := func(x, y [WordBytes]int8) int32 {
			return int32(x[0])*int32(y[0]) + int32(x[1])*int32(y[1]) + int32(x[2])*int32(y[2]) + int32(x[3])*int32(y[3])
		}
		half := a.K / 2
		for row := range a.Strips * mr {
			strip := psi[row/mr*a.PsiStride:]
			var coarse, fine [maxNR]int32
			for t := range half {
				at := t/tileWords*tileWords*mr + row%mr*tileWords + t%tileWords
				c, f := strip[at], strip[half*mr+at]
				cs, fs := phi[t*nr:(t+1)*nr], phi[(half+t)*nr:(half+t+1)*nr]
				for j, e := range cs {
					coarse[j] += product(c, e)
					fine[j] += product(c, fs[j]) + product(f, e)
				}
			}
			for j := range nr {
				scores[row*nr+j] = float32(coarse[j]) + float32(float32(fine[j])*(1.0/Fine))
			}
		}
		return countGeneric(a, mr, nr, scores)
	}
	return comparer{mr: mr, panel: panel}
}
