package rank

import (
	"context"
	"math"
	"math/bits"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// int8Format puts coarse codes into the panels. They leave many times as many pairs undecided as
// float32 scores, and fine codes, stored behind the panels, decide most of these pairs. The format
// is worthwhile if few candidates score close to a target.
var int8Format = codeFormat{
	screen:   Int8Screen,
	compares: func(c kernel.Comparison) bool { return c == kernel.Dot },
	fast:     (*kernel.Backend).HasVNNI,
	fits:     func(width int) bool { return 2*int8Words(width) <= kernel.MaxInt8 }, // fine scores have twice the words
	panels:   func(b *kernel.Backend, _ kernel.Comparison) kernel.Panels { return b.Int8Panels() },
	layout: func(t model.Tower) codeLayout {
		words := int8Words(t.Phi)
		return codeLayout{words, words, int8Stride(t.Phi), words, 128}
	},
	strips: func(l codeLayout, queries, _ int) int {
		return queries*(l.terms+l.stride) + l.len // by rows for all queries; the last row is packed from its middle
	},
	new: func(c codes) screen { return &int8Screen{c} },
}

// int8Width returns a width rounded up to a multiple of spread.
func int8Width(width int) int { return (width + spread - 1) / spread * spread }

// int8Words returns the number of words that the coarse codes of a width need.
func int8Words(width int) int { return int8Width(width) / kernel.WordBytes }

// int8Stride returns the length in words of a row of coarse and fine codes for kernel.PairInt8.
func int8Stride(width int) int {
	const pad = kernel.CodePairWidth
	return (2*int8Words(width) + pad - 1) / pad * pad
}

type int8Screen struct{ codes }

func (*int8Screen) name() Screen { return Int8Screen }

// rows returns the rows of coarse and fine codes, [coarse, fine], by position. They lie behind the
// panels, which need a quarter of the memory of float32 panels.
func (x *int8Screen) rows() []uint32 {
	return x.f.panels[(x.f.N+x.f.nr-1)/x.f.nr*x.f.nr*x.layout.terms:]
}

func (x *int8Screen) pack(ctx context.Context, j *engine.Job) error {
	return x.packPanels(ctx, j, func(_, position int) []uint32 { return x.rows()[position*x.layout.stride:] })
}

// packQueries stores the codes of the queries both in strips and as rows [fine, coarse], for
// comparison with a candidate's [coarse, fine].
func (x *int8Screen) packQueries(q *packedQueries, v *engine.Vectors, n int) {
	x.reserve(q)
	mr, l, terms := x.kernels.MR, x.layout, ascending(x.layout.terms)
	for first := 0; first < n; first += mr {
		some := min(mr, n-first)
		table := q.rows[first*l.stride:]
		for i := range some {
			row := table[i*l.stride : (i+1)*l.stride]
			x.code(q, v, first+i, row, row[l.len:2*l.len], row[:l.len])
		}
		q.packStrip(x.kernels, first, n, table[l.len:], l.stride, terms)
	}
}

func (x *int8Screen) margins(q *packedQueries, v *engine.Vectors, row, group int) margins {
	c, g := &q.coded[row], &x.groups[group]
	m := x.codes.margins(c, v, row, group, x.band(c, g))
	m.fine = v.Product(row, 0, x.fineBand(c, g), x.f.groupNorms[group])
	return m
}

func (x *int8Screen) bands(q *codedQuery, g *codeGroup) (panel, fine float64) {
	return x.band(q, g), x.fineBand(q, g)
}

// band bounds |ψ·φ − s| for the candidates of a panel group, where s is the score of coarse codes.
func (x *int8Screen) band(q *codedQuery, g *codeGroup) float64 {
	return (q.residual*g.norm + q.norm*g.residual + q.centerError) * engine.Outward
}

// fineBand is like band but bounds the error of fineScore.
func (x *int8Screen) fineBand(q *codedQuery, g *codeGroup) float64 {
	width := float64(int8Width(x.f.Tower.Phi))
	// The fifth term bounds the rounding of the coarse sum to float32. It also covers the roundings
	// of fineScore, except the rounding of its last sum, which the last term bounds.
	return (q.fineNorm*g.fineNorm + q.fineResidual*g.norm + (q.size+q.fineResidual)*g.fineResidual + q.centerError +
		q.step*g.step*kernel.U32*127*255*width + kernel.U64*math.Abs(q.center)) * engine.Outward
}

// fineScore combines the panel's sum with the dot product of [fine, coarse] and [coarse, fine].
func (x *int8Screen) fineScore(q *codedQuery, g *codeGroup, coarse float32, fine int32) float64 {
	sum := (float64(coarse) - q.offset) + (float64(fine)-q.fineOffset)/kernel.Fine
	return q.center + q.step*g.step*sum
}

// refine sets the intervals of candidates from fine scores.
func (x *int8Screen) refine(q *packedQueries, row, panel int, scores []float32, band float64, open []duplicates) {
	stride, c, g := x.layout.stride, &q.coded[row], &x.groups[panel/groupPanels]
	q.positions = q.positions[:0]
	for _, d := range open {
		q.positions = append(q.positions, int32(panel*x.f.nr+bits.TrailingZeros64(d.lanes)))
	}
	x.backend.PairInt8(q.fineSums, q.rows[row*stride:(row+1)*stride], x.rows(), stride, q.positions)
	for i := range open {
		d := &open[i]
		score := x.fineScore(c, g, scores[bits.TrailingZeros64(d.lanes)], q.fineSums[i])
		// The last term bounds the roundings of the ends. A band that is infinite or NaN decides
		// nothing.
		width := band + 2*kernel.U64*math.Abs(score)
		d.low, d.high = score-width, score+width
	}
}
