package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// This file contains the screen of two-byte codes for group norms (docs/numerics.md, "The int16 screen
// of group norms"). Both ψ − μ and φ − μ become codes with the same step in all coordinates, so the
// distance of two vectors is about step times the distance of their codes.

// int16NormFormat puts two-byte codes into the panels. They leave a few times as many pairs undecided as
// float32 scores; float64 scores decide them.
var int16NormFormat = codeFormat{
	screen:   Int16Screen,
	compares: isGroupNorm,
	fast:     hasAVX2,
	fits:     func(int) bool { return true },
	panels: func(b *kernel.Backend, c kernel.Comparison) kernel.Panels {
		return b.Int16NormPanels(c.Group())
	},
	layout:   int16NormLayout,
	strips:   oneStripOfRows,
	distance: func(s *screenSample) screen { return newInt16NormScreen(s) },
}

// isGroupNorm reports whether a comparison is the sum of the norms of groups of several coordinates.
func isGroupNorm(c kernel.Comparison) bool {
	return c.Kind() == kernel.KindGroupNorm || c.Kind() == kernel.KindGroupNormOf
}

func int16NormLayout(t model.Tower) codeLayout {
	group := t.Compare.Group()
	words := t.Phi / group * kernel.Int16NormWords(group)
	return codeLayout{stride: words, terms: words}
}

// normGrid describes codes of groups of coordinates: code c stands for c·step. The codes of a group
// are inside a box and a ball.
type normGrid struct {
	group     int
	step      float64
	box, ball float64 // the largest entries and norms of groups that need not be clipped
}

// newNormGrid returns the grid with a step.
func newNormGrid(group int, step float64) normGrid {
	if !(step > 0x1p-1000) {
		step = 1 // all numbers are 0 or nearly so
	}
	// Rounding moves the codes of a group by half a step each.
	ball := kernel.MaxInt16Norm - 1 - math.Sqrt(float64(group))/2
	return normGrid{group, step, kernel.MostInt16Norm * step, ball * step}
}

// encode writes the codes of x to words, and returns the sum of the distances of the groups from their
// codes. Groups outside the box or the ball get the codes of a shorter vector with the same direction.
func (g *normGrid) encode(words []uint32, x []float64) (residual float64) {
	codes, inverse := kernel.Int16Codes(words), 1/g.step
	perGroup := kernel.WordCodes * kernel.Int16NormWords(g.group)
	for ; len(x) >= g.group; x, codes = x[g.group:], codes[perGroup:] {
		scale := inverse
		if peak, norm := sizeOf(x[:g.group]); peak > g.box || norm > g.ball {
			scale *= min(g.box/peak, g.ball/norm)
		}
		squares := 0.0
		for t, v := range x[:g.group] {
			sum := v*scale + roundingShift
			d := v - float64((sum-roundingShift)*g.step)
			squares += d * d
			codes[t] = uint16(math.Float64bits(sum))
		}
		if perGroup > g.group {
			codes[g.group] = 0
		}
		residual += math.Sqrt(squares)
	}
	return residual
}

// sizeOf returns the largest absolute value in x and ‖x‖.
func sizeOf(x []float64) (peak, norm float64) {
	for _, v := range x {
		peak = max(peak, math.Abs(v))
		norm += v * v
	}
	return peak, math.Sqrt(norm)
}

// int16NormScreen compares codes in the panels.
type int16NormScreen struct {
	centering
	residualCodes
	grid               normGrid
	relative, absolute float64 // bounds on the errors of the panels, for distances of codes
}

func (*int16NormScreen) name() Screen { return Int16Screen }

