package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// zCasesJSON is an item of the list of cases, as users decode it.
type zCasesJSON struct {
	Side       string `json:"side"`
	Convention string `json:"convention"`
	Relation   string `json:"relation"`
	N          int    `json:"n"`
	Easy       int    `json:"easy"`
	Neutral    int    `json:"neutral"`
	Hard       int    `json:"hard"`
}

type zReportJSON struct {
	Schema    string       `json:"schema"`
	Triples   int          `json:"triples"`
	Z         histogram    `json:"z"`
	RankZ     []histogram  `json:"rank_z"`
	Cases     []zCasesJSON `json:"cases"`
	Relations []zCasesJSON `json:"relations"`
}

type histogram struct {
	Side    string `json:"side"`
	Largest int    `json:"largest"`
	Bins    []struct {
		From, To, N int
	} `json:"bins"`
}

func TestZStatsOfRealData(t *testing.T) {
	dir := realDataset(t, "wn18rr")
	o := succeed(t, "z", "stats", "--data", dir, "--side", "tail", "--json", "-")
	var r zReportJSON
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
	assert.Equal(t, []zCasesJSON{{Side: "tail", Convention: "paper", N: 3134, Easy: 314, Neutral: 2697, Hard: 123}},
		r.Cases)
	assert.Regexp(t, `tail +3,134 +314 \(10%\) +2,697 \(86%\) +123 \(4%\)`, o.stderr)
}

// The JSON, the tab-separated lines and the plot agree.
func TestZStatsFiles(t *testing.T) {
	w := newWorkplace(t)
	jsonFile, tsvFile, plotFile := w.path("z.json"), w.path("z.tsv"), w.path("z.svg")
	o := succeed(t, "z", "stats", "--data", w.data, "--relations", "--json", jsonFile, "--tsv", tsvFile, "--plot",
		plotFile)
	assert.Contains(t, o.stdout, "families test: Z-patterns of 40 triples in 300 training triples, convention\npaper\n")

	// The two sides of a relation stay together, also if other relations have as many triples.
	_, table, _ := strings.Cut(o.stdout, "\nrelation ")
	var rows []string
	for _, line := range strings.Split(table, "\n")[1:] {
		if f := strings.Fields(line); len(f) > 2 && (f[1] == "tail" || f[1] == "head") {
			rows = append(rows, f[0]+" "+f[1])
		}
	}
	require.Len(t, rows, 2*13)
	for i := 0; i < len(rows); i += 2 {
		relation := strings.TrimSuffix(rows[i], " tail")
		assert.Equal(t, []string{relation + " tail", relation + " head"}, rows[i:i+2])
	}

	var r zReportJSON
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(jsonFile)), &r))
	assert.Equal(t, "mquine.z-stats/1", r.Schema)
	require.Len(t, r.Cases, 2)

	lines := strings.Split(strings.TrimSpace(string(must1(os.ReadFile(tsvFile)))), "\n")
	require.Equal(t, "side\thead\trelation\ttail\tz\trank_z\tcase", lines[0])
	require.Len(t, lines, 1+2*40)
	counts := map[string]int{}
	for _, line := range lines[1:] {
		f := strings.Split(line, "\t")
		require.Len(t, f, 7)
		counts[f[0]+" "+f[6]]++
		counts[f[0]+" "+f[2]+" "+f[6]]++
	}
	for _, c := range append(slices.Clone(r.Cases), r.Relations...) {
		of := c.Side + " "
		if c.Relation != "" {
			of += c.Relation + " "
		}
		assert.Equal(t, []int{counts[of+"easy"], counts[of+"neutral"], counts[of+"hard"]},
			[]int{c.Easy, c.Neutral, c.Hard}, of)
		assert.Equal(t, c.N, c.Easy+c.Neutral+c.Hard)
	}
	for _, h := range append(r.RankZ, r.Z) {
		sum := 0
		for i, b := range h.Bins {
			sum += b.N
			assert.True(t, i == 0 || b.From == h.Bins[i-1].To+1)
		}
		assert.Equal(t, 40, sum)
		last := h.Bins[len(h.Bins)-1]
		assert.True(t, last.From <= h.Largest && h.Largest <= last.To)
	}

	decoder := xml.NewDecoder(strings.NewReader(string(must1(os.ReadFile(plotFile)))))
	elements, bars := map[string]int{}, 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
			if len(start.Attr) > 0 && start.Attr[0].Value == "bar" {
				bars++
			}
		}
	}
	assert.Equal(t, 1, elements["svg"])
	for _, h := range append(r.RankZ, r.Z) {
		bars -= len(h.Bins)
	}
	assert.Zero(t, bars, "a bar for each bin")
	requireFiles(t, w.dir, "families", "checkpoint", "z.json", "z.tsv", "z.svg")

	o = succeed(t, "z", "stats", "--data", w.data, "--tsv", "-")
	assert.Equal(t, strings.Join(lines, "\n")+"\n", o.stdout)
	assert.Contains(t, o.stderr, "rank_Z")
	assert.Contains(t, o.stderr, "█")
	o = succeed(t, "z", "stats", "--data", w.data, "--plot", "-")
	assert.Equal(t, string(must1(os.ReadFile(plotFile))), o.stdout)
	assert.Contains(t, o.stderr, "rank_Z")

	o = succeed(t, "z", "stats", "--data", w.data, "--format", "latex")
	assert.NotContains(t, o.stdout, "█", "LaTeX lacks the character")
	assert.Contains(t, o.stdout, "\\begin{tabular}{rrr}\n\\toprule\nrank\\_Z & tail & head \\\\\n")
}

