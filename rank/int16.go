package rank

import (
	"context"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// int16Format puts coarse and fine codes into the panels. The scores omit only the products of two
// fine codes. The format leaves about one hundredth of the pairs that int8Format leaves undecided;
// float64 scores decide them.
var int16Format = codeFormat{
	screen:   Int16Screen,
	compares: func(c kernel.Comparison) bool { return c == kernel.Dot },
	fast:     func(b *kernel.Backend) bool { return b.Features.Has(kernel.FeatureAMX) },
	internal: int16Tiles,
	tiles:    true,
	fits:     func(width int) bool { return int16Terms(width) <= kernel.MaxInt16 },
	panels:   func(b *kernel.Backend, _ kernel.Comparison) kernel.Panels { return b.Int16Panels() },
	layout: func(t model.Tower) codeLayout {
		terms := int16Terms(t.Phi)
		return codeLayout{int8Words(t.Phi), terms / 2, terms, terms, 0}
	},
	strips: oneStripOfRows,
	new:    func(c codes) screen { return &int16Screen{c} },
}

// int16Terms returns the number of words of kernel.Int16Panels for a width.
func int16Terms(width int) int {
	const multiple = kernel.Int16Multiple
	return (2*int8Words(width) + multiple - 1) / multiple * multiple
}

type int16Screen struct{ codes }

func (*int16Screen) name() Screen { return Int16Screen }

func (x *int16Screen) pack(ctx context.Context, j *engine.Job) error {
	tables := make([][]uint32, j.Threads) // the codes of a panel
	for w := range tables {
		tables[w] = make([]uint32, x.f.nr*x.layout.stride)
	}
	return x.packPanels(ctx, j, func(w, _ int) []uint32 { return tables[w] })
}

func (x *int16Screen) packQueries(q *packedQueries, v *engine.Vectors, n int) {
	x.reserve(q)
	mr, l, terms := x.kernels.MR, x.layout, ascending(x.layout.terms)
	for first := 0; first < n; first += mr {
		some := min(mr, n-first)
		for i := range some {
			row := q.rows[i*l.stride : (i+1)*l.stride]
			x.code(q, v, first+i, row, row[:l.len], row[l.fine:l.fine+l.len])
		}
		q.packStrip(x.kernels, first, n, q.rows, l.stride, terms)
	}
}

func (x *int16Screen) margins(q *packedQueries, v *engine.Vectors, row, group int) margins {
	c := &q.coded[row]
	return x.codes.margins(c, v, row, group, x.band(c, &x.groups[group]))
}

func (x *int16Screen) bands(q *codedQuery, g *codeGroup) (panel, fine float64) {
	band := x.band(q, g)
	return band, band
}

// band bounds |ψ·φ − s| for the candidates of a panel group, where s is the score of coarse and
// fine codes.
func (x *int16Screen) band(q *codedQuery, g *codeGroup) float64 {
	coarse := q.norm * (g.norm + g.residual)
	fine := q.norm*g.fineNorm + q.fineNorm*(g.norm+g.residual)
	// The kernel rounds the two sums to float32, then the quotient of the fine sum, then the total.
	// The relative error of the float32 number nearest to 1/Fine is below a tenth of the unit roundoff.
	rounding := kernel.U32 * (2*coarse + 3.1*fine) * (1 + 1e-6)
	codes := q.fineNorm*g.fineNorm + q.fineResidual*g.norm + (q.size+q.fineResidual)*g.fineResidual
	return (codes + q.centerError + rounding) * engine.Outward
}
