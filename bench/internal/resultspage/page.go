package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// pages maps each page in the folder docs to its template in docs/results.
var pages = map[string]string{"results.md": "page.md.tmpl", "reproduction.md": "reproduction.md.tmpl"}

// render returns a page for the records in a folder, from a template in the folder.
func render(folder, file string) ([]byte, error) {
	datasets, err := load(folder)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		return nil, err
	}
	table := func(write func(d *dataset) string) func(name string) (string, error) {
		return func(name string) (string, error) {
			for _, d := range datasets {
				if d.Name == name {
					return write(d), nil
				}
			}
			return "", fmt.Errorf("datasets.jsonl has no data set %q", name)
		}
	}
	page, err := template.New(file).Funcs(template.FuncMap{
		"headline":    func() string { return headline(datasets) },
		"runs":        table(runs),
		"first":       table(first),
		"models":      func() string { return models(datasets) },
		"ablation":    func() string { return ablation(datasets) },
		"ingredients": table(ingredients),
		"paper":       table(paper),
		"cases":       table(cases),
		"ensembles":   func() string { return ensembles(datasets) },
		"differences": table(differences),
		"commands":    table(commands),
	}).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := page.Execute(&b, nil); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// headline returns the table of the tuned data sets.
func headline(datasets []*dataset) string {
	rows := [][]string{{"data set", "run with the preset", fullProtocol, paperProtocol, "paper, " + paperProtocol}}
	for _, d := range datasets {
		if d.Best == "" {
			continue
		}
		r := *d.run(d.Best)
		rows = append(rows, []string{
			fmt.Sprintf("[%s](#%s)", d.Title, strings.ToLower(d.Title)), name(r),
			mrr(r, fullProtocol), mrr(r, paperProtocol), fmt.Sprintf("%.3f", d.Paper),
		})
	}
	return markdown(rows)
}

