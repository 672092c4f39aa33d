package linalg

import "unsafe"

// genericSide is the number of rows, and of columns, in a microtile of the generic tier.
const genericSide = 4

var gemmGeneric = gemm{
	mr: genericSide, nr: genericSide, multiple: 1, strips: floatStrips, microkernels: []gemmKernel{gemmKernelGeneric},
	packRows: packKernels{interleaveGeneric, copyGeneric},
	packCols: packKernels{interleaveGeneric, copyGeneric},
}

// interleaveGeneric transposes 4 rows: dst[t*4+i] = src[i*stride+t] for i < 4, t < k.
func interleaveGeneric(dst, src *float32, stride, k int) {
	d, s := unsafe.Slice(dst, k*genericSide), unsafe.Slice(src, (genericSide-1)*stride+k)
	for t := range k {
		out := d[t*genericSide:][:genericSide]
		for i := range out {
			out[i] = s[i*stride+t]
		}
	}
}

// copyGeneric copies 4 columns: dst[t*4+i] = src[t*stride+i] for i < 4, t < k.
func copyGeneric(dst, src *float32, stride, k int) {
	d, s := unsafe.Slice(dst, k*genericSide), unsafe.Slice(src, (k-1)*stride+genericSide)
	for t := range k {
		copy(d[t*genericSide:(t+1)*genericSide], s[t*stride:])
	}
}

func gemmKernelGeneric(a, b *float32, k, strips int, c *float32, cStride int, add int, _ uintptr, _ int) {
	const n = genericSide
	as, bs := unsafe.Slice(a, strips*k*n), unsafe.Slice(b, k*n)
	cs := unsafe.Slice(c, (strips*n-1)*cStride+n)
	for s := range strips {
		strip := as[s*k*n : (s+1)*k*n]
		var sum [n][n]float32
		for t := range k {
			x, y := strip[t*n:(t+1)*n], bs[t*n:(t+1)*n]
			y0, y1, y2, y3 := y[0], y[1], y[2], y[3]
			for i := range sum {
				row := &sum[i]
				row[0] += float32(x[i] * y0)
				row[1] += float32(x[i] * y1)
				row[2] += float32(x[i] * y2)
				row[3] += float32(x[i] * y3)
			}
		}
		for i, row := range sum {
			out := cs[(s*n+i)*cStride:][:n]
			for j, v := range row {
				if add != 0 {
					v = out[j] + v
				}
				out[j] = v
			}
		}
	}
}
