package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// render returns the page for the records in a folder.
func render(folder string) ([]byte, error) {
	datasets, err := load(folder)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, "page.md.tmpl"))
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
	page, err := template.New("page.md.tmpl").Funcs(template.FuncMap{
		"headline":    func() string { return headline(datasets) },
		"runs":        table(runs),
		"defaults":    table(defaults),
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

// runs returns the table of the runs that have figures for all protocols, and their notes.
func runs(d *dataset) string {
	header := append([]string{"run", "model, recipe"}, protocols...)
	rows := [][]string{append(header, "95% interval", "Hits@10", "seed", "epochs", "processor time")}
	notes := ""
	for _, r := range d.runs {
		if len(r.MRR) == 1 {
			continue
		}
		row := []string{code(r.Run), name(r)}
		for _, p := range protocols {
			row = append(row, mrr(r, p))
		}
		time := strings.TrimSuffix(r.ProcessorTime+", "+r.Machine, ", ")
		row = append(row, r.CI.String(), figure(r.Hits10), fmt.Sprint(r.Seed), fmt.Sprint(r.Epochs), time)
		rows = append(rows, row)
		if r.Note != "" {
			notes += fmt.Sprintf("\n\n%s: %s", code(r.Run), r.Note)
		}
	}
	return markdown(rows) + notes
}

// defaults returns the table of the runs with the default options of their models. These runs have
// figures only for both/all.
func defaults(d *dataset) string {
	rows := [][]string{{"run", "model, recipe", fullProtocol, "95% interval", "Hits@1", "Hits@10", "processor time"}}
	for _, r := range d.runs {
		if len(r.MRR) == 1 {
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

// differences returns the table of the paired comparisons.
func differences(d *dataset) string {
	rows := [][]string{{"runs", "protocol", "difference of MRR", "95% interval", "p"}}
	for _, r := range d.runs {
		for _, p := range r.Paired {
			between, chance := "–", "–"
			if p.Low != nil {
				between = signed(*p.Low) + " to " + signed(*p.High)
			}
			if p.P != nil {
				chance = fmt.Sprint(*p.P)
			}
			rows = append(rows, []string{
				code(r.Run) + " − " + code(p.Less), p.Protocol, signed(p.Difference), between, chance,
			})
		}
	}
	return markdown(rows)
}

// commands returns a code block with the commands that repeat the runs and evaluate the first one.
func commands(d *dataset) string {
	var b strings.Builder
	b.WriteString("```sh\n")
	for _, r := range d.runs {
		fmt.Fprintf(&b, "mquine train --data %s %s --out ./%s\n", d.Name, r.Options, r.Run)
	}
	fmt.Fprintf(&b, "mquine eval ./%s/best --data %s\n```", d.runs[0].Run, d.Name)
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
