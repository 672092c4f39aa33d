package kernel

import (
	"math"
	"unsafe"
)

// The functions named …Generic are the portable twins of the kernels. Explicit conversions prevent
// the compiler from fusing a product with a sum.

func newGeneric(Features) *Backend {
	return &Backend{
		NR:          genericNR,
		int8:        int8Generic(genericNR),
		int16:       int16Generic(genericNR),
		int8L1:      int8L1Generic(),
		int8Phase:   int8PhaseGeneric(genericNR),
		int16Dot:    int16DotGeneric(),
		int16Norms:  [3]normPanels{int16NormGeneric(), int16NormGeneric(), int16NormGeneric()},
		matMul:      matMulGeneric,
		matMulFMA:   matMulFMAGeneric,
		frobenius:   frobeniusGeneric,
		pairInt8:    pairInt8Generic,
		pairInt16L1: pairInt16L1Generic,
	}
}

func matMulGeneric(c, a, b *float64, k, ld, eights int) {
	n := 8 * eights
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

func matMulFMAGeneric(c, a, b *float64, k, ld, eights int) {
	n := 8 * eights
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

func frobeniusGeneric(p, q, x, out *float64, rows, ld, eights int) {
	n := 8 * eights
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
