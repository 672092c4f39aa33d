package run

import (
	"fmt"
	"math"
	"time"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
)

// plotting says when plots are due.
type plotting struct {
	final bool // the epoch is the last one to train
	epoch int  // the last epoch in the plots; 0 before this process draws them
	drawn time.Time
	took  time.Duration // to draw them
}

// plotPause is the least time from one drawing to the next, as a multiple of the time that a drawing takes. This
// time grows with the number of epochs, so drawing after each of many short epochs would take longer than training.
const plotPause = 20

// plotIfDue draws the plots after the last epoch, and otherwise unless it would take too much of the time.
func (r *Run) plotIfDue() error {
	start, p := time.Now(), &r.plots
	if !p.final && start.Sub(p.drawn) < plotPause*p.took {
		return nil
	}
	if err := r.plot(); err != nil {
		return err
	}
	p.epoch, p.drawn, p.took = r.progress.epoch, time.Now(), time.Since(start)
	return nil
}

// completePlots draws the plots of a run that an error ends, if they may lack epochs. It returns no error, because
// the run ends with another one.
func (r *Run) completePlots() {
	if len(r.log) > 0 && r.plots.epoch != r.progress.epoch && r.lock.Check() == nil {
		_ = r.plot()
	}
}

// plot draws the loss and the validation measures of all epochs.
func (r *Run) plot() error {
	title := fmt.Sprintf("%s, d = %d, %s: ", r.Recipe.Model, r.Recipe.Dim, r.Graph.Name)
	h := History{Recipe: r.Recipe, Epochs: r.log}
	loss := h.LossChart()
	loss.Title = title + "loss"
	if err := atomicfile.WriteBytes(r.path(lossPlotName), plot.SVG(loss)); err != nil {
		return err
	}
	validation, ok := h.ValidationChart()
	if !ok {
		return nil
	}
	validation.Title = title + "MRR, validation split, filter all, realistic ties"
	return atomicfile.WriteBytes(r.path(metricPlotName), plot.SVG(validation))
}

// epochAxis returns the axis of the charts, with a rule at the best epoch.
func (h History) epochAxis() plot.Axis {
	axis := plot.Axis{Label: "epoch", Integer: true}
	if best, ok := h.Best(); ok {
		axis.Rules = []plot.Rule{{At: float64(best.Epoch), Label: "best"}}
	}
	return axis
}

// LossChart returns a chart of the loss and its parts. The Y axis is logarithmic if the total changes
// by more than a factor of 3, because the first epochs would otherwise flatten all others.
func (h History) LossChart() plot.Chart {
	series := func(name string, value func(train.Loss) float64) plot.Series {
		s := plot.Series{Name: name}
		for _, e := range h.Epochs {
			s.Points = append(s.Points, plot.Point{X: float64(e.Epoch), Y: value(e.Loss)})
		}
		return s
	}
	c := plot.Chart{X: h.epochAxis(), Y: plot.Axis{Label: "loss"}}
	total := series("total", func(l train.Loss) float64 { return l.Total })
	c.Series = []plot.Series{total}
	if h.Recipe.ZSamples > 0 || h.Recipe.RelationWeight > 0 || h.Recipe.Penalised() {
		c.Series = append(c.Series, series("fit", func(l train.Loss) float64 { return l.Fit }))
	}
	if h.Recipe.ZSamples > 0 {
		c.Series = append(c.Series, series("Z-samples", func(l train.Loss) float64 { return l.Z }))
	}
	if h.Recipe.RelationWeight > 0 {
		c.Series = append(c.Series, series("relations", func(l train.Loss) float64 { return l.Relations }))
	}
	if h.Recipe.Penalised() {
		c.Series = append(c.Series, series("regulariser", func(l train.Loss) float64 { return l.Regulariser }))
	}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, p := range total.Points {
		lowest, highest = min(lowest, p.Y), max(highest, p.Y)
	}
	const steep, smallest = 3, 1e-3
	if c.Y.Log = lowest > 0 && highest > steep*lowest; !c.Y.Log {
		c.Y.Include = []float64{0}
		return c
	}
	c.Y.Label = "loss (logarithmic)"
	for _, s := range c.Series {
		for i := range s.Points {
			if p := &s.Points[i]; p.Y < smallest*lowest {
				p.Y = math.NaN()
				c.Note = "Parts below 0.1% of the lowest total are not shown."
			}
		}
	}
	return c
}

// ValidationChart returns a chart of the MRR on the validation split, or false if no epoch was
// validated.
func (h History) ValidationChart() (plot.Chart, bool) {
	c := plot.Chart{X: h.epochAxis(), Y: plot.Axis{Label: "MRR", Include: []float64{0}}}
	for _, side := range []struct {
		name string
		side rank.Sides
	}{{"tail", rank.TailSide}, {"head", rank.HeadSide}, {"both", rank.BothSides}} {
		s := plot.Series{Name: side.name}
		for _, e := range h.Epochs {
			for _, score := range e.Valid {
				if score.Filter == rank.All && score.Side == side.side {
					s.Points = append(s.Points, plot.Point{X: float64(e.Epoch), Y: score.MRR})
				}
			}
		}
		if len(s.Points) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c, len(c.Series) > 0
}