// The text below the tables also holds for training triples, which rank_Z does not count.
func TestZStatsOfTrain(t *testing.T) {
	w := newWorkplace(t)
	tsv := w.path("z.tsv")
	const meaning = "\nEasy: rank_Z is at most 8. It counts the triple itself, unless that is in train.\n"
	for split, smallest := range map[string]int{"train": 0, "test": 1} {
		o := succeed(t, "z", "stats", "--data", w.data, "--split", split, "--tsv", tsv)
		assert.Contains(t, o.stdout, meaning)
		var ranks []int
		for _, line := range strings.Split(strings.TrimSpace(string(must1(os.ReadFile(tsv)))), "\n")[1:] {
			ranks = append(ranks, must1(strconv.Atoi(strings.Split(line, "\t")[5])))
		}
		assert.Equal(t, smallest, slices.Min(ranks), split)
	}
}

// TestZShow uses the pattern in the paper's figure: e1 → e2 ← e3 → e4 suggests e1 → e4.
func TestZShow(t *testing.T) {
	dir := writeDataset(t, map[string]string{
		"train.txt": "e1\tr\te2\ne3\tr\te2\ne3\tr\te4\ne3\tr\te3\ne1\tr\te3\n",
		"valid.txt": "e3\tother\te2\n", "test.txt": "e1\tr\te4\n",
	})
	show := []string{"z", "show", "--data", dir, "--head", "e1", "--relation", "r"}
	o := succeed(t, append(show, "--tail", "e4")...)
	assert.Contains(t, o.stdout, "(e1, r, e4) is in test of ")
	assert.Contains(t, o.stdout, ", convention paper\n\n"+
		"side  n_Z  rank_Z  case\ntail    2       1  easy\nhead    2       1  easy\n")
	assert.Regexp(t, `(?m)^e1 +→ +e2 +← +e3 +→ +e4$\n^e1 +→ +e3 +← +e3 +→ +e4$`, o.stdout)

	o = succeed(t, append(show, "--tail", "e4", "--convention", "definition", "--json", "-")...)
	var r struct {
		Z        int      `json:"z"`
		Splits   []string `json:"splits"`
		Patterns []struct{ E2, E3 string }
	}
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
	assert.Equal(t, 1, r.Z)
	assert.Equal(t, []string{"test"}, r.Splits)
	assert.Equal(t, []struct{ E2, E3 string }{{"e2", "e3"}}, r.Patterns)

	o = succeed(t, append(show, "--tail", "e4", "--limit", "1")...)
	const more = "… and 1 more: raise --limit to list them.\n"
	assert.Contains(t, o.stdout, more)
	const note = "note: 1 of 2 Z-patterns are not listed: raise --limit to list them\n"
	assert.NotContains(t, o.stderr, note)
	for _, flags := range [][]string{{"--format", "csv"}, {"--format", "json"}, {"--json", "-"}} {
		o = succeed(t, append(append(show, "--tail", "e4", "--limit", "1"), flags...)...)
		assert.Contains(t, o.stderr, note, flags)
		assert.NotContains(t, succeed(t, append(append(show, "--tail", "e4"), flags...)...).stderr, note, flags)
	}
	o = succeed(t, append(show, "--tail", "e1")...)
	assert.Contains(t, o.stdout, "is in no split")
	assert.NotContains(t, o.stdout, "←")

	mquine(t, append(show, "--tail", "e5")...).requireSentence(t, exitFailed, `has no entity "e5"`)
	mquine(t, "z", "show", "--data", dir, "--head", "e1", "--relation", "R2", "--tail", "e1").requireSentence(t,
		exitFailed, `has no relation "R2"`)
	o = succeed(t, "z", "show", "--data", dir, "--head", "e1", "--relation", "other", "--tail", "e1")
	assert.Contains(t, o.stdout, "\ntail    0       4  easy\n", "a relation without training triples")
}

