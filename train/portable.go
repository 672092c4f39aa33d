package train

import (
	"math"
	"math/rand/v2"
)

// The elementary functions of package math, and so the normal variates of math/rand, differ in
// their last bits from processor to processor. These do not.

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

// inverseFactorials are 1/13!, …, 1/1!, 1/0!, the coefficients of eʳ, and of the sine and
// the cosine of r.
var inverseFactorials = func() (c [14]float64) {
	c[13] = 1
	factorial := 1.0
	for n := 1; n < len(c); n++ {
		factorial *= float64(n)
		c[13-n] = 1 / factorial
	}
	return c
}()

// sinCos returns the sine and the cosine of an x of up to some thousand turns, to within 10⁻¹².
func sinCos(x float64) (sin, cos float64) {
	k := math.Round(x / (math.Pi / 2))
	// π/2 in two parts, the first with so few bits that its product with k is exact.
	const high, low = 0x1.921fb544p+0, 0x1.0b4611a626331p-34
	r := (x - float64(k*high)) - float64(k*low)
	square := float64(r * r)
	for n := len(inverseFactorials) - 2; n >= 0; n -= 2 {
		sin = inverseFactorials[len(inverseFactorials)-2-n] - float64(sin*square)
		cos = inverseFactorials[len(inverseFactorials)-1-n] - float64(cos*square)
	}
	sin = float64(r * sin)
	switch int64(k) & 3 {
	case 1:
		sin, cos = cos, -sin
	case 2:
		sin, cos = -sin, -cos
	case 3:
		sin, cos = -cos, sin
	}
	return sin, cos
}
