package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchmath"
)

var update = flag.Bool("update", false, "write the tables of rivals in README.md and docs/performance.md")

// tableRivals lists the rivals of the tables, in the order of the columns.
var tableRivals = []string{"onednn", "openblas", "torch-unique", "torch"}

// TestTables checks that the tables of rivals in the documents have the medians and intervals of the
// newest committed results for Zen 4.
func TestTables(t *testing.T) {
	files, err := filepath.Glob("../results/amd-epyc-avx512-2-threads/*-rivals.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	results, err := os.ReadFile(slices.Max(files)) // the names begin with the time
	require.NoError(t, err)
	jobs, err := readSummaries(bytes.NewReader(results))
	require.NoError(t, err)
	for _, table := range []struct {
		path, header string
		intervals    bool
	}{
		{"../../README.md", "| data set, model | mquine | oneDNN | OpenBLAS | PyTorch, unique | PyTorch |\n", false},
		{"../../docs/performance.md",
			"| job | mquine | oneDNN 2.6.3 | OpenBLAS 0.3.21 | PyTorch 1.13, unique | PyTorch 1.13 | pack |\n", true},
	} {
		page, err := os.ReadFile(table.path)
		require.NoError(t, err)
		before, rest, ok := bytes.Cut(page, []byte(table.header))
		require.True(t, ok, "%s lacks the table of rivals", table.path)
		_, after, ok := bytes.Cut(rest, []byte("\n\n"))
		require.True(t, ok, table.path)
		rule := "|" + strings.Repeat("---|", strings.Count(table.header, "|")-1) + "\n"
		rows := strings.Join(tableRows(t, jobs, table.intervals), "\n")
		want := slices.Concat(before, []byte(table.header+rule+rows+"\n\n"), after)
		if *update {
			require.NoError(t, os.WriteFile(table.path, want, 0o644))
			continue
		}
		assert.Equal(t, string(want), string(page), "run: cd bench/rivals && go test -run TestTables -update")
	}
}

// tableRows returns the rows of all jobs, dot products first.
func tableRows(t *testing.T, jobs []*summary, intervals bool) []string {
	t.Helper()
	var dots, distances []string
	for _, s := range jobs {
		columns := []string{jobTitle(t, s), short(s.own.median("sec/op")) + " s"}
		for _, name := range tableRivals {
			at := slices.IndexFunc(s.rivals, func(p program) bool { return p.name == name })
			if at < 0 {
				columns = append(columns, "")
				continue
			}
			ratios := s.rivals[at].values[ratioUnit]
			cell := short(median(ratios)) + " ×"
			if intervals {
				sample := benchmath.NewSample(slices.Clone(ratios), &benchmath.DefaultThresholds)
				i := benchmath.AssumeNothing.Summary(sample, 0.95)
				cell += fmt.Sprintf(" (%s–%s)", short(i.Lo), short(i.Hi))
			}
			columns = append(columns, cell)
		}
		if intervals {
			columns = append(columns, fmt.Sprintf("%.2f s", s.own.median("pack-s")))
		}
		row := "|"
		for _, c := range columns {
			row += strings.TrimRight(" "+c, " ") + " |"
		}
		if model := s.of["model"]; model == "mquine" || model == "complex" {
			dots = append(dots, row)
		} else {
			distances = append(distances, row)
		}
	}
	return slices.Concat(dots, distances)
}

// jobTitle returns a job as in "FB15k-237, MQuinE d = 38".
func jobTitle(t *testing.T, s *summary) string {
	t.Helper()
	data, ok := map[string]string{
		"fb15k-237": "FB15k-237", "wn18rr": "WN18RR", zipfName: "YAGO3-10 shape",
	}[s.of["data"]]
	require.True(t, ok, s.job)
	model, ok := map[string]string{
		"mquine": "MQuinE d", "complex": "ComplEx k", "transe-l1": "TransE-L1 d", "rotate": "RotatE k",
	}[s.of["model"]]
	require.True(t, ok, s.job)
	dim := s.of["dim"]
	if len(dim) > 3 {
		dim = dim[:len(dim)-3] + "," + dim[len(dim)-3:]
	}
	return fmt.Sprintf("%s, %s = %s", data, model, dim)
}

// short formats a time or a ratio with three digits, or two after the point.
func short(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.1f", x)
}
