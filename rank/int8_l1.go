package rank

import (
	"context"
	"math"
	"math/bits"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// This file contains the screen of one-byte codes for L1 distances (docs/numerics.md, "The int8
// screen of L1 distances"). Both ψ − μ and φ − μ become codes with the same step in all
// coordinates, so the distance of two vectors is about step times the distance of their codes.

// int8L1Format puts one-byte codes into the panels. They leave a few percent of the pairs undecided.
// Two-byte codes, stored behind the panels, decide nearly all of these.
var int8L1Format = codeFormat{
	screen:   Int8Screen,
	compares: func(c kernel.Comparison) bool { return c == kernel.L1 },
	fast:     hasAVX2,
	fits: func(width int) bool {
		return int8L1Units(width) <= kernel.MaxInt8L1 && int16L1Stride(width) <= kernel.MaxInt16L1
	},
	panels: func(b *kernel.Backend, _ kernel.Comparison) kernel.Panels { return b.Int8L1Panels() },
	layout: int8L1Layout,
	strips: func(l codeLayout, queries, mr int) int {
		return queries*(l.terms+l.stride) + mr*l.terms // the coarse codes of one strip by rows
	},
	distance: func(s *screenSample) screen { return newInt8L1Screen(s) },
}

func int8L1Layout(t model.Tower) codeLayout {
	return codeLayout{stride: int16L1Stride(t.Phi), terms: kernel.UnitWords * int8L1Units(t.Phi)}
}

// int8L1Units returns the number of units of one-byte codes for a width.
func int8L1Units(width int) int {
	const codes = kernel.UnitWords * kernel.WordBytes
	return (width + codes - 1) / codes
}

// int16L1Stride returns the length in words of a row of two-byte codes for kernel.PairInt16L1.
func int16L1Stride(width int) int {
	const pad = kernel.CodePairWidth
	return ((width+1)/2 + pad - 1) / pad * pad
}

// grid describes codes of numbers: code c stands for c·step, and |c| ≤ most. offset makes codes in
// memory positive.
type grid struct {
	step, most, end float64 // end = most·step
	offset          uint16
}

// coarseGrid and fineGrid return grids of one-byte and of two-byte codes.
func coarseGrid(step float64) grid { return newGrid(step, 127, 128) }
func fineGrid(step float64) grid   { return newGrid(step, 16383, 16384) }

func newGrid(step, most float64, offset uint16) grid {
	if !(step > 0x1p-1000) {
		step = 1 // all numbers are 0 or nearly so
	}
	return grid{step, most, most * step, offset}
}

// gridCode describes the codes of a vector x: the sum of |x − c·step| over the entries within the
// grid, and the sum of the distances from the grid over the others.
type gridCode struct{ residual, beyond float64 }

// encode writes the codes of x to codes.
func encode[C uint8 | uint16](g *grid, codes []C, x []float64) (r gridCode) {
	codes = codes[:len(x)]
	inverse, most, offset := 1/g.step, uint64(g.most), uint64(g.offset)
	for t, v := range x {
		switch {
		case v > g.end:
			r.beyond += v - g.end
			codes[t] = C(offset + most)
		case v < -g.end:
			r.beyond += -g.end - v
			codes[t] = C(offset - most)
		default:
			sum := v*inverse + roundingShift
			r.residual += math.Abs(v - float64((sum-roundingShift)*g.step))
			codes[t] = C(math.Float64bits(sum) + offset)
		}
	}
	return r
}

// codedL1 bounds the errors of the coarse and of the fine codes of a query.
type codedL1 struct{ coarse, fine l1Code }

// l1Code describes the codes of a query. The distance from a candidate is the distance of the codes plus
// the excess of the query, up to the residuals of both.
type l1Code struct {
	residual float64
	// excess is the sum of the distances of a query's entries from the grid, and error bounds its
	// rounding error.
	excess, error float64
}

// int8L1Screen compares codes in the panels. refine compares the fine codes.
type int8L1Screen struct {
	centering
	f            *features
	backend      *kernel.Backend
	kernels      kernel.Panels
	layout       codeLayout
	coarse, fine grid
	groups       []l1Residuals // the largest residuals of the candidates in a panel group
	rows         []uint32      // fine codes by row of the features; sortKey sets it to memory behind the panels
	// residuals holds the residuals of the candidates by row, between sortKey and pack.
	residuals []l1Residuals
}

// l1Residuals are upper bounds on the distances of a candidate from its coarse and from its fine codes.
type l1Residuals struct{ coarse, fine float64 }

// include raises the bounds to the bounds of another candidate.
func (r *l1Residuals) include(of l1Residuals) {
	r.coarse, r.fine = max(r.coarse, of.coarse), max(r.fine, of.fine)
}

func (*int8L1Screen) name() Screen            { return Int8Screen }
func (x *int8L1Screen) panels() kernel.Panels { return x.kernels }
func (x *int8L1Screen) terms() int            { return x.layout.terms / kernel.UnitWords }

// newInt8L1Screen returns a screen whose center and grids fit a sample.
func newInt8L1Screen(s *screenSample) *int8L1Screen {
	f, b := s.f, s.Job.Backend
	x := &int8L1Screen{
		centering: newCentering(s), f: f, backend: b, kernels: b.Int8L1Panels(), layout: int8L1Layout(f.Tower),
	}
	peak, v := 0.0, x.buffer()
	for _, i := range s.rows {
		x.centered(v, f.Row(i))
		peak = max(peak, largest(v))
	}
	// Entries beyond the grid add to the residuals of a candidate. Candidates outside the sample may
	// have larger entries than those inside.
	const reserve = 1.25
	x.fine = fineGrid(peak * reserve / 16383)
	x.coarse = x.bestGrid(s, peak)
	return x
}

// bestGrid returns the grid of coarse codes with the narrowest bands for some queries and candidates
// of a sample, in which the largest entry of a candidate is peak. A smaller step rounds less, but
// leaves more entries of the candidates beyond the grid.
func (x *int8L1Screen) bestGrid(s *screenSample, peak float64) (best grid) {
	const (
		most = 64 // queries, and candidates
		// The steps fall from peak/127, four of them by half.
		steps, factor = 20, 0.8409
	)
	queries, candidates := min(len(s.Queries), most), min(len(s.rows), most)
	vectors := make([][]float64, queries+candidates)
	for i := range vectors {
		vectors[i] = x.buffer()
		if i < queries {
			x.centered(vectors[i], s.Row(share(i, len(s.Queries), queries)))
		} else {
			x.centered(vectors[i], x.f.Row(s.rows[share(i-queries, len(s.rows), candidates)]))
		}
	}
	codes := make([]uint8, x.f.Tower.Phi)
	least, step := math.Inf(1), peak/127
	for range steps {
		g := coarseGrid(step)
		band := 0.0
		for i, v := range vectors {
			if code := encode(&g, codes, v); i < queries {
				band += code.residual / float64(queries)
			} else {
				band += (code.residual + code.beyond) / float64(candidates)
			}
		}
		if band < least {
			least, best = band, g
		}
		step *= factor
	}
	return best
}

// candidateResidual and queryCode bound the errors of the codes of a vector whose coordinates have the
// given sum of absolute values.
func candidateResidual(c gridCode, norm float64) float64 {
	return (c.residual + c.beyond + codeRounding*norm) * engine.Outward
}

func queryCode(c gridCode, norm float64, width int) l1Code {
	return l1Code{
		residual: (c.residual + codeRounding*norm) * engine.Outward,
		excess:   c.beyond, error: float64(width+2) * kernel.U64 * c.beyond * engine.Outward,
	}
}

// encodeFine writes the fine codes of the coordinates v to row.
func (x *int8L1Screen) encodeFine(row []uint32, v []float64) gridCode {
	codes := kernel.Int16Codes(row)
	clear(codes[len(v):])
	return encode(&x.fine, codes, v)
}

// encodeCoarse writes the coarse codes of the coordinates v to row.
func (x *int8L1Screen) encodeCoarse(row []uint32, v []float64) gridCode {
	codes := kernel.Codes(row)
	clear(codes[len(v):])
	return encode(&x.coarse, codes, v)
}

// l1Scratch is memory for the coordinates and the coarse codes of a panel's candidates.
type l1Scratch struct {
	coordinates []float64
	table       []uint32 // rows of coarse codes
}

func (x *int8L1Screen) scratch(threads, rows int) []l1Scratch {
	list := make([]l1Scratch, threads)
	for w := range list {
		list[w] = l1Scratch{x.buffer(), make([]uint32, rows*x.layout.terms)}
	}
	return list
}

// sortKey computes the fine codes, and returns the residuals of the coarse codes.
func (x *int8L1Screen) sortKey(ctx context.Context, j *engine.Job) ([]float64, error) {
	f, l, scratch := x.f, x.layout, x.scratch(j.Threads, 1)
	key := make([]float64, f.N)
	x.residuals, x.rows = make([]l1Residuals, f.N), f.panels[f.panelCount()*f.panelWords():]
	err := engine.InChunks(ctx, j.Threads, f.N, 256, func(w, first, last int) {
		j.Phases.Enter(engine.PackPhase)
		v := scratch[w].coordinates
		for i := first; i < last; i++ {
			norm := x.centered(v, f.Row(int32(i)))
			fine := x.encodeFine(x.rows[i*l.stride:(i+1)*l.stride], v)
			coarse := x.encodeCoarse(scratch[w].table, v)
			x.residuals[i] = l1Residuals{candidateResidual(coarse, norm), candidateResidual(fine, norm)}
			key[i] = x.residuals[i].coarse
		}
	})
	return key, err
}

func (x *int8L1Screen) pack(ctx context.Context, j *engine.Job) error {
	f, l, scratch := x.f, x.layout, x.scratch(j.Threads, x.f.nr)
	lanes := ascending(f.nr)
	x.groups = make([]l1Residuals, f.panelGroups())
	defer func() { x.residuals = nil }()
	return f.packGroups(ctx, j, func(group int, rows []int32) {
		for _, i := range rows {
			x.groups[group].include(x.residuals[i])
		}
	}, func(w, _ int, panel []uint32, rows []int32) {
		table := scratch[w].table
		for k, i := range rows {
			x.centered(scratch[w].coordinates, f.Row(i))
			x.encodeCoarse(table[k*l.terms:(k+1)*l.terms], scratch[w].coordinates)
		}
		kernel.PackUnits(panel, table, l.terms, lanes[:len(rows)], x.terms(), f.nr)
	})
}

// distanceQueries holds the codes of a block of queries for a screen of distances, and memory for
// computing them.
type distanceQueries struct {
	l1          []codedL1
	l1Rows      []uint32    // fine codes by rows; behind the strips
	residuals   []float64   // for int16NormScreen
	phases      []phaseCode // for int8PhaseScreen
	coordinates []float64
}

// reserve makes room for the coordinates of a vector.
func (q *distanceQueries) reserve(width int) {
	if len(q.coordinates) != width {
		q.coordinates = make([]float64, width)
	}
}

func (x *int8L1Screen) packQueries(q *packedQueries, v *engine.Vectors, n int) {
	l, width, mr := x.layout, x.f.Tower.Psi, x.kernels.MR
	if len(q.l1) == 0 {
		q.l1 = make([]codedL1, q.most)
	}
	q.reserve(width)
	q.l1Rows = q.strips[q.most*l.terms:]
	table, terms := q.l1Rows[q.most*l.stride:][:mr*l.terms], ascending(l.terms)
	for first := 0; first < n; first += mr {
		some := min(mr, n-first)
		for i := range some {
			row, coarse := first+i, table[i*l.terms:(i+1)*l.terms]
			c := &q.l1[row]
			if !(v.Norms[row] < maxCodedNorm) { // its thresholds will be infinite
				clear(coarse)
				*c = codedL1{l1Code{residual: math.Inf(1)}, l1Code{residual: math.Inf(1)}}
				continue
			}
			norm := x.centered(q.coordinates, v.Row(row))
			fine := x.encodeFine(q.l1Rows[row*l.stride:(row+1)*l.stride], q.coordinates)
			*c = codedL1{
				queryCode(x.encodeCoarse(coarse, q.coordinates), norm, width), queryCode(fine, norm, width),
			}
		}
		q.packStrip(x.kernels, first, n, table, l.terms, terms)
	}
}

// band bounds |ψ − φ| − excess − step·S for candidates with residuals up to the given one, where S is the
// distance of the codes.
func (c *l1Code) band(residual float64) float64 {
	return (c.residual + residual + c.error) * engine.Outward
}

func (x *int8L1Screen) margins(q *packedQueries, _ *engine.Vectors, row, group int) margins {
	c, g := &q.l1[row], &x.groups[group]
	band := c.coarse.band(g.coarse)
	return margins{
		absolute: band, rounding: band, units: units{-c.coarse.excess, x.coarse.step, 0},
		fine: c.fine.band(g.fine),
	}
}

// refine sets the intervals of candidates from fine codes.
func (x *int8L1Screen) refine(q *packedQueries, row, panel int, _ []float32, band float64, open []duplicates) {
	stride, c := x.layout.stride, &q.l1[row].fine
	q.positions = q.positions[:0]
	for _, d := range open {
		q.positions = append(q.positions, x.f.RowAt[panel*x.f.nr+bits.TrailingZeros64(d.lanes)])
	}
	x.backend.PairInt16L1(q.fineSums, q.l1Rows[row*stride:(row+1)*stride], x.rows, stride, q.positions)
	for i := range open {
		score := -c.excess - float64(x.fine.step*float64(q.fineSums[i]))
		// The last term bounds the roundings of the score and of the ends. A band that is infinite
		// or NaN decides nothing.
		width := band + 4*kernel.U64*math.Abs(score)
		open[i].low, open[i].high = score-width, score+width
	}
}

// sampledBands implements sampledScreen.
func (x *int8L1Screen) sampledBands(s *screenSample) func(row, i int) (panel, fine float64) {
	n, v := len(s.rows), x.buffer()
	coarse, fine := make([]uint32, x.layout.terms), make([]uint32, x.layout.stride)
	queries, candidates, key := make([]codedL1, len(s.Queries)), make([]l1Residuals, n), make([]float64, n)
	for row := range queries {
		norm := x.centered(v, s.Row(row))
		queries[row] = codedL1{
			queryCode(x.encodeCoarse(coarse, v), norm, len(v)), queryCode(x.encodeFine(fine, v), norm, len(v)),
		}
	}
	for i, at := range s.rows {
		norm := x.centered(v, s.f.Row(at))
		candidates[i] = l1Residuals{
			candidateResidual(x.encodeCoarse(coarse, v), norm), candidateResidual(x.encodeFine(fine, v), norm),
		}
		key[i] = candidates[i].coarse
	}
	count, groupOf := s.groupsBy(key)
	groups := make([]l1Residuals, count)
	for i, r := range candidates {
		groups[groupOf[i]].include(r)
	}
	return func(row, i int) (panel, fine float64) {
		q, g := &queries[row], &groups[groupOf[i]]
		return q.coarse.band(g.coarse), q.fine.band(g.fine)
	}
}
