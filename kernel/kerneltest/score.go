package kerneltest

import (
	"math"
	"math/big"
	"slices"

	"github.com/mquine/mquine/kernel"
)

// ExactScore returns the exact score of x and y and the magnitude M to which errors are relative:
// ‖x‖‖y‖, the distance, or their sum (kernel.Comparison.PanelError). finite is false if a term is not
// finite or a square is out of range.
func ExactScore(c kernel.Comparison, x, y []float32) (score *big.Float, measure float64, finite bool) {
	switch c {
	case kernel.Hake:
		return exactHake(x, y)
	case kernel.Expressive:
		return exactExpressive(x, y)
	case kernel.BoxE:
		return exactBoxE(x, y)
	}
	number := func(v float64) *big.Float { return big.NewFloat(v).SetPrec(precision) }
	f := func() *big.Float { return new(big.Float).SetPrec(precision) }
	score = f()
	var xx, yy float64
	for t := 0; t < len(x); t += c.Group() {
		for u := range c.Group() {
			a, b := float64(x[t+u]), float64(y[t+u])
			largest := math.Max(math.Abs(a), math.Abs(b))
			if math.IsNaN(largest) || math.IsInf(largest, 0) || largest > 1e18 && c.Distance() && c.Group() > 1 {
				return nil, 0, false
			}
			xx, yy = xx+a*a, yy+b*b
		}
		a, b := number(float64(x[t])), number(float64(y[t]))
		switch c {
		case kernel.Dot:
			score.Add(score, f().Mul(a, b))
		case kernel.L1:
			score.Sub(score, f().Abs(f().Sub(a, b)))
		case kernel.Phase:
			a1, b1 := number(float64(x[t+1])), number(float64(y[t+1]))
			score.Sub(score, f().Abs(f().Add(f().Mul(a, b), f().Mul(a1, b1))))
		default: // the norms of groups
			squares := f()
			for u := range c.Group() {
				d := f().Sub(number(float64(x[t+u])), number(float64(y[t+u])))
				squares.Add(squares, f().Mul(d, d))
			}
			score.Sub(score, f().Sqrt(squares))
		}
	}
	measure = math.Sqrt(xx) * math.Sqrt(yy)
	if c.Distance() {
		measure, _ = f().Neg(score).Float64()
		if measure > math.MaxFloat32 {
			return nil, 0, false
		}
	}
	return score, measure * (1 + 1e-12), true
}

// precision is the number of bits of exact scores.
const precision = 600

func exactHake(x, y []float32) (score *big.Float, measure float64, finite bool) {
	f := func() *big.Float { return new(big.Float).SetPrec(precision) }
	product := func(a, b float32) *big.Float {
		return f().Mul(big.NewFloat(float64(a)).SetPrec(precision), big.NewFloat(float64(b)).SetPrec(precision))
	}
	if kernel.Hake.MayOverflow(PlainNorm(x), PlainNorm(y)) {
		return nil, 0, false
	}
	score, squares := f(), f()
	for t := range len(x) / 4 {
		q, e := x[4*t:], y[3*t:]
		score.Sub(score, f().Abs(f().Add(product(q[0], e[0]), product(q[1], e[1]))))
		v := f().Sub(product(q[2], 1), product(q[3], e[2]))
		squares.Add(squares, f().Mul(v, v))
	}
	score.Sub(score, f().Sqrt(squares))
	distance, _ := f().Neg(score).Float64()
	return score, (PlainNorm(x)*PlainNorm(y) + distance) * (1 + 1e-12), true
}

// exactExpressive returns the outside score. finite is false unless an x exceeds 1 by more than its
// rounding error in a panel.
func exactExpressive(x, y []float32) (score *big.Float, measure float64, finite bool) {
	number := func(v float32) *big.Float { return big.NewFloat(float64(v)).SetPrec(precision) }
	f := func() *big.Float { return new(big.Float).SetPrec(precision) }
	for _, v := range slices.Concat(x, y) {
		if a := math.Abs(float64(v)); !(a <= math.MaxFloat32) {
			return nil, 0, false
		}
	}
	score = f()
	outside := false
	for t, e := range y {
		for p := x[12*t:][:12]; len(p) > 0; p = p[6:] {
			product := f().Mul(number(p[1]), number(e))
			d := f().Abs(f().Sub(number(p[0]), product))
			z := f().Sub(f().Mul(number(p[2]), d), number(p[3]))
			score.Sub(score, f().Mul(z, z))
			size := f().Add(f().Abs(number(p[0])), f().Abs(product))
			d.Sub(d, size.Mul(size, big.NewFloat(3*kernel.U32)))
			outside = outside || d.Cmp(big.NewFloat(1)) > 0
		}
	}
	return score, kernel.Expressive.PsiNorm(x) * kernel.Expressive.PhiNorm(y), outside
}

