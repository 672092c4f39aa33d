package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
)

// centering computes coordinates ψ − μ and φ − μ, which have the same distances as ψ and φ.
type centering struct {
	order  []int32   // the entries of φ and ψ in the order of their codes
	center []float64 // μ, in this order
}

// newCentering returns coordinates whose center is the mean of the sampled candidates.
func newCentering(s *screenSample) centering {
	c := centering{s.f.TermOrder, make([]float64, s.f.Tower.Phi)}
	for _, i := range s.rows {
		row := s.f.Row(i)
		for t, from := range c.order {
			c.center[t] += float64(row[from]) / float64(len(s.rows))
		}
	}
	return c
}

func (c *centering) buffer() []float64 { return make([]float64, len(c.center)) }

// centered writes the entries of row − μ to out, and returns the sum of their absolute values. Each
// entry is rounded once.
func (c *centering) centered(out []float64, row []float32) (norm float64) {
	for t, from := range c.order {
		out[t] = float64(row[from]) - c.center[t]
		norm += math.Abs(out[t])
	}
	return norm
}

// codeRounding bounds the roundings of a vector's coordinates, codes and residuals, relative to the
// sum of its absolute values: one for a difference from μ, and two for c·step, which is at most twice
// as large as the coordinate.
const codeRounding = 4 * kernel.U64
