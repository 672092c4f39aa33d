package linalg

import "unsafe"

var smallGeneric = smallKernels{
	rows: 4, multiply: multiplyGeneric, transpose: transpose8Generic,
	unpack: unpackGeneric, pack: packGeneric, addTranspose: addTransposeGeneric,
}

func multiplyGeneric(c, a *float32, aRow, aTerm int, b *float32, k, ld, eights int, plus *float32) {
	const rows, lanes = 4, 8
	n := eights * lanes
	cs, bs := unsafe.Slice(c, (rows-1)*ld+n), unsafe.Slice(b, (k-1)*ld+n)
	as := unsafe.Slice(a, (rows-1)*aRow+(k-1)*aTerm+1)
	var ps []float32
	if plus != nil {
		ps = unsafe.Slice(plus, (rows-1)*ld+n)
	}
	for i := range rows {
		for j := 0; j < n; j += lanes {
			var sum [lanes]float32
			for t := range k {
				x := as[i*aRow+t*aTerm]
				for l, y := range bs[t*ld+j:][:lanes] {
					sum[l] += float32(x * y)
				}
			}
			for l, v := range sum {
				if plus != nil {
					v = ps[i*ld+j+l] + v
				}
				cs[i*ld+j+l] = v
			}
		}
	}
}

// transpose8Generic transposes 8 rows: dst[t*dstStride+i] = src[i*stride+t] for i < 8, t < k.
func transpose8Generic(dst, src *float32, dstStride, stride, k int) {
	d, s := unsafe.Slice(dst, (k-1)*dstStride+8), unsafe.Slice(src, 7*stride+k)
	for i := range 8 {
		for t, v := range s[i*stride : i*stride+k] {
			d[t*dstStride+i] = v
		}
	}
}

func unpackGeneric(dst, packed *float32, d, ld int, diagonal float32) {
	m, p := unsafe.Slice(dst, (d-1)*ld+d), unsafe.Slice(packed, d*(d+1)/2)
	for i := range d {
		for j, v := range p[:i+1] {
			m[i*ld+j], m[j*ld+i] = v, v
		}
		m[i*ld+i] *= diagonal
		p = p[i+1:]
	}
}

func packGeneric(packed, src *float32, d, ld int, factor, diagonal float32) {
	p, m := unsafe.Slice(packed, d*(d+1)/2), unsafe.Slice(src, (d-1)*ld+d)
	for i := range d {
		for j, v := range m[i*ld : i*ld+i] {
			p[j] = v * factor
		}
		p[i] = m[i*ld+i] * diagonal
		p = p[i+1:]
	}
}

func addTransposeGeneric(matrix *float32, d, ld int) {
	m := unsafe.Slice(matrix, (d-1)*ld+d)
	for i := range d {
		for j := range i + 1 {
			m[i*ld+j] += m[j*ld+i]
		}
	}
}
