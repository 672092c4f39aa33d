package rank

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// What the screens of dot products in whole numbers share (docs/numerics.md, "Int8 and int16 screens"): vectors in
// coordinates become coarse and fine codes, whose panels and bands are those of int8.go and int16.go.

// codeFormat is a way to write vectors as codes.
type codeFormat struct {
	screen Screen
	// fast tells that a backend has an assembly kernel, fits that the sums for a width stay in int32.
	fast   func(*kernel.Backend) bool
	fits   func(width int) bool
	panels func(*kernel.Backend) kernel.Panels
	layout func(width int) codeLayout
	// strips is the number of words that queries take, as codes by rows and in strips of mr.
	strips func(l codeLayout, queries, mr int) int
	// sampleBand bounds the error of a score of single vectors, for a candidate of the given norm.
	sampleBand func(query, candidate kernel.Int8Code, norm float64) float64
	// mostUndecided is the share of the sampled pairs that a screen may leave under AutoScreen.
	mostUndecided float64
	new           func(codes) screen
}

// codeFormats lists the formats, the best first.
var codeFormats = []*codeFormat{&int16Format, &int8Format}

// codeLayout is where the codes of a vector are: len words of coarse codes from 0 and of fine codes
// from fine on, in rows of stride words, of which panels hold the first terms.
type codeLayout struct {
	len, fine, stride, terms int
	offset                   uint8 // of the candidates' bytes
}

// codes is a screen in whole numbers, but for its bands and the layout of its memory.
type codes struct {
	f           *features
	kernels     kernel.Panels
	layout      codeLayout
	coordinates *coordinates
	blocks      []codeBlock
	// Of the candidates, by row: upper bounds of ‖b‖, and the largest entries of b.
	sizes, peaks []float64
}

func (x *codes) panels() kernel.Panels { return x.kernels }
func (x *codes) terms() int            { return x.layout.terms }

// codeBlock is what a block of panels shares: the step of the codes, and the largest ‖b‖,
// ‖b − coarse‖, ‖fine‖ and ‖b − coarse − fine‖.
type codeBlock struct {
	step, norm, residual, fineNorm, fineResidual float64
}

// codedQuery belongs to the codes of one row: their step, upper bounds of ‖a‖, ‖coarse‖,
// ‖a − coarse‖, ‖fine‖ and ‖a − coarse − fine‖, what the offset of the candidates' bytes adds to
// a score and to one of fine codes, and ψ·μ.
type codedQuery struct {
	step, size, norm, residual, fineNorm, fineResidual float64
	offset, fineOffset, center                         float64
}

// arrange puts the candidates in ascending order of the largest entry of b, which sets the step of a block.
func (x *codes) arrange(ctx context.Context, e *cpuEngine) error {
	f, width := x.f, x.f.Tower.Phi
	x.sizes, x.peaks = make([]float64, f.N), make([]float64, f.N)
	buffers := x.buffers(e)
	const each = 256
	err := kernel.Parallel(ctx, e.job.Threads, (f.N+each-1)/each, func(w, item int) {
		e.job.Phases.Enter(engine.PackPhase)
		for i := item * each; i < min((item+1)*each, f.N); i++ {
			x.coordinates.candidate(buffers[w], f.Row(int32(i))[:width])
			x.sizes[i], x.peaks[i] = norm64(buffers[w])*(1+rotation), largest(buffers[w])
		}
	})
	if err != nil {
		return err
	}
	f.SortBy(x.peaks)
	return nil
}

// buffers returns memory for coordinates, for each goroutine.
func (x *codes) buffers(e *cpuEngine) [][]float64 {
	buffers := make([][]float64, e.job.Threads)
	for w := range buffers {
		buffers[w] = make([]float64, int8Width(x.f.Tower.Phi))
	}
	return buffers
}

