package rank

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
)

// float32Screen compares the float32 numbers of ψ and φ themselves, by any comparison.
type float32Screen struct {
	f       *features
	kernels kernel.Panels
}

func (*float32Screen) name() Screen            { return Float32Screen }
func (x *float32Screen) panels() kernel.Panels { return x.kernels }
func (x *float32Screen) terms() int            { return x.f.tower.Phi }

// arrange puts the candidates in ascending order of ‖φ‖.
func (x *float32Screen) arrange(context.Context, *crew) error {
	x.f.sortBy(x.f.norms)
	return nil
}

func (x *float32Screen) pack(ctx context.Context, c *crew) error {
	f := x.f
	return kernel.Parallel(ctx, len(c.sweepers), f.panelCount(), func(_, p int) {
		c.run.phases.enter(packPhase)
		panel, _ := f.panel(p)
		rows := f.order[p*f.nr : min((p+1)*f.nr, f.n)]
		kernel.PackRows(panel, kernel.Words(f.rows), f.stride(), rows, f.orderOf, f.nr)
	})
}

func (x *float32Screen) packStrips(s *sweeper) {
	f, mr, width := x.f, x.kernels.MR, x.f.tower.Phi
	for row := 0; row < len(s.queries); row += mr {
		n := min(mr, len(s.queries)-row)
		kernel.PackRows(s.strips[row*width:(row+mr)*width], kernel.Words(s.psi), f.stride(), s.ids[row:row+n], f.orderOf, mr)
	}
}

func (x *float32Screen) setThresholds(s *sweeper, row, block int, slack float64) {
	compare := x.f.tower.Compare
	relative, absolute := s.backend.PanelError(compare, x.f.tower.Phi)
	if compare.Distance() {
		s.widen(row, slack, func(lo, hi float64) (float64, float64) {
			margin := 8 * kernel.U64 * (max(math.Abs(lo), math.Abs(hi)) + absolute)
			// A distance D̂ < X(1 − relative) − absolute proves D < X, and D̂ > X(1 + relative) + absolute
			// proves D > X.
			lo = lo*(1+relative*outward) - absolute
			hi = hi*(1-relative*outward) + absolute
			return lo - margin, hi + margin
		})
		return
	}
	band := s.product(row, relative, absolute, x.f.blockNorms[block]) * outward
	s.widen(row, slack, func(lo, hi float64) (float64, float64) {
		margin := 8 * kernel.U64 * (max(math.Abs(lo), math.Abs(hi)) + band + absolute)
		return lo - band - margin, hi + band + margin
	})
}

// refine leaves everything to float64.
func (*float32Screen) refine(*sweeper, int, int32, []uint64, [NumFilters]uint64) bool { return true }
