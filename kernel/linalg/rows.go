package linalg

import (
	"fmt"
	"math"
	"sync"
)

// The kernels in this file round every product, sum, quotient and root separately, so all tiers
// agree bit for bit. Each call works on one row; callers distribute rows over goroutines.

// rowKernels are the kernels for vectors of n entries. n is a multiple of rowLanes, or of sumLanes
// for sums; the portable kernels accept any n > 0.
type rowKernels struct {
	axpy            func(y, x *float32, n int, a float32)
	addRows         func(y *float32, x *[manyRows]*float32, n int, a *[manyRows]float32)
	scale           func(x *float32, n int, a float32)
	multiply        func(z, x, y *float32, n int)
	multiplyComplex func(z, x, y *float32, im, n int, sign float32)
	dot             func(x, y *float32, n int, lanes *[sumLanes]float32)
	dots            func(x *float32, y *[manyRows]*float32, n int, sums *[manyRows]float64)
	sum             func(x *float32, n int, lanes *[sumLanes]float32)
	adam            func(w, m, v, g *float32, n int, s *float32, ahead int)
	catchUp         func(w, m, v *float32, n int, s *float32, ahead int)
	adagrad         func(w, v, g *float32, n int, s *float32)
	// prefetch prefetches cache lines into L2. It is nil in the generic tier.
	prefetch func(p *float32, lines int)
}

// chunk returns how many of the remaining entries the next call of a row kernel processes: at most
// rowChunk, and a multiple of lanes unless fewer than lanes remain.
func chunk(remaining, lanes int) int {
	if remaining < lanes {
		return remaining
	}
	return min(rowChunk, remaining/lanes*lanes)
}

// rowsFor returns the kernels for a chunk of n entries: the portable kernels if n is not a multiple
// of lanes, and b's otherwise.
func (b *Backend) rowsFor(n, lanes int) *rowKernels {
	if n%lanes != 0 {
		return &rowsGeneric
	}
	return &b.rows
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
	for i, n := 0, 0; i < len(y); i += n {
		n = chunk(len(y)-i, rowLanes)
		b.rowsFor(n, rowLanes).axpy(&y[i], &x[i], n, a)
	}
}

// Scale multiplies x by a.
func (b *Backend) Scale(x []float32, a float32) {
	for i, n := 0, 0; i < len(x); i += n {
		n = chunk(len(x)-i, rowLanes)
		b.rowsFor(n, rowLanes).scale(&x[i], n, a)
	}
}

// Multiply writes x∘y to z, entry by entry. z may be x or y.
func (b *Backend) Multiply(z, x, y []float32) {
	checkLength("Multiply", len(z), x, y)
	for i, n := 0, 0; i < len(z); i += n {
		n = chunk(len(z)-i, rowLanes)
		b.rowsFor(n, rowLanes).multiply(&z[i], &x[i], &y[i], n)
	}
}

// MultiplyComplex writes x∘y to z or, if conjugate is set, conj(x)∘y. The vectors are complex: the first half
// of each holds the real parts, the second half the imaginary parts. z may be x or y.
func (b *Backend) MultiplyComplex(z, x, y []float32, conjugate bool) {
	checkLength("MultiplyComplex", len(z), x, y)
	if len(z)%2 != 0 {
		panic(fmt.Sprintf("linalg: MultiplyComplex: complex vectors of %d entries", len(z)))
	}
	half, sign := len(z)/2, float32(1)
	if conjugate {
		sign = -1
	}
	for i, n := 0, 0; i < half; i += n {
		n = chunk(half-i, rowLanes)
		b.rowsFor(n, rowLanes).multiplyComplex(&z[i], &x[i], &y[i], half, n, sign)
	}
}

