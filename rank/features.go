package rank

import (
	"context"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// features holds φ of a slice of the candidates twice: by rows for single scores, and in panels for
// the screen. Panels hold the candidates in ascending order of the screen's sort key, so a few
// large candidates do not widen the bands of the others.
type features struct {
	engine.Features
	nr     int
	screen screen
	finer  refiner  // the screen, if it is a refiner, otherwise nil
	panels []uint32 // packed for the screen, which may store codes after them
	// groupNorms and groupSizes hold the largest norm and size in each panel group.
	groupNorms, groupSizes []float64
}

// groupPanels is the number of panels that share the thresholds of the targets: a panel group.
const groupPanels = 16

// panelGroups returns the number of panel groups.
func (f *features) panelGroups() int { return (f.N + groupPanels*f.nr - 1) / (groupPanels * f.nr) }

// packGroups fills the panels, one panel group after the other on each goroutine w. It calls include
// with the rows of the group's candidates, and then pack with the memory and the rows of each panel p of
// the group.
func (f *features) packGroups(
	ctx context.Context, j *engine.Job, include func(group int, rows []int32),
	pack func(w, p int, panel []uint32, rows []int32),
) error {
	return kernel.Parallel(ctx, j.Threads, f.panelGroups(), func(w, group int) {
		j.Phases.Enter(engine.PackPhase)
		perGroup := groupPanels * f.nr
		rows := f.RowAt[group*perGroup : min((group+1)*perGroup, f.N)]
		include(group, rows)
		for at := 0; at < len(rows); at += f.nr {
			p := group*groupPanels + at/f.nr
			panel, _ := f.panel(p)
			pack(w, p, panel, rows[at:min(at+f.nr, len(rows))])
		}
	})
}

// featureBytes returns the memory for the features of one candidate.
func featureBytes(width int) int64 { return rowBytes(width) + int64(4*mostTerms(width)) }

// rowBytes returns the memory for the features of one candidate without its panel.
func rowBytes(width int) int64 {
	row, rest := engine.FeatureBytes(width)
	return row + rest
}

// mostTerms returns the largest number of words that a candidate needs in the panels and after
// them.
func mostTerms(width int) int {
	l1 := int8L1Layout(model.Tower{Phi: width})
	return max(width, int8Words(width)+int8Stride(width), int16Terms(width), l1.terms+l1.stride)
}

// newFeatures reserves memory for up to n candidates.
func newFeatures(j *engine.Job, n int) *features {
	width, nr := engine.WidestTower(j.Model), j.Backend.NR
	padded := (n + nr - 1) / nr * nr
	return &features{
		Features: *engine.NewFeatures(width, n, true), nr: nr,
		panels: kernel.AlignedWords(padded * mostTerms(width)),
	}
}

// use sets the screen.
func (f *features) use(s screen) {
	f.screen = s
	f.finer, _ = s.(refiner)
}

// queryBlock returns the number of queries whose strips fit into the caches together with a panel.
func (f *features) queryBlock() int {
	panels := f.screen.panels()
	psi, _ := panels.Words()
	return panels.QueryBlock(psi * f.screen.terms())
}

// panelWords returns the number of words of a panel.
func (f *features) panelWords() int {
	_, phi := f.screen.panels().Words()
	return f.nr * phi * f.screen.terms()
}

func (f *features) panelCount() int { return (f.N + f.nr - 1) / f.nr }

// aim sets the panel that a call scores, and the panel to prefetch for the next call.
func (f *features) aim(call *kernel.PanelCall, p int) {
	size := f.panelWords()
	call.Panel, call.ValidLanes = f.panel(p)
	call.Ahead = f.panels[min((p+1)*size, len(f.panels)):min((p+2)*size, len(f.panels))]
}

// panel returns panel p and the mask of its lanes that hold candidates.
func (f *features) panel(p int) (panel []uint32, valid uint64) {
	size := f.panelWords()
	lanes := min(f.nr, f.N-p*f.nr)
	return f.panels[p*size : (p+1)*size], uint64(1)<<lanes - 1
}

// boundGroups finds the largest norm and size in every panel group.
func (f *features) boundGroups() {
	f.groupNorms, f.groupSizes = f.groupNorms[:0], f.groupSizes[:0]
	perGroup := groupPanels * f.nr
	for at := 0; at < f.N; at += perGroup {
		var norm, size float64
		for _, i := range f.RowAt[at:min(at+perGroup, f.N)] {
			norm, size = max(norm, f.Norms[i]), max(size, f.Sizes[i])
		}
		f.groupNorms, f.groupSizes = append(f.groupNorms, norm), append(f.groupSizes, size)
	}
}
