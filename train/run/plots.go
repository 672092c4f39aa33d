package run

import (
	"fmt"

	"gonum.org/v1/plot/plotter"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train/internal/lineplot"
)

// plot draws the loss and the validation measures of all epochs.
func (r *Run) plot() error {
	var total, fit, z, regulariser plotter.XYs
	metrics := make([]plotter.XYs, 3)
	for _, e := range r.log {
		at := func(y float64) plotter.XY { return plotter.XY{X: float64(e.Epoch), Y: y} }
		total, fit = append(total, at(e.Loss.Total)), append(fit, at(e.Loss.Fit))
		z, regulariser = append(z, at(e.Loss.Z)), append(regulariser, at(e.Loss.Regulariser))
		for _, s := range e.Valid {
			if s.Filter == rank.All {
				metrics[s.Side] = append(metrics[s.Side], at(s.MRR))
			}
		}
	}
	losses := []lineplot.Line{{Name: "total", Points: total}}
	if r.Recipe.ZSamples > 0 || r.Recipe.Regulariser != model.NoPenalty {
		losses = append(losses, lineplot.Line{Name: "fit", Points: fit})
	}
	if r.Recipe.ZSamples > 0 {
		losses = append(losses, lineplot.Line{Name: "Z-samples", Points: z})
	}
	if r.Recipe.Regulariser != model.NoPenalty {
		losses = append(losses, lineplot.Line{Name: "regulariser", Points: regulariser})
	}
	if err := r.writePlot(lossPlotName, "loss", losses); err != nil {
		return err
	}
	if len(metrics[rank.BothSides]) == 0 {
		return nil
	}
	return r.writePlot(metricPlotName, "MRR, validation split, filter all, realistic ties", []lineplot.Line{
		{Name: "tail", Points: metrics[rank.TailSide]},
		{Name: "head", Points: metrics[rank.HeadSide]},
		{Name: "both", Points: metrics[rank.BothSides]},
	})
}

func (r *Run) writePlot(file, title string, lines []lineplot.Line) error {
	title = fmt.Sprintf("%s, d = %d, %s: %s", r.Recipe.Model, r.Recipe.Dim, r.Graph.Name, title)
	return lineplot.Write(r.path(file), title, lines, file == lossPlotName)
}