func exactBoxE(x, y []float32) (score *big.Float, measure float64, finite bool) {
	number := func(v float32) *big.Float { return big.NewFloat(float64(v)).SetPrec(precision) }
	f := func() *big.Float { return new(big.Float).SetPrec(precision) }
	for _, v := range slices.Concat(x, y) {
		if a := math.Abs(float64(v)); !(a <= 1e18) {
			return nil, 0, false
		}
	}
	if measure = kernel.BoxE.PsiNorm(x) * kernel.BoxE.PhiNorm(y); math.IsInf(measure, 1) {
		return nil, 0, false
	}
	sums := [2]*big.Float{f(), f()}
	for t, e := range y {
		p := x[5*t:][:5]
		den := f().Add(f().Mul(number(p[0]), number(e)), number(0.5))
		d := f().Abs(f().Sub(number(p[1]), f().Quo(number(1), den)))
		outside := f().Sub(f().Mul(number(p[3]), d), number(p[4]))
		if d.Mul(number(p[2]), d); outside.Cmp(d) > 0 {
			d = outside
		}
		sums[t%2].Add(sums[t%2], f().Mul(d, d))
	}
	score = f().Sub(f().Neg(f().Sqrt(sums[0])), f().Sqrt(sums[1]))
	return score, measure, true
}

// PlainScore returns the score of x and y in float64, computed directly from the definition. It is NaN
// if the comparison may leave the pair undecided.
func PlainScore(c kernel.Comparison, x, y []float32) (sum float64) {
	switch c {
	case kernel.Expressive:
		return plainExpressive(x, y)
	case kernel.BoxE:
		return plainBoxE(x, y)
	case kernel.Hake:
		squares := 0.0
		for t := range len(x) / 4 {
			q, e := x[4*t:], y[3*t:]
			sum -= math.Abs(float64(q[0])*float64(e[0]) + float64(q[1])*float64(e[1]))
			v := float64(q[2]) - float64(q[3])*float64(e[2])
			squares += v * v
		}
		return sum - math.Sqrt(squares)
	}
	for t := 0; t < len(x); t += c.Group() {
		a, b := float64(x[t]), float64(y[t])
		switch c {
		case kernel.Dot:
			sum += a * b
		case kernel.L1:
			sum -= math.Abs(a - b)
		case kernel.Phase:
			sum -= math.Abs(a*b + float64(x[t+1])*float64(y[t+1]))
		default: // the norms of groups
			var norm float64
			for u := range c.Group() {
				norm = math.Hypot(norm, float64(x[t+u])-float64(y[t+u]))
			}
			sum -= norm
		}
	}
	return sum
}

// PlainNorm returns a tight upper bound on ‖x‖.
func PlainNorm(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum) * (1 + 1e-9)
}

func plainExpressive(x, y []float32) float64 {
	inside, outside := 0.0, 0.0
	isInside, isOutside := true, false
	for t, e := range y {
		for p := x[12*t:][:12]; len(p) > 0; p = p[6:] {
			product := float64(p[1]) * float64(e)
			d := math.Abs(float64(p[0]) - product)
			in, out := float64(p[5])*d, float64(p[2])*d-float64(p[3])
			inside += in * in
			outside += out * out
			margin := 3 * kernel.U32 * (math.Abs(float64(p[0])) + math.Abs(product))
			isInside = isInside && d <= min(float64(p[4]), 1-margin)
			isOutside = isOutside || d > 1+margin
		}
	}
	switch {
	case isOutside:
		return -outside
	case isInside:
		return -inside
	}
	return math.NaN()
}

func plainBoxE(x, y []float32) float64 {
	var sums [2]float64
	for t, e := range y {
		p := x[5*t:][:5]
		d := math.Abs(float64(p[1]) - 1/(float64(p[0])*float64(e)+0.5))
		d = math.Max(float64(p[2])*d, float64(p[3])*d-float64(p[4]))
		sums[t%2] += d * d
	}
	return -math.Sqrt(sums[0]) - math.Sqrt(sums[1])
}
