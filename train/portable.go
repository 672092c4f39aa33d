package train

import (
	"math"
	"math/rand/v2"
)

// The logarithm and the exponential of package math, and so the normal variates of math/rand,
// differ in their last bits from processor to processor. These do not.

// normals draws standard normal variates by Marsaglia's polar method.
type normals struct {
	rng   *rand.Rand
	spare float64
	ready bool
}

func newNormals(seed, stream uint64) *normals {
	return &normals{rng: rand.New(rand.NewPCG(seed, stream))}
}

func (n *normals) next() float64 {
	if n.ready {
		n.ready = false
		return n.spare
	}
	for {
		x, y := uniform(n.rng), uniform(n.rng)
		s := float64(x*x) + float64(y*y)
		if s > 0 && s < 1 {
			f := math.Sqrt(-2 * ln(s) / s)
			n.spare, n.ready = float64(y*f), true
			return float64(x * f)
		}
	}
}

// uniform draws from the multiples of 2⁻⁵² in [−1, 1).
func uniform(rng *rand.Rand) float64 { return float64(int64(rng.Uint64())>>11) / (1 << 52) }

// ln returns the natural logarithm of a normal x > 0 to within a few units in the last place.
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	// ln m = 2 artanh z = 2 (z + z³/3 + z⁵/5 + …) with |z| < 0.172.
	z := (m - 1) / (m + 1)
	square := float64(z * z)
	var sum float64
	for k := 23; k > 0; k -= 2 {
		sum = float64(sum*square) + 1/float64(k)
	}
	return float64(float64(e)*math.Ln2) + float64(2*z*sum)
}

// exp returns e to the power of x ≤ 0 to within a few units in the last place, or 0 where that is
// below 10⁻³⁰⁰.
func exp(x float64) float64 {
	k := math.Round(x / math.Ln2)
	if k < -1000 {
		return 0
	}
	// ln 2 in two parts, the first with so few bits that its product with k is exact.
	const ln2High, ln2Low = 0x1.62e42feep-1, 0x1.a39ef35793c76p-33
	r := (x - float64(k*ln2High)) - float64(k*ln2Low)
	var sum float64
	for _, c := range inverseFactorials {
		sum = float64(sum*r) + c
	}
	return math.Ldexp(sum, int(k))
}

// inverseFactorials are 1/13!, …, 1/1!, 1/0!, the coefficients of eʳ for |r| < 0.35.
var inverseFactorials = func() (c [14]float64) {
	c[13] = 1
	factorial := 1.0
	for n := 1; n < len(c); n++ {
		factorial *= float64(n)
		c[13-n] = 1 / factorial
	}
	return c
}()
