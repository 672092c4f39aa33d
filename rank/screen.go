package rank

import (
	"context"
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

// Fits tells whether the screen may be asked for with a comparison: only that of dot products has a choice.
func (s Screen) Fits(c kernel.Comparison) bool { return s == AutoScreen || c == kernel.Dot }

// screen is the first stage for the candidates of a slice, in one format: how they and the queries are
// packed, and what a panel's score proves.
type screen interface {
	name() Screen
	// panels are the kernels, which take terms() coordinates of each candidate.
	panels() kernel.Panels
	terms() int
	// arrange puts the candidates in the order of the panels (features.order), pack makes the panels.
	arrange(ctx context.Context, c *crew) error
	pack(ctx context.Context, c *crew) error
	// packStrips packs ψ of the block's queries.
	packStrips(s *sweeper)
	// setThresholds sets the thresholds of a row's truths for a block of panels.
	setThresholds(s *sweeper, row, block int, slack float64)
	// refine decides what it can of a row's classes in panel p, by more exact scores than the panel's, and
	// tells whether any are left.
	refine(s *sweeper, p int, row int32, pairs []uint64, removed [NumFilters]uint64) bool
}

// codeFormats lists the formats in whole numbers that may be used for a tower, the best first.
func (s Screen) codeFormats(t model.Tower, b *kernel.Backend) (list []*codeFormat) {
	for _, c := range codeFormats {
		if t.Compare == kernel.Dot && c.fits(t.Phi) && (s == c.screen || s == AutoScreen && c.fast(b)) {
			list = append(list, c)
		}
	}
	return list
}

// chooseScreen chooses the screen for the candidates of f, in a pass, and for one in whole numbers the
// coordinates.
func (f *features) chooseScreen(c *crew, p pass) screen {
	width, b := f.tower.Phi, c.run.backend
	inFloat32 := &float32Screen{f, b.Panels(f.tower.Compare)}
	formats := c.run.screen.codeFormats(f.tower, b)
	if len(formats) == 0 {
		return inFloat32
	}
	const (
		queries, candidates = 128, 1024
		fewest              = 64 // queries that are worth the preparation
	)
	if c.run.screen == AutoScreen && p.last-p.first < fewest {
		return inFloat32
	}
	for _, n := range f.norms[:f.n] {
		if !(n < 0x1p60) { // far from where anything could overflow
			return inFloat32
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
			return inFloat32
		}
		s.feature(q, c.run.plan.truths[q.first].answer)
		b.Pair(kernel.Dot, s.scores, x, s.phi, f.stride(), s.ids[:1])
		psi, truths = append(psi, x), append(truths, s.scores[0])
	}
	coordinates := newCoordinates(psi, phi, width)
	with := func(c *codeFormat) screen {
		return c.new(codes{f: f, kernels: c.panels(b), layout: c.layout(width), coordinates: coordinates})
	}
	if c.run.screen != AutoScreen {
		return with(formats[0])
	}

	// The shares of the sampled pairs whose scores are too close to the truth's for the codes.
	x, coarse, fine := make([]float64, int8Width(width)), make([]uint8, int8Width(width)), make([]uint8, int8Width(width))
	norms, coded, scores := make([]float64, len(phi)), make([]kernel.Int8Code, len(phi)), make([]float64, len(phi))
	for j, row := range phi {
		coordinates.candidate(x, row[:width])
		norms[j], coded[j] = norm64(x), kernel.CodeInt8(coarse, fine, x, step(largest(x)), 0)
	}
	undecided := make([]int, len(formats))
	for i, row := range psi {
		coordinates.query(x, row[:width])
		q := kernel.CodeInt8(coarse, fine, x, step(largest(x)), 0)
		b.Pair(kernel.Dot, scores, row, f.rows, f.stride(), rows)
		for j, score := range scores[:len(phi)] {
			for k, format := range formats {
				if math.Abs(score-truths[i]) <= format.sampleBand(q, coded[j], norms[j]) {
					undecided[k]++
				}
			}
		}
	}
	for k, format := range formats {
		if float64(undecided[k]) < format.mostUndecided*float64(len(psi)*len(phi)) {
			return with(format)
		}
	}
	return inFloat32
}
