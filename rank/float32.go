package rank

import (
	"context"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// float32Screen compares ψ and φ in float32 and supports every comparison.
type float32Screen struct {
	f       *features
	backend *kernel.Backend
}

func (*float32Screen) name() Screen            { return Float32Screen }
func (x *float32Screen) panels() kernel.Panels { return x.backend.Panels(x.f.Tower.Compare) }
func (x *float32Screen) terms() int            { return x.f.Tower.Terms() }

// sortKey returns ‖φ‖.
func (x *float32Screen) sortKey(context.Context, *engine.Job) ([]float64, error) {
	return x.f.Norms, nil
}

func (x *float32Screen) pack(ctx context.Context, j *engine.Job) error {
	f := x.f
	return kernel.Parallel(ctx, j.Threads, f.panelCount(), func(_, p int) {
		j.Phases.Enter(engine.PackPhase)
		panel, _ := f.panel(p)
		rows := f.RowAt[p*f.nr : min((p+1)*f.nr, f.N)]
		kernel.PackRows(panel, kernel.Words(f.Rows), f.Stride(), rows, f.TermOrder, f.nr)
	})
}

func (x *float32Screen) packQueries(q *packedQueries, v *engine.Vectors, n int) {
	panels, stride := x.panels(), v.Stride()
	for first := 0; first < n; first += panels.MR {
		q.packStrip(panels, first, n, kernel.Words(v.Psi[first*stride:]), stride, x.f.PsiOrder)
	}
}

func (x *float32Screen) margins(_ *packedQueries, v *engine.Vectors, row, group int) margins {
	compare := x.f.Tower.Compare
	relative, absolute := x.backend.PanelError(compare, x.f.Tower.Terms())
	m := margins{absolute: absolute, rounding: absolute}
	if compare.Products() {
		band := v.Product(row, relative, absolute, x.f.groupNorms[group]) * engine.Outward
		m.absolute, m.rounding = band, band+absolute
	}
	if compare.Distance() {
		m.relative = relative * engine.Outward
	}
	return m
}