// packPanels makes the panels. table is the memory for the codes, by rows, of the panel that begins at a
// position, used by goroutine w.
func (x *codes) packPanels(ctx context.Context, e *cpuEngine, table func(w, position int) []uint32) error {
	f, l := x.f, x.layout
	perBlock, buffers := blockPanels*f.nr, x.buffers(e)
	x.blocks = make([]codeBlock, (f.N+perBlock-1)/perBlock)
	terms, lanes := ascending(l.terms), ascending(f.nr)
	defer func() { x.sizes, x.peaks = nil, nil }()
	return kernel.Parallel(ctx, e.job.Threads, len(x.blocks), func(w, block int) {
		e.job.Phases.Enter(engine.PackPhase)
		rows := f.Order[block*perBlock : min((block+1)*perBlock, f.N)]
		b := &x.blocks[block]
		for _, i := range rows {
			b.norm, b.step = max(b.norm, x.sizes[i]), max(b.step, x.peaks[i])
		}
		b.step = step(b.step)
		for at := 0; at < len(rows); at += f.nr {
			some := rows[at:min(at+f.nr, len(rows))]
			position := block*perBlock + at
			memory := table(w, position)
			for j, i := range some {
				row := memory[j*l.stride:]
				x.coordinates.candidate(buffers[w], f.Row(i)[:f.Tower.Phi])
				coarse, fine := kernel.Codes(row[:l.len]), kernel.Codes(row[l.fine:l.fine+l.len])
				code := kernel.CodeInt8(coarse, fine, buffers[w], b.step, l.offset)
				b.residual = max(b.residual, code.Residual+rotation*x.sizes[i])
				b.fineNorm = max(b.fineNorm, code.FineNorm)
				b.fineResidual = max(b.fineResidual, code.FineResidual+rotation*x.sizes[i])
			}
			panel, _ := f.panel(position / f.nr)
			kernel.PackRows(panel, memory, l.stride, lanes[:len(some)], terms, f.nr)
		}
	})
}

// code writes the codes of ψ of a row to words that lie in the memory of all its codes.
func (x *codes) code(s *sweeper, row int, all, coarse, fine []uint32) {
	clear(all)
	q := &s.coded[row]
	*q = codedQuery{step: 1}
	if !(s.Norms[row] < 0x1p60) { // its thresholds are infinite
		q.norm, q.size = math.Inf(1), math.Inf(1)
		return
	}
	psi := s.Row(row)[:x.f.Tower.Phi]
	x.coordinates.query(s.rotated, psi)
	q.step = step(largest(s.rotated))
	code := kernel.CodeInt8(kernel.Codes(coarse), kernel.Codes(fine), s.rotated, q.step, 0)
	q.size, q.norm, q.fineNorm = norm64(s.rotated)*(1+rotation), code.Norm, code.FineNorm
	q.residual, q.fineResidual = code.Residual+rotation*q.size, code.FineResidual+rotation*q.size
	offset := float64(x.layout.offset)
	q.offset, q.fineOffset = offset*float64(code.Sum), offset*float64(int64(code.Sum)+int64(code.FineSum))
	for t, v := range psi {
		q.center += float64(v) * x.coordinates.center[t]
	}
}

// reserve makes room for the codes of a block of queries.
func (x *codes) reserve(s *sweeper) {
	if len(s.coded) == 0 {
		s.coded, s.fineBands = make([]codedQuery, len(s.Norms)), make([]float64, len(s.Norms))
	}
	if n := int8Width(x.f.Tower.Phi); len(s.rotated) != n {
		s.rotated = make([]float64, n)
	}
	s.codes = s.strips[len(s.Norms)*x.layout.terms:]
}

// widen sets the thresholds of a row's targets, for scores of codes within band of ψ·φ.
func (x *codes) widen(s *sweeper, row, block int, slack, band float64) {
	both := s.Product(row, 0, band, s.f.blockNorms[block]) * engine.Outward
	s.widen(row, slack, func(lo, hi float64) (float64, float64) {
		margin := 8 * kernel.U64 * (max(math.Abs(lo), math.Abs(hi)) + both + band)
		return x.units(s, row, block, lo-both-margin, hi+both+margin)
	})
}

// units turns an interval of scores minus the query's constant into one of the kernel's sums.
func (x *codes) units(s *sweeper, row, block int, lo, hi float64) (float64, float64) {
	q := &s.coded[row]
	step := q.step * x.blocks[block].step
	lo, hi = (lo-q.center)/step+q.offset, (hi-q.center)/step+q.offset
	margin := 8 * kernel.U64 * ((max(math.Abs(lo), math.Abs(hi)) + math.Abs(q.offset)) + math.Abs(q.center)/step)
	return lo - margin, hi + margin
}

// centerError bounds the error of ψ·μ, a chain of sums.
func (x *codes) centerError(s *sweeper, row int) float64 {
	return float64(x.f.Tower.Phi) * kernel.U64 * s.Norms[row] * x.coordinates.norm
}

// ascending returns 0, 1, 2, … n−1.
func ascending(n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(i)
	}
	return x
}
