package rank

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Screen is the arithmetic of the first stage of dot products. It affects speed, never a rank.
type Screen uint8

const (
	// AutoScreen chooses the fastest of Float32Screen and the integer screens for which the machine
	// has fast kernels. It estimates their times from a sample, and again from the first queries.
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

// codedScreen is a screen of codes.
type codedScreen interface {
	screen
	common() *codes
	// bands bounds the errors of the panel scores for the candidates of a panel group, and of their
	// fine scores. The bounds are equal if the screen has no fine scores.
	bands(q *codedQuery, g *codeGroup) (panel, fine float64)
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

// codeFormats lists the formats of codes that may be used for a tower, most precise first.
func (s Screen) codeFormats(t model.Tower, b *kernel.Backend) (list []*codeFormat) {
	for _, c := range codeFormats {
		if t.Compare == kernel.Dot && c.fits(t.Phi) && (s == c.screen || s == AutoScreen && b.Features.Has(c.feature)) {
			list = append(list, c)
		}
	}
	return list
}

// option is a screen for a slice of the candidates, with an estimate of the pairs that its panels leave
// undecided.
type option struct {
	screen
	left leftovers
}

// newOptions returns the screens that may be used for the candidates of the slice in a pass.
func (e *cpuEngine) newOptions(ctx context.Context, p engine.Pass) ([]option, error) {
	f, b, queries := e.features, e.job.Backend, p.Last-p.First
	inFloat32 := []option{{screen: &float32Screen{f, b}}}
	formats := e.asked.codeFormats(f.Tower, b)
	if len(formats) == 0 || e.asked == AutoScreen && !e.worthSampling(formats, queries) {
		return inFloat32, nil
	}
	s, err := newSample(ctx, e, p)
	if err != nil || !s.fitsCodes() {
		return inFloat32, err
	}
	var list []option
	if e.asked == AutoScreen {
		list = inFloat32
	}
	coordinates := s.coordinates()
	for _, c := range formats {
		list = append(list, option{screen: c.new(codes{
			f: f, backend: b, kernels: c.panels(b), layout: c.layout(f.Tower.Phi), coordinates: coordinates,
		})})
	}
	if len(list) > 1 {
		for i := range list {
			list[i].left = e.estimate(s, list[i].screen)
		}
	}
	return list, nil
}

// worthSampling reports whether one of the formats would be faster than float32 if it decided all
// pairs, and a sample takes little time in comparison.
func (e *cpuEngine) worthSampling(formats []*codeFormat, queries int) bool {
	c, n, width := e.costs, e.features.N, e.features.Tower.Phi
	inFloat32 := c.packing(Float32Screen, n, width) + c.counting(Float32Screen, queries, n, width, leftovers{})
	sampledQueries, sampledCandidates := sampleSize(queries, n)
	estimating := c.estimating(sampledQueries, sampledCandidates, width)
	return estimating < c.sampling*inFloat32 && slices.ContainsFunc(formats, func(f *codeFormat) bool {
		return estimating+c.packing(f.screen, n, width)+c.counting(f.screen, queries, n, width, leftovers{}) < inFloat32
	})
}

// cheapest returns the option with the lowest estimated cost for a number of queries. The current
// screen need not be packed.
func (e *cpuEngine) cheapest(queries int) option {
	f := e.features
	return slices.MinFunc(e.options, func(x, y option) int {
		cost := func(o option) float64 {
			c := e.costs.counting(o.name(), queries, f.N, f.Tower.Phi, o.left)
			if o.screen != f.screen {
				c += e.costs.packing(o.name(), f.N, f.Tower.Phi)
			}
			return c
		}
		return cmp.Compare(cost(x), cost(y))
	})
}

// reconsider compares the work so far with the estimate, and changes the screen if another screen
// is expected to be faster for the remaining queries.
func (e *cpuEngine) reconsider(ctx context.Context, queries int) error {
	f, now := e.features, e.finished()
	done := float64(now.pairs - e.before.pairs)
	for i := range e.options {
		if o := &e.options[i]; o.screen == f.screen {
			o.left.fine = float64(now.fine-e.before.fine) / done
			o.left.rescored = float64(now.rescored-e.before.rescored) / done
		}
	}
	if best := e.cheapest(queries); best.screen != f.screen {
		return e.pack(ctx, best.screen)
	}
	return nil
}
