package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// The coordinates of the screens of dot products in whole numbers (docs/numerics.md, "Int8 and int16 screens"), in
// which bytes say most about ψ and φ,
//
//	a = R(ψ ∘ 1/w),   b = R((φ − μ) ∘ w),   ψ·φ = ψ·μ + a·b
//
// with the candidates' mean μ, weights w that balance the entries' sizes in queries and candidates,
// and a rotation R that spreads large entries.

// spread is the number of dimensions that the rotation mixes, as a Hadamard matrix.
const spread = 16

// coordinates are those for one slice of candidates. Entry t of a vector goes to
// at[t].
type coordinates struct {
	at      []int32
	center  []float64 // μ
	forward []float64 // w, with a random sign, over the norm √spread of R's rows
	inverse []float64 // 1/w likewise
	norm    float64   // upper bound of ‖μ‖
}

// coordinates writes R((x − μ) ∘ w) of a candidate, or R(x ∘ 1/w) of a query, to out, padded with
// zeros to int8Width. The result is within 8·2⁻⁵³ of its size.
func (c *coordinates) candidate(out []float64, x []float32) {
	clear(out)
	for t, v := range x {
		out[c.at[t]] = (float64(v) - c.center[t]) * c.forward[t]
	}
	rotate(out)
}

func (c *coordinates) query(out []float64, x []float32) {
	clear(out)
	for t, v := range x {
		out[c.at[t]] = float64(v) * c.inverse[t]
	}
	rotate(out)
}

// rotate multiplies every group of spread entries with the Hadamard matrix of ±1.
func rotate(x []float64) {
	// Four numbers at a time stay in registers, for two of the four rounds.
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

// moments returns the mean of rows and the root mean square of what is left of them, or of the rows
// themselves.
func moments(rows [][]float32, width int, centred bool) (mean, rms []float64) {
	mean, rms = make([]float64, width), make([]float64, width)
	n := float64(len(rows))
	if centred {
		for _, row := range rows {
			for t, v := range row[:width] {
				mean[t] += float64(v) / n
			}
		}
	}
	for _, row := range rows {
		for t, v := range row[:width] {
			d := float64(v) - mean[t]
			rms[t] += d * d / n
		}
	}
	for t := range rms {
		rms[t] = math.Sqrt(rms[t])
	}
	return mean, rms
}

// newCoordinates chooses coordinates from samples of ψ and φ.
func newCoordinates(psi, phi [][]float32, width int) *coordinates {
	c := &coordinates{at: make([]int32, width), forward: make([]float64, width), inverse: make([]float64, width)}
	mean, candidates := moments(phi, width, true)
	_, queries := moments(psi, width, false)
	c.center = mean
	const least = 1e-3 // of the mean: entries that the samples hardly show keep a sensible weight
	floor := func(rms []float64) float64 {
		sum := math.SmallestNonzeroFloat32
		for _, v := range rms {
			sum += v / float64(width)
		}
		return least * sum
	}
	floorQ, floorC := floor(queries), floor(candidates)
	groups := int8Width(width) / spread
	for t := range width {
		// Neighbours, which are often of one kind, go to different groups.
		c.at[t] = int32(t%groups*spread + t/groups)
		ratio := math.Sqrt(max(queries[t], floorQ) / max(candidates[t], floorC))
		// A power of two makes the products exact.
		w := math.Ldexp(1, int(math.Round(math.Log2(min(max(ratio, 0x1p-60), 0x1p60)))))
		w *= signOf(t)
		c.forward[t], c.inverse[t] = w/4, 1/(4*w) // √spread = 4
		c.norm += mean[t] * mean[t]
	}
	c.norm = math.Sqrt(c.norm) * engine.Outward
	return c
}

// signOf returns 1 or −1, as good as random, for dimension t.
func signOf(t int) float64 {
	if (uint32(t)*2654435761)>>31 == 1 {
		return -1
	}
	return 1
}

// step returns the scale of codes for entries of at most the given size.
func step(largest float64) float64 {
	if largest == 0 {
		return 1
	}
	return largest / 127
}

func largest(x []float64) (m float64) {
	for _, v := range x {
		if v = math.Abs(v); v > m {
			m = v
		}
	}
	return m
}

// rotation bounds the relative error of the coordinates: a difference and log₂ spread sums.
const rotation = 8 * kernel.U64

// norm64 returns an upper bound of ‖x‖; len(x) is a multiple of 4.
func norm64(x []float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = a+x[0]*x[0], b+x[1]*x[1], c+x[2]*x[2], d+x[3]*x[3]
	}
	return math.Sqrt(a+b+c+d) * engine.Outward
}
