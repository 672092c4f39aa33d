package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// The int8 and int16 screens compare ψ and φ in coordinates that bytes represent well
// (docs/numerics.md, "Int8 and int16 screens"):
//
//	a = R(ψ ∘ 1/w),   b = R((φ − μ) ∘ w),   ψ·φ = ψ·μ + a·b
//
// μ is the mean of the candidates. The weights w balance the sizes of the entries in queries and
// candidates. The rotation R spreads large entries.

// spread is the length of a run of dimensions, and rootSpread is its root. The rotation mixes each run
// with a Hadamard matrix.
const (
	spread     = 16
	rootSpread = 4
)

// coordinates describes the coordinates for one slice of candidates. Entry t of a vector moves to
// entry at[t].
type coordinates struct {
	at      []int32
	center  []float64 // μ
	forward []float64 // ±w/√spread: random signs, divided by the norm of R's rows
	inverse []float64 // ±1/(w·√spread)
	norm    float64   // upper bound on ‖μ‖
}

// candidate writes R((x − μ) ∘ w) to out, padded with zeros to int8Width. The relative error of the
// result is at most 8·2⁻⁵³.
func (c *coordinates) candidate(out []float64, x []float32) {
	clear(out)
	for t, v := range x {
		out[c.at[t]] = (float64(v) - c.center[t]) * c.forward[t]
	}
	rotate(out)
}

// query writes R(x ∘ 1/w) to out. The padding and the bound on the error are as in candidate.
func (c *coordinates) query(out []float64, x []float32) {
	clear(out)
	for t, v := range x {
		out[c.at[t]] = float64(v) * c.inverse[t]
	}
	rotate(out)
}

// balancedCandidate writes (x − μ) ∘ w, with signs, to out, padded with zeros. The relative error of
// each entry is at most 2⁻⁵³.
func (c *coordinates) balancedCandidate(out []float64, x []float32) {
	clear(out)
	for t, v := range x {
		out[t] = (float64(v) - c.center[t]) * (rootSpread * c.forward[t])
	}
}

// balancedQuery writes x ∘ 1/w, with the same signs, to out, padded with zeros.
func (c *coordinates) balancedQuery(out []float64, x []float32) {
	clear(out)
	for t, v := range x {
		out[t] = float64(v) * (rootSpread * c.inverse[t])
	}
}

// rotate multiplies every run of spread entries by the Hadamard matrix with entries ±1.
func rotate(x []float64) {
	// Each call computes two of the four rounds for four numbers, in registers.
	four := func(a, b, c, d float64) (float64, float64, float64, float64) {
		a, b, c, d = a+b, a-b, c+d, c-d
		return a + c, b + d, a - c, b - d
	}
	for ; len(x) >= spread; x = x[spread:] {
		g := (*[spread]float64)(x)
		g[0], g[1], g[2], g[3] = four(g[0], g[1], g[2], g[3])
		g[4], g[5], g[6], g[7] = four(g[4], g[5], g[6], g[7])
		g[8], g[9], g[10], g[11] = four(g[8], g[9], g[10], g[11])
		g[12], g[13], g[14], g[15] = four(g[12], g[13], g[14], g[15])
		g[0], g[4], g[8], g[12] = four(g[0], g[4], g[8], g[12])
		g[1], g[5], g[9], g[13] = four(g[1], g[5], g[9], g[13])
		g[2], g[6], g[10], g[14] = four(g[2], g[6], g[10], g[14])
		g[3], g[7], g[11], g[15] = four(g[3], g[7], g[11], g[15])
	}
}

// newCoordinates chooses coordinates from samples of ψ and φ.
func newCoordinates(psi, phi [][]float32, width int) *coordinates {
	balance := engine.NewBalance(psi, phi, width)
	c := &coordinates{
		at: make([]int32, width), center: balance.Mean, forward: make([]float64, width),
		inverse: make([]float64, width),
	}
	runs := int8Width(width) / spread
	for t := range width {
		// Neighbouring entries, which are often similar, go to different runs.
		c.at[t] = int32(t%runs*spread + t/runs)
		w := signOf(t) * math.Ldexp(1, balance.Exponent[t])
		c.forward[t], c.inverse[t] = w/rootSpread, 1/(rootSpread*w)
		c.norm += c.center[t] * c.center[t]
	}
	c.norm = math.Sqrt(c.norm) * engine.Outward
	return c
}

// signOf returns a pseudo-random sign, 1 or −1, for dimension t.
func signOf(t int) float64 {
	if (uint32(t)*2654435761)>>31 == 1 {
		return -1
	}
	return 1
}

// step returns the step of codes for entries with absolute values up to the given size.
func step(largest float64) float64 {
	if largest == 0 {
		return 1
	}
	return largest / 127
}

// largest returns the largest absolute value in x.
func largest(x []float64) (m float64) {
	for _, v := range x {
		if v = math.Abs(v); v > m {
			m = v
		}
	}
	return m
}

// rotation bounds the relative error of the coordinates. Each coordinate is computed with a
// difference and log₂(spread) sums.
const rotation = 8 * kernel.U64

// norm64 returns an upper bound on ‖x‖. len(x) must be a multiple of 4.
func norm64(x []float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = a+x[0]*x[0], b+x[1]*x[1], c+x[2]*x[2], d+x[3]*x[3]
	}
	return math.Sqrt(a+b+c+d) * engine.Outward
}
