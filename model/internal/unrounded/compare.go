// Package unrounded computes the comparisons of ψ and φ without rounding, for tests.
package unrounded

import (
	"math"
	"math/big"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/kernel"
)

// Compare returns the exact score of ψ and φ, computed from the comparison's definition. For a dot
// product, magnitude is the sum of the absolute values of its terms. The score is nil if the
// comparison leaves the pair undecided.
func Compare(c kernel.Comparison, psi, phi []float32) (score *big.Float, magnitude float64) {
	sum := exactly.Of(0)
	difference := func(i int) *big.Float {
		return exactly.Sub(exactly.Of(float64(psi[i])), exactly.Of(float64(phi[i])))
	}
	product := func(i int) *big.Float { return exactly.Of(float64(psi[i]) * float64(phi[i])) }
	absolute := func(x *big.Float) *big.Float { return new(big.Float).Abs(x) }
	switch c {
	case kernel.Expressive:
		return expressive(psi, phi), 0
	case kernel.BoxE:
		return boxE(psi, phi), 0
	case kernel.Dot:
		for i := range psi {
			sum = exactly.Add(sum, product(i))
			magnitude += math.Abs(float64(psi[i]) * float64(phi[i]))
		}
	case kernel.L1:
		for i := range psi {
			sum = exactly.Sub(sum, absolute(difference(i)))
		}
	case kernel.Phase:
		for i := 0; i < len(psi); i += 2 {
			sum = exactly.Sub(sum, absolute(exactly.Add(product(i), product(i+1))))
		}
	case kernel.Hake:
		squares := exactly.Of(0)
		times := func(x, y float32) *big.Float { return exactly.Of(float64(x) * float64(y)) }
		for i := range len(psi) / 4 {
			q, e := psi[4*i:], phi[3*i:]
			sum = exactly.Sub(sum, absolute(exactly.Add(times(q[0], e[0]), times(q[1], e[1]))))
			v := exactly.Sub(exactly.Of(float64(q[2])), times(q[3], e[2]))
			squares = exactly.Add(squares, exactly.Mul(v, v))
		}
		sum = exactly.Sub(sum, new(big.Float).SetPrec(squares.Prec()).Sqrt(squares))
	default: // the norms of groups
		for i := 0; i < len(psi); i += c.Group() {
			squares := exactly.Of(0)
			for u := range c.Group() {
				x := difference(i + u)
				squares = exactly.Add(squares, exactly.Mul(x, x))
			}
			sum = exactly.Sub(sum, new(big.Float).SetPrec(squares.Prec()).Sqrt(squares))
		}
	}
	return sum, magnitude
}

// expressive returns the score for a pair outside the parallelogram if some x plus its rounding
// error exceeds 1, because a panel may then compute that score. Otherwise, it returns the score for
// a pair inside if every x is at most its bound l, and nil if some x is larger.
func expressive(psi, phi []float32) *big.Float {
	of := func(x float32) *big.Float { return exactly.Of(float64(x)) }
	inside, outside := exactly.Of(0), exactly.Of(0)
	isInside, isOutside := true, false
	for i, e := range phi {
		for p := psi[12*i:][:12]; len(p) > 0; p = p[6:] {
			product := exactly.Mul(of(p[1]), of(e))
			x := new(big.Float).Abs(exactly.Sub(of(p[0]), product))
			in, out := exactly.Mul(of(p[5]), x), exactly.Sub(exactly.Mul(of(p[2]), x), of(p[3]))
			inside = exactly.Sub(inside, exactly.Mul(in, in))
			outside = exactly.Sub(outside, exactly.Mul(out, out))
			isInside = isInside && x.Cmp(of(p[4])) <= 0
			size := exactly.Add(new(big.Float).Abs(of(p[0])), new(big.Float).Abs(product))
			most := exactly.Add(x, exactly.Mul(exactly.Of(3*kernel.U32), size))
			isOutside = isOutside || most.Cmp(exactly.Of(1)) > 0
		}
	}
	switch {
	case isOutside:
		return outside
	case isInside:
		return inside
	}
	return nil
}

// boxE returns minus the sum of the norms of the distances from the two boxes.
func boxE(psi, phi []float32) *big.Float {
	of := func(x float32) *big.Float { return exactly.Of(float64(x)) }
	sums := [2]*big.Float{exactly.Of(0), exactly.Of(0)}
	for i, e := range phi {
		p := psi[5*i:][:5]
		y := exactly.Add(exactly.Mul(of(p[0]), of(e)), exactly.Of(0.5))
		x := new(big.Float).Abs(exactly.Sub(of(p[1]), exactly.Quo(exactly.Of(1), y)))
		d, outside := exactly.Mul(of(p[2]), x), exactly.Sub(exactly.Mul(of(p[3]), x), of(p[4]))
		if outside.Cmp(d) > 0 {
			d = outside
		}
		sums[i%2] = exactly.Add(sums[i%2], exactly.Mul(d, d))
	}
	root := func(x *big.Float) *big.Float { return new(big.Float).SetPrec(x.Prec()).Sqrt(x) }
	return exactly.Sub(exactly.Sub(exactly.Of(0), root(sums[0])), root(sums[1]))
}
