package train

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// plot draws the loss and the validation by epoch.
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
	losses := []series{{"total", total}}
	if r.Recipe.ZSamples > 0 || r.Recipe.Regulariser != model.NoPenalty {
		losses = append(losses, series{"fit", fit})
	}
	if r.Recipe.ZSamples > 0 {
		losses = append(losses, series{"Z-samples", z})
	}
	if r.Recipe.Regulariser != model.NoPenalty {
		losses = append(losses, series{"regulariser", regulariser})
	}
	if err := r.writePlot(lossPlotName, "loss", losses); err != nil {
		return err
	}
	if len(metrics[rank.BothSides]) == 0 {
		return nil
	}
	return r.writePlot(metricPlotName, "MRR, validation split, filter all, realistic ties", []series{
		{"tail", metrics[rank.TailSide]}, {"head", metrics[rank.HeadSide]}, {"both", metrics[rank.BothSides]},
	})
}

// series is a named line.
type series struct {
	name   string
	points plotter.XYs
}

func (r *Run) writePlot(file, title string, lines []series) error {
	title = fmt.Sprintf("%s, d = %d, %s: %s", r.Recipe.Model, r.Recipe.Dim, r.Graph.Name, title)
	return writePlot(r.path(file), title, lines, file == lossPlotName)
}

// writePlot draws lines by epoch. Those without a name are in the background.
func writePlot(path, title string, lines []series, legendTop bool) error {
	p := plot.New()
	p.Title.Text = text.Escape(title)
	p.X.Label.Text = "epoch"
	named := 0
	for _, l := range lines {
		line, points, err := plotter.NewLinePoints(l.points)
		if err != nil {
			return fmt.Errorf("drawing %s: %w", path, err)
		}
		line.Color, points.Color = color.Gray{190}, color.Gray{190}
		if l.name != "" {
			line.Color, points.Color = plotutil.Color(named), plotutil.Color(named)
			p.Legend.Add(l.name, line)
			named++
		}
		p.Add(line, points)
	}
	// An axis from 0 has a length, whatever the values.
	p.Y.Min = min(0, p.Y.Min)
	if p.Y.Max <= p.Y.Min {
		p.Y.Max = p.Y.Min + 1
	}
	p.Legend.Top = legendTop
	canvas := vgsvg.New(640, 400)
	p.Draw(vgdraw.New(canvas))
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := canvas.WriteTo(w)
		return err
	})
}

// plot draws the metric of every trial by the rungs that it has come to, the best few in colour.
func (t *Tuning) plot() error {
	const coloured = 3
	points := map[int]plotter.XYs{}
	for _, trial := range t.trials {
		if trial.Failed == "" {
			points[trial.Trial] = append(points[trial.Trial], plotter.XY{X: float64(trial.Epochs), Y: trial.Value})
		}
	}
	var best, others []series
	for _, trial := range t.Ranked() {
		switch xy := points[trial.Trial]; {
		case xy == nil:
		case len(best) < coloured:
			best = append(best, series{fmt.Sprintf("trial %d", trial.Trial), xy})
		default:
			others = append(others, series{"", xy})
		}
	}
	if best == nil {
		return nil
	}
	title := fmt.Sprintf("%s: %s of %d trials, validation split", t.Graph.Name, t.trials[0].Metric, len(t.Ranked()))
	return writePlot(t.path(trialsPlotName), title, append(others, best...), false)
}
