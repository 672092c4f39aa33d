package linalg

import (
	"fmt"
	"math"
	"sync"
)

// The kernels of this file round every product, sum, quotient and root separately, so that all tiers agree bit for bit.
// They work on one row: callers split rows over goroutines.

// rowKernels are the kernels for vectors of n entries: a multiple of rowLanes, in sums of sumLanes. The portable ones
// take the rest.
type rowKernels struct {
	axpy    func(y, x *float32, n int, a float32)
	scale   func(x *float32, n int, a float32)
	dot     func(x, y *float32, n int, lanes *[sumLanes]float32)
	sum     func(x *float32, n int, lanes *[sumLanes]float32)
	adam    func(w, m, v, g *float32, n int, s *float32, ahead int)
	catchUp func(w, m, v *float32, n int, s *float32, ahead int)
	adagrad func(w, v, g *float32, n int, s *float32)
	// prefetch fetches cache lines into L2; nil in the generic tier.
	prefetch func(p *float32, lines int)
}

func checkLength(name string, n int, vectors ...[]float32) {
	for _, v := range vectors {
		if len(v) != n {
			panic(fmt.Sprintf("linalg: %s: vectors of %d and %d entries", name, n, len(v)))
		}
	}
}

// Axpy adds a·x to y.
func (b *Backend) Axpy(y []float32, a float32, x []float32) {
	checkLength("Axpy", len(y), x)
	whole := len(y) / rowLanes * rowLanes
	for i := 0; i < whole; i += rowChunk {
		b.rows.axpy(&y[i], &x[i], min(rowChunk, whole-i), a)
	}
	if whole < len(y) {
		axpyGeneric(&y[whole], &x[whole], len(y)-whole, a)
	}
}

// Scale multiplies x by a.
func (b *Backend) Scale(x []float32, a float32) {
	whole := len(x) / rowLanes * rowLanes
	for i := 0; i < whole; i += rowChunk {
		b.rows.scale(&x[i], min(rowChunk, whole-i), a)
	}
	if whole < len(x) {
		scaleGeneric(&x[whole], len(x)-whole, a)
	}
}

// Dot returns the dot product of x and y. Of every 1,024 entries, entry i goes to lane i mod 32, whose products are added
// up in float32 with i ascending; the lanes are added up in float64. The entries after the last multiple of 32 come
// last, in lanes of their own.
func (b *Backend) Dot(x, y []float32) float64 {
	checkLength("Dot", len(x), y)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	var sum float64
	whole := len(x) / sumLanes * sumLanes
	for i := 0; i < whole; i += rowChunk {
		b.rows.dot(&x[i], &y[i], min(rowChunk, whole-i), &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	if whole < len(x) {
		dotGeneric(&x[whole], &y[whole], len(x)-whole, &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	return sum
}

// Sum returns the sum of x, added up as in Dot.
func (b *Backend) Sum(x []float32) float64 {
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	var sum float64
	whole := len(x) / sumLanes * sumLanes
	for i := 0; i < whole; i += rowChunk {
		b.rows.sum(&x[i], min(rowChunk, whole-i), &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	if whole < len(x) {
		sumGeneric(&x[whole], len(x)-whole, &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	return sum
}

// scratch holds what kernels take by address. They are called through function values, so that local variables would
// escape to the heap in every call.
type scratch struct {
	lanes   [sumLanes]float32
	adam    AdamStep
	catchUp [2]float32
	adagrad AdagradStep
	pairs   pairScratch
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func addLanes(sum float64, lanes *[sumLanes]float32) float64 {
	for _, v := range lanes {
		sum += float64(v)
	}
	return sum
}

// AdamStep is a step of Adam (Kingma and Ba, https://arxiv.org/abs/1412.6980) on some rows.
//
//	m ← Keep1·m + New1·g
//	v ← Keep2·v + New2·g²
//	w ← w − Rate·m / (√(Spread·v) + Epsilon)
//
// In step t of a row Rate is η/(1 − β₁ᵗ) and Spread 1/(1 − β₂ᵗ); Keep1 and Keep2 are β₁ and β₂, or β₁ᵏ⁺¹ and β₂ᵏ⁺¹ for
// a row that skipped k steps; New1 and New2 are 1 − β₁ and 1 − β₂.
type AdamStep struct {
	Keep1, New1, Keep2, New2 float32
	Rate, Spread             float32
	Epsilon                  float32
}

// NewAdamStep returns step t ≥ 1 of a row that skipped the given number of steps before it, in which its moments decayed
// without a gradient.
func NewAdamStep(rate, beta1, beta2, epsilon float64, t, skipped int) AdamStep {
	return AdamStep{
		Keep1: float32(math.Pow(beta1, float64(skipped+1))), New1: float32(1 - beta1),
		Keep2: float32(math.Pow(beta2, float64(skipped+1))), New2: float32(1 - beta2),
		Rate:    float32(rate / (1 - math.Pow(beta1, float64(t)))),
		Spread:  float32(1 / (1 - math.Pow(beta2, float64(t)))),
		Epsilon: float32(epsilon),
	}
}

// Adam takes a step on the row w with moments m and v against the gradient g. Meanwhile it prefetches into L2 most of
// the rows that begin next entries after w, m and v; 0 prefetches nothing.
func (b *Backend) Adam(w, m, v, g []float32, s AdamStep, next int) {
	checkLength("Adam", len(w), m, v, g)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	t.adam = s
	whole := len(w) / rowLanes * rowLanes
	for i := 0; i < whole; i += rowChunk {
		b.rows.adam(&w[i], &m[i], &v[i], &g[i], min(rowChunk, whole-i), &t.adam.Keep1, 4*next)
	}
	if i := whole; i < len(w) {
		adamGeneric(&w[i], &m[i], &v[i], &g[i], len(w)-i, &t.adam.Keep1, 0)
	}
}

// AdamCatchUp applies to the row w the steps that it missed for lack of a gradient, in one: it moves along the moments m
// and v, which stay, w ← w − rate·m / (√v + epsilon). next is as in Adam.
func (b *Backend) AdamCatchUp(w, m, v []float32, rate, epsilon float32, next int) {
	checkLength("AdamCatchUp", len(w), m, v)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	t.catchUp = [2]float32{rate, epsilon}
	whole := len(w) / rowLanes * rowLanes
	for i := 0; i < whole; i += rowChunk {
		b.rows.catchUp(&w[i], &m[i], &v[i], min(rowChunk, whole-i), &t.catchUp[0], 4*next)
	}
	if i := whole; i < len(w) {
		catchUpGeneric(&w[i], &m[i], &v[i], len(w)-i, &t.catchUp[0], 0)
	}
}

// AdagradStep is a step of Adagrad (Duchi, Hazan and Singer, JMLR 12, 2011).
//
//	v ← v + g²
//	w ← w − Rate·g / (√v + Epsilon)
type AdagradStep struct{ Rate, Epsilon float32 }

// Adagrad takes a step on the row w with the sum of squares v against the gradient g.
func (b *Backend) Adagrad(w, v, g []float32, s AdagradStep) {
	checkLength("Adagrad", len(w), v, g)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	t.adagrad = s
	whole := len(w) / rowLanes * rowLanes
	for i := 0; i < whole; i += rowChunk {
		b.rows.adagrad(&w[i], &v[i], &g[i], min(rowChunk, whole-i), &t.adagrad.Rate)
	}
	if i := whole; i < len(w) {
		adagradGeneric(&w[i], &v[i], &g[i], len(w)-i, &t.adagrad.Rate)
	}
}
