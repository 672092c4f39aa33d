package rank

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// Screen is the arithmetic of the first stage of dot products. It changes no rank.
type Screen uint8

const (
	// AutoScreen is Int16Screen or else Int8Screen where the machine computes it fast and a sample of
	// queries promises that it decides nearly all candidates, else Float32Screen.
	AutoScreen Screen = iota
	// Float32Screen compares in float32.
	Float32Screen
	// Int8Screen compares bytes with scales.
	Int8Screen
	// Int16Screen compares pairs of bytes with scales.
	Int16Screen
)

// String returns "auto", "float32", "int8" or "int16".
func (s Screen) String() string { return [...]string{"auto", "float32", "int8", "int16"}[s] }

// comparison is what the panels of a screen compute.
func (s Screen) comparison() kernel.Comparison {
	return [...]kernel.Comparison{Float32Screen: kernel.Dot, Int8Screen: kernel.Int8, Int16Screen: kernel.Int16}[s]
}

// terms is the number of terms of a candidate in the panels of a screen of codes.
func (s Screen) terms(width int) int {
	if s == Int16Screen {
		return int16Terms(width)
	}
	return int8Words(width)
}

// codes lists the screens in whole numbers that may be used for a tower, the best first.
func (s Screen) codes(t model.Tower, b *kernel.Backend) (list []Screen) {
	for _, c := range []struct {
		screen Screen
		fast   bool
		fits   bool
	}{
		{Int16Screen, b.FastInt16(), int16Terms(t.Phi) <= kernel.MaxInt16},
		{Int8Screen, b.FastInt8(), 2*int8Words(t.Phi) <= kernel.MaxInt8}, // pairs of bytes have twice the terms
	} {
		if t.Compare == kernel.Dot && c.fits && (s == c.screen || s == AutoScreen && c.fast) {
			list = append(list, c.screen)
		}
	}
	return list
}

// mostUndecided is the share of the sampled pairs that a screen may leave under AutoScreen. What the
// int8 screen leaves costs the next stage some three times what a float32 panel needs for it, of which bytes save
// three quarters; and panels leave more than the sample, as a block shares one step. What the int16 screen
// leaves goes to float64, which costs some fifty times as much as a float32 panel.
var mostUndecided = [...]float64{Int8Screen: 0.15, Int16Screen: 0.01}

// chooseScreen chooses the screen of dot products for the candidates of f, in a pass, and for one in
// whole numbers the coordinates.
func (f *features) chooseScreen(c *crew, p pass) Screen {
	width, b := f.tower.Phi, c.run.backend
	screens := c.run.screen.codes(f.tower, b)
	if len(screens) == 0 {
		return Float32Screen
	}
	const (
		queries, candidates = 128, 1024
		fewest              = 64 // queries that are worth the preparation
	)
	if c.run.screen == AutoScreen && p.last-p.first < fewest {
		return Float32Screen
	}
	for _, n := range f.norms[:f.n] {
		if !(n < 0x1p60) { // far from where anything could overflow
			return Float32Screen
		}
	}
	s := c.member(0)
	rows := make([]int32, 0, candidates)
	phi := make([][]float32, 0, candidates)
	for i := 0; i < f.n; i += (f.n + candidates - 1) / candidates {
		rows, phi = append(rows, int32(i)), append(phi, f.row(int32(i)))
	}
	var psi [][]float32
	var truths []float64 // the float64 scores of their first truths
	for i := p.first; i < p.last; i += (p.last - p.first + queries - 1) / queries {
		q := c.run.plan.queries[i]
		x := make([]float32, f.stride())
		s.worker.Queries(q.Side, q.Relation, []int32{q.Anchor},
			model.Rows{Values: x, Width: f.tower.Psi, Stride: f.stride()}, s.slacks)
		if !(fmath.Norm(x) < 0x1p60) {
			return Float32Screen
		}
		s.feature(q, c.run.plan.truths[q.first].answer)
		b.Pair(kernel.Dot, s.scores, x, s.phi, f.stride(), s.ids[:1])
		psi, truths = append(psi, x), append(truths, s.scores[0])
	}
	f.coordinates = newCoordinates(psi, phi, width)
	if c.run.screen != AutoScreen {
		return screens[0]
	}

	// The shares of the sampled pairs whose scores are too close to the truth's for the codes.
	x, coarse, fine := make([]float64, int8Width(width)), make([]float32, int8Words(width)), make([]float32, int8Words(width))
	norms, codes, scores := make([]float64, len(phi)), make([]kernel.Int8Code, len(phi)), make([]float64, len(phi))
	for j, row := range phi {
		f.coordinates.candidate(x, row[:width])
		norms[j], codes[j] = norm64(x), kernel.CodeInt8(coarse, fine, x, step(largest(x)), 0)
	}
	var undecided [Int16Screen + 1]int
	for i, row := range psi {
		f.coordinates.query(x, row[:width])
		q := kernel.CodeInt8(coarse, fine, x, step(largest(x)), 0)
		b.Pair(kernel.Dot, scores, row, f.rows, f.stride(), rows)
		for j, score := range scores[:len(phi)] {
			e := codes[j]
			apart := math.Abs(score - truths[i])
			if apart <= q.Residual*norms[j]+q.Norm*e.Residual {
				undecided[Int8Screen]++
			}
			if apart <= q.FineNorm*e.FineNorm+q.FineResidual*norms[j]+q.Norm*e.FineResidual {
				undecided[Int16Screen]++
			}
		}
	}
	for _, s := range screens {
		if float64(undecided[s]) < mostUndecided[s]*float64(len(psi)*len(phi)) {
			return s
		}
	}
	return Float32Screen
}
