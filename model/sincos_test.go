package model

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exact computes sines and cosines with math/big in fixed point, with 1,400 bits after the binary
// point.
type exact struct{ pi *big.Int }

const digits = 1400

func one() *big.Int { return new(big.Int).Lsh(big.NewInt(1), digits) }

// newExact computes π by Machin's formula, π = 16 arctan(1/5) − 4 arctan(1/239).
func newExact() exact {
	arctan := func(n int64) *big.Int {
		sum, power := new(big.Int), one()
		power.Quo(power, big.NewInt(n))
		for k := int64(1); power.Sign() != 0; k += 2 {
			term := new(big.Int).Quo(power, big.NewInt(k))
			if k%4 == 1 {
				sum.Add(sum, term)
			} else {
				sum.Sub(sum, term)
			}
			power.Quo(power, big.NewInt(n*n))
		}
		return sum
	}
	pi := new(big.Int).Mul(arctan(5), big.NewInt(16))
	return exact{pi.Sub(pi, new(big.Int).Mul(arctan(239), big.NewInt(4)))}
}

// sinCos sums the Taylor series of sine and cosine at x modulo 2π.
func (e exact) sinCos(x float64) (sin, cos *big.Float) {
	fixed, _ := new(big.Float).SetMantExp(new(big.Float).SetPrec(2*digits).SetFloat64(x), digits).Int(nil)
	twoPi := new(big.Int).Lsh(e.pi, 1)
	fixed.Mod(fixed, twoPi)
	if fixed.Cmp(e.pi) > 0 {
		fixed.Sub(fixed, twoPi)
	}
	sums := [2]*big.Int{new(big.Int), new(big.Int)} // sums of even and of odd powers
	term := one()
	for n := int64(0); term.Sign() != 0; n++ {
		if n%4 < 2 {
			sums[n%2].Add(sums[n%2], term)
		} else {
			sums[n%2].Sub(sums[n%2], term)
		}
		term.Mul(term, fixed)
		term.Rsh(term, digits)
		if term.Sign() < 0 && term.BitLen() <= 1 { // −1 shifts to itself
			term.SetInt64(0)
		}
		term.Quo(term, big.NewInt(n+1))
	}
	float := func(i *big.Int) *big.Float {
		f := new(big.Float).SetPrec(200).SetInt(i)
		return f.SetMantExp(f, -digits)
	}
	return float(sums[1]), float(sums[0])
}

// ulps returns the distance between got and want, in units in the last place of want.
func ulps(got float64, want *big.Float) float64 {
	near, _ := want.Float64()
	unit := math.Nextafter(math.Abs(near), math.Inf(1)) - math.Abs(near)
	diff := new(big.Float).SetPrec(400).SetFloat64(got)
	d, _ := diff.Sub(diff, want).Float64()
	return math.Abs(d) / unit
}

func TestSinCosWithinOneUlp(t *testing.T) {
	e := newExact()
	rng := rand.New(rand.NewPCG(1, 2))
	var angles []float64
	for range 3000 {
		angles = append(angles, (2*rng.Float64()-1)*math.Pi, 20*rng.NormFloat64())
	}
	for range 3000 { // all magnitudes
		angles = append(angles, math.Ldexp(1+rng.Float64(), rng.IntN(1024+60)-60))
	}
	for k := range 400 { // next to multiples of π/4
		x := float64(k) * math.Pi / 4
		angles = append(angles, x, math.Nextafter(x, 0), math.Nextafter(x, math.Inf(1)))
	}
	// These are the float64 number closest to a multiple of π/2, the ends of the range, and the
	// largest phase of a float32 number.
	angles = append(angles, 0x1.6ac5b262ca1ffp+849, math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022,
		math.MaxFloat32*1e30)
	worst := 0.0
	for _, x := range angles {
		sin, cos := sinCos(x)
		wantSin, wantCos := e.sinCos(x)
		if x != 0 && math.Abs(x) > 0x1p-60 { // below, the fixed point has too few digits
			worst = max(worst, ulps(sin, wantSin))
		}
		worst = max(worst, ulps(cos, wantCos))
		require.LessOrEqual(t, worst, 1.0, "x = %v (%x)", x, x)

		minusSin, minusCos := sinCos(-x)
		require.Equal(t, -sin, minusSin)
		require.Equal(t, cos, minusCos)
	}
	t.Logf("at most %.3f units in the last place over %d angles", worst, len(angles))
}

func TestSinCosOfSmall(t *testing.T) {
	for _, x := range []float64{0, math.Copysign(0, -1), 0x1p-1074, -0x1p-1022, 1e-300, -0x1p-60} {
		sin, cos := sinCos(x)
		assert.Equal(t, math.Float64bits(x), math.Float64bits(sin), "%v", x)
		assert.Equal(t, 1.0, cos)
	}
}

// The hash of many results is the same for every build, because every build gives the same bits.
func TestSinCosBits(t *testing.T) {
	h := uint64(14695981039346656037)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		sin, cos := sinCos(math.Ldexp(2*rng.Float64()-1, rng.IntN(200)-40))
		h = (h ^ math.Float64bits(sin)) * 1099511628211
		h = (h ^ math.Float64bits(cos)) * 1099511628211
	}
	assert.Equal(t, uint64(0x480dc5e0fce8cd2a), h)
}

func TestTwoOverPi(t *testing.T) {
	e := newExact()
	quotient := new(big.Int).Lsh(big.NewInt(2), 2*digits)
	quotient.Quo(quotient, e.pi)
	mask := new(big.Int).SetUint64(math.MaxUint64)
	for i, word := range twoOverPi[1:] {
		want := new(big.Int).Rsh(quotient, uint(digits-64*(i+1)))
		assert.Equal(t, want.And(want, mask).Uint64(), word, "word %d", i+1)
	}
	half := new(big.Int).Rsh(e.pi, digits-62)
	assert.InDelta(t, 0, float64(int64(half.Uint64()-halfPi)), 1)
}

func BenchmarkSinCos(b *testing.B) {
	x, sum := 0.1, 0.0
	for b.Loop() {
		s, c := sinCos(x)
		sum += s + c
		x += 0.37
	}
	_ = sum
}
