package kerneltest

import (
	"math"
	"math/big"

	"github.com/mquine/mquine/kernel"
)

// ExactScore returns the exact score of x and y and the magnitude M to which errors are relative:
// ‖x‖‖y‖, the distance, or their sum (kernel.Comparison.PanelError). finite is false if a term is not
// finite or a square is out of range.
func ExactScore(c kernel.Comparison, x, y []float32) (score *big.Float, measure float64, finite bool) {
	if c == kernel.Hake {
		return exactHake(x, y)
	}
	number := func(v float64) *big.Float { return big.NewFloat(v).SetPrec(precision) }
	f := func() *big.Float { return new(big.Float).SetPrec(precision) }
	score = f()
	var xx, yy float64
	for t := 0; t < len(x); t += c.Group() {
		for u := range c.Group() {
			a, b := float64(x[t+u]), float64(y[t+u])
			largest := math.Max(math.Abs(a), math.Abs(b))
			if math.IsNaN(largest) || math.IsInf(largest, 0) || largest > 1e18 && c == kernel.GroupNorm {
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
		default:
			a1, b1 := number(float64(x[t+1])), number(float64(y[t+1]))
			if c == kernel.Phase {
				score.Sub(score, f().Abs(f().Add(f().Mul(a, b), f().Mul(a1, b1))))
				break
			}
			d, e := f().Sub(a, b), f().Sub(a1, b1)
			score.Sub(score, f().Sqrt(f().Add(f().Mul(d, d), f().Mul(e, e))))
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

// PlainScore returns the score of x and y in float64, computed directly from the definition.
func PlainScore(c kernel.Comparison, x, y []float32) (sum float64) {
	if c == kernel.Hake {
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
		case kernel.GroupNorm:
			sum -= math.Hypot(a-b, float64(x[t+1])-float64(y[t+1]))
		case kernel.Phase:
			sum -= math.Abs(a*b + float64(x[t+1])*float64(y[t+1]))
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
