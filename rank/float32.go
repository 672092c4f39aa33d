package rank

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// float32Screen compares the float32 numbers of ψ and φ themselves, by any comparison.
type float32Screen struct {
	f       *features
	kernels kernel.Panels
}

func (*float32Screen) name() Screen            { return Float32Screen }
func (x *float32Screen) panels() kernel.Panels { return x.kernels }
func (x *float32Screen) terms() int            { return x.f.Tower.Phi }

// arrange puts the candidates in ascending order of ‖φ‖.
func (x *float32Screen) arrange(context.Context, *cpuEngine) error {
	x.f.SortBy(x.f.Norms)
	return nil
}

func (x *float32Screen) pack(ctx context.Context, e *cpuEngine) error {
	f := x.f
	return kernel.Parallel(ctx, e.job.Threads, f.panelCount(), func(_, p int) {
		e.job.Phases.Enter(engine.PackPhase)
		panel, _ := f.panel(p)
		rows := f.Order[p*f.nr : min((p+1)*f.nr, f.N)]
		kernel.PackRows(panel, kernel.Words(f.Rows), f.Stride(), rows, f.Terms, f.nr)
	})
}

func (x *float32Screen) packStrips(s *sweeper) {
	f, mr, width := x.f, x.kernels.MR, x.f.Tower.Phi
	for row := 0; row < len(s.Queries); row += mr {
		n := min(mr, len(s.Queries)-row)
		kernel.PackRows(s.strips[row*width:(row+mr)*width], kernel.Words(s.Psi), f.Stride(), s.ids[row:row+n], f.Terms, mr)
	}
}

func (x *float32Screen) setThresholds(s *sweeper, row, block int, slack float64) {
	compare := x.f.Tower.Compare
	relative, absolute := s.Job.Backend.PanelError(compare, x.f.Tower.Phi)
	if compare.Distance() {
		s.widen(row, slack, func(lo, hi float64) (float64, float64) {
			margin := 8 * kernel.U64 * (max(math.Abs(lo), math.Abs(hi)) + absolute)
			// A distance D̂ < X(1 − relative) − absolute proves D < X, and D̂ > X(1 + relative) + absolute
			// proves D > X.
			lo = lo*(1+relative*engine.Outward) - absolute
			hi = hi*(1-relative*engine.Outward) + absolute
			return lo - margin, hi + margin
		})
		return
	}
	band := s.Product(row, relative, absolute, x.f.blockNorms[block]) * engine.Outward
	s.widen(row, slack, func(lo, hi float64) (float64, float64) {
		margin := 8 * kernel.U64 * (max(math.Abs(lo), math.Abs(hi)) + band + absolute)
		return lo - band - margin, hi + band + margin
	})
}

// refine leaves everything to float64.
func (*float32Screen) refine(*sweeper, int, int32, []uint64, [NumFilters]uint64) bool { return true }