// models returns the table of the first results of all models: MRR and time on each data set.
func models(datasets []*dataset) string {
	var names []string
	var with []*dataset
	for _, d := range datasets {
		any := false
		for _, r := range d.runs {
			if r.Group == firstGroup {
				any = true
				if !slices.Contains(names, r.Model) {
					names = append(names, r.Model)
				}
			}
		}
		if any {
			with = append(with, d)
		}
	}
	slices.Sort(names)
	header := []string{"model"}
	for _, d := range with {
		header = append(header, d.Title, "time")
	}
	rows := [][]string{header}
	for _, model := range names {
		row := []string{code(model)}
		for _, d := range with {
			mrr, time := "–", "–"
			for _, r := range d.runs {
				if r.Group == firstGroup && r.Model == model {
					mrr, time = figure(r.MRR[fullProtocol]), processorTime(r)
				}
			}
			row = append(row, mrr, time)
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// ablation returns the table of the runs with the plain recipe. A run that is paired with another is
// the same run with Z-samples.
func ablation(datasets []*dataset) string {
	rows := [][]string{
		{"data set", "model, recipe", "without", "with", "difference", "95% interval", "p", "processor time"},
	}
	for _, d := range datasets {
		for _, r := range d.runs {
			if r.Group != plainGroup || len(r.Paired) == 0 {
				continue
			}
			p := r.Paired[0]
			less := *d.run(p.Less)
			rows = append(rows, []string{
				d.Title, name(less), mrr(less, fullProtocol), mrr(r, fullProtocol), signed(p.Difference), p.interval(),
				p.chance(), processorTime(less) + ", " + processorTime(r),
			})
		}
	}
	return markdown(rows)
}

// ingredients returns the table of a recipe, the first of its group, and of changes to it. A row is the
// mean over the seeds of a change. Each of its runs is compared with the run of the first recipe that
// has the same seed.
func ingredients(d *dataset) string {
	var changes []string
	byChange := map[string][]record{}
	for _, r := range d.runs {
		if r.Group == ingredientsGroup {
			if byChange[r.Recipe] == nil {
				changes = append(changes, r.Recipe)
			}
			byChange[r.Recipe] = append(byChange[r.Recipe], r)
		}
	}
	rows := [][]string{{"change", fullProtocol, "difference", "lowest and highest", "seeds", "processor time"}}
	for i, change := range changes {
		all := byChange[change]
		var sum float64
		var differences []float64
		for _, r := range all {
			sum += r.MRR[fullProtocol]
			for _, base := range byChange[changes[0]] {
				if base.Seed == r.Seed {
					differences = append(differences, r.MRR[fullProtocol]-base.MRR[fullProtocol])
				}
			}
		}
		n := float64(len(all))
		row := []string{change, figure(sum / n), "–", "–", fmt.Sprint(len(all)), processorTime(all[0])}
		if i > 0 && len(differences) > 0 {
			sum = 0
			for _, x := range differences {
				sum += x
			}
			row[2] = signed(sum / float64(len(differences)))
			row[3] = signed(slices.Min(differences)) + ", " + signed(slices.Max(differences))
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// paper returns the table of the runs with the paper's recipe. A run that is paired with another has the
// difference in its last column.
func paper(d *dataset) string {
	rows := [][]string{{
		"run", "model, recipe", fullProtocol, "95% interval", paperProtocol, "Hits@1", "Hits@10", "seed", "epochs",
		"processor time", "difference",
	}}
	for _, r := range d.runs {
		if r.Group != paperGroup {
			continue
		}
		row := []string{
			code(r.Run), name(r), mrr(r, fullProtocol), r.CI.String(), mrr(r, paperProtocol), figure(r.Hits1),
			figure(r.Hits10), fmt.Sprint(r.Seed), fmt.Sprint(r.Epochs), processorTime(r), "–",
		}
		if len(r.Paired) > 0 {
			p := r.Paired[0]
			row[10] = fmt.Sprintf("%s (%s) from %s", signed(p.Difference), p.interval(), code(p.Less))
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// cases returns the table of Hits@10 by Z-case of the runs with the paper's recipe.
func cases(d *dataset) string {
	rows := [][]string{append([]string{"run", "model, recipe"}, zCases...)}
	for _, r := range d.runs {
		if r.Group == paperGroup {
			row := []string{code(r.Run), name(r)}
			for _, c := range zCases {
				if hits, ok := r.Cases[c]; ok {
					row = append(row, figure(hits))
				} else {
					row = append(row, "–")
				}
			}
			rows = append(rows, row)
		}
	}
	return markdown(rows)
}

// ensembles returns the table of the ensembles. Each is compared with one of its members.
func ensembles(datasets []*dataset) string {
	rows := [][]string{{
		"data set", "members", "weights", fullProtocol, "95% interval", paperProtocol, "Hits@1", "Hits@10",
		"difference", "95% interval", "p",
	}}
	for _, d := range datasets {
		for _, r := range d.runs {
			if r.Group != ensembleGroup {
				continue
			}
			members := strings.Fields(r.Options)
			weights := make([]string, len(members))
			for i, m := range members {
				members[i], weights[i] = code(m), fmt.Sprint(r.Weights[i])
			}
			p := r.Paired[0]
			row := []string{
				d.Title, strings.Join(members, ", "), strings.Join(weights, ", "), mrr(r, fullProtocol),
				r.CI.String(), mrr(r, paperProtocol), figure(r.Hits1), figure(r.Hits10),
				signed(p.Difference) + " from " + code(p.Less), p.interval(), p.chance(),
			}
			rows = append(rows, row)
		}
	}
	return markdown(rows)
}

// runs returns the table of the tuned runs, and their notes.
func runs(d *dataset) string {
	header := append([]string{"run", "model, recipe"}, protocols...)
	rows := [][]string{append(header, "95% interval", "Hits@10", "seed", "epochs", "processor time")}
	notes := ""
	for _, r := range d.runs {
		if r.Group != "" {
			continue
		}
		row := []string{code(r.Run), name(r)}
		for _, p := range protocols {
			row = append(row, mrr(r, p))
		}
		time := strings.TrimSuffix(r.ProcessorTime+", "+r.Machine, ", ")
		if r.Threads != 1 {
			time += fmt.Sprintf(", %d threads", r.Threads)
		}
		row = append(row, r.CI.String(), figure(r.Hits10), fmt.Sprint(r.Seed), fmt.Sprint(r.Epochs), time)
		rows = append(rows, row)
		if r.Note != "" {
			notes += fmt.Sprintf("\n\n%s: %s", code(r.Run), r.Note)
		}
	}
	return markdown(rows) + notes
}

// first returns the table of the first results of all models.
func first(d *dataset) string {
	rows := [][]string{{"run", "model, recipe", fullProtocol, "95% interval", "Hits@1", "Hits@10", "processor time"}}
	for _, r := range d.runs {
		if r.Group == firstGroup {
			rows = append(rows, []string{
				code(r.Run), name(r), mrr(r, fullProtocol), r.CI.String(), figure(r.Hits1), figure(r.Hits10),
				processorTime(r),
			})
		}
	}
	return markdown(rows)
}

// processorTime returns the processor time of a run. For a run without processor time, it returns
// the elapsed time and says so.
func processorTime(r record) string {
	if r.ProcessorTime == "" && r.Time != "" {
		return r.Time + " elapsed"
	}
	return cmp.Or(r.ProcessorTime, "–")
}

// differences returns the table of the paired comparisons of tuned runs.
func differences(d *dataset) string {
	rows := [][]string{{"runs", "protocol", "difference of MRR", "95% interval", "p"}}
	for _, r := range d.runs {
		if r.Group != "" {
			continue
		}
		for _, p := range r.Paired {
			rows = append(rows, []string{
				code(r.Run) + " − " + code(p.Less), p.Protocol, signed(p.Difference), p.interval(), p.chance(),
			})
		}
	}
	return markdown(rows)
}

func (p difference) interval() string {
	if p.Low == nil {
		return "–"
	}
	return signed(*p.Low) + " to " + signed(*p.High)
}

func (p difference) chance() string {
	if p.P == nil {
		return "–"
	}
	return fmt.Sprint(*p.P)
}

// commands returns a code block with the commands that repeat the tuned runs and evaluate the best one.
func commands(d *dataset) string {
	var b strings.Builder
	b.WriteString("```sh\n")
	for _, r := range d.runs {
		if r.Group == "" {
			fmt.Fprintf(&b, "mquine train --data %s %s --out ./%s\n", d.Name, r.Options, r.Run)
		}
	}
	fmt.Fprintf(&b, "mquine eval ./%s/best --data %s\n```", d.Best, d.Name)
	return b.String()
}

func name(r record) string { return code(r.Model) + ", " + r.Recipe }

func code(name string) string { return "`" + name + "`" }

// mrr formats the MRR of a protocol, in bold if it is the full protocol.
func mrr(r record, protocol string) string {
	if protocol == fullProtocol {
		return "**" + figure(r.MRR[protocol]) + "**"
	}
	return figure(r.MRR[protocol])
}

func figure(v float64) string { return fmt.Sprintf("%.4f", v) }

// signed formats a difference with its sign, using the typographic minus.
func signed(v float64) string { return strings.Replace(fmt.Sprintf("%+.4f", v), "-", "−", 1) }

func (c *interval) String() string {
	if c == nil {
		return "–"
	}
	return figure(c.Low) + "–" + figure(c.High)
}

// markdown formats a table whose first row is the header.
func markdown(rows [][]string) string {
	lines := make([]string, 0, len(rows)+1)
	for i, row := range rows {
		lines = append(lines, "| "+strings.Join(row, " | ")+" |")
		if i == 0 {
			lines = append(lines, strings.Repeat("|---", len(row))+"|")
		}
	}
	return strings.Join(lines, "\n")
}
