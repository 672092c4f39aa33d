package kernel

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// The portable twins. Explicit conversions keep the compiler from fusing a product with a sum.

var generic = &Backend{
	Tier: Generic, NR: genericNR,
	compare: [...]comparer{
		Dot:       {genericMR, panelGeneric(Dot), pairGeneric(Dot), peakGeneric(Dot), peakGenericTerms},
		L1:        {genericMR, panelGeneric(L1), pairGeneric(L1), peakGeneric(L1), peakGenericTerms},
		GroupNorm: {genericMR, panelGeneric(GroupNorm), pairGeneric(GroupNorm), peakGeneric(GroupNorm), peakGenericTerms},
		Phase:     {genericMR, panelGeneric(Phase), pairGeneric(Phase), peakGeneric(Phase), peakGenericTerms},
		Int8:      int8Generic(genericNR),
		Int16:     int16Generic(genericNR),
	},
	rootError: U32,
	matMul:    matMulGeneric,
	matMulFMA: matMulFMAGeneric,
	frobenius: frobeniusGeneric,
	pairInt8:  pairInt8Generic,
	gemm:      gemmGeneric,
	small:     smallGeneric,
	rows:      rowsGeneric,
	weights:   weightsGeneric,
}

// countGeneric counts for the active strips, unless TruthStart is nil.
func countGeneric(a *asm.PanelArgs, mr, nr int, scores []float32) int {
	if a.TruthStart == nil {
		return 0
	}
	first := unsafe.Slice(a.TruthStart, a.Strips*mr+1)
	truths := int(first[a.Strips*mr])
	thresholds, counts := unsafe.Slice(a.Thresholds, 2*truths), unsafe.Slice(a.Counts, truths)
	undecided := unsafe.Slice(a.Undecided, 2*truths)
	pairs := 0
	for i := range a.Strips * mr {
		if a.ExitBelow != nil && unsafe.Slice(a.Active, a.Strips)[i/mr] == 0 {
			continue
		}
		row := scores[i*nr : (i+1)*nr]
		for t := first[i]; t < first[i+1]; t++ {
			lo, hi := thresholds[2*t], thresholds[2*t+1]
			var above, notBelow uint64
			for j, s := range row {
				if s > hi {
					above |= 1 << j
				}
				if !(s < lo) {
					notBelow |= 1 << j
				}
			}
			notBelow &= a.ValidLanes
			above &= notBelow
			counts[t] += int32(bits.OnesCount64(above))
			if open := notBelow &^ above; open != 0 {
				undecided[2*pairs], undecided[2*pairs+1] = uint64(t), open
				pairs++
			}
		}
	}
	return pairs
}

func matMulGeneric(c, a, b *float64, k, ld, groups int) {
	n := 8 * groups
	cs, as, bs := unsafe.Slice(c, 7*ld+n), unsafe.Slice(a, 7*ld+k), unsafe.Slice(b, (k-1)*ld+n)
	for i := range 8 {
		row := cs[i*ld : i*ld+n]
		clear(row)
		for t := range k {
			x := as[i*ld+t]
			for j, y := range bs[t*ld : t*ld+n] {
				row[j] += float64(x * y)
			}
		}
	}
}

func matMulFMAGeneric(c, a, b *float64, k, ld, groups int) {
	n := 8 * groups
	cs, as, bs := unsafe.Slice(c, 7*ld+n), unsafe.Slice(a, 7*ld+k), unsafe.Slice(b, (k-1)*ld+n)
	for i := range 8 {
		row := cs[i*ld : i*ld+n]
		clear(row)
		for t := range k {
			x := as[i*ld+t]
			for j, y := range bs[t*ld : t*ld+n] {
				row[j] = math.FMA(x, y, row[j])
			}
		}
	}
}

func frobeniusGeneric(p, q, x, out *float64, rows, ld, groups int) {
	n := 8 * groups
	size := (rows-1)*ld + n
	ps, qs, xs, sums := unsafe.Slice(p, size), unsafe.Slice(q, size), unsafe.Slice(x, size), unsafe.Slice(out, n)
	clear(sums)
	for i := range rows {
		for j := range sums {
			d := (ps[i*ld+j] - qs[i*ld+j]) + xs[i*ld+j]
			sums[j] += float64(d * d)
		}
	}
}
