package linalg

import (
	"math"
	"unsafe"
)

var rowsGeneric = rowKernels{
	axpy: axpyGeneric, addRows: addRowsGeneric, scale: scaleGeneric,
	multiply: multiplyRowsGeneric, multiplyComplex: multiplyComplexGeneric,
	dot: dotGeneric, dots: dotsGeneric, sum: sumGeneric,
	adam: adamGeneric, catchUp: catchUpGeneric, adagrad: adagradGeneric,
}

// root32 returns √x as if rounded once to float32. float64 has 53 bits, more than 2·24 + 1, so the
// second rounding is harmless.
func root32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func axpyGeneric(y, x *float32, n int, a float32) {
	ys, xs := unsafe.Slice(y, n), unsafe.Slice(x, n)
	for i, v := range xs {
		ys[i] += float32(a * v)
	}
}

func addRowsGeneric(y *float32, x *[manyRows]*float32, n int, a *[manyRows]float32) {
	for k, row := range x {
		axpyGeneric(y, row, n, a[k])
	}
}

func scaleGeneric(x *float32, n int, a float32) {
	xs := unsafe.Slice(x, n)
	for i := range xs {
		xs[i] *= a
	}
}

func multiplyRowsGeneric(z, x, y *float32, n int) {
	zs, xs, ys := unsafe.Slice(z, n), unsafe.Slice(x, n), unsafe.Slice(y, n)
	for i, v := range xs {
		zs[i] = v * ys[i]
	}
}

func multiplyComplexGeneric(z, x, y *float32, im, n int, sign float32) {
	parts := func(v *float32) (re, imaginary []float32) {
		s := unsafe.Slice(v, im+n)
		return s[:n], s[im:]
	}
	zRe, zIm := parts(z)
	xRe, xIm := parts(x)
	yRe, yIm := parts(y)
	for i, a := range xRe {
		b, c, d := sign*xIm[i], yRe[i], yIm[i]
		zRe[i] = float32(a*c) - float32(b*d)
		zIm[i] = float32(a*d) + float32(b*c)
	}
}

func dotGeneric(x, y *float32, n int, lanes *[sumLanes]float32) {
	xs, ys := unsafe.Slice(x, n), unsafe.Slice(y, n)
	clear(lanes[:])
	for i, v := range xs {
		lanes[i%sumLanes] += float32(v * ys[i])
	}
}

func dotsGeneric(x *float32, y *[manyRows]*float32, n int, sums *[manyRows]float64) {
	if n <= sumLanes { // one product per lane
		xs := unsafe.Slice(x, n)
		s0, s1, s2, s3 := sums[0], sums[1], sums[2], sums[3]
		y0, y1, y2, y3 := unsafe.Slice(y[0], n), unsafe.Slice(y[1], n), unsafe.Slice(y[2], n), unsafe.Slice(y[3], n)
		for i, v := range xs {
			s0 += float64(float32(v * y0[i]))
			s1 += float64(float32(v * y1[i]))
			s2 += float64(float32(v * y2[i]))
			s3 += float64(float32(v * y3[i]))
		}
		*sums = [manyRows]float64{s0, s1, s2, s3}
		return
	}
	var lanes [sumLanes]float32
	for k, row := range y {
		dotGeneric(x, row, n, &lanes)
		sums[k] = addLanes(sums[k], &lanes)
	}
}

func sumGeneric(x *float32, n int, lanes *[sumLanes]float32) {
	clear(lanes[:])
	for i, v := range unsafe.Slice(x, n) {
		lanes[i%sumLanes] += v
	}
}

func adamGeneric(w, m, v, g *float32, n int, step *float32, _ int) {
	s := (*AdamStep)(unsafe.Pointer(step))
	ws, ms, vs, gs := unsafe.Slice(w, n), unsafe.Slice(m, n), unsafe.Slice(v, n), unsafe.Slice(g, n)
	for i, x := range gs {
		first := float32(s.Keep1*ms[i]) + float32(s.New1*x)
		second := float32(s.Keep2*vs[i]) + float32(s.New2*float32(x*x))
		ms[i], vs[i] = first, second
		ws[i] -= float32(s.Rate*first) / (root32(float32(s.Spread*second)) + s.Epsilon)
	}
}

func catchUpGeneric(w, m, v *float32, n int, step *float32, _ int) {
	rate, epsilon := unsafe.Slice(step, 2)[0], unsafe.Slice(step, 2)[1]
	ws, ms, vs := unsafe.Slice(w, n), unsafe.Slice(m, n), unsafe.Slice(v, n)
	for i, x := range ms {
		ws[i] -= float32(rate*x) / (root32(vs[i]) + epsilon)
	}
}

func adagradGeneric(w, v, g *float32, n int, step *float32) {
	s := (*AdagradStep)(unsafe.Pointer(step))
	ws, vs, gs := unsafe.Slice(w, n), unsafe.Slice(v, n), unsafe.Slice(g, n)
	for i, x := range gs {
		sum := vs[i] + float32(x*x)
		vs[i] = sum
		ws[i] -= float32(s.Rate*x) / (root32(sum) + s.Epsilon)
	}
}
