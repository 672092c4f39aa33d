package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
)

// facts collects the facts whose values are known.
type facts []fact

func (f *facts) add(name, value string) {
	if value != "" {
		*f = append(*f, fact{Name: name, Value: value})
	}
}

func (f *facts) code(name, value string) {
	if value != "" {
		*f = append(*f, fact{Name: name, Value: value, Code: true})
	}
}

// origin says where an evaluation comes from.
func (e Evaluation) origin() part {
	var f facts
	p := e.Provenance
	f.program(p)
	f.checkpoint("Checkpoint", p.Checkpoint)
	f.rest(p)
	f.add("Queries", fmt.Sprintf("%s, %s distinct", text.Comma(e.Queries), text.Comma(e.UniqueQueries)))
	if t := e.Timing; t.Rank > 0 {
		f.add("Time", fmt.Sprintf("%s for ranking, %s in total", seconds(t.Rank), seconds(t.Total)))
	}
	if e.PeakRSSBytes > 0 {
		f.add("Peak memory", humanize.IBytes(uint64(e.PeakRSSBytes)))
	}
	return part{Title: "Provenance", Facts: f}
}

// origin says where a comparison comes from.
func (c Comparison) origin() part {
	var f facts
	f.program(c.Provenance)
	for _, of := range c.Checkpoints {
		f.checkpoint(of.Name, of.Checkpoint)
	}
	f.rest(c.Provenance)
	return part{Title: "Provenance", Facts: f}
}

// program adds the program and its command line.
func (f *facts) program(p metrics.Provenance) {
	if p.Version != "" {
		f.add("mquine", strings.TrimSuffix(p.Version+", revision "+p.Revision, ", revision "))
	}
	if !p.Date.IsZero() {
		f.add("Date", p.Date.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	f.code("Command", p.Command)
}

func (f *facts) checkpoint(name string, c metrics.Checkpoint) {
	if c.Model != "" {
		f.add(name, modelOf(c))
	}
	for i, m := range c.Members {
		f.checkpoint(fmt.Sprintf("%s %d", name, i+1), m.Checkpoint)
	}
	f.add(name+", notes", strings.Join(c.Notes, "; "))
	f.code(name+", path", c.Path)
	f.code(name+", SHA-256", c.SHA256)
}

// rest adds the data set, the machine and the bootstrap.
func (f *facts) rest(p metrics.Provenance) {
	d := p.Data
	data := d.Name
	if d.Entities > 0 {
		data += fmt.Sprintf(": %s, %s; %s train, %s valid and %s test triples", text.Plural(d.Entities, "entity"),
			text.Plural(d.Relations, "relation"), text.Comma(d.Train), text.Comma(d.Valid), text.Comma(d.Test))
	}
	if left := d.LeftOut; left != (metrics.LeftOut{}) {
		data += fmt.Sprintf(". Left out, with labels that a checkpoint lacks: %s train, %s valid and %s test triples",
			text.Comma(left.Train), text.Comma(left.Valid), text.Comma(left.Test))
	}
	f.add("Data set", data)
	f.code("Data set, SHA-256", d.SHA256)
	if m := p.Machine; m.CPU != "" {
		machine := m.CPU
		if m.Tier != "" {
			machine += ", " + m.Tier
		}
		if m.Threads > 0 {
			machine += ", " + text.Plural(m.Threads, "thread")
		}
		f.add("Machine", machine)
	}
	if b := p.Bootstrap; b.Resamples > 0 {
		f.add("Intervals", fmt.Sprintf("%s%% bootstrap intervals, %s resamples by %v, seed %d",
			number(metrics.Number(100*b.Level), -1), text.Comma(b.Resamples), b.By, b.Seed))
		if b.Permutations > 0 {
			f.add("p-values", fmt.Sprintf("%s permutations, seed %d", text.Comma(b.Permutations), b.PermutationSeed))
		}
	}
}

// seconds formats a time.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < 100*time.Second:
		return fmt.Sprintf("%.3g s", s)
	case d < 100*time.Minute:
		return fmt.Sprintf("%.3g min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
