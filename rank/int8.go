package rank

import (
	"context"
	"math"
	"math/bits"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// The int8 screen of dot products: coarse codes in the panels, and fine ones beside them for the pairs
// that these leave, many times what float32 leaves. So it serves where few candidates score close to a target.
var int8Format = codeFormat{
	screen: Int8Screen,
	fast:   (*kernel.Backend).FastInt8,
	fits:   func(width int) bool { return 2*int8Words(width) <= kernel.MaxInt8 }, // pairs of bytes have twice the words
	panels: (*kernel.Backend).Int8Panels,
	layout: func(width int) codeLayout {
		words := int8Words(width)
		return codeLayout{words, words, int8Stride(width), words, 128}
	},
	strips: func(l codeLayout, queries, _ int) int {
		return queries*(l.terms+l.stride) + l.len // codes of all queries; the last is packed from its middle
	},
	sampleBand: func(q, e kernel.Int8Code, norm float64) float64 {
		return q.Residual*norm + q.Norm*e.Residual
	},
	// What the screen leaves costs the next stage some three times what a float32 panel needs for it, of which
	// bytes save three quarters; and panels leave more than the sample, as a block shares one step.
	mostUndecided: 0.15,
	new:           func(c codes) screen { return &int8Screen{c} },
}

// int8Width is a width padded to whole groups of spread.
func int8Width(width int) int { return (width + spread - 1) / spread * spread }

// int8Words is the number of words of codes for a width.
func int8Words(width int) int { return int8Width(width) / kernel.WordBytes }

// int8Stride is the length in words of a row of coarse and fine codes, for single pairs.
func int8Stride(width int) int {
	const pad = kernel.Int8PairWidth
	return (2*int8Words(width) + pad - 1) / pad * pad
}

type int8Screen struct{ codes }

func (*int8Screen) name() Screen { return Int8Screen }

// rows returns the rows of coarse and fine codes, [coarse, fine], by position. They use what the
// panels, of a quarter of a float32 panel's size, leave free.
func (x *int8Screen) rows() []uint32 {
	return x.f.panels[(x.f.N+x.f.nr-1)/x.f.nr*x.f.nr*x.layout.terms:]
}

func (x *int8Screen) pack(ctx context.Context, e *cpuEngine) error {
	return x.packPanels(ctx, e, func(_, position int) []uint32 { return x.rows()[position*x.layout.stride:] })
}

// packStrips keeps the codes of the queries, [fine, coarse], for pairs with candidates' [coarse, fine].
func (x *int8Screen) packStrips(s *sweeper) {
	x.reserve(s)
	mr, l, terms := x.kernels.MR, x.layout, ascending(x.layout.terms)
	for first := 0; first < len(s.Queries); first += mr {
		n := min(mr, len(s.Queries)-first)
		table := s.codes[first*l.stride:]
		for i := range n {
			row := table[i*l.stride : (i+1)*l.stride]
			x.code(s, first+i, row, row[l.len:2*l.len], row[:l.len])
		}
		kernel.PackRows(s.strips[first*l.terms:(first+mr)*l.terms], table[l.len:], l.stride, s.ids[:n], terms, mr)
	}
}

// setThresholds also sets the band of fine scores.
func (x *int8Screen) setThresholds(s *sweeper, row, block int, slack float64) {
	s.fineBands[row] = (s.Product(row, 0, x.fineBand(s, row, block), s.f.blockNorms[block]) + slack) * engine.Outward
	x.widen(s, row, block, slack, x.band(s, row, block))
}

// band bounds |ψ·φ − s| for the candidates of a block, with the score s of coarse codes.
func (x *int8Screen) band(s *sweeper, row, block int) float64 {
	q, b := &s.coded[row], &x.blocks[block]
	return (q.residual*b.norm + q.norm*b.residual + x.centerError(s, row)) * engine.Outward
}

// fineBand is band for fineScore.
func (x *int8Screen) fineBand(s *sweeper, row, block int) float64 {
	q, b := &s.coded[row], &x.blocks[block]
	// The fifth term bounds the rounding of the coarse sum to float32 and has room for fineScore's own roundings;
	// the last one bounds its final sum.
	return (q.fineNorm*b.fineNorm + q.fineResidual*b.norm + (q.size+q.fineResidual)*b.fineResidual + x.centerError(s, row) +
		q.step*b.step*kernel.U32*127*255*float64(int8Width(x.f.Tower.Phi)) + kernel.U64*math.Abs(q.center)) * engine.Outward
}

// fineScore joins the panel's score and one of single pairs, of [fine, coarse] with [coarse, fine].
func (x *int8Screen) fineScore(s *sweeper, row, block int, coarse float32, fine int32) float64 {
	q := &s.coded[row]
	sum := (float64(coarse) - q.offset) + (float64(fine)-q.fineOffset)/kernel.Fine
	return q.center + q.step*x.blocks[block].step*sum
}

// refine decides what it can of the classes by fine codes, and tells whether any are left.
func (x *int8Screen) refine(s *sweeper, p int, row int32, pairs []uint64, removed [NumFilters]uint64) bool {
	f, stride, block := x.f, x.layout.stride, p/blockPanels
	s.places = s.places[:0]
	for _, c := range s.classes {
		s.places = append(s.places, int32(p*f.nr+bits.TrailingZeros64(c.lanes)))
	}
	s.Job.Backend.PairInt8(s.fineScores, s.codes[int(row)*stride:int(row+1)*stride], x.rows(), stride, s.places)
	open := 0
	for i, c := range s.classes {
		coarse := s.panel.Scores[int(row)*f.nr+bits.TrailingZeros64(c.lanes)]
		score := x.fineScore(s, int(row), block, coarse, s.fineScores[i])
		// The last term is for the roundings of the ends; a band that is infinite or NaN decides nothing.
		band := s.fineBands[row] + 2*kernel.U64*math.Abs(score)
		if s.settle(c, pairs, removed, score-band, score+band, &s.leftCoarse) != 0 {
			s.classes[open], s.rescore[open] = c, s.rescore[i]
			open++
		}
	}
	s.classes, s.rescore = s.classes[:open], s.rescore[:open]
	return open > 0
}
