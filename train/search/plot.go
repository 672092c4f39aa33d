package search

import (
	"fmt"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/train/run"
)

// plot draws the metric of every trial at the rungs that the trial has reached. Only the best
// trials are in colour. interrupted is the state of a trial between two rungs, or nil.
func (f *Folder) plot(interrupted *Trial) error {
	const coloured = 3
	points := map[int][]plot.Point{}
	add := func(t Trial, state string) {
		metric := fmt.Sprintf("trial %d%s: %s %.4f after %s", t.Trial, state, t.Metric, t.Value,
			text.Plural(t.Trained(), "epoch"))
		points[t.Trial] = append(points[t.Trial], plot.Point{X: float64(t.Trained()), Y: t.Value, Hover: metric})
	}
	for _, t := range f.trials {
		if t.Failed == "" {
			add(t, "")
		}
	}
	var best, others []plot.Series
	failed := 0
	for _, t := range f.Ranked() {
		switch p := points[t.Trial]; {
		case t.Failed != "":
			failed++
		case len(best) < coloured:
			best = append(best, plot.Series{Name: fmt.Sprintf("trial %d", t.Trial), Points: p})
		default:
			others = append(others, plot.Series{Hue: plot.Soft, Points: p})
		}
	}
	if best == nil {
		return nil
	}
	if t := interrupted; t != nil {
		add(*t, ", interrupted")
		p := points[t.Trial]
		best = append(best, plot.Series{Name: fmt.Sprintf("trial %d, interrupted", t.Trial),
			Hue: plot.Soft, Dashed: true, Points: p[max(len(p)-2, 0):]})
	}
	metric, trials := f.trials[0].Metric, text.Plural(len(f.Ranked()), "trial")
	c := plot.Chart{
		Title:  fmt.Sprintf("%s: %s of %s, validation split", f.Graph.Name, metric, trials),
		X:      plot.Axis{Label: "epochs (logarithmic)", Log: true},
		Y:      plot.Axis{Label: "best " + metric + " so far"},
		Series: append(others, best...),
	}
	for _, rung := range f.Rungs {
		c.X.Ticks = append(c.X.Ticks, float64(rung))
	}
	if failed > 0 {
		c.Note = text.Count(failed, "failed trial is", "failed trials are") + " not shown."
	}
	return atomicfile.WriteBytes(f.path(trialsPlotName), plot.SVG(c))
}

// plotInterrupted draws the trials and the state of the run that was interrupted.
func (f *Folder) plotInterrupted(t Trial, r *run.Run) error {
	log := r.Log()
	if len(log) == 0 {
		return nil
	}
	t.Epochs = log[len(log)-1].Epoch
	var err error
	if t.BestEpoch, t.Value, err = r.BestUpTo(t.Epochs); err != nil || t.BestEpoch == 0 {
		return err
	}
	return f.plot(&t)
}
