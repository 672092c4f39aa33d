package report

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
	"github.com/mquine/mquine/train/run"
)

// checkpoint describes the model that the run trains.
func (r Run) checkpoint() metrics.Checkpoint {
	return metrics.Checkpoint{Model: r.Recipe.Model, Dim: r.Recipe.Dim, Reciprocal: r.Recipe.Reciprocal,
		InverseWeight: r.Recipe.InverseWeight}
}

// section returns the section of a training run.
func (r Run) section(id string) section {
	s := section{
		ID: id, Title: fmt.Sprintf("%s: %s trained on %s", r.Name,
			modelOf(r.checkpoint()), r.data()),
		Lead: r.lead(), Tiles: r.tiles(),
	}
	s.add(r.curves())
	s.add(r.options())
	return s
}

// data returns the name of the data set, without the folder that contains it.
func (r Run) data() string {
	if kg.IsFolder(r.Data) {
		return filepath.Base(r.Data)
	}
	return r.Data
}

func (r Run) last() run.Epoch { return r.Epochs[len(r.Epochs)-1] }

// lead says how many epochs of the run are done, and how good its best validation was.
func (r Run) lead() string {
	last, planned := r.last().Epoch, r.Recipe.Epochs
	lead := fmt.Sprintf("All %s are done.", text.Plural(planned, "epoch"))
	if last < planned {
		lead = fmt.Sprintf("%d of %s are done.", last, text.Plural(planned, "epoch"))
		waited := r.Recipe.Patience * r.Recipe.ValidEvery
		if best, ok := r.Best(); ok && waited > 0 && last-best.Epoch >= waited {
			lead = fmt.Sprintf("The run stopped early, after %d of %s.", last, text.Plural(planned, "epoch"))
		}
	}
	if best, ok := r.Best(); ok {
		lead += fmt.Sprintf(" The best validation was after epoch %d: %v is %s.", best.Epoch, r.Recipe.ValidMetric,
			number(metrics.Number(best.Valid.Of(r.Recipe.ValidMetric)), 4))
	} else {
		lead += " No epoch was validated."
	}
	return lead
}

func (r Run) tiles() []tile {
	var training, validation, processor, triples float64
	for _, e := range r.Epochs {
		training += e.Seconds
		validation += e.ValidSeconds
		processor += e.ProcessorSeconds
		triples += e.TriplesPerSecond * e.Seconds
	}
	rate := ""
	if training > 0 {
		rate = text.Comma(int(triples/training)) + " triples per second of training"
	}
	var t []tile
	if best, ok := r.Best(); ok {
		t = append(t, tile{"Best " + r.Recipe.ValidMetric.String(),
			number(metrics.Number(best.Valid.Of(r.Recipe.ValidMetric)), 4), fmt.Sprintf("epoch %d", best.Epoch)})
	}
	t = append(t,
		tile{"Epochs", fmt.Sprint(r.last().Epoch), fmt.Sprintf("of %d", r.Recipe.Epochs)},
		tile{"Last loss", number(metrics.Number(r.last().Loss.Total), 4), ""},
		tile{"Time", seconds(training + validation), rate})
	if processor > 0 {
		t = append(t, tile{"Processor time", seconds(processor), "all threads, with validation"})
	}
	return t
}

// curves draws the loss and the validation measures.
func (r Run) curves() part {
	loss := r.LossChart()
	loss.Title, loss.Width = "Loss", chartWidth
	p := part{Title: "Training curves", Charts: []plot.Chart{loss}}
	if chart, ok := r.ValidationChart(); ok {
		chart.Title, chart.Width = "MRR on the validation split", chartWidth
		p.Charts = append(p.Charts, chart)
		p.Text = "The validation MRR has filter all and realistic ties."
		if best, ok := r.Best(); ok {
			p.Text += fmt.Sprintf(" The best epoch by %v, %d, is marked.", r.Recipe.ValidMetric, best.Epoch)
		}
	}
	return p
}

