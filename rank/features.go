package rank

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// features holds φ of the candidates, by rows for single scores and in panels for the screen. The panels hold the
// candidates in ascending order of ‖φ‖, so that the few large ones do not widen everyone's error band.
type features struct {
	engine.Features
	nr         int
	screen     screen
	panels     []uint32 // packed for the screen, which may keep codes in what they leave free
	blockNorms []float64
	blockSizes []float64
}

// blockPanels is the number of panels that share one pair of thresholds per target.
const blockPanels = 16

// featureBytes is the memory for one candidate's features.
func featureBytes(width int) int64 {
	const rest = 8 + 8 + 4 + 4 // norms, sizes, order, place
	return int64(4*engine.PairPad(width) + 4*mostTerms(width) + rest)
}

// mostTerms is the most words that a candidate may take in the panels, codes for single pairs included.
func mostTerms(width int) int {
	return max(width, int8Words(width)+int8Stride(width), int16Terms(width))
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

// queryBlock is the number of queries whose strips the caches hold beside a panel.
func (f *features) queryBlock() int { return f.screen.panels().QueryBlock(f.screen.terms()) }

func (f *features) panelCount() int { return (f.N + f.nr - 1) / f.nr }

// aim sets what a call needs to know of panel p, with the next panel ahead.
func (f *features) aim(call *kernel.PanelCall, p int) {
	size := f.nr * f.screen.terms()
	call.Panel, call.ValidLanes = f.panel(p)
	call.Ahead = f.panels[min((p+1)*size, len(f.panels)):min((p+2)*size, len(f.panels))]
}

// panel returns panel p and the mask of its lanes that hold candidates.
func (f *features) panel(p int) (panel []uint32, valid uint64) {
	size := f.nr * f.screen.terms()
	lanes := min(f.nr, f.N-p*f.nr)
	return f.panels[p*size : (p+1)*size], uint64(1)<<lanes - 1
}

// boundBlocks finds the largest norm and size in every block of panels.
func (f *features) boundBlocks() {
	f.blockNorms, f.blockSizes = f.blockNorms[:0], f.blockSizes[:0]
	perBlock := blockPanels * f.nr
	for at := 0; at < f.N; at += perBlock {
		var norm, size float64
		for _, i := range f.Order[at:min(at+perBlock, f.N)] {
			norm, size = max(norm, f.Norms[i]), max(size, f.Sizes[i])
		}
		f.blockNorms, f.blockSizes = append(f.blockNorms, norm), append(f.blockSizes, size)
	}
}
