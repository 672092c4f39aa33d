package rank

import (
	"context"
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
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
	arrange(ctx context.Context, e *cpuEngine) error
	pack(ctx context.Context, e *cpuEngine) error
	// packStrips packs ψ of the block's queries.
	packStrips(s *sweeper)
	// setThresholds sets the thresholds of a row's targets for a block of panels.
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
func (f *features) chooseScreen(e *cpuEngine, p engine.Pass) screen {
	const fewest = 64 // queries that are worth the preparation
	width, b, asked := f.Tower.Phi, e.job.Backend, e.screen
	inFloat32 := &float32Screen{f, b.Panels(f.Tower.Compare)}
	formats := asked.codeFormats(f.Tower, b)
	if len(formats) == 0 || asked == AutoScreen && p.Last-p.First < fewest {
		return inFloat32
	}
	pairs, small := f.samplePairs(e, p)
	if !small {
		return inFloat32
	}
	coordinates := newCoordinates(pairs.psi, pairs.phi, width)
	format := formats[0]
	if asked == AutoScreen {
		if format = f.decidesMost(formats, coordinates, pairs, b); format == nil {
			return inFloat32
		}
	}
	return format.new(codes{f: f, kernels: format.panels(b), layout: format.layout(width), coordinates: coordinates})
}

// sample is a sample of ψ and φ.
type sample struct {
	psi     [][]float32
	targets []float64 // the float64 scores of the first targets of the queries
	phi     [][]float32
	rows    []int32 // of the candidates
}

// samplePairs draws queries of a pass and candidates; small is false if a norm is not far from where
// anything could overflow.
func (f *features) samplePairs(e *cpuEngine, p engine.Pass) (pairs sample, small bool) {
	const queries, candidates = 128, 1024
	for _, n := range f.Norms[:f.N] {
		if !(n < 0x1p60) {
			return pairs, false
		}
	}
	for i := 0; i < f.N; i += (f.N + candidates - 1) / candidates {
		pairs.rows, pairs.phi = append(pairs.rows, int32(i)), append(pairs.phi, f.Row(int32(i)))
	}
	w, phi := e.workers.Get(0), kernel.AlignedFloat32(f.Stride())
	sizes, slacks, scores := make([]float64, 1), make([]model.Slack, 1), make([]float64, 1)
	for i := p.First; i < p.Last; i += (p.Last - p.First + queries - 1) / queries {
		q := e.job.Queries[i]
		x := make([]float32, f.Stride())
		w.Queries(q.Side, q.Relation, []int32{q.Anchor}, model.Rows{Values: x, Width: f.Tower.Psi, Stride: f.Stride()}, slacks)
		if !(fmath.Norm(x) < 0x1p60) {
			return pairs, false
		}
		target := e.job.Targets[q.First].Answer
		w.Features(q.Side, q.Relation, []int32{target}, model.Rows{Values: phi, Width: f.Tower.Phi, Stride: f.Stride()}, sizes)
		e.job.Backend.Pair(kernel.Dot, scores, x, phi, f.Stride(), []int32{0})
		pairs.psi, pairs.targets = append(pairs.psi, x), append(pairs.targets, scores[0])
	}
	return pairs, true
}

// decidesMost returns the first format that decides nearly all pairs of a sample, or nil: those whose scores
// are far enough from the target's.
func (f *features) decidesMost(
	formats []*codeFormat, coordinates *coordinates, pairs sample, b *kernel.Backend,
) *codeFormat {
	width := f.Tower.Phi
	n := int8Width(width)
	x, coarse, fine := make([]float64, n), make([]uint8, n), make([]uint8, n)
	code := func() kernel.Int8Code { return kernel.CodeInt8(coarse, fine, x, step(largest(x)), 0) }
	norms, coded := make([]float64, len(pairs.phi)), make([]kernel.Int8Code, len(pairs.phi))
	for j, row := range pairs.phi {
		coordinates.candidate(x, row[:width])
		norms[j], coded[j] = norm64(x), code()
	}
	undecided, scores := make([]int, len(formats)), make([]float64, len(pairs.phi))
	for i, row := range pairs.psi {
		coordinates.query(x, row[:width])
		q := code()
		b.Pair(kernel.Dot, scores, row, f.Rows, f.Stride(), pairs.rows)
		for j, score := range scores {
			for k, format := range formats {
				if math.Abs(score-pairs.targets[i]) <= format.sampleBand(q, coded[j], norms[j]) {
					undecided[k]++
				}
			}
		}
	}
	for k, format := range formats {
		if float64(undecided[k]) < format.mostUndecided*float64(len(pairs.psi)*len(pairs.phi)) {
			return format
		}
	}
	return nil
}
