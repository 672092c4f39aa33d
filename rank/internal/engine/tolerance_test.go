package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTieRange checks that the ends of a range tie with the target, and that the numbers next to
// them outside the range do not.
func TestTieRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 34))
	scores := map[string]func(float64) float64{
		"reference": func(x float64) float64 { return x },
		"margin":    func(x float64) float64 { return 12 + x },
		"root":      func(x float64) float64 { return 9 - math.Sqrt(-x) },
		"factor":    func(x float64) float64 { return 6 + float64(0.01*x) },
	}
	for name, score := range scores {
		for range 200 {
			target := -math.Exp(10 * rng.NormFloat64())
			tolerance := Tolerance{math.Exp(5*rng.NormFloat64() - 10), math.Exp(5*rng.NormFloat64() - 10)}
			if rng.IntN(4) == 0 {
				tolerance = Tolerance{}
			}
			r := tolerance.around(target, score)
			ties := func(x float64) bool {
				width := tolerance.Absolute + float64(tolerance.Relative*math.Abs(score(target)))
				return math.Abs(score(x)-score(target)) <= width
			}
			require.Equal(t, target, r.target)
			require.True(t, r.low <= target && target <= r.high, "%s: %+v", name, r)
			require.True(t, ties(r.low) && ties(r.high), "%s: %+v", name, r)
			require.False(t, ties(math.Nextafter(r.low, math.Inf(-1))), "%s: %+v", name, r)
			require.False(t, ties(math.Nextafter(r.high, math.Inf(1))), "%s: %+v", name, r)
		}
	}
}

func TestTieRangeOfSpecialScores(t *testing.T) {
	identity := func(x float64) float64 { return x }
	for _, x := range []float64{math.Inf(1), math.Inf(-1)} {
		assert.Equal(t, tieRange{x, x, x}, Tolerance{1, 1}.around(x, identity))
	}
	assert.Equal(t, tieRange{-2, 0, 2}, Tolerance{2, 7}.around(0, identity))
	// The score is NaN above 0.
	assert.Zero(t, Tolerance{1, 0}.around(0, func(x float64) float64 { return -math.Sqrt(-x) }).high)
}

func TestPlaces(t *testing.T) {
	numbers := []float64{
		math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 1,
		math.Inf(1),
	}
	for i, x := range numbers {
		assert.Equal(t, x, at(place(x)))
		if i > 0 {
			assert.Less(t, place(numbers[i-1]), place(x))
		}
	}
	assert.Equal(t, place(0), place(math.Copysign(0, -1)))
	assert.Equal(t, place(1)+1, place(math.Nextafter(1, 2)))
}

// TestOutward checks that finite numbers move by more than the rounding error of a sum, that
// infinities stay, and that NaN becomes the infinity in the direction.
func TestOutward(t *testing.T) {
	inf := math.Inf(1)
	for _, x := range []float64{-3, -math.SmallestNonzeroFloat64 * 0x1p60, 1, 7e300} {
		assert.Greater(t, outward(x, 1), x)
		assert.Less(t, outward(x, -1), x)
	}
	for _, x := range []float64{inf, -inf} {
		assert.Equal(t, x, outward(x, 1))
		assert.Equal(t, x, outward(x, -1))
	}
	assert.Equal(t, inf, outward(math.NaN(), 1))
	assert.Equal(t, -inf, outward(math.NaN(), -1))
}
