package rank

import (
	"context"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// residualCodes is the common part of the screens of group norms and of phases: the panels and the
// residuals of the candidates. The residual of a vector is an upper bound on the sum of the distances of
// its groups or pairs from their codes.
type residualCodes struct {
	f          *features
	kernels    kernel.Panels
	layout     codeLayout
	newEncoder func() rowEncoder // called once for each goroutine
	residuals  []float64         // by row, the candidates' residuals, between sortKey and pack
	groups     []float64         // the largest residuals of the candidates in a panel group
}

// rowEncoder writes the codes of a candidate to words, and returns its residual.
type rowEncoder func(words []uint32, row []float32) (residual float64)

func (x *residualCodes) panels() kernel.Panels { return x.kernels }
func (x *residualCodes) terms() int            { return x.layout.terms }

// scratch returns an encoder and memory for the codes of some rows, both for each goroutine.
func (x *residualCodes) scratch(threads, rows int) (encoders []rowEncoder, tables [][]uint32) {
	for range threads {
		encoders = append(encoders, x.newEncoder())
		tables = append(tables, make([]uint32, rows*x.layout.terms))
	}
	return encoders, tables
}

// sortKey returns the residuals.
func (x *residualCodes) sortKey(ctx context.Context, j *engine.Job) ([]float64, error) {
	encoders, tables := x.scratch(j.Threads, 1)
	x.residuals = make([]float64, x.f.N)
	err := engine.InChunks(ctx, j.Threads, x.f.N, 256, func(w, first, last int) {
		j.Phases.Enter(engine.PackPhase)
		for i := first; i < last; i++ {
			x.residuals[i] = encoders[w](tables[w], x.f.Row(int32(i)))
		}
	})
	return x.residuals, err
}

func (x *residualCodes) pack(ctx context.Context, j *engine.Job) error {
	f, n := x.f, x.layout.terms
	encoders, tables := x.scratch(j.Threads, f.nr)
	lanes, terms := ascending(f.nr), ascending(n)
	x.groups = make([]float64, f.panelGroups())
	defer func() { x.residuals = nil }()
	return f.packGroups(ctx, j, func(group int, rows []int32) {
		for _, i := range rows {
			x.groups[group] = max(x.groups[group], x.residuals[i])
		}
	}, func(w, _ int, panel []uint32, rows []int32) {
		for k, i := range rows {
			encoders[w](tables[w][k*n:(k+1)*n], f.Row(i))
		}
		kernel.PackRows(panel, tables[w], n, lanes[:len(rows)], terms, f.nr)
	})
}
