package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/metrics"
)

// Estimates are marked in every format, do not depend on the number of threads, and equal the exact
// figures if the sample contains all candidates.
func TestSample(t *testing.T) {
	w := newWorkplace(t)
	eval := []string{"eval", w.model, "--data", w.data}
	const mark = "60 candidates, estimated from 9 drawn for each query (seed 4)"
	sampled := append(eval, "--sample", "9", "--seed", "4")
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	table := flat(succeed(t, append(sampled, "--json", w.path("e.json"), "--threads", "1")...).stdout)
	assert.Contains(t, table, mark)
	assert.Contains(t, table, "MR, AMR and AMRI are unbiased; the 95% interval of the exact MR is [")
	assert.Equal(t, table, flat(succeed(t, append(sampled, "--threads", "3")...).stdout))
	assert.NotEqual(t, table, flat(succeed(t, append(eval, "--sample", "9", "--seed", "5")...).stdout))
	for _, format := range []string{"csv", "latex", "markdown"} {
		assert.Contains(t, flat(succeed(t, append(sampled, "--format", format)...).stdout), mark, format)
	}
	var report metrics.Report
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path("e.json"))), &report))
	assert.Equal(t, &metrics.Sample{Candidates: 9, Seed: 4}, report.Restrictions.Sample)
	assert.Less(t, report.Estimate.MRLow, report.Estimate.MRHigh)
	assert.Equal(t, report.Results[len(report.Results)-1].ClusterCount, report.Estimate.Within.ClusterCount)
	page := w.path("report.html")
	succeed(t, "report", w.path("e.json"), "--out", page)
	assert.Contains(t, string(must1(os.ReadFile(page))), mark)

	lastRow := func(args ...string) string {
		for _, line := range strings.Split(succeed(t, args...).stdout, "\n") {
			if strings.HasPrefix(line, "all     both") {
				return line
			}
		}
		return ""
	}
	exact := lastRow(append(eval, "--filter", "all")...)
	assert.NotEmpty(t, exact)
	whole := append(eval, "--sample", "60")
	assert.Equal(t, exact, lastRow(whole...))
	assert.Contains(t, flat(succeed(t, whole...).stdout), "60 candidates, all drawn for each query")

	// A sample of all observed candidates gives the exact figures among them.
	observed := append(eval, "--candidates", "observed", "--skip-excluded")
	exact = lastRow(append(observed, "--filter", "all")...)
	assert.NotEmpty(t, exact)
	assert.Equal(t, exact, lastRow(append(observed, "--sample", "60")...))
	assert.Contains(t, flat(succeed(t, append(observed, "--sample", "9")...).stdout),
		"candidates observed with the relation, estimated from 9 drawn for each query (seed 0)")

	for want, flags := range map[string][]string{
		"--seed applies to --sample":                     {"--seed", "1"},
		"--sample draws candidates under one filter":     {"--sample", "9", "--filter", "none,all"},
		"--ranks does not apply to the estimates":        {"--sample", "9", "--ranks", "-"},
		"--protocol kbc does not apply to the estimates": {"--sample", "9", "--protocol", "kbc"},
		"--ties rounded does not apply to the estimates": {"--sample", "9", "--ties", "rounded"},
		"--sample does not apply to --side relation":     {"--sample", "9", "--side", "relation"},
		"must be a whole number of at least 1":           {"--sample", "0"},
	} {
		mquine(t, append(eval, flags...)...).requireSentence(t, exitUsage, want)
	}
}

// Queries that --skip-excluded leaves out do not decide whether the metrics are exact: their targets are
// not in the list, so they have one more candidate to draw than the others.
func TestSampleSkipExcluded(t *testing.T) {
	w := newWorkplace(t)
	const candidates = 30
	lines := strings.SplitAfter(string(must1(os.ReadFile(filepath.Join(w.model, "entities.tsv")))), "\n")
	var listed strings.Builder
	for _, line := range lines[:candidates] {
		_, label, _ := strings.Cut(line, "\t")
		listed.WriteString(label)
	}
	list := w.path("list.txt")
	require.NoError(t, os.WriteFile(list, []byte(listed.String()), 0o644))
	for sample, exact := range map[int]bool{candidates - 2: false, candidates - 1: true, candidates: true} {
		o := succeed(t, "eval", w.model, "--data", w.data, "--candidates", list, "--skip-excluded", "--filter", "none",
			"--sample", strconv.Itoa(sample), "--force", "--json", w.path("e.json"))
		var report metrics.Report
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path("e.json"))), &report))
		require.Positive(t, report.Restrictions.Excluded)
		want := &metrics.Sample{Candidates: min(sample, candidates-1), Exact: exact}
		assert.Equal(t, want, report.Restrictions.Sample)
		assert.Equal(t, exact, report.Estimate.Exact)
		assert.Equal(t, !exact, strings.Contains(o.stdout, "estimated"), o.stdout)
	}
}

// The help states the default seed, although it is 0.
func TestSampleHelp(t *testing.T) {
	assert.Contains(t, succeed(t, "eval", "--help").stdout, "random seed of --sample (default 0)")
}