// newInt16NormScreen returns a screen whose center and grid fit a sample.
func newInt16NormScreen(s *screenSample) *int16NormScreen {
	f, b := s.f, s.Job.Backend
	group := f.Tower.Compare.Group()
	x := &int16NormScreen{
		centering:     newCentering(s),
		residualCodes: residualCodes{f: f, kernels: b.Int16NormPanels(group), layout: int16NormLayout(f.Tower)},
	}
	x.newEncoder = func() rowEncoder {
		coordinates := x.buffer()
		return func(words []uint32, row []float32) float64 { return x.encode(words, coordinates, row) }
	}
	x.relative, x.absolute = b.Int16NormError(f.Tower.Phi/group, group)
	largest, unit := 0.0, newNormGrid(group, 1)
	v := x.buffer()
	see := func(row []float32) {
		x.centered(v, row)
		for at := 0; at < len(v); at += group {
			peak, norm := sizeOf(v[at : at+group])
			largest = max(largest, peak/unit.box, norm/unit.ball)
		}
	}
	for _, i := range s.rows {
		see(f.Row(i))
	}
	for row := range s.Queries {
		if s.Norms[row] < maxCodedNorm {
			see(s.Row(row))
		}
	}
	// Vectors outside the sample may have larger entries than those inside. Parts outside the grid add to
	// a residual.
	const reserve = 1.125
	x.grid = newNormGrid(group, largest*reserve)
	return x
}

// encode writes the codes of a row to words. It returns an upper bound on the sum of the distances of
// its groups from their codes.
func (x *int16NormScreen) encode(words []uint32, coordinates []float64, row []float32) (residual float64) {
	norm := x.centered(coordinates, row)
	return normResidual(x.grid.encode(words, coordinates), norm)
}

// normResidual adds the rounding errors of coordinates, whose absolute values have the given sum, to
// the residual of their codes.
func normResidual(residual, norm float64) float64 {
	return (residual + codeRounding*norm) * engine.Outward
}

func (x *int16NormScreen) packQueries(q *packedQueries, v *engine.Vectors, n int) {
	l, mr := x.layout, x.kernels.MR
	q.reserve(x.f.Tower.Psi)
	if len(q.residuals) == 0 {
		q.residuals = make([]float64, q.most)
	}
	table, terms := q.strips[q.most*l.terms:][:mr*l.terms], ascending(l.terms)
	for first := 0; first < n; first += mr {
		some := min(mr, n-first)
		for i := range some {
			row, codes := first+i, table[i*l.terms:(i+1)*l.terms]
			if !(v.Norms[row] < maxCodedNorm) { // its thresholds will be infinite
				clear(codes)
				q.residuals[row] = math.Inf(1)
				continue
			}
			q.residuals[row] = x.encode(codes, q.coordinates, v.Row(row))
		}
		q.packStrip(x.kernels, first, n, table, l.terms, terms)
	}
}

// band bounds the part of |D − step·Ŝ| that does not depend on the distance D, for a query and a
// candidate with the given sum of residuals, where Ŝ is the computed distance of their codes.
func (x *int16NormScreen) band(residuals float64) float64 {
	return ((1+x.relative)*residuals + x.grid.step*x.absolute) * engine.Outward
}

func (x *int16NormScreen) margins(q *packedQueries, _ *engine.Vectors, row, group int) margins {
	band := x.band(q.residuals[row] + x.groups[group])
	return margins{relative: x.relative, absolute: band, rounding: band, units: units{0, x.grid.step, 0}}
}

// sampledBands implements sampledScreen.
func (x *int16NormScreen) sampledBands(s *screenSample) func(row, i int) (panel, fine float64) {
	coordinates, words := x.buffer(), make([]uint32, x.layout.terms)
	queries, candidates := make([]float64, len(s.Queries)), make([]float64, len(s.rows))
	for row := range queries {
		queries[row] = x.encode(words, coordinates, s.Row(row))
	}
	for i, at := range s.rows {
		candidates[i] = x.encode(words, coordinates, s.f.Row(at))
	}
	largest := s.largestByGroup(candidates)
	return func(row, i int) (panel, fine float64) {
		distance := math.Abs(s.scores[row][i/everyCompared])
		band := x.band(queries[row]+largest[i]) + x.relative*distance
		return band, band
	}
}
