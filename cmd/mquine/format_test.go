package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// TestFormats prints the results of many commands in every format, and checks the schema and the
// provenance in their JSON.
func TestFormats(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	tr := g.Splits[kg.Train][0]
	head, relation, tail := g.Entities.Label(tr.Head), g.Relations.Label(tr.Relation), g.Entities.Label(tr.Tail)
	t.Setenv("MQUINE_DATA", w.dir)
	other := w.another(t)
	for i, test := range []struct {
		schema string
		args   []string
	}{
		{"mquine.eval/2", []string{"eval", "--model", w.model, "--data", w.data, "--by", "entity,degree"}},
		{"mquine.compare/2", []string{"compare", w.model, other, "--data", w.data}},
		{"mquine.predict/1", []string{"predict", "--model", w.model, "--data", w.data, "--head", head, "--relation",
			relation}},
		{"mquine.score/1", []string{"score", "--model", w.model, "--data", w.data, "--head", head, "--relation",
			relation, "--tail", tail, "--ranks"}},
		{"mquine.similar/1", []string{"similar", w.model, head, tail, "--data", w.data}},
		{"mquine.classify/1", []string{"classify", "--model", w.model, "--data", w.data, "--relations"}},
		{"mquine.z-stats/1", []string{"z", "stats", "--data", w.data, "--relations"}},
		{"mquine.z-show/1", []string{"z", "show", "--data", w.data, "--head", head, "--relation", relation, "--tail",
			tail}},
		{"mquine.data-info/1", []string{"data", "info", w.data}},
		{"mquine.data-list/1", []string{"data", "list"}},
		{"mquine.tune/1", []string{"tune", "--data", w.data, "--space", spaceFile(t, smallSpace), "--trials", "1",
			"--rungs", "1"}},
	} {
		run := func(more ...string) outcome {
			args := append(test.args, more...)
			if test.args[0] == "tune" { // a search needs a new folder
				args = append(args, "--out", filepath.Join(t.TempDir(), "search"))
			}
			return succeed(t, args...)
		}
		text := run().stdout
		for _, line := range strings.Split(text, "\n") {
			if !strings.Contains(line, w.dir) && !strings.Contains(line, os.TempDir()) {
				assert.LessOrEqual(t, len([]rune(line)), 80, test.schema)
			}
		}
		assert.Contains(t, run("--format", "md").stdout, " ---", test.schema)
		latex := run("--format", "latex").stdout
		assert.Contains(t, latex, `\toprule`, test.schema)
		assert.Equal(t, strings.Count(latex, `\begin{`), strings.Count(latex, `\end{`))

		// The other formats have a line for every relation.
		test.args = slices.DeleteFunc(slices.Clone(test.args), func(arg string) bool { return arg == "--relations" })
		records, err := csv.NewReader(strings.NewReader(run("--format", "csv").stdout)).ReadAll()
		require.NoError(t, err, test.schema)
		assert.NotEmpty(t, records, test.schema)

		var result struct {
			Schema     string
			Provenance struct {
				Date    string
				Command string
				Machine struct{ CPU string }
				Data    struct {
					Name   string
					SHA256 string
				}
			}
		}
		o := run("--format", "json")
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &result), test.schema)
		assert.Equal(t, test.schema, result.Schema)
		p := result.Provenance
		assert.Contains(t, p.Command, "mquine "+test.args[0]+" ")
		assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, p.Date)
		assert.NotEmpty(t, p.Machine.CPU)
		if test.schema != "mquine.data-list/1" && test.schema != "mquine.similar/1" {
			assert.Equal(t, "families", p.Data.Name)
			assert.Len(t, p.Data.SHA256, 64)
		}
		if i == 0 {
			file := w.path("e.json")
			succeed(t, append(test.args, "--json", file)...)
			var again struct{ Schema string }
			require.NoError(t, json.Unmarshal(must1(os.ReadFile(file)), &again))
			assert.Equal(t, test.schema, again.Schema, "--format json prints what --json writes")
		}
	}
	mquine(t, "data", "list", "--format", "xml").requireSentence(t, exitUsage,
		"choose from table, markdown, latex, csv and json")
}

// pythonReader loads a file of ranks or predictions as the help says, and prints its distinct
// triples.
const pythonReader = `
import csv, sqlite3, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="", encoding="utf-8"), delimiter="\t", quoting=csv.QUOTE_NONE))
db = sqlite3.connect(":memory:")
db.execute("create table t (head text, relation text, tail text)")
db.executemany("insert into t values (?, ?, ?)", [(r["head"], r["relation"], r["tail"]) for r in rows])
for row in db.execute("select distinct head, relation, tail from t order by 1, 2, 3"):
    print("\t".join(row))
`