func TestZBadInput(t *testing.T) {
	noTrain := writeDataset(t, map[string]string{"test.txt": "a\tr\tb\n"})
	emptyTest := writeDataset(t, map[string]string{"train.txt": "a\tr\tb\n", "test.txt": ""})
	mquine(t, "z", "stats", "--data", noTrain).requireSentence(t, exitFailed, "has no train split")
	mquine(t, "z", "stats", "--data", emptyTest).requireSentence(t, exitFailed, "test.txt has no triples")
	onlyTrain := writeDataset(t, map[string]string{"train.txt": "a\tr\tb\n"})
	mquine(t, "z", "stats", "--data", onlyTrain, "--split", "valid").requireSentence(t, exitFailed,
		"has no valid split")
	mquine(t, "z", "stats", "--data", onlyTrain, "--split", "train", "--json", noTrain).requireSentence(t, exitFailed,
		"it is a folder")
	mquine(t, "z", "show", "--data", noTrain, "--head", "a", "--relation", "r", "--tail", "b").requireSentence(t,
		exitFailed, "has no train split")
	mquine(t, "z", "stats").requireSentence(t, exitUsage, "--data is missing")
	mquine(t, "z", "stats", "--data", "d", "--convention", "mine").requireSentence(t, exitUsage,
		"choose from paper and definition")
	mquine(t, "z", "stats", "--data", "d", "--tsv", "a", "--plot", "./a").requireSentence(t, exitUsage,
		"name the same file")
	mquine(t, "z", "show", "--data", "d").requireSentence(t, exitUsage, "--head, --relation and --tail are missing")
}

func TestZAndCompareInterrupted(t *testing.T) {
	w := newWorkplace(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"z", "stats", "--data", w.data, "--json", w.path("z.json"), "--tsv", w.path("z.tsv"), "--plot",
			w.path("z.svg")},
		{"z", "show", "--data", w.data, "--head", "a", "--relation", "b", "--tail", "c"},
		{"compare", w.model, w.model, "--data", w.data, "--json", w.path("c.json")},
	} {
		var stdout, stderr bytes.Buffer
		status := execute(ctx, time.Now(), args, strings.NewReader(""), &stdout, &stderr)
		assert.Equal(t, exitInterrupted, status, args)
		assert.Contains(t, stderr.String(), ": interrupted\n")
		assert.Empty(t, stdout.String())
	}
	requireFiles(t, w.dir, "families", "checkpoint")
}

// The groups of an evaluation by z-case agree with the cases of z stats and contain every query.
func TestEvalByZCaseAndDegree(t *testing.T) {
	w := newWorkplace(t)
	for _, convention := range []string{"paper", "definition"} {
		zFile, evalFile := w.path("z.json"), w.path("eval.json")
		succeed(t, "z", "stats", "--data", w.data, "--convention", convention, "--json", zFile)
		o := succeed(t, "eval", w.model, "--data", w.data, "--by", "z-case,degree", "--convention",
			convention, "--json", evalFile)
		assert.Contains(t, o.stdout, "By z-case: filter all, side both, realistic ties, convention "+convention)
		assert.Contains(t, o.stdout, "By degree: ")

		var z zReportJSON
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(zFile)), &z))
		r := readReport(t, must1(os.ReadFile(evalFile)))
		sizes := map[string]int{}
		whole := map[string]int{}
		for _, g := range r.Groups {
			if g.Filter == "all" && g.Ties == "realistic" {
				whole[g.By+" "+g.Side] += g.N
				if g.By == "z-case" {
					sizes[g.Side+" "+g.Group] = g.N
				}
			}
		}
		assert.Equal(t, map[string]int{"z-case tail": 40, "z-case head": 40, "z-case both": 80, "degree tail": 40,
			"degree head": 40, "degree both": 80}, whole)
		for _, c := range z.Cases {
			assert.Equal(t, []int{c.Easy, c.Neutral, c.Hard},
				[]int{sizes[c.Side+" easy"], sizes[c.Side+" neutral"], sizes[c.Side+" hard"]}, c.Side)
		}
	}
}
