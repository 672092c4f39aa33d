package rank

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// This file contains the common parts of the int8 and int16 screens (docs/numerics.md, "Int8 and
// int16 screens"). They turn the coordinates of ψ and φ into coarse and fine codes. int8.go and
// int16.go implement the panels and the bands.

// codeFormat describes a screen of codes.
type codeFormat struct {
	screen Screen
	// compares reports whether the format is for a comparison.
	compares func(kernel.Comparison) bool
	// fast reports whether a machine has the format's kernels in assembly.
	fast func(*kernel.Backend) bool
	// internal is a screen that chooses the format on every machine, or AutoScreen. If it is set,
	// machines with FeatureAMX use the format only if tiles is set, and others only if it is not.
	internal Screen
	tiles    bool
	// fits reports whether the sums for a width fit into int32.
	fits   func(width int) bool
	panels func(*kernel.Backend, kernel.Comparison) kernel.Panels
	layout func(model.Tower) codeLayout
	// strips returns the number of words that the codes of the queries need, both in strips of mr
	// queries and as rows.
	strips func(l codeLayout, queries, mr int) int
	// new returns a screen of codes for dot products, and distance a screen that fits a sample for
	// distances. One of them is nil.
	new      func(codes) screen
	distance func(*screenSample) screen
}

// maxCodedNorm is the norm of a row from which its thresholds are infinite, so that later stages decide all its pairs.
// The proofs of the bands need smaller norms (docs/numerics.md).
const maxCodedNorm = 0x1p60

// roundingShift rounds to an integer: the last bits of its sum with a number are the nearest integer.
const roundingShift = 1.5 * (1 << 52)

// oneStripOfRows is codeFormat.strips of a format that needs the rows of only one strip at a time.
func oneStripOfRows(l codeLayout, queries, mr int) int { return (queries + mr) * l.terms }

// codeFormats lists the formats of all screens of codes.
var codeFormats = []*codeFormat{
	&int16Format, &int8Format, &int16DotFormat, &int8L1Format, &int16NormFormat, &int8PhaseFormat,
}

// serves reports whether a format implements a requested screen on a machine.
func (c *codeFormat) serves(asked Screen, b *kernel.Backend) bool {
	if c.internal != AutoScreen {
		if asked == c.internal {
			return true
		}
		if b.Features.Has(kernel.FeatureAMX) != c.tiles {
			return false
		}
	}
	return asked == c.screen || asked == AutoScreen && c.fast(b)
}

func hasAVX2(b *kernel.Backend) bool { return b.Features.Has(kernel.FeatureAVX2) }

// codeLayout describes a row of stride words. Words [0, len) are the coarse codes, and words [fine,
// fine + len) are the fine codes. Panels hold words [0, terms). Distances have rows of stride words
// with fine codes only.
type codeLayout struct {
	len, fine, stride, terms int
	offset                   uint8 // offset of the candidates' bytes
}

// codes is the common part of the int8 and int16 screens: everything except bands and memory
// layouts.
type codes struct {
	f           *features
	backend     *kernel.Backend
	kernels     kernel.Panels
	layout      codeLayout
	coordinates *coordinates
	groups      []codeGroup
	// Between sortKey and packPanels, sizes holds upper bounds on ‖b‖ and peaks holds the largest
	// absolute value in b, both by row.
	sizes, peaks []float64
}

func (x *codes) common() *codes        { return x }
func (x *codes) panels() kernel.Panels { return x.kernels }
func (x *codes) terms() int            { return x.layout.terms }

// codeGroup describes a panel group: the step of its codes, and upper bounds on ‖b‖, ‖b − coarse‖,
// ‖fine‖ and ‖b − coarse − fine‖ over all its candidates.
type codeGroup struct {
	step, norm, residual, fineNorm, fineResidual float64
}

// codedQuery describes the codes of a row: the step of the codes, and upper bounds on ‖a‖,
// ‖coarse‖, ‖a − coarse‖, ‖fine‖ and ‖a − coarse − fine‖.
type codedQuery struct {
	step, size, norm, residual, fineNorm, fineResidual float64
	// offset and fineOffset are the amounts that the offset of the candidates' bytes adds to a
	// coarse sum and to a fine sum.
	offset, fineOffset float64
	// center is ψ·μ, and centerError bounds its rounding errors.
	center, centerError float64
}

// units converts between sums of the panels and dot products: ψ·φ ≈ center + step·(sum − offset).
type units struct{ center, step, offset float64 }

// sums returns an interval of sums for an interval of ψ·φ, rounded outwards.
func (u units) sums(low, high float64) (lo, hi float64) {
	lo, hi = (low-u.center)/u.step+u.offset, (high-u.center)/u.step+u.offset
	margin := 8 * kernel.U64 * ((max(math.Abs(lo), math.Abs(hi)) + math.Abs(u.offset)) + math.Abs(u.center)/u.step)
	return lo - margin, hi + margin
}

