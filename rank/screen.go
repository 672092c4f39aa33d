package rank

import (
	"context"
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Screen is the arithmetic of the first stage of dot products. It affects speed, never a rank.
type Screen uint8

const (
	// AutoScreen chooses the first of Int16Screen and Int8Screen for which the machine has fast
	// kernels and which decides enough pairs of a sample. If there is none, it chooses
	// Float32Screen.
	AutoScreen Screen = iota
	// Float32Screen compares in float32.
	Float32Screen
	// Int8Screen compares integer codes with one byte for each coordinate.
	Int8Screen
	// Int16Screen compares integer codes with two bytes for each coordinate.
	Int16Screen
)

// String returns "auto", "float32", "int8" or "int16".
func (s Screen) String() string { return [...]string{"auto", "float32", "int8", "int16"}[s] }

// Fits reports whether Options may request the screen for a comparison. Only dot products offer a
// choice.
func (s Screen) Fits(c kernel.Comparison) bool { return s == AutoScreen || c == kernel.Dot }

// screen is the first stage for the candidates of a slice, in one format. It packs candidates and
// queries, and bounds the errors of a panel's scores.
type screen interface {
	name() Screen
	// panels returns the kernels, which read terms() coordinates of each candidate.
	panels() kernel.Panels
	terms() int
	// sortKey returns a key for each row. Panels hold the candidates in ascending order of their
	// keys.
	sortKey(ctx context.Context, j *engine.Job) ([]float64, error)
	// pack packs the candidates into the panels.
	pack(ctx context.Context, j *engine.Job) error
	// packQueries packs the first n rows of v into q.
	packQueries(q *packedQueries, v *engine.Vectors, n int)
	// margins returns the margins of the scores of a row in a panel group.
	margins(q *packedQueries, v *engine.Vectors, row, group int) margins
}

// refiner is a screen with scores that are finer than the panels'.
type refiner interface {
	// refine sets the intervals of candidates in a panel that its scores for a row leave undecided.
	// band bounds the error of the finer scores.
	refine(q *packedQueries, row, panel int, scores []float32, band float64, open []duplicates)
}

// packedQueries are the queries of a block as the kernels of a screen read them.
type packedQueries struct {
	most   int      // queries in a block
	strips []uint32 // [row/MR][terms][MR]
	ids    []int32  // 0, 1, 2, …
	codedQueries
}

// codeFormats lists the formats of codes that may be used for a tower, best first.
func (s Screen) codeFormats(t model.Tower, b *kernel.Backend) (list []*codeFormat) {
	for _, c := range codeFormats {
		if t.Compare == kernel.Dot && c.fits(t.Phi) && (s == c.screen || s == AutoScreen && b.Features.Has(c.feature)) {
			list = append(list, c)
		}
	}
	return list
}

// chooseScreen returns the screen for the candidates of f in a pass. w computes the ψ of a sample
// of queries.
func chooseScreen(j *engine.Job, w model.Worker, f *features, asked Screen, p engine.Pass) screen {
	const fewest = 64 // fewer queries do not repay the preparation
	width, inFloat32 := f.Tower.Phi, &float32Screen{f, j.Backend}
	formats := asked.codeFormats(f.Tower, j.Backend)
	if len(formats) == 0 || asked == AutoScreen && p.Last-p.First < fewest {
		return inFloat32
	}
	pairs, small := samplePairs(j, w, f, p)
	if !small {
		return inFloat32
	}
	coordinates := newCoordinates(pairs.psi, pairs.phi, width)
	format := formats[0]
	if asked == AutoScreen {
		if format = decidesMost(formats, j.Backend, f, coordinates, pairs); format == nil {
			return inFloat32
		}
	}
	return format.new(codes{
		f: f, backend: j.Backend, kernels: format.panels(j.Backend), layout: format.layout(width),
		coordinates: coordinates,
	})
}

// sample holds ψ of some queries and φ of some candidates.
type sample struct {
	psi     [][]float32
	targets []float64 // the float64 score of the first target of each query
	phi     [][]float32
	rows    []int32 // of the candidates
}

// samplePairs draws queries of a pass, and candidates. small is false if a norm is so large that a
// score might overflow.
func samplePairs(j *engine.Job, w model.Worker, f *features, p engine.Pass) (pairs sample, small bool) {
	const queries, candidates = 128, 1024
	for _, n := range f.Norms[:f.N] {
		if !(n < 0x1p60) {
			return pairs, false
		}
	}
	for i := 0; i < f.N; i += (f.N + candidates - 1) / candidates {
		pairs.rows, pairs.phi = append(pairs.rows, int32(i)), append(pairs.phi, f.Row(int32(i)))
	}
	phi := kernel.AlignedFloat32(f.Stride())
	sizes, slacks, scores := make([]float64, 1), make([]model.Slack, 1), make([]float64, 1)
	for i := p.First; i < p.Last; i += (p.Last - p.First + queries - 1) / queries {
		q := j.Queries[i]
		x := make([]float32, f.Stride())
		rows := model.Rows{Values: x, Width: f.Tower.Psi, Stride: f.Stride()}
		w.Queries(q.Side, q.Relation, []int32{q.Anchor}, rows, slacks)
		if !(fmath.Norm(x) < 0x1p60) {
			return pairs, false
		}
		target := j.Targets[q.First].Answer
		rows = model.Rows{Values: phi, Width: f.Tower.Phi, Stride: f.Stride()}
		w.Features(q.Side, q.Relation, []int32{target}, rows, sizes)
		j.Backend.Pair(kernel.Dot, scores, x, phi, f.Stride(), []int32{0})
		pairs.psi, pairs.targets = append(pairs.psi, x), append(pairs.targets, scores[0])
	}
	return pairs, true
}

// decidesMost returns the first format that leaves less than its mostUndecided share of a sample's
// pairs undecided, or nil if there is none. A format decides a pair if the candidate's score is far
// enough from the target's.
func decidesMost(
	formats []*codeFormat, b *kernel.Backend, f *features, coordinates *coordinates, pairs sample,
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
