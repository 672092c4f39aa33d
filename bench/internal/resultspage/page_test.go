package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPages compares the committed pages with the ones generated from the records.
func TestPages(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	for name, template := range pages {
		want, err := render(filepath.Join(docs, "results"), template)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "docs/%s is stale: go run ./bench/internal/resultspage", name)
	}
}

// TestReadme compares the table of README.md with the one generated from the records. The text must
// name the members of sums that are not in the table.
func TestReadme(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	readme, err := os.ReadFile(filepath.Join(docs, "..", "README.md"))
	require.NoError(t, err)
	want, err := withTable(readme, filepath.Join(docs, "results"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(readme), "README.md is stale: go run ./bench/internal/resultspage")
	datasets, err := load(filepath.Join(docs, "results"))
	require.NoError(t, err)
	for _, row := range readmeRuns {
		for _, d := range datasets {
			for _, run := range row.runs {
				if d.Name != row.dataset || d.run(run).Group != ensembleGroup {
					continue
				}
				for _, member := range strings.Fields(d.run(run).Options) {
					if !slices.Contains(row.runs, member) {
						assert.Contains(t, string(readme), "`"+member+"`", "a member of the sum on %s", d.Title)
					}
				}
			}
		}
	}
}

// TestBadRecords checks that load rejects figures that contradict each other.
func TestBadRecords(t *testing.T) {
	const (
		sets = `{"name": "x", "title": "X", "best": "first"}`
		good = `{"dataset": "x", "run": "first", "mrr": {"both/all": 0.5}, "ci": {"by": "triple", "low": 0.4, "high": 0.6}}`
	)
	for _, test := range []struct{ runs, want string }{
		{good, ""},
		{`{"run": "first", "mrr": {"both/all": 0.5}}`, `x.jsonl:1: dataset is ""`},
		{`{"dataset": "x", "mrr": {"both/all": 0.5}}`, "x.jsonl:1: run has no name"},
		{good + "\n" + good, `x.jsonl:2: duplicate run "first"`},
		{`{"dataset": "x", "run": "first", "mrr": {"tail/all": 0.5}}`, "mrr needs both/all"},
		{`{"dataset": "x", "run": "first", "mrr": {"both/all": 1.5}}`, "mrr both/all is 1.5"},
		{`{"dataset": "x", "run": "first", "mrr": {"both/all": 0.5}, "ci": {"low": 0.6, "high": 0.7}}`,
			"outside its interval"},
		{`{"dataset": "x", "run": "first", "mrr": {"tail/train": 0.1, "head/train": 0.1, "both/train": 0.1,
			"tail/all": 0.4, "head/all": 0.2, "both/all": 0.4}}`, "mrr both/all is not the mean"},
		{good + "\n" + `{"dataset": "x", "run": "second", "mrr": {"both/all": 0.6},
			"paired": [{"less": "first", "protocol": "both/all", "difference": 0.2}]}`,
			"both/all is not 0.2 above first"},
		{good + "\n" + `{"dataset": "x", "run": "second", "mrr": {"both/all": 0.6},
			"paired": [{"less": "second", "protocol": "both/all", "difference": 0}]}`, "not an earlier run"},
		{`{"dataset": "x", "run": "first", "mrr": {"both/all": 0.5}, "cases": {"hrad": 0.5}}`, `case "hrad" is 0.5`},
		{good + "\n" + `{"dataset": "x", "run": "sum", "group": "ensemble", "options": "first", "weights": [1, 2],
			"mrr": {"both/all": 0.6}}`, "1 runs have 2 weights"},
		{good + "\n" + `{"dataset": "x", "run": "sum", "group": "ensemble", "options": "first", "weights": [1],
			"mrr": {"both/all": 0.6}, "ci": {"by": "query", "low": 0.5, "high": 0.7}}`, "must resample triples"},
		{good + "\n" + `{"dataset": "x", "run": "sum", "group": "ensemble", "options": "first", "weights": [1],
			"mrr": {"both/all": 0.6}, "ci": {"by": "triple", "low": 0.5, "high": 0.7}}`,
			"must be compared with one of its members"},
		{good + "\n" + `{"dataset": "x", "run": "sum", "group": "ensemble", "options": "first second",
			"weights": [1, 2], "mrr": {"both/all": 0.6}, "ci": {"by": "triple", "low": 0.5, "high": 0.7},
			"paired": [{"less": "first", "protocol": "both/all", "difference": 0.1}]}`,
			`member "second" is not an earlier run`},
		{strings.Replace(good, "triple", "query", 1), `the interval of group "" must resample triples`},
		{good + "\n" + `{"typo": 1}`, `x.jsonl:2: json: unknown field "typo"`},
		{"", `has no run "first"`},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "datasets.jsonl"), []byte(sets), 0o666))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x.jsonl"), []byte(test.runs), 0o666))
		_, err := load(dir)
		if test.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, test.want)
		}
	}
}

// TestIngredients compares a change with the first recipe, seed by seed.
func TestIngredients(t *testing.T) {
	run := func(change string, seed uint64, mrr float64) record {
		return record{
			Group: ingredientsGroup, Recipe: change, Seed: seed, ProcessorTime: "1 min",
			MRR: map[string]float64{fullProtocol: mrr},
		}
	}
	d := &dataset{runs: []record{
		run("the base", 1, 0.50), run("more", 1, 0.52), run("more", 2, 0.51), run("the base", 2, 0.52),
		run("alone", 3, 0.4),
	}}
	assert.Equal(t, `| change | both/all | difference | lowest and highest | seeds | processor time |
|---|---|---|---|---|---|
| the base | 0.5100 | – | – | 2 | 1 min |
| more | 0.5150 | +0.0050 | −0.0100, +0.0200 | 2 | 1 min |
| alone | 0.4000 | – | – | 1 | 1 min |`, ingredients(d))
}
