package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// readmeRuns lists the runs in the table of README.md, by data set.
var readmeRuns = []struct {
	dataset string
	runs    []string
}{
	{"codex-s", []string{"best-bf16", "best-complex", "ensemble-bf16"}},
	{"codex-m", []string{"best-bf16", "best-complex-bf16", "ensemble"}},
	{"fb15k-237", []string{"best-bf16", "best-complex-bf16", "ensemble-bf16"}},
	{"wn18rr", []string{"best-bf16", "best-rescal-bf16", "ensemble"}},
	{"wn18", []string{"best", "best-complex"}},
}

// readmeTable returns the table of README.md. Its last column names the machine of the runs, or each
// cell its own machine if they differ.
func readmeTable(datasets []*dataset) (string, error) {
	header := []string{"data set", "MRR", "Hits@10", "processor time"}
	rows := [][]string{header}
	var machines []string
	for _, row := range readmeRuns {
		i := slices.IndexFunc(datasets, func(d *dataset) bool { return d.Name == row.dataset })
		if i < 0 {
			return "", fmt.Errorf("datasets.jsonl has no data set %q", row.dataset)
		}
		for _, run := range row.runs {
			r := datasets[i].run(run)
			if r == nil {
				return "", fmt.Errorf("data set %s has no run %q", row.dataset, run)
			}
			label, time := datasets[i].Title, "–"
			if r.Group == ensembleGroup {
				label += ", " + r.Recipe + " together"
			} else {
				if flags := strings.TrimSpace(strings.TrimPrefix(r.Options, "--preset best")); flags != "" {
					label += ", " + code(flags)
				}
				time = r.ProcessorTime
				machines = append(machines, r.Machine)
			}
			rows = append(rows, []string{label, figure(r.MRR[fullProtocol]), figure(r.Hits10), time})
		}
	}
	if len(slices.Compact(slices.Clone(machines))) == 1 {
		header[3] += ", " + machines[0]
	} else {
		for _, row := range rows[1:] {
			if row[3] != "–" {
				row[3], machines = row[3]+", "+machines[0], machines[1:]
			}
		}
	}
	return markdown(rows), nil
}

// withTable returns README.md with the table generated from the records in a folder.
func withTable(readme []byte, folder string) ([]byte, error) {
	datasets, err := load(folder)
	if err != nil {
		return nil, err
	}
	table, err := readmeTable(datasets)
	if err != nil {
		return nil, err
	}
	start := bytes.Index(readme, []byte("| data set | MRR | Hits@10 |"))
	if start < 0 {
		return nil, errors.New("no table of results")
	}
	length := bytes.Index(readme[start:], []byte("\n\n"))
	if length < 0 {
		return nil, errors.New("the table of results is at the end")
	}
	return slices.Concat(readme[:start], []byte(table), readme[start+length:]), nil
}
