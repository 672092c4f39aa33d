package linalg

import (
	"math"
	"unsafe"

	"github.com/mquine/mquine/internal/fmath"
)

var softmaxGeneric = softmaxKernels{maximum: maximumGeneric, exp: expGeneric, logistic: logisticGeneric}

// These are the constants of exp32 and log1p32. asm/gen/softmax.go has the same constants.
const (
	// Above expMost, the exponential overflows; below expLeast, it is 0.
	expMost, expLeast = 89, -104
	log2e             = 0x1.715476p+0
	// ln2High + ln2Low is ln 2. Products of ln2High with |n| < 2⁹ are exact.
	ln2High, ln2Low = 0x1.63p-1, -0x1.bd0106p-13
	// n + roundShift has n in its low bits.
	roundShift = 0x1.8p23
)

// expTerms are the coefficients of (exp(r) − 1 − r)/r², highest first, for |r| ≤ ln 2/2 (Cephes,
// expf).
var expTerms = [...]float32{
	1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
}

// exp32 returns eˣ, computed with the operations of the assembly.
func exp32(x float32) float32 {
	// Do not replace these conditions with min and max, which would not preserve NaN.
	if x > expMost {
		x = expMost
	}
	if x < expLeast {
		x = expLeast
	}
	shifted := float32(x*log2e) + roundShift
	n := shifted - roundShift
	r := (x - float32(n*ln2High)) - float32(n*ln2Low)
	p := expTerms[0]
	for _, c := range expTerms[1:] {
		p = float32(p*r) + c
	}
	p = (float32(p*float32(r*r)) + r) + 1
	// Multiply by 2ⁿ in two factors, so subnormal results are rounded once.
	k := int32(math.Float32bits(shifted)) - int32(math.Float32bits(roundShift))
	half := k >> 1
	return float32(p*math.Float32frombits(uint32(half+127)<<23)) * math.Float32frombits(uint32(k-half+127)<<23)
}

// log1pTerms are the coefficients of (atanh(s)/s − 1)/s² in s², highest first, for s² ≤ 1/9.
var log1pTerms = [...]float32{1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3}

// log1p32 returns log(1 + z) = 2 atanh(s), s = z/(2 + z), for 0 ≤ z ≤ 1.
func log1p32(z float32) float32 {
	s := z / (2 + z)
	q := float32(s * s)
	p := log1pTerms[0]
	for _, c := range log1pTerms[1:] {
		p = float32(p*q) + c
	}
	s += s
	return float32(float32(p*q)*s) + s
}

func maximumGeneric(x *float32, n int, lanes *[sumLanes]float32) {
	for i, v := range unsafe.Slice(x, n) {
		if l := &lanes[i%sumLanes]; v > *l {
			*l = v
		}
	}
}

func expGeneric(x *float32, n int, a, shift float32, lanes *[sumLanes]float32) {
	clear(lanes[:])
	xs := unsafe.Slice(x, n)
	for i, v := range xs {
		e := exp32(float32(a*v) - shift)
		xs[i] = e
		lanes[i%sumLanes] += e
	}
}

func logisticGeneric(x, w *float32, n int, shift, target float32, lanes *[sumLanes]float32) {
	clear(lanes[:])
	xs, ws := unsafe.Slice(x, n), unsafe.Slice(w, n)
	for i, v := range xs {
		z := v + shift
		e := exp32(-fmath.Abs32(z))
		u := 1 + e
		numerator := e
		if z >= 0 {
			numerator = 1
		}
		positive := z
		if z <= 0 {
			positive = 0
		}
		bounded := z
		if z < -math.MaxFloat32 {
			bounded = -math.MaxFloat32 // 0·∞ is NaN
		}
		loss := (positive + log1p32(e)) - float32(target*bounded)
		lanes[i%sumLanes] += float32(ws[i] * loss)
		xs[i] = float32(ws[i] * (numerator/u - target))
	}
}
