package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	w := newWorkplace(t)
	other, dir := w.another(t), w.path("run")
	evaluation, comparison, page := w.path("e.json"), w.path("c.json"), w.path("report.html")
	succeed(t, "eval", w.model, "--data", w.data, "--by", "relation,category,degree,z-case",
		"--json", evaluation)
	succeed(t, "compare", w.model, other, "--data", w.data, "--json", comparison)
	succeed(t, "train", "--data", w.data, "--out", dir, "--dim", "6", "--epochs", "3")

	o := succeed(t, "report", evaluation, comparison, dir, "--out", page)
	assert.Empty(t, o.stdout)
	html := string(must1(os.ReadFile(page)))
	for _, want := range []string{
		"e: mquine (d = 6) on families, test split", "By Z-case", "Rank distribution", "other against checkpoint",
		"run: mquine (d = 6) trained on families", "All 3 epochs are done", "Provenance",
	} {
		assert.Contains(t, html, want)
	}
	assert.True(t, strings.HasSuffix(html, "</html>\n"))
	assert.Equal(t, "wrote "+page+"\n", o.stderr)
	o = succeed(t, "report", evaluation, comparison, dir, "--out", "-")
	assert.Equal(t, html, o.stdout)
	assert.Empty(t, o.stderr)
}

// If an input is bad, no page is written. The page never replaces an input.
func TestReportErrors(t *testing.T) {
	w := newWorkplace(t)
	evaluation, page := w.path("e.json"), w.path("report.html")
	succeed(t, "eval", w.model, "--data", w.data, "--json", evaluation)
	mquine(t, "report").requireSentence(t, exitUsage, "give a file from eval --json or compare --json, or the folder")
	for input, want := range map[string]string{
		w.path("none"):           "there is no file or folder",
		w.data + "/train.txt":    "is not a file from eval --json or compare --json",
		w.data:                   "is not a run folder",
		w.model:                  "is not a run folder",
		halfOf(t, w, evaluation): "is damaged",
	} {
		mquine(t, "report", evaluation, input, "--out", page).requireSentence(t, exitFailed, want)
		assert.NoFileExists(t, page)
	}
	before := must1(os.ReadFile(evaluation))
	mquine(t, "report", evaluation, "--out", evaluation).requireSentence(t, exitUsage, "--out writes an HTML page")
	assert.Equal(t, before, must1(os.ReadFile(evaluation)))
}

// halfOf writes the first half of a file to another file and returns its path.
func halfOf(t *testing.T, w workplace, file string) string {
	t.Helper()
	data := must1(os.ReadFile(file))
	half := w.path("half.json")
	require.NoError(t, os.WriteFile(half, data[:len(data)/2], 0o666))
	return half
}
