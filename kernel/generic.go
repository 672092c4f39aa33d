package kernel

import (
	"math"
	"math/bits"
	"unsafe"
)

// The portable twins. Explicit conversions keep the compiler from fusing a product with a sum.

var generic = &Backend{
	Tier: Generic, MR: 4, NR: 16,
	dotPanel:  dotPanelGeneric,
	pairDot:   pairDotGeneric,
	matMul:    matMulGeneric,
	matMulFMA: matMulFMAGeneric,
	frobenius: frobeniusGeneric,
	peak:      peakGeneric,
	peakFlops: 2 * 8,
}

// dotPanelGeneric is DotPanel's kernel with products and sums rounded separately.
func dotPanelGeneric(q *float32, qStride int, e *float32, k, strips int, scores *float32, add int, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64, _ uintptr, _ int) int {
	const mr, nr = 4, 16
	qs, es := unsafe.Slice(q, (strips-1)*qStride+k*mr), unsafe.Slice(e, k*nr)
	out := unsafe.Slice(scores, strips*mr*nr)
	if add == 0 {
		clear(out)
	}
	for s := range strips {
		strip, out := qs[s*qStride:], out[s*mr*nr:(s+1)*mr*nr]
		for j := 0; j < nr; j += 2 {
			var a0, a1, b0, b1, c0, c1, d0, d1 float32
			for t := range k {
				x, y := es[t*nr+j], es[t*nr+j+1]
				w := strip[t*mr : t*mr+4 : t*mr+4]
				a0 += float32(w[0] * x)
				a1 += float32(w[0] * y)
				b0 += float32(w[1] * x)
				b1 += float32(w[1] * y)
				c0 += float32(w[2] * x)
				c1 += float32(w[2] * y)
				d0 += float32(w[3] * x)
				d1 += float32(w[3] * y)
			}
			out[j] += a0
			out[j+1] += a1
			out[nr+j] += b0
			out[nr+j+1] += b1
			out[2*nr+j] += c0
			out[2*nr+j+1] += c1
			out[3*nr+j] += d0
			out[3*nr+j+1] += d1
		}
	}
	return countGeneric(strips*mr, nr, out, rows, ends, better, undecided, valid)
}

// dotPanelTwin is the assembly's kernel for tiles of mr × nr, bit for bit.
func dotPanelTwin(mr, nr int, q *float32, qStride int, e *float32, k, strips int, scores *float32, add int, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64) int {
	qs, es := unsafe.Slice(q, (strips-1)*qStride+k*mr), unsafe.Slice(e, k*nr)
	out := unsafe.Slice(scores, strips*mr*nr)
	for s := range strips {
		for i := range mr {
			for j := range nr {
				var chain float32
				for t := range k {
					chain = fma32(qs[s*qStride+t*mr+i], es[t*nr+j], chain)
				}
				at := (s*mr+i)*nr + j
				if add != 0 {
					chain = out[at] + chain
				}
				out[at] = chain
			}
		}
	}
	return countGeneric(strips*mr, nr, out, rows, ends, better, undecided, valid)
}

// countGeneric counts for n queries; rows may be nil: there is nothing to count then.
func countGeneric(n, nr int, scores []float32, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64) int {
	if rows == nil {
		return 0
	}
	first := unsafe.Slice(rows, n+1)
	truths := int(first[n])
	end, count, open := unsafe.Slice(ends, 2*truths), unsafe.Slice(better, truths), unsafe.Slice(undecided, 2*truths)
	pairs := 0
	for i := range n {
		row := scores[i*nr : (i+1)*nr]
		for t := first[i]; t < first[i+1]; t++ {
			lo, hi := end[2*t], end[2*t+1]
			var above, notBelow uint64
			for j, s := range row {
				if s > hi {
					above |= 1 << j
				}
				if !(s < lo) {
					notBelow |= 1 << j
				}
			}
			notBelow &= valid
			above &= notBelow
			count[t] += int32(bits.OnesCount64(above))
			if m := notBelow &^ above; m != 0 {
				open[2*pairs], open[2*pairs+1] = uint64(t), m
				pairs++
			}
		}
	}
	return pairs
}

// fma32 returns x·y + z rounded once. The product is exact in float64; the sum is rounded to odd
// there, so that rounding it to float32 afterwards cannot round twice.
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return float32(s)
	}
	// The error of the sum (Knuth's TwoSum).
	pp := s - c
	err := (p - pp) + (c - (s - pp))
	if err != 0 {
		b := math.Float64bits(s)
		if b&1 == 0 {
			if (err > 0) == (s > 0) {
				b++
			} else {
				b--
			}
		}
		s = math.Float64frombits(b)
	}
	return float32(s)
}

func pairDotGeneric(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float64) {
	xs := unsafe.Slice(x, n)
	for i, id := range unsafe.Slice(ids, count) {
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(table), uintptr(id)*uintptr(stride)*4)), n)
		var a [32]float64
		for t := 0; t < n; t += 32 {
			for l := range a {
				a[l] += float64(float64(xs[t+l]) * float64(row[t+l]))
			}
		}
		var s [8]float64
		for l := range s {
			s[l] = (a[l] + a[8+l]) + (a[16+l] + a[24+l])
		}
		for l := range 4 {
			s[l] += s[l+4]
		}
		s[0] += s[2]
		s[1] += s[3]
		*(*float64)(unsafe.Add(unsafe.Pointer(out), i*8)) = s[0] + s[1]
	}
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

// peakSink keeps the compiler from dropping the loop.
var peakSink float32

func peakGeneric(n int) {
	var a, b, c, d, e, f, g, h float32
	x := peakSink
	for range n {
		a += float32(x * x)
		b += float32(x * x)
		c += float32(x * x)
		d += float32(x * x)
		e += float32(x * x)
		f += float32(x * x)
		g += float32(x * x)
		h += float32(x * x)
	}
	if s := a + b + c + d + e + f + g + h; s != 0 {
		peakSink = s
	}
}