// validation returns a metric of the validated epochs.
func (r Run) validation(metric recipe.Metric) plot.Series {
	var line plot.Series
	for _, e := range r.Epochs {
		if slices.ContainsFunc(e.Valid, func(s train.Score) bool {
			return s.Side == metric.Side && s.Filter == metric.Filter
		}) {
			line.Points = append(line.Points, plot.Point{X: float64(e.Epoch), Y: e.Valid.Of(metric)})
		}
	}
	return line
}

// options returns the options of the run. Options that differ from the defaults of the model come
// first.
func (r Run) options() part {
	columns := textColumns("Option", "Value", "Default of "+r.Recipe.Model)
	changed := table{Caption: "Options that differ from the defaults", Columns: columns}
	all := table{Caption: "All options", Columns: columns}
	defaults, err := recipe.DefaultFor(r.Recipe.Model)
	if err != nil {
		defaults = recipe.Default()
	}
	initial := defaults.Options()
	for i, o := range r.Recipe.Options() {
		row := texts(o.Key, o.Value.String(), initial[i].Value.String())
		if row[1].Text != row[2].Text {
			row[1].Bold = true
			changed.Rows = append(changed.Rows, row)
		}
		all.Rows = append(all.Rows, row)
	}
	p := part{Title: "Options", Folded: []folded{{fmt.Sprintf("All %d options", len(all.Rows)), all}}}
	if len(changed.Rows) > 0 {
		p.Text = "These options differ from the defaults of the model."
		p.Tables = []table{changed}
	} else {
		p.Text = "All options have the defaults of the model."
	}
	p.Facts = []fact{{Name: "Data set", Value: r.Data, Code: true}}
	return p
}

// runBoards returns a section for each set of runs on the same data set that select epochs by the
// same metric.
func (p *Page) runBoards() []section {
	type goal struct {
		data   string
		metric recipe.Metric
	}
	sets := map[goal][]int{}
	var order []goal
	for i, r := range p.Runs {
		g := goal{r.Data, r.Recipe.ValidMetric}
		if sets[g] == nil {
			order = append(order, g)
		}
		sets[g] = append(sets[g], i)
	}
	var sections []section
	for _, g := range order {
		if len(sets[g]) > 1 {
			sections = append(sections, p.runBoard(sectionID("runs", len(sections)), sets[g]))
		}
	}
	return sections
}

// runBoard compares the runs with the given indices.
func (p *Page) runBoard(id string, of []int) section {
	metric := p.Runs[of[0]].Recipe.ValidMetric
	chart := plot.Chart{
		Title: metric.String() + " on the validation split", Width: chartWidth,
		X: plot.Axis{Label: "epoch", Integer: true, Include: []float64{1}},
		Y: plot.Axis{Label: metrics.MetricName(metric.Name)},
	}
	t := table{
		Caption: "Best epochs of the runs",
		Columns: slices.Concat(textColumns("Run"),
			numberColumns(metric.String(), "Best epoch", "Epochs", "Planned", "Time"), textColumns("Model")),
	}
	values := make([]metrics.Number, len(of))
	for row, i := range of {
		r := p.Runs[i]
		line := r.validation(metric)
		line.Name = r.Name
		if len(line.Points) > 0 {
			chart.Series = append(chart.Series, line)
		}
		values[row] = undefined
		best, wall := "–", 0.0
		if e, ok := r.Best(); ok {
			values[row], best = metrics.Number(e.Valid.Of(metric)), fmt.Sprint(e.Epoch)
		}
		for _, e := range r.Epochs {
			wall += e.Seconds + e.ValidSeconds
		}
		cells := []cell{{Text: r.Name, Link: sectionID("run", i)}}
		t.Rows = append(t.Rows, append(cells, texts(number(values[row], 4), best, fmt.Sprint(r.last().Epoch),
			fmt.Sprint(r.Recipe.Epochs), seconds(wall),
			modelOf(r.checkpoint()))...))
	}
	markBest(t.Rows, 1, true, func(row int) metrics.Number { return values[row] })
	s := section{ID: id, Title: "Side by side: runs on " + p.Runs[of[0]].data()}
	best := part{Title: "Best epochs", Tables: []table{t}}
	if len(chart.Series) > 0 {
		best.Charts = []plot.Chart{chart}
	}
	s.add(best)
	return s
}
