package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/perf/benchfmt"
)

// summary holds the results of a job.
type summary struct {
	job    string            // name of the benchmark, without the rival
	of     map[string]string // values of the keys in the name, such as data and model
	own    program
	rivals []program // in the order in which they appear
}

// program holds the values of mquine or a rival, by unit. There is a value for each round.
type program struct {
	name   string
	values map[string][]float64
}

func (p program) median(unit string) float64 { return median(p.values[unit]) }

// readSummaries reads results in the Go benchmark format.
func readSummaries(results io.Reader) (list []*summary, err error) {
	reader := benchfmt.NewReader(results, "results")
	for reader.Scan() {
		rec, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			return nil, fmt.Errorf("unexpected line in results: %v", reader.Result())
		}
		job, name, _ := strings.Cut(rec.Name.String(), "/rival=")
		name = strings.TrimSuffix(name, "-"+rec.GetConfig("threads"))
		at := slices.IndexFunc(list, func(s *summary) bool { return s.job == job })
		if at < 0 {
			at = len(list)
			list = append(list, newSummary(job))
		}
		p := list[at].program(name)
		for _, v := range rec.Values {
			p.values[v.Unit] = append(p.values[v.Unit], v.Value)
		}
	}
	return list, reader.Err()
}

func newSummary(job string) *summary {
	s := &summary{job: job, of: map[string]string{}, own: program{"mquine", map[string][]float64{}}}
	for _, part := range strings.Split(job, "/")[1:] {
		key, value, _ := strings.Cut(part, "=")
		s.of[key] = value
	}
	return s
}

// program returns the program with the given name, and adds it if it is missing.
func (s *summary) program(name string) program {
	if name == s.own.name {
		return s.own
	}
	for _, r := range s.rivals {
		if r.name == name {
			return r
		}
	}
	s.rivals = append(s.rivals, program{name, map[string][]float64{}})
	return s.rivals[len(s.rivals)-1]
}

// writeSummary writes a table that compares mquine with the best rival of each job, as comments of
// the Go benchmark format. The results are read from the same format.
func writeSummary(out io.Writer, results io.Reader) error {
	jobs, err := readSummaries(results)
	if err != nil || len(jobs) == 0 {
		return err
	}
	t := newTable(4, 5, 6, 7, 9, 10)
	t.AppendHeader(table.Row{
		"data", "model", "checkpoint", "d", "MRR", "mquine, s", "ceiling", "best rival", "s", "slowdown", "interval",
	})
	extrapolated := false
	for _, s := range jobs {
		line := table.Row{
			s.of["data"], s.of["model"], cmp.Or(s.of["checkpoint"], "clustered"), s.of["dim"],
			fmt.Sprintf("%.3f", s.own.median("mrr")), fmt.Sprintf("%.2f", s.own.median("sec/op")),
			fmt.Sprintf("%.0f%%", s.own.median("pct-peak")),
		}
		if len(s.rivals) > 0 {
			best := slices.MinFunc(s.rivals, func(a, b program) int {
				return cmp.Compare(a.median(ratioUnit), b.median(ratioUnit))
			})
			seconds := fmt.Sprintf("%.2f", best.median("sec/op"))
			if best.median(queriesUnit) < s.own.median(queriesUnit) {
				seconds, extrapolated = "~"+seconds, true
			}
			ratios := best.values[ratioUnit]
			line = append(line, best.name, seconds, fmt.Sprintf("%.2f", median(ratios)), interval(ratios))
		}
		t.AppendRow(line)
	}
	text := t.Render() + "\nThe ceiling is float32 arithmetic on registers; screens in bytes may exceed it.\n"
	if extrapolated {
		text += "~: the rival was timed on a part of the queries, and its time is extrapolated.\n"
	}
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		fmt.Fprintf(&b, "# %s", line)
	}
	_, err = out.Write(b.Bytes())
	return err
}
