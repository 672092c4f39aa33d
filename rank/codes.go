package rank

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mquine/mquine/kernel"
)

// What the screens of dot products in whole numbers share (docs/numerics.md, section 11): vectors in
// coordinates become coarse and fine codes, whose panels and bands are those of int8.go and int16.go.

// codeLayout is where the codes of a vector are: len words of coarse codes from 0 and of fine codes
// from fine on, in rows of stride words, of which panels hold the first terms.
type codeLayout struct {
	len, fine, stride, terms int
	offset                   uint8 // of the candidates' bytes
}

func (f *features) layout() codeLayout {
	width := f.tower.Phi
	words := int8Words(width)
	if f.compare == kernel.Int16 {
		terms := int16Terms(width)
		return codeLayout{words, terms / 2, terms, terms, 0}
	}
	return codeLayout{words, words, int8Stride(width), words, 128}
}

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

// packCodes makes the panels of codes, in ascending order of the largest entry of b, which sets the
// step of a block.
func (f *features) packCodes(ctx context.Context, c *crew) error {
	width, n, layout := f.tower.Phi, f.n, f.layout()
	sizes, peaks := make([]float64, n), make([]float64, n)
	buffers, tables := make([][]float64, len(c.sweepers)), make([][]float32, len(c.sweepers))
	for w := range buffers {
		buffers[w] = make([]float64, int8Width(width))
		if f.compare == kernel.Int16 { // codes of a panel; those of Int8 stay in memory
			tables[w] = make([]float32, f.nr*layout.stride)
		}
	}
	const each = 256
	err := kernel.Parallel(ctx, len(c.sweepers), (n+each-1)/each, func(w, item int) {
		c.run.phases.enter(packPhase)
		for i := item * each; i < min((item+1)*each, n); i++ {
			f.coordinates.candidate(buffers[w], f.row(int32(i))[:width])
			sizes[i], peaks[i] = norm64(buffers[w])*(1+rotation), largest(buffers[w])
		}
	})
	if err != nil {
		return err
	}
	f.sortBy(peaks)
	perBlock := blockPanels * f.nr
	blocks := (n + perBlock - 1) / perBlock
	f.codeBlocks = make([]codeBlock, blocks)
	terms := make([]int32, layout.terms)
	for t := range terms {
		terms[t] = int32(t)
	}
	return kernel.Parallel(ctx, len(c.sweepers), blocks, func(w, block int) {
		c.run.phases.enter(packPhase)
		rows := f.order[block*perBlock : min((block+1)*perBlock, n)]
		b := &f.codeBlocks[block]
		for _, i := range rows {
			b.norm, b.step = max(b.norm, sizes[i]), max(b.step, peaks[i])
		}
		b.step = step(b.step)
		lanes := make([]int32, f.nr)
		for at := 0; at < len(rows); at += f.nr {
			some := rows[at:min(at+f.nr, len(rows))]
			position := block*perBlock + at
			table, first := tables[w], 0
			if table == nil {
				table, first = f.codes(), position
			}
			for j, i := range some {
				x, row := buffers[w], table[(first+j)*layout.stride:]
				f.coordinates.candidate(x, f.row(i)[:width])
				code := kernel.CodeInt8(row[:layout.len], row[layout.fine:layout.fine+layout.len], x, b.step, layout.offset)
				b.residual = max(b.residual, code.Residual+rotation*sizes[i])
				b.fineNorm, b.fineResidual = max(b.fineNorm, code.FineNorm), max(b.fineResidual, code.FineResidual+rotation*sizes[i])
				lanes[j] = int32(first + j)
			}
			panel, _ := f.panel(position / f.nr)
			kernel.PackRows(panel, table, layout.stride, lanes[:len(some)], terms, f.nr)
		}
	})
}

// packCodes codes ψ of the block's queries and packs them for the kernel.
func (s *sweeper) packCodes() {
	f, mr, layout := s.f, s.backend.MR(s.f.compare), s.f.layout()
	width, terms, stride := f.tower.Phi, layout.terms, layout.stride
	if len(s.coded) == 0 {
		s.coded = make([]codedQuery, len(s.norms))
	}
	s.codes = s.strips[len(s.norms)*terms:]
	s.rotated = slices.Grow(s.rotated[:0], int8Width(width))[:int8Width(width)]
	for t := len(s.words); t < terms; t++ {
		s.words = append(s.words, int32(t))
	}
	for first := 0; first < len(s.queries); first += mr {
		n := min(mr, len(s.queries)-first)
		// Int8 keeps the codes, [fine, coarse], for pairs with candidates' [coarse, fine]; Int16 needs those of
		// a strip.
		table, coarse, fine := s.codes, 0, layout.fine
		if f.compare == kernel.Int8 {
			table, coarse, fine = s.codes[first*stride:], layout.len, 0
		}
		for i := range n {
			row := first + i
			codes := table[i*stride : (i+1)*stride]
			clear(codes)
			q := &s.coded[row]
			*q = codedQuery{step: 1}
			if !(s.norms[row] < 0x1p60) { // its ends are infinite
				q.norm, q.size = math.Inf(1), math.Inf(1)
				continue
			}
			psi := s.row(row)[:width]
			f.coordinates.query(s.rotated, psi)
			q.step = step(largest(s.rotated))
			code := kernel.CodeInt8(codes[coarse:coarse+layout.len], codes[fine:fine+layout.len], s.rotated, q.step, 0)
			q.size, q.norm, q.fineNorm = norm64(s.rotated)*(1+rotation), code.Norm, code.FineNorm
			q.residual, q.fineResidual = code.Residual+rotation*q.size, code.FineResidual+rotation*q.size
			offset := float64(layout.offset)
			q.offset, q.fineOffset = offset*float64(code.Sum), offset*float64(int64(code.Sum)+int64(code.FineSum))
			for t, v := range psi {
				q.center += float64(v) * f.coordinates.center[t]
			}
		}
		strip := s.strips[first*terms : (first+mr)*terms]
		if f.compare == kernel.Int16 {
			kernel.PackTiles(strip, table, stride, s.ids[:n], terms)
			continue
		}
		kernel.PackRows(strip, table[coarse:], stride, s.ids[:n], s.words[:terms], mr)
	}
}

// centerError bounds the error of ψ·μ, a chain of sums.
func (s *sweeper) centerError(row int) float64 {
	return float64(s.f.tower.Phi) * kernel.U64 * s.norms[row] * s.f.coordinates.norm
}

// codeEnds turns an interval of scores minus the query's constant into one of the kernel's sums.
func (s *sweeper) codeEnds(row, block int, lo, hi float64) (float64, float64) {
	q := &s.coded[row]
	step := q.step * s.f.codeBlocks[block].step
	lo, hi = (lo-q.center)/step+q.offset, (hi-q.center)/step+q.offset
	margin := 8 * kernel.U64 * ((max(math.Abs(lo), math.Abs(hi)) + math.Abs(q.offset)) + math.Abs(q.center)/step)
	return lo - margin, hi + margin
}

// sortBy puts the candidates in ascending order of a key, the order of the panels.
func (f *features) sortBy(key []float64) {
	for i := range f.n {
		f.order[i] = int32(i)
	}
	slices.SortFunc(f.order[:f.n], func(x, y int32) int { return cmp.Or(cmp.Compare(key[x], key[y]), cmp.Compare(x, y)) })
	for at, i := range f.order[:f.n] {
		f.place[i] = int32(at)
	}
}
