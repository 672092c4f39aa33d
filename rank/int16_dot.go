package rank

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// This file contains the screen of two-byte codes in one product (docs/numerics.md, "The int16 screen
// in one product"). The coordinates are balanced and centered but not rotated, because the norm of a
// vector, not its largest entry, determines the step of its codes.

// int16DotFormat puts two-byte codes into the panels. They leave less than a tenth of the pairs that
// one-byte codes leave; float64 scores decide them.
var int16DotFormat = codeFormat{
	screen:   Int16Screen,
	internal: int16OneProduct,
	compares: func(c kernel.Comparison) bool { return c == kernel.Dot },
	fast:     hasAVX2,
	fits:     func(int) bool { return true },
	panels:   func(b *kernel.Backend, _ kernel.Comparison) kernel.Panels { return b.Int16DotPanels() },
	layout: func(t model.Tower) codeLayout {
		words := (t.Phi + kernel.WordCodes - 1) / kernel.WordCodes
		return codeLayout{stride: words, terms: words}
	},
	strips: oneStripOfRows,
	new:    func(c codes) screen { return &int16DotScreen{codes: c} },
}

type int16DotScreen struct {
	codes
	// steps holds the smallest step for each candidate by row, between sortKey and pack.
	steps []float64
}

func (*int16DotScreen) name() Screen { return Int16Screen }

// dotStep returns the smallest step for the codes of x, which has at most the given norm: the norm of
// the codes is at most kernel.MaxInt16Dot, and no code is clipped.
func dotStep(x []float64, norm float64) float64 {
	if norm == 0 {
		return 0
	}
	// Rounding moves each code by half a step.
	most := kernel.MaxInt16Dot - 1 - math.Sqrt(float64(len(x)))/2
	return max(norm/most, largest(x)/math.MaxInt16)
}

// orOne replaces the step of vectors that are all zeros.
func orOne(step float64) float64 {
	if step == 0 {
		return 1
	}
	return step
}

// candidate computes the coordinates of a candidate. It returns an upper bound on their norm, which covers
// their rounding errors, and the smallest step for their codes.
func (x *int16DotScreen) candidate(out []float64, i int32) (size, step float64) {
	x.coordinates.balancedCandidate(out, x.f.Row(i)[:x.f.Tower.Phi])
	size = norm64(out)
	return size, dotStep(out, size)
}

// centerRounding bounds the relative error of a coordinate of a candidate.
const centerRounding = kernel.U64

// include codes the coordinates of a candidate, whose norm is at most size, with the step of a panel
// group, and includes the residual in the bounds of the group.
func (g *codeGroup) include(words []uint32, coordinates []float64, size float64) {
	code := kernel.CodeInt16(kernel.Int16Codes(words), coordinates[:kernel.WordCodes*len(words)], g.step)
	g.residual = max(g.residual, code.Residual+centerRounding*size)
}

// sortKey returns the smallest steps.
func (x *int16DotScreen) sortKey(ctx context.Context, j *engine.Job) ([]float64, error) {
	f, buffers := x.f, x.buffers(j)
	x.sizes, x.steps = make([]float64, f.N), make([]float64, f.N)
	err := engine.InChunks(ctx, j.Threads, f.N, 256, func(w, first, last int) {
		j.Phases.Enter(engine.PackPhase)
		for i := first; i < last; i++ {
			x.sizes[i], x.steps[i] = x.candidate(buffers[w], int32(i))
		}
	})
	return x.steps, err
}