// Dot returns the dot product of x and y. It works in chunks of 1,024 entries. The product
// x[i]·y[i] goes to lane i mod 32, which adds up its products in float32 with i ascending. Then the
// lanes are added in float64. The last len(x) mod 32 entries form a separate chunk.
func (b *Backend) Dot(x, y []float32) float64 {
	checkLength("Dot", len(x), y)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	var sum float64
	for i, n := 0, 0; i < len(x); i += n {
		n = chunk(len(x)-i, sumLanes)
		b.rowsFor(n, sumLanes).dot(&x[i], &y[i], n, &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	return sum
}

// Sum returns the sum of x. It adds in the same order as Dot.
func (b *Backend) Sum(x []float32) float64 {
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	var sum float64
	for i, n := 0, 0; i < len(x); i += n {
		n = chunk(len(x)-i, sumLanes)
		b.rowsFor(n, sumLanes).sum(&x[i], n, &t.lanes)
		sum = addLanes(sum, &t.lanes)
	}
	return sum
}

// scratch holds the arguments that kernels receive by address. Kernels are called through function
// values, so local variables would escape to the heap on every call.
type scratch struct {
	lanes   [sumLanes]float32
	adam    AdamStep
	catchUp [2]float32
	adagrad AdagradStep
	pairs   pairScratch
	many    struct {
		sums    [manyRows]float64
		rows    [manyRows]*float32
		factors [manyRows]float32
	}
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func addLanes(sum float64, lanes *[sumLanes]float32) float64 {
	for _, v := range lanes {
		sum += float64(v)
	}
	return sum
}

// AdamStep holds the constants of a step of Adam (Kingma and Ba, https://arxiv.org/abs/1412.6980):
//
//	m ← Keep1·m + New1·g
//	v ← Keep2·v + New2·g²
//	w ← w − Rate·m / (√(Spread·v) + Epsilon)
//
// In step t, Rate is η/(1 − β₁ᵗ) and Spread is 1/(1 − β₂ᵗ). New1 and New2 are 1 − β₁ and 1 − β₂.
// Keep1 and Keep2 are β₁ᵏ⁺¹ and β₂ᵏ⁺¹ for a row that skipped the previous k steps.
type AdamStep struct {
	Keep1, New1, Keep2, New2 float32
	Rate, Spread             float32
	Epsilon                  float32
}

// NewAdamStep returns the constants of step t ≥ 1 for a row that skipped the given number of steps
// just before step t. In a skipped step, the moments decay without a gradient.
func NewAdamStep(rate, beta1, beta2, epsilon float64, t, skipped int) AdamStep {
	return AdamStep{
		Keep1: float32(math.Pow(beta1, float64(skipped+1))), New1: float32(1 - beta1),
		Keep2: float32(math.Pow(beta2, float64(skipped+1))), New2: float32(1 - beta2),
		Rate:    float32(rate / (1 - math.Pow(beta1, float64(t)))),
		Spread:  float32(1 / (1 - math.Pow(beta2, float64(t)))),
		Epsilon: float32(epsilon),
	}
}

// Adam takes a step with gradient g on the row w with moments m and v. If next is not 0, it is the
// distance, in entries, from w, m and v to the rows of a later step, and Adam prefetches most of
// these rows into L2.
func (b *Backend) Adam(w, m, v, g []float32, s AdamStep, next int) {
	checkLength("Adam", len(w), m, v, g)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	t.adam = s
	for i, n := 0, 0; i < len(w); i += n {
		n = chunk(len(w)-i, rowLanes)
		b.rowsFor(n, rowLanes).adam(&w[i], &m[i], &v[i], &g[i], n, &t.adam.Keep1, 4*next)
	}
}

// AdamCatchUp applies all the steps of lazy Adam that the row w missed because it had no gradient,
// as one step: w ← w − rate·m / (√v + epsilon). The moments m and v do not change. next has the
// same meaning as in Adam.
func (b *Backend) AdamCatchUp(w, m, v []float32, rate, epsilon float32, next int) {
	checkLength("AdamCatchUp", len(w), m, v)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	t.catchUp = [2]float32{rate, epsilon}
	for i, n := 0, 0; i < len(w); i += n {
		n = chunk(len(w)-i, rowLanes)
		b.rowsFor(n, rowLanes).catchUp(&w[i], &m[i], &v[i], n, &t.catchUp[0], 4*next)
	}
}

// AdagradStep holds the constants of a step of Adagrad (Duchi, Hazan and Singer, JMLR 12, 2011):
//
//	v ← v + g²
//	w ← w − Rate·g / (√v + Epsilon)
type AdagradStep struct{ Rate, Epsilon float32 }

// Adagrad takes a step with gradient g on the row w with sums of squares v.
func (b *Backend) Adagrad(w, v, g []float32, s AdagradStep) {
	checkLength("Adagrad", len(w), v, g)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	t.adagrad = s
	for i, n := 0, 0; i < len(w); i += n {
		n = chunk(len(w)-i, rowLanes)
		b.rowsFor(n, rowLanes).adagrad(&w[i], &v[i], &g[i], n, &t.adagrad.Rate)
	}
}
