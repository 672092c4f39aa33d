package kernel

import "unsafe"

var strip32Generic = strip32{rows: 4, lanes: 8, multiply: strip32MultiplyGeneric, transpose: transpose8Generic}

func strip32MultiplyGeneric(c, a *float32, aRow, aTerm int, b *float32, k, ld, vectors, add int) {
	const rows, lanes = 4, 8
	n := vectors * lanes
	cs, as, bs := unsafe.Slice(c, (rows-1)*ld+n), unsafe.Slice(a, (rows-1)*aRow+(k-1)*aTerm+1), unsafe.Slice(b, (k-1)*ld+n)
	for i := range rows {
		for j := 0; j < n; j += lanes {
			var sum [lanes]float32
			for t := range k {
				x := as[i*aRow+t*aTerm]
				for l, y := range bs[t*ld+j:][:lanes] {
					sum[l] += float32(x * y)
				}
			}
			out := cs[i*ld+j:][:lanes]
			for l, v := range sum {
				if add != 0 {
					v = out[l] + v
				}
				out[l] = v
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
