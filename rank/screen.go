package rank

import (
	"context"
	"slices"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Screen is the arithmetic of the first stage of dot products, L1 distances, group norms and phases. It
// affects speed, never a rank.
type Screen uint8

const (
	// AutoScreen chooses the fastest of Float32Screen and the integer screens for which the machine
	// has fast kernels. It estimates their times from a sample, and again from the first queries.
	AutoScreen Screen = iota
	// Float32Screen compares in float32.
	Float32Screen
	// Int8Screen compares integer codes with one byte for each coordinate.
	Int8Screen
	// Int16Screen compares integer codes with two bytes for each coordinate. For dot products, machines
	// with AMX use other codes than machines without.
	Int16Screen
	// Float64Pairs is the screen in Stats for a ranking among Negatives: float64 scores of one pair after the other.
	// Options cannot choose it.
	Float64Pairs
	// int16Tiles is the kind of Int16Screen for dot products that needs AMX tiles to be fast. Tests ask
	// for it on every machine.
	int16Tiles
	// int16OneProduct is the kind of Int16Screen for dot products on machines without AMX.
	int16OneProduct
	// OnlyReference is the screen in Stats for a ranking of relations: reference scores alone. Options cannot choose
	// it.
	OnlyReference
	// halfScreen is the screen of GPUs for dot products, on tensor cores. Options cannot choose it.
	halfScreen
)

// String returns "auto", "float32", "int8" or "int16", "fp16" for a ranking on the tensor cores of GPUs,
// "float64" for a ranking among Negatives, and "reference" for a ranking of relations.
func (s Screen) String() string { return text.Name(screenNames, s, "Screen") }

var screenNames = []string{"auto", "float32", "int8", "int16", "float64", "int16", "int16", "reference", "fp16"}

// Fits reports whether Options may request the screen for a comparison. Only dot products, L1
// distances, group norms and phases offer a choice. Int8Screen is not for group norms, and Int16Screen
// is not for L1 distances and phases.
func (s Screen) Fits(c kernel.Comparison) bool {
	if s == AutoScreen {
		return true
	}
	return slices.ContainsFunc(codeFormats, func(f *codeFormat) bool {
		return f.compares(c) && (s == Float32Screen || s == f.screen || s == f.internal)
	})
}

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

// codedScreen is a screen of codes for dot products.
type codedScreen interface {
	screen
	common() *codes
	// bands bounds the errors of the panel scores for the candidates of a panel group, and of their
	// fine scores. The bounds are equal if the screen has no fine scores.
	bands(q *codedQuery, g *codeGroup) (panel, fine float64)
}

// sampledScreen is a screen that bounds the errors of its scores in a sample by itself.
type sampledScreen interface {
	screen
	// sampledBands returns a function that bounds the errors of the panel scores and of the fine scores
	// of a sampled query and candidate. The bounds are equal if the screen has no fine scores.
	sampledBands(s *screenSample) func(row, i int) (panel, fine float64)
}

// refiner is a screen with scores that are finer than the panels'.
type refiner interface {
	// refine sets the intervals of the candidates that a panel's scores for a row leave undecided.
	// band bounds the error of the finer scores.
	refine(q *packedQueries, row, panel int, scores []float32, band float64, open []duplicates)
}

// packedQueries holds the queries of a block in the layout that the kernels of a screen read.
type packedQueries struct {
	most   int      // queries in a block
	strips []uint32 // packed by Panels.PackStrip
	ids    []int32  // 0, 1, 2, …
	codedQueries
	distanceQueries
}

// packStrip packs the strip that begins with query first, of n queries in all. table holds the queries of the strip, in
// rows of stride words.
func (q *packedQueries) packStrip(p kernel.Panels, first, n int, table []uint32, stride int, terms []int32) {
	p.PackStrip(q.strips, first/p.MR, (n+p.MR-1)/p.MR, table, stride, q.ids[:min(p.MR, n-first)], terms)
}

// formatsFor lists the formats of codes that may be used for a tower.
func (s Screen) formatsFor(t model.Tower, b *kernel.Backend) (list []*codeFormat) {
	for _, c := range codeFormats {
		if c.serves(s, b) && c.compares(t.Compare) && c.fits(t.Phi) {
			list = append(list, c)
		}
	}
	return list
}
