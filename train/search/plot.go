package search

import (
	"fmt"

	"gonum.org/v1/plot/plotter"

	"github.com/mquine/mquine/train/internal/lineplot"
)

// plot draws the metric of every trial at the rungs that the trial has reached. Only the best
// trials are in colour.
func (f *Folder) plot() error {
	const coloured = 3
	points := map[int]plotter.XYs{}
	for _, trial := range f.trials {
		if trial.Failed == "" {
			points[trial.Trial] = append(points[trial.Trial], plotter.XY{X: float64(trial.Epochs), Y: trial.Value})
		}
	}
	var best, others []lineplot.Line
	for _, trial := range f.Ranked() {
		switch xy := points[trial.Trial]; {
		case xy == nil:
		case len(best) < coloured:
			best = append(best, lineplot.Line{Name: fmt.Sprintf("trial %d", trial.Trial), Points: xy})
		default:
			others = append(others, lineplot.Line{Points: xy})
		}
	}
	if best == nil {
		return nil
	}
	title := fmt.Sprintf("%s: %s of %d trials, validation split", f.Graph.Name, f.trials[0].Metric, len(f.Ranked()))
	return lineplot.Write(f.path(trialsPlotName), title, append(others, best...), false)
}
