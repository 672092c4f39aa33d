package rank

import (
	"context"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// The int16 screen of dot products: coarse and fine codes in the panels, and only the products of fine
// with fine codes left out. It leaves some hundred times fewer pairs than the int8 screen, for float64.
var int16Format = codeFormat{
	screen: Int16Screen,
	fast:   (*kernel.Backend).FastInt16,
	fits:   func(width int) bool { return int16Terms(width) <= kernel.MaxInt16 },
	panels: (*kernel.Backend).Int16Panels,
	layout: func(width int) codeLayout {
		terms := int16Terms(width)
		return codeLayout{int8Words(width), terms / 2, terms, terms, 0}
	},
	strips: func(l codeLayout, queries, mr int) int {
		return (queries + mr) * l.terms // codes by rows of one strip
	},
	sampleBand: func(q, e kernel.Int8Code, norm float64) float64 {
		return q.FineNorm*e.FineNorm + q.FineResidual*norm + q.Norm*e.FineResidual
	},
	mostUndecided: 0.01, // what is left goes to float64, which costs some fifty times as much as a float32 panel
	new:           func(c codes) screen { return &int16Screen{c} },
}

// int16Terms is the number of words of kernel.Int16Panels for a width.
func int16Terms(width int) int {
	const multiple = kernel.Int16Multiple
	return (2*int8Words(width) + multiple - 1) / multiple * multiple
}

type int16Screen struct{ codes }

func (*int16Screen) name() Screen { return Int16Screen }

func (x *int16Screen) pack(ctx context.Context, e *cpuEngine) error {
	tables := make([][]uint32, e.job.Threads) // codes of a panel
	for w := range tables {
		tables[w] = make([]uint32, x.f.nr*x.layout.stride)
	}
	return x.packPanels(ctx, e, func(w, _ int) []uint32 { return tables[w] })
}

func (x *int16Screen) packStrips(s *sweeper) {
	x.reserve(s)
	mr, l := x.kernels.MR, x.layout
	for first := 0; first < len(s.Queries); first += mr {
		n := min(mr, len(s.Queries)-first)
		for i := range n {
			row := s.codes[i*l.stride : (i+1)*l.stride]
			x.code(s, first+i, row, row[:l.len], row[l.fine:l.fine+l.len])
		}
		kernel.PackTiles(s.strips[first*l.terms:(first+mr)*l.terms], s.codes, l.stride, s.ids[:n], l.terms)
	}
}

func (x *int16Screen) setThresholds(s *sweeper, row, block int, slack float64) {
	x.widen(s, row, block, slack, x.band(s, row, block))
}

// band bounds |ψ·φ − s| for the candidates of a block, with the score s of coarse and fine codes.
func (x *int16Screen) band(s *sweeper, row, block int) float64 {
	q, b := &s.coded[row], &x.blocks[block]
	coarse := q.norm * (b.norm + b.residual)
	fine := q.norm*b.fineNorm + q.fineNorm*(b.norm+b.residual)
	// The sums are rounded to float32, the fine one divided, and then their sum is rounded; the float32 number next
	// to 1/Fine is within a tenth of a unit roundoff.
	rounding := kernel.U32 * (2*coarse + 3.1*fine) * (1 + 1e-6)
	return (q.fineNorm*b.fineNorm + q.fineResidual*b.norm + (q.size+q.fineResidual)*b.fineResidual + x.centerError(s, row) + rounding) * engine.Outward
}

// refine leaves everything to float64.
func (*int16Screen) refine(*sweeper, int, int32, []uint64, [NumFilters]uint64) bool { return true }
