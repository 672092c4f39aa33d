package initial

import (
	"math"
	"math/rand/v2"

	"github.com/mquine/mquine/internal/fmath"
)

// Source is a stream of random numbers. It avoids the elementary functions of package math, whose
// last bits differ between processors.
type Source struct {
	rng   *rand.Rand
	spare float64
	ready bool
}

// NewSource returns the random stream with the given number for a seed. The streams of a seed are
// independent.
func NewSource(seed, stream uint64) *Source { return &Source{rng: rand.New(rand.NewPCG(seed, stream))} }

// Uniform returns a uniform multiple of 2⁻⁵² in [−1, 1).
func (s *Source) Uniform() float64 { return float64(int64(s.rng.Uint64())>>11) / (1 << 52) }

// Normal returns a standard normal variate, by Marsaglia's polar method.
func (s *Source) Normal() float64 {
	if s.ready {
		s.ready = false
		return s.spare
	}
	for {
		x, y := s.Uniform(), s.Uniform()
		square := float64(x*x) + float64(y*y)
		if square > 0 && square < 1 {
			f := math.Sqrt(-2 * fmath.Ln(square) / square)
			s.spare, s.ready = float64(y*f), true
			return float64(x * f)
		}
	}
}