// sortKey returns, for each candidate, the largest absolute value in b, which determines the step
// of a panel group.
func (x *codes) sortKey(ctx context.Context, j *engine.Job) ([]float64, error) {
	f, width := x.f, x.f.Tower.Phi
	x.sizes, x.peaks = make([]float64, f.N), make([]float64, f.N)
	buffers := x.buffers(j)
	err := engine.InChunks(ctx, j.Threads, f.N, 256, func(w, first, last int) {
		j.Phases.Enter(engine.PackPhase)
		for i := first; i < last; i++ {
			x.coordinates.candidate(buffers[w], f.Row(int32(i))[:width])
			x.sizes[i], x.peaks[i] = norm64(buffers[w])*(1+rotation), largest(buffers[w])
		}
	})
	return x.peaks, err
}

// buffers returns memory for coordinates, one buffer for each goroutine.
func (x *codes) buffers(j *engine.Job) [][]float64 {
	buffers := make([][]float64, j.Threads)
	for w := range buffers {
		buffers[w] = make([]float64, int8Width(x.f.Tower.Phi))
	}
	return buffers
}

// packPanels packs the panels. table returns goroutine w's memory for the codes of the panel that
// begins at a position. This memory holds the codes by rows.
func (x *codes) packPanels(ctx context.Context, j *engine.Job, table func(w, position int) []uint32) error {
	f, l, buffers := x.f, x.layout, x.buffers(j)
	x.groups = make([]codeGroup, f.panelGroups())
	terms, lanes := ascending(l.terms), ascending(f.nr)
	defer func() { x.sizes, x.peaks = nil, nil }()
	return f.packGroups(ctx, j, func(group int, rows []int32) {
		g := &x.groups[group]
		for _, i := range rows {
			g.norm, g.step = max(g.norm, x.sizes[i]), max(g.step, x.peaks[i])
		}
		g.step = step(g.step)
	}, func(w, p int, panel []uint32, rows []int32) {
		g, memory := &x.groups[p/groupPanels], table(w, p*f.nr)
		for k, i := range rows {
			row := memory[k*l.stride:]
			x.coordinates.candidate(buffers[w], f.Row(i)[:f.Tower.Phi])
			coarse, fine := kernel.Codes(row[:l.len]), kernel.Codes(row[l.fine:l.fine+l.len])
			code := kernel.CodeInt8(coarse, fine, buffers[w], g.step, l.offset)
			g.residual = max(g.residual, code.Residual+rotation*x.sizes[i])
			g.fineNorm = max(g.fineNorm, code.FineNorm)
			g.fineResidual = max(g.fineResidual, code.FineResidual+rotation*x.sizes[i])
		}
		kernel.PackRows(panel, memory, l.stride, lanes[:len(rows)], terms, f.nr)
	})
}

// codedQueries holds the codes of a block of queries, and memory for computing and comparing them.
type codedQueries struct {
	coded     []codedQuery
	rows      []uint32 // fine and coarse codes in rows of layout.stride words, stored after the strips
	rotated   []float64
	fineSums  []int32
	positions []int32
}

// reserve makes room for the codes of a block of queries.
func (x *codes) reserve(q *packedQueries) {
	if len(q.coded) == 0 {
		q.coded = make([]codedQuery, q.most)
	}
	if n := int8Width(x.f.Tower.Phi); len(q.rotated) != n {
		q.rotated = make([]float64, n)
	}
	q.rows = q.strips[q.most*x.layout.terms:]
}

// code writes the codes of ψ in the given row of v to coarse and fine, which are parts of all.
func (x *codes) code(q *packedQueries, v *engine.Vectors, row int, all, coarse, fine []uint32) {
	clear(all)
	c := &q.coded[row]
	*c = codedQuery{step: 1}
	if !(v.Norms[row] < maxCodedNorm) { // the thresholds of the row will be infinite
		c.norm, c.size = math.Inf(1), math.Inf(1)
		return
	}
	psi := v.Row(row)[:x.f.Tower.Phi]
	x.coordinates.query(q.rotated, psi)
	c.step = step(largest(q.rotated))
	code := kernel.CodeInt8(kernel.Codes(coarse), kernel.Codes(fine), q.rotated, c.step, 0)
	c.size, c.norm, c.fineNorm = norm64(q.rotated)*(1+rotation), code.Norm, code.FineNorm
	c.residual, c.fineResidual = code.Residual+rotation*c.size, code.FineResidual+rotation*c.size
	offset := float64(x.layout.offset)
	c.offset, c.fineOffset = offset*float64(code.Sum), offset*float64(int64(code.Sum)+int64(code.FineSum))
	x.setCenter(c, psi, v.Norms[row])
}

// setCenter computes ψ·μ for the query of ψ, which has the given norm.
func (x *codes) setCenter(c *codedQuery, psi []float32, norm float64) {
	for t, v := range psi {
		c.center += float64(v) * x.coordinates.center[t]
	}
	c.centerError = x.centerError(norm)
}

// centerError bounds the error of ψ·μ, a chain of sums.
func (x *codes) centerError(norm float64) float64 {
	return float64(x.f.Tower.Phi) * kernel.U64 * norm * x.coordinates.norm
}

// margins returns the margins for scores of codes that differ from ψ·φ by at most band.
func (x *codes) margins(c *codedQuery, v *engine.Vectors, row, group int, band float64) margins {
	both := v.Product(row, 0, band, x.f.groupNorms[group]) * engine.Outward
	return margins{
		absolute: both, rounding: both + band, units: units{c.center, c.step * x.groups[group].step, c.offset},
	}
}

// ascending returns 0, 1, 2, … n−1.
func ascending(n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(i)
	}
	return x
}
