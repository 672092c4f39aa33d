package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/text"
)

// files writes an evaluation and a comparison to files, and returns the paths.
func files(t *testing.T) (evaluation, comparison string) {
	t.Helper()
	dir := t.TempDir()
	evaluation, comparison = filepath.Join(dir, "e.json"), filepath.Join(dir, "c.json")
	p := full(t, "")
	var data bytes.Buffer
	require.NoError(t, p.Evaluations[0].WriteJSON(&data))
	require.NoError(t, os.WriteFile(evaluation, data.Bytes(), 0o666))
	data.Reset()
	require.NoError(t, text.WriteJSON(&data, p.Comparisons[0].ComparisonReport))
	require.NoError(t, os.WriteFile(comparison, data.Bytes(), 0o666))
	return evaluation, comparison
}

// TestRead checks that reports from files give the same page as the reports in memory.
func TestRead(t *testing.T) {
	evaluation, comparison := files(t)
	p, err := Read(t.Context(), []string{evaluation, comparison, evaluation})
	require.NoError(t, err)
	require.Len(t, p.Evaluations, 2)
	require.Len(t, p.Comparisons, 1)
	assert.Equal(t, evaluation, p.Evaluations[0].Name, "the name e would be ambiguous")

	p, err = Read(t.Context(), []string{evaluation, comparison})
	require.NoError(t, err)
	assert.Equal(t, "e", p.Evaluations[0].Name)
	want := full(t, "")
	want.Evaluations, want.Runs = want.Evaluations[:1], nil
	want.Evaluations[0].Name, want.Comparisons[0].Name = "e", "c"
	assert.Equal(t, written(t, want), written(t, p))
}

func TestReadFirstVersion(t *testing.T) {
	p, err := Read(t.Context(), []string{"../metrics/testdata/report-1.json"})
	require.NoError(t, err)
	html := written(t, p)
	assert.Contains(t, html, "Metrics by protocol")
	assert.NotContains(t, html, "Rank distribution")
}

// TestReadFirstComparison reads a comparison of the first version, which nested intervals and named
// metrics as tables do.
func TestReadFirstComparison(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	const result = `{"side": "both", "filter": "all", "ties": "realistic", "n": 40, "mrr": 0.5, "mrr_ci": [0.4, 0.6],
		"clusters": 40, "effective_clusters": 40, "mr": 3, "hits": {"10": 0.75}}`
	require.NoError(t, os.WriteFile(path, []byte(`{"schema": "mquine.compare/1", "data": "umls", "split": "test",
		"filter": "all", "ties": "realistic", "ci_by": "triple", "checkpoints": [
		{"name": "a", "path": "/a", "model": "complex", "dim": 8, "checkpoint_sha256": "abc", "results": [`+result+`]},
		{"name": "b", "path": "/b", "results": [`+result+`]}], "comparisons": [{"base": "a", "other": "b", "groups": [],
		"changed": [], "whole": [{"side": "both", "n": 40, "wins": 3, "losses": 1, "equal": 36, "metrics": [
		{"metric": "MRR", "base": 0.5, "other": 0.5625, "difference": 0.0625, "ci": [0.05, 0.08], "p": 0.01}]}]}]}`),
		0o666))
	p, err := Read(t.Context(), []string{path})
	require.NoError(t, err)
	html := written(t, p)
	for _, want := range []string{
		"c: 2 checkpoints on umls, test split", "complex (d = 8)", "abc", "[0.4000, 0.6000]", "0.7500", "by triple",
		"On side both, the MRR of b is higher than the base&#39;s by 0.0625, with the interval [&#43;0.0500",
	} {
		assert.Contains(t, html, want)
	}
	assert.Equal(t, []string{"MRR|both||0.5000|0.5625|+0.0625|[+0.0500, +0.0800]|0.0100|"},
		tableRows(t, html, "Differences by metric and side")[2:])
}

func TestReadErrors(t *testing.T) {
	evaluation, comparison := files(t)
	dir := t.TempDir()
	changed := func(from, old, new string) string {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.Contains(t, string(data), old)
		path := filepath.Join(t.TempDir(), "changed.json")
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o666))
		return path
	}
	write := func(name, contents string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(contents), 0o666))
		return path
	}
	whole, err := os.ReadFile(evaluation)
	require.NoError(t, err)
	const foreign = " is not a file from eval --json or compare --json: give such a file, or a run folder"
	for _, test := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "there is no file or folder " + filepath.Join(dir, "none")},
		{write("empty", ""), foreign},
		{write("text", "side\thead\n"), foreign},
		{write("list.json", "[1]"), foreign},
		{write("other.json", `{"schema": "mquine.predict/1"}`), foreign},
		{write("none.json", `{}`), foreign},
		{write("half.json", string(whole[:len(whole)/2])),
			"half.json is damaged: unexpected end of JSON input; write it again"},
		{changed(evaluation, "mquine.eval/2", "mquine.eval/3"), `has schema "mquine.eval/3", but this mquine reads`},
		{changed(evaluation, `"candidates": 20`, `"candidates": "20"`), "is damaged: candidates cannot be a string"},
		{changed(evaluation, `"rank_bounds": [`, `"rank_bounds": [0, `),
			"is damaged: the rank counts or their bounds are wrong"},
		{changed(comparison, "mquine.compare/2", "mquine.compare/9"), `has schema "mquine.compare/9"`},
		{write("bare.json", `{"schema": "mquine.eval/2"}`), "bare.json is damaged: it has no results"},
		{write("bare2.json", `{"schema": "mquine.compare/2"}`), "bare2.json is damaged: it has no checkpoints"},
		{filepath.Dir(write("folder/x", "")), "folder is not a run folder: it has no config.yaml"},
		{filepath.Dir(write("search/search.yaml", "")), "give the folder of a trial, such as"},
		{filepath.Dir(write("new/config.yaml", "data: umls\n")),
			"has no log of a finished epoch: restore its log.jsonl, or continue the run with mquine train --resume"},
		{filepath.Dir(write("bad/config.yaml", "dta: umls\n")), "config.yaml:1: unknown option"},
	} {
		_, err := Read(t.Context(), []string{evaluation, test.path})
		require.ErrorContains(t, err, test.want, test.path)
		assert.NotContains(t, err.Error(), "\n")
	}
}

// FuzzRead checks that Read never panics, and that the page of anything that Read accepts can be
// written.
func FuzzRead(f *testing.F) {
	data, err := os.ReadFile("../metrics/testdata/report-1.json")
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"schema": "mquine.eval/2", "results": [{"side": "tail", "filter": "all", "ties": "optimistic"}]}`))
	f.Add([]byte(`{"schema": "mquine.compare/2", "split": "test", "filter": "all", "ties": "optimistic", "checkpoints": ` +
		`[{"results": [{"side": "tail", "filter": "all", "ties": "optimistic", "n": 1, "mrr": 1, "mr": 1}]}]}`))
	path := filepath.Join(f.TempDir(), "report.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(path, data, 0o666))
		p, err := Read(t.Context(), []string{path})
		if err != nil {
			return
		}
		html := written(t, p)
		require.NotContains(t, html, "NaN")
		require.NotRegexp(t, `(?i)<script`, html)
	})
}