// TestOtherProgramsReadLabels writes ranks and predictions with labels such as NA, and labels with
// quotes or commas. Python must read the same labels.
func TestOtherProgramsReadLabels(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	labels := []string{`"quoted"`, `NA`, `a "b`, `null`, `x,y`, `'`, `#1`, `\N`}
	var train strings.Builder
	for i, head := range labels {
		train.WriteString(head + "\tr \"1\"\t" + labels[(i+1)%len(labels)] + "\n")
	}
	data := writeDataset(t, map[string]string{"train.txt": train.String(), "valid.txt": train.String(),
		"test.txt": train.String()})
	checkpoint, ranks, predictions := filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "ranks.tsv"),
		filepath.Join(t.TempDir(), "predictions.tsv")
	succeed(t, "init", "--model", "distmult", "--dim", "4", "--data", data, "--out", checkpoint, "--kind", "random")
	succeed(t, "eval", "--model", checkpoint, "--data", data, "--ranks", ranks)
	read := func(file string) []string {
		out, err := exec.Command(python, "-c", pythonReader, file).CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	}
	want := strings.Split(strings.TrimSuffix(train.String(), "\n"), "\n")
	assert.ElementsMatch(t, want, read(ranks))

	var queries strings.Builder
	for _, head := range labels {
		queries.WriteString(head + "\tr \"1\"\t?\n")
	}
	o := mquineReading(t, queries.String(), "predict", "--model", checkpoint, "--data", data, "--in", "-", "-k", "100")
	require.Zero(t, o.status, o.stderr)
	require.NoError(t, os.WriteFile(predictions, []byte(o.stdout), 0o644))
	got := read(predictions)
	assert.Len(t, got, len(labels)*len(labels))
	for _, triple := range want {
		assert.Contains(t, got, triple, "a prediction is a whole triple")
	}
}

// TestLabelsFile checks that tables and files give labels beside opaque identifiers.
func TestLabelsFile(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	head, relation := g.Entities.Label(g.Splits[kg.Test][0].Head), g.Relations.Label(g.Splits[kg.Test][0].Relation)
	var lines strings.Builder
	for _, label := range append(g.Entities.Labels(), g.Relations.Labels()...) {
		lines.WriteString(label + "\tname of " + label + "\n")
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "labels.tsv"), []byte(lines.String()), 0o644))

	o := succeed(t, "eval", "--model", w.model, "--data", w.data, "--by", "relation")
	assert.Contains(t, o.stdout, "\n"+relation+" (name of "+relation+")")
	o = succeed(t, "predict", "--model", w.model, "--data", w.data, "--head", head, "--relation", relation, "-k", "1")
	assert.Regexp(t, `\n   1  (\w+) \(name of \w+\) `, o.stdout)
	assert.True(t, strings.HasPrefix(strings.ReplaceAll(o.stdout, "\n", " "),
		fmt.Sprintf("(%s (name of %[1]s), %s (name of %[2]s), ?)  ", head, relation)), o.stdout)
	o = mquineReading(t, head+"\t"+relation+"\t?\n", "predict", w.model, "--data", w.data, "--in", "-", "-k", "1",
		"--format", "table")
	assert.Regexp(t, fmt.Sprintf(`\n%s \(name of %[1]s\) +%s \(name of %[2]s\) +(\w+) \(name of \w+\) +1 `,
		head, relation), o.stdout)
	o = succeed(t, "predict", "--model", w.model, "--data", w.data, "--head", head, "--relation", relation, "-k", "1",
		"--format", "tsv")
	assert.Regexp(t, `\n`+head+`\t`+relation+`\t(\w+)\ttail\t1\tname of \w+\t-`, o.stdout)
	mquine(t, "eval", "--model", w.model, "--data", w.data, "--ranks", filepath.Join(w.data, "labels.tsv")).
		requireSentence(t, exitFailed, "which the command reads")
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "labels.tsv"), []byte("a\n"), 0o644))
	mquine(t, "eval", "--model", w.model, "--data", w.data).requireSentence(t, exitFailed, "labels.tsv:1: 1 field")
	// The file is read before any work, and so before any other error in the work.
	mquine(t, "predict", "--model", w.model, "--data", w.data, "--head", "stranger", "--relation", relation).
		requireSentence(t, exitFailed, "labels.tsv:1: 1 field")
	ranks := w.path("ranks.tsv")
	require.NoError(t, os.WriteFile(ranks, nil, 0o644))
	other := w.another(t)
	for _, first := range []string{w.model, ranks} {
		o := mquine(t, "compare", first, other, "--data", w.data)
		o.requireSentence(t, exitFailed, "labels.tsv:1: 1 field")
		assert.NotContains(t, o.stderr, "ranked")
	}
	require.NoError(t, os.Remove(filepath.Join(w.data, "valid.txt")))
	mquine(t, "z", "stats", "--data", w.data, "--split", "valid").
		requireSentence(t, exitFailed, "labels.tsv:1: 1 field")
}

func TestShellCommand(t *testing.T) {
	args := []string{"mquine", "eval", "./a b", "it's", "--hits=1,3", "", "$HOME", "a*"}
	assert.Equal(t, `mquine eval './a b' 'it'\''s' --hits=1,3 '' '$HOME' 'a*'`, shellCommand(args...))
	if shell, err := exec.LookPath("sh"); err == nil {
		out, err := exec.Command(shell, "-c", `printf '%s\n' `+shellCommand(args...)).Output()
		require.NoError(t, err)
		assert.Equal(t, strings.Join(args, "\n")+"\n", string(out))
	}
}
