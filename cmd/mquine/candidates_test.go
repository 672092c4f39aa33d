package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// scoresOf returns the lines of a ranks file, without the header. For each line, it also returns
// the scores of all answers to the query.
func scoresOf(t *testing.T, w workplace, ranks string) (lines [][]string, scores []map[string]float64) {
	text, err := os.ReadFile(ranks)
	require.NoError(t, err)
	var queries strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Split(line, "\t")
		lines = append(lines, f)
		q := []string{f[1], f[2], f[3]}
		q[map[string]int{"tail": 2, "head": 0}[f[0]]] = "?"
		fmt.Fprintln(&queries, strings.Join(q, "\t"))
		scores = append(scores, map[string]float64{})
	}
	o := mquineReading(t, queries.String(), "predict", w.model, "--data", w.data, "--in", "-", "-k", "1000")
	require.Zero(t, o.status, o.stderr)
	answers := strings.Split(strings.TrimSpace(o.stdout), "\n")[1:]
	each := len(answers) / len(lines)
	for i, line := range answers {
		f := strings.Split(line, "\t")
		answer := f[map[string]int{"tail": 2, "head": 0}[f[3]]]
		scores[i/each][answer] = must1(strconv.ParseFloat(f[6], 64))
	}
	return lines, scores
}

// The ranks among the entities of a list, the entities of some types and the observed entities
// agree with ranks from the scores of all entities. Predictions contain the same candidates.
func TestCandidates(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	var list, types strings.Builder
	odd := map[string]bool{}
	for e, label := range g.Entities.Labels() {
		odd[label] = e%2 == 1
		if odd[label] {
			fmt.Fprintln(&list, label)
		}
		fmt.Fprintf(&types, "%s\tT%d\tparity %d\n", label, e%2, e%2)
	}
	observed := map[string]map[string]bool{}
	for _, tr := range g.Splits[kg.Train] {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			_, answer := tr.Query(side)
			key := side.String() + g.Relations.Label(tr.Relation)
			if observed[key] == nil {
				observed[key] = map[string]bool{}
			}
			observed[key][g.Entities.Label(answer)] = true
		}
	}
	require.NoError(t, os.WriteFile(w.path("list.txt"), []byte(list.String()), 0o644))
	require.NoError(t, os.WriteFile(w.path("types.tsv"), []byte(types.String()), 0o644))
	inList := func(_, _, e string) bool { return odd[e] }
	for _, c := range []struct {
		name  string
		flags []string
		has   func(side, relation, e string) bool
	}{
		{"list", []string{"--candidates", w.path("list.txt")}, inList},
		{"type", []string{"--types", w.path("types.tsv"), "--candidate-type", "T1"}, inList},
		{"one side", []string{"--types", w.path("types.tsv"), "--head-type", "parity 1"},
			func(side, _, e string) bool { return side == "tail" || odd[e] }},
		{"observed", []string{"--candidates", "observed"}, func(side, r, e string) bool { return observed[side+r][e] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ranks := w.path("ranks.tsv")
			o := succeed(t, append([]string{"eval", w.model, "--data", w.data, "--ranks", ranks, "--filter", "none",
				"--skip-excluded", "--json", w.path("e.json")}, c.flags...)...)
			lines, scores := scoresOf(t, w, ranks)
			require.NotEmpty(t, lines)
			kept, distinct := map[string]int{}, map[[3]string]bool{}
			for i, f := range lines {
				target := f[3]
				if f[0] == "head" {
					target = f[1]
				}
				require.True(t, c.has(f[0], f[2], target), f)
				kept[f[0]]++
				distinct[[3]string{f[0], f[2], map[string]string{"tail": f[1], "head": f[3]}[f[0]]}] = true
				better, equal, candidates := 0, 0, 0
				for e, score := range scores[i] {
					if !c.has(f[0], f[2], e) {
						continue
					}
					candidates++
					switch {
					case score > scores[i][target]:
						better++
					case score == scores[i][target] && e != target:
						equal++
					}
				}
				require.Equal(t, []string{strconv.Itoa(better), strconv.Itoa(equal), strconv.Itoa(candidates)}, f[4:7])
			}
			var report struct {
				Queries      int
				Unique       int `json:"unique_queries"`
				Restrictions struct {
					Excluded int `json:"excluded_queries"`
				}
			}
			text, err := os.ReadFile(w.path("e.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &report))
			assert.Equal(t, len(lines), report.Queries)
			assert.Equal(t, len(distinct), report.Unique)
			assert.Contains(t, o.stderr, fmt.Sprintf("ranked %d queries in ", len(lines)))
			assert.Equal(t, 80, report.Queries+report.Restrictions.Excluded)
			if report.Restrictions.Excluded > 0 {
				assert.Contains(t, strings.Join(strings.Fields(o.stdout), " "),
					fmt.Sprintf("%d queries left out", report.Restrictions.Excluded))
			}

			// Each row states the queries of its sides that are left out, but rows of groups do not.
			o = succeed(t, append([]string{"eval", w.model, "--data", w.data, "--filter", "none", "--skip-excluded",
				"--format", "csv", "--by", "relation"}, c.flags...)...)
			rows := must1(csv.NewReader(strings.NewReader(o.stdout)).ReadAll())
			side, candidates := slices.Index(rows[0], "side"), slices.Index(rows[0], "candidates")
			kept["both"] = kept["tail"] + kept["head"]
			require.Greater(t, len(rows), 4)
			for _, row := range rows[4:] {
				assert.NotContains(t, row[candidates], "left out")
			}
			for i, row := range rows[1:4] {
				require.Equal(t, []string{"tail", "head", "both"}[i], row[side])
				left := []int{40, 40, 80}[i] - kept[row[side]]
				want := map[bool]string{true: fmt.Sprintf(", %d queries left out", left)}[left > 0]
				assert.True(t, strings.HasSuffix(row[candidates], want), row)
				assert.Equal(t, left > 0, strings.Contains(row[candidates], "left out"), row)
			}

			// The last query asks for a head.
			last := lines[len(lines)-1]
			o = succeed(t, append([]string{"predict", w.model, "--data", w.data, "--tail", last[3], "--relation",
				last[2], "-k", "1000", "--format", "tsv"}, c.flags...)...)
			var answers []string
			for _, line := range strings.Split(strings.TrimSpace(o.stdout), "\n")[1:] {
				answers = append(answers, strings.Split(line, "\t")[0])
			}
			var want []string
			for e := range scores[len(lines)-1] {
				if c.has("head", last[2], e) {
					want = append(want, e)
				}
			}
			slices.Sort(answers)
			slices.Sort(want)
			assert.Equal(t, want, answers)
		})
	}
}

func TestCandidatesBadInput(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	write := func(name, text string) string {
		require.NoError(t, os.WriteFile(w.path(name), []byte(text), 0o644))
		return w.path(name)
	}
	list := write("list.txt", g.Entities.Label(0)+"\n")
	types := write("types.tsv", g.Entities.Label(0)+"\tperson\nmorphine\tghost\n")
	unknown := write("unknown.txt", "no-such-entity\n")
	eval := []string{"eval", w.model, "--data", w.data}
	for want, flags := range map[string][]string{
		"are not among the candidates: ": {"--candidates", list},
		"--skip-excluded":                {"--candidates", list},
		`unknown.txt:1: the checkpoint has no entity "no-such-entity"`: {"--candidates", unknown},
		`types.tsv has no type "persons"; did you mean person`: {
			"--types", types, "--candidate-type", "persons",
		},
		`no entity of the checkpoint has type "ghost"`: {"--types", types, "--head-type", "ghost"},
		"reading " + w.data + ": it is a folder":       {"--candidates", w.data},
		"reading " + w.path("observd") + ": no such file or directory; name a file, or write observed": {
			"--candidates", w.path("observd"),
		},
		"no such file or directory; check the name of the file": {"--types", w.path("x"), "--candidate-type", "a"},
	} {
		mquine(t, append(eval, flags...)...).requireSentence(t, exitFailed, want)
	}
	for want, flags := range map[string][]string{
		"give --candidates or --candidate-type, not both": {
			"--types", types, "--candidates", list, "--candidate-type", "person",
		},
		"--tail-type needs a file with the types": {"--tail-type", "person"},
		"--types alone restricts nothing":         {"--types", types},
		"--candidates does not read standard input: give a path instead of -": {
			"--candidates", "-",
		},
		"--tail-type has an empty value":        {"--types", types, "--tail-type", "person", "--tail-type", ""},
		"--skip-excluded applies to restricted": {"--skip-excluded"},
		"--tail-candidates restricts tails, but no query asks for tails": {
			"--tail-candidates", list, "--side", "head",
		},
		"--candidates has no effect beside the flags that restrict single sides": {
			"--candidates", list, "--tail-candidates", list, "--side", "tail",
		},
		"--candidate-type has no effect beside the flags that restrict single sides": {
			"--types", types, "--candidate-type", "person", "--tail-candidates", list, "--head-type", "person",
		},
		"--head-type restricts heads, but no query asks for heads": {
			"--types", types, "--head-type", "person", "--side", "tail",
		},
	} {
		mquine(t, append(eval, flags...)...).requireSentence(t, exitUsage, want)
	}
	known := g.Splits[kg.Train][0]
	predict := []string{"predict", w.model, "--data", w.data, "--filter-known", "--head", g.Entities.Label(known.Head),
		"--relation", g.Relations.Label(known.Relation)}
	mquine(t, append(predict, "--head-candidates", list)...).
		requireSentence(t, exitUsage, "--head-candidates restricts heads, but no query asks for heads")
	mquine(t, "predict", w.model, "--data", w.data, "--head-candidates", list, "--in",
		write("queries.tsv", g.Entities.Label(known.Head)+"\t"+g.Relations.Label(known.Relation)+"\t?\n")).
		requireSentence(t, exitFailed, "--head-candidates restricts heads, but no query asks for heads")
	o := succeed(t, append(predict, "--types", types, "--candidate-type", "person")...)
	assert.Contains(t, o.stderr, "skipped 1 entity of "+types+" that the checkpoint lacks")
	o = succeed(t, append(predict, "--candidates", write("known.txt", g.Entities.Label(known.Tail)+"\n"))...)
	assert.Contains(t, o.stderr, "the query has no candidate left\n")
	require.NoError(t, os.Remove(w.data+"/train.txt"))
	mquine(t, append(eval, "--candidates", "observed", "--filter", "none")...).
		requireSentence(t, exitFailed, "observed candidates need the train split, which data set")
}

// A type that is given twice counts once.
func TestRepeatedType(t *testing.T) {
	w := newWorkplace(t)
	var types strings.Builder
	for _, label := range must1(kg.Open(t.Context(), w.data)).Entities.Labels() {
		fmt.Fprintf(&types, "%s\tperson\n", label)
	}
	require.NoError(t, os.WriteFile(w.path("types.tsv"), []byte(types.String()), 0o644))
	o := succeed(t, "eval", w.model, "--data", w.data, "--types", w.path("types.tsv"), "--candidate-type", "person",
		"--candidate-type", "person", "--format", "csv")
	assert.Contains(t, o.stdout, "type person")
	assert.NotContains(t, o.stdout, "person or person")
}
