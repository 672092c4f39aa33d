// Package unrounded computes the comparisons of ψ and φ without rounding, for tests.
package unrounded

import (
	"math"
	"math/big"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/kernel"
)

// Compare returns the exact score of ψ and φ, computed from the comparison's definition. For a dot
// product, magnitude is the sum of the absolute values of its terms.
func Compare(c kernel.Comparison, psi, phi []float32) (score *big.Float, magnitude float64) {
	sum := exactly.Of(0)
	difference := func(i int) *big.Float {
		return exactly.Sub(exactly.Of(float64(psi[i])), exactly.Of(float64(phi[i])))
	}
	product := func(i int) *big.Float { return exactly.Of(float64(psi[i]) * float64(phi[i])) }
	absolute := func(x *big.Float) *big.Float { return new(big.Float).Abs(x) }
	switch c {
	case kernel.Dot:
		for i := range psi {
			sum = exactly.Add(sum, product(i))
			magnitude += math.Abs(float64(psi[i]) * float64(phi[i]))
		}
	case kernel.L1:
		for i := range psi {
			sum = exactly.Sub(sum, absolute(difference(i)))
		}
	case kernel.GroupNorm:
		for i := 0; i < len(psi); i += 2 {
			x, y := difference(i), difference(i+1)
			squares := exactly.Add(exactly.Mul(x, x), exactly.Mul(y, y))
			sum = exactly.Sub(sum, new(big.Float).SetPrec(squares.Prec()).Sqrt(squares))
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
	}
	return sum, magnitude
}