func (x *int16DotScreen) pack(ctx context.Context, j *engine.Job) error {
	f, terms := x.f, x.layout.terms
	x.groups = make([]codeGroup, f.panelGroups())
	order, lanes, buffers := ascending(terms), ascending(f.nr), x.buffers(j)
	tables := make([][]uint32, j.Threads)
	for w := range tables {
		tables[w] = make([]uint32, f.nr*terms)
	}
	defer func() { x.sizes, x.steps = nil, nil }()
	return f.packGroups(ctx, j, func(group int, rows []int32) {
		g := &x.groups[group]
		for _, i := range rows {
			g.norm, g.step = max(g.norm, x.sizes[i]), max(g.step, x.steps[i])
		}
		g.step = orOne(g.step)
	}, func(w, p int, panel []uint32, rows []int32) {
		g := &x.groups[p/groupPanels]
		for k, i := range rows {
			x.candidate(buffers[w], i)
			g.include(tables[w][k*terms:(k+1)*terms], buffers[w], x.sizes[i])
		}
		kernel.PackRows(panel, tables[w], terms, lanes[:len(rows)], order, f.nr)
	})
}

func (x *int16DotScreen) packQueries(q *packedQueries, v *engine.Vectors, n int) {
	x.reserve(q)
	mr, terms := x.kernels.MR, x.layout.terms
	order := ascending(terms)
	for first := 0; first < n; first += mr {
		some := min(mr, n-first)
		for i := range some {
			x.query(&q.coded[first+i], q.rows[i*terms:(i+1)*terms], q.rotated, v, first+i)
		}
		q.packStrip(x.kernels, first, n, q.rows, terms, order)
	}
}

// query writes the codes of ψ in a row of v to words. buffer has room for coordinates.
func (x *int16DotScreen) query(c *codedQuery, words []uint32, buffer []float64, v *engine.Vectors, row int) {
	*c = codedQuery{step: 1}
	if !(v.Norms[row] < maxCodedNorm) { // the thresholds of the row will be infinite
		clear(words)
		c.norm, c.size = math.Inf(1), math.Inf(1)
		return
	}
	psi := v.Row(row)[:x.f.Tower.Phi]
	x.coordinates.balancedQuery(buffer, psi)
	c.size = norm64(buffer)
	c.step = orOne(dotStep(buffer, c.size))
	code := kernel.CodeInt16(kernel.Int16Codes(words), buffer[:kernel.WordCodes*len(words)], c.step)
	c.norm, c.residual = code.Norm, code.Residual
	x.setCenter(c, psi, v.Norms[row])
}

func (x *int16DotScreen) margins(q *packedQueries, v *engine.Vectors, row, group int) margins {
	c, g := &q.coded[row], &x.groups[group]
	return x.codes.margins(c, v, row, group, x.band(c, g))
}

// band bounds |ψ·φ − s| for the candidates of a panel group, where s is the score of the codes.
func (x *int16DotScreen) band(q *codedQuery, g *codeGroup) float64 {
	rounding := kernel.U32 * q.norm * (g.norm + g.residual) // the sum is rounded to float32
	return (q.residual*g.norm + q.norm*g.residual + q.centerError + rounding) * engine.Outward
}

// sampledBands implements sampledScreen.
func (x *int16DotScreen) sampledBands(s *screenSample) func(row, i int) (panel, fine float64) {
	words, buffer := make([]uint32, x.layout.terms), make([]float64, int8Width(x.f.Tower.Phi))
	queries := make([]codedQuery, len(s.Queries))
	for row := range queries {
		x.query(&queries[row], words, buffer, &s.Vectors, row)
	}
	sizes, steps := make([]float64, len(s.rows)), make([]float64, len(s.rows))
	for i, at := range s.rows {
		sizes[i], steps[i] = x.candidate(buffer, at)
	}
	count, groupOf := s.groupsBy(steps)
	groups := make([]codeGroup, count)
	for i := range s.rows {
		g := &groups[groupOf[i]]
		g.norm, g.step = max(g.norm, sizes[i]), max(g.step, steps[i])
	}
	for k := range groups {
		groups[k].step = orOne(groups[k].step)
	}
	for i, at := range s.rows {
		x.candidate(buffer, at)
		groups[groupOf[i]].include(words, buffer, sizes[i])
	}
	return func(row, i int) (panel, fine float64) {
		band := x.band(&queries[row], &groups[groupOf[i]])
		return band, band
	}
}
