package main

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

type contrastJSON struct {
	By        string   `json:"by"`
	Group     string   `json:"group"`
	Side      string   `json:"side"`
	N         int      `json:"n"`
	Clusters  int      `json:"clusters"`
	Effective *float64 `json:"effective_clusters"`
	Wins      int      `json:"wins"`
	Losses    int      `json:"losses"`
	Equal     int      `json:"equal"`
	Metrics   []struct {
		Metric     string   `json:"metric"`
		Base       *float64 `json:"base"`
		Other      *float64 `json:"other"`
		Difference *float64 `json:"difference"`
		CILow      *float64 `json:"ci_low"`
		CIHigh     *float64 `json:"ci_high"`
		P          *float64 `json:"p"`
	} `json:"metrics"`
}

type compareJSON struct {
	Schema      string `json:"schema"`
	ZConvention string `json:"z_convention"`
	Provenance  struct {
		Bootstrap struct{ By string }
	} `json:"provenance"`
	Checkpoints []struct {
		Name    string        `json:"name"`
		Results []evalMetrics `json:"results"`
	} `json:"checkpoints"`
	Comparisons []struct {
		Base, Other   string
		Whole, Groups []contrastJSON
		Changed       []struct {
			Side, Head, Relation, Tail string
			BaseRank                   float64 `json:"base_rank"`
			OtherRank                  float64 `json:"other_rank"`
		}
	} `json:"comparisons"`
}

// another creates a second checkpoint in a workplace. Its parameters are random, so its ranks are
// bad.
func (w workplace) another(t *testing.T) string {
	t.Helper()
	path := w.path("other")
	succeed(t, "init", "--model", "mquade", "--dim", "6", "--data", w.data, "--out", path, "--kind", "random")
	return path
}

// ranksOf returns the ranks that eval computes under filter all, by query.
func ranksOf(t *testing.T, w workplace, model string) map[string]float64 {
	t.Helper()
	path := w.path("ranks.tsv")
	succeed(t, "eval", model, "--data", w.data, "--filter", "all", "--ranks", path)
	return ranksIn(t, path)
}

// ranksIn returns the ranks in a ranks file of one filter, by query.
func ranksIn(t *testing.T, path string) map[string]float64 {
	t.Helper()
	ranks := map[string]float64{}
	for _, line := range sortedLines(t, path) {
		f := strings.Split(line, "\t")
		if f[0] != "side" {
			ranks[strings.Join(f[:4],
				"\t")] = 1 + float64(must1(strconv.Atoi(f[4]))) + float64(must1(strconv.Atoi(f[5])))/2
		}
	}
	return ranks
}

// TestCompare compares the results of compare with the ranks files of eval.
func TestCompare(t *testing.T) {
	w := newWorkplace(t)
	other := w.another(t)
	base, changed := ranksOf(t, w, w.model), ranksOf(t, w, other)
	require.Len(t, base, 80)
	o := succeed(t, "compare", w.model, other, "--data", w.data, "--by", "entity,category,z-case,degree", "--json",
		w.path("c.json"), "--changed", "7")
	assert.Contains(t, o.stdout, "families test: filter all, realistic ties, CI by query\n")
	assert.Contains(t, o.stdout, "other against checkpoint by z-case: side both, convention paper, MRR\n")

	var r compareJSON
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path("c.json"))), &r))
	assert.Equal(t, "mquine.compare/2", r.Schema)
	assert.Equal(t, "paper", r.ZConvention)
	require.Len(t, r.Checkpoints, 2)
	require.Len(t, r.Comparisons, 1)
	c := r.Comparisons[0]
	assert.Equal(t, []string{"checkpoint", "other"}, []string{c.Base, c.Other})

	for _, whole := range c.Whole {
		n, wins, losses := 0, 0, 0
		var mrr [2]float64
		for q, rank := range base {
			if whole.Side != "both" && !strings.HasPrefix(q, whole.Side) {
				continue
			}
			n++
			mrr[0] += 1 / rank
			mrr[1] += 1 / changed[q]
			if changed[q] < rank {
				wins++
			} else if changed[q] > rank {
				losses++
			}
		}
		assert.Equal(t, []int{n, wins, losses, n - wins - losses},
			[]int{whole.N, whole.Wins, whole.Losses, whole.Equal}, whole.Side)
		m := whole.Metrics[0]
		assert.Equal(t, "mrr", m.Metric)
		assert.InDelta(t, mrr[0]/float64(n), *m.Base, 1e-12)
		assert.InDelta(t, mrr[1]/float64(n), *m.Other, 1e-12)
		assert.InDelta(t, (mrr[1]-mrr[0])/float64(n), *m.Difference, 1e-12)
		assert.True(t, *m.CILow <= *m.Difference && *m.Difference <= *m.CIHigh)
		assert.True(t, 0 < *m.P && *m.P <= 1)
	}
	for i, checkpoint := range r.Checkpoints {
		require.Len(t, checkpoint.Results, 3)
		assert.InDelta(t, *checkpoint.Results[2].MRR, *[]*float64{c.Whole[2].Metrics[0].Base,
			c.Whole[2].Metrics[0].Other}[i], 1e-12)
	}
	sizes := map[string]int{}
	for _, g := range c.Groups {
		if g.Side == "both" {
			sizes[g.By] += g.N
		}
		if g.N == 0 {
			assert.Nil(t, g.Metrics[0].P)
		}
	}
	assert.Equal(t, map[string]int{"entity": 80, "category": 80, "z-case": 80, "degree": 80}, sizes)

	require.Len(t, c.Changed, 7)
	last := math.Inf(1)
	for _, q := range c.Changed {
		name := strings.Join([]string{q.Side, q.Head, q.Relation, q.Tail}, "\t")
		assert.Equal(t, []float64{base[name], changed[name]}, []float64{q.BaseRank, q.OtherRank})
		change := math.Abs(1/q.BaseRank - 1/q.OtherRank)
		assert.LessOrEqual(t, change, last)
		last = change
	}
	larger := 0
	for q := range base {
		if math.Abs(1/base[q]-1/changed[q]) > last {
			larger++
		}
	}
	assert.LessOrEqual(t, larger, 7)
}

func TestCompareFormats(t *testing.T) {
	w := newWorkplace(t)
	compare := []string{"compare", w.model, w.another(t), w.model + "/", "--data", w.data, "--side", "head", "--by",
		"degree", "--hits", "1,10"}
	o := succeed(t, append(compare, "--format", "md")...)
	assert.Contains(t, o.stdout, "| side | metric |")
	assert.Contains(t, o.stdout, w.model+"/ against "+w.model, "paths name checkpoints with equal base names")

	o = succeed(t, append(compare, "--format", "latex")...)
	assert.Equal(t, strings.Count(o.stdout, `\begin{tabular}`), strings.Count(o.stdout, `\end{tabular}`))
	assert.Equal(t, 4, strings.Count(o.stdout, `\toprule`),
		"one table of checkpoints, one of differences, and one of groups for each comparison")
	for line := range strings.Lines(o.stdout) {
		if strings.HasSuffix(line, "\\\\\n") {
			assert.NotRegexp(t, `[^\\][_%#]`, line)
			assert.NotRegexp(t, `^\[`, line)
		}
	}

	o = succeed(t, append(compare, "--format", "csv")...)
	records, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	require.NoError(t, err)
	const metrics = 4
	assert.Len(t, records[0], 29)
	assert.Zero(t, (len(records)-1)%(2*metrics))
	for _, record := range records[1:] {
		if record[5] == w.model+"/" {
			assert.Contains(t, []string{"0", ""}, record[17], "a checkpoint does not differ from itself")
		}
	}
	o = succeed(t, append(compare, "--json", "-")...)
	assert.True(t, strings.HasPrefix(o.stdout, "{\n  \"schema\""))
	assert.Contains(t, o.stderr, "the queries that changed most")
}

// Every table says which clusters were resampled. Intervals and p-values depend on these clusters.
func TestCompareCIBy(t *testing.T) {
	w := newWorkplace(t)
	compare := []string{"compare", w.model, w.another(t), "--data", w.data, "--side", "tail", "--by", "category",
		"--json", w.path("c.json")}
	read := func() (r compareJSON) {
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path("c.json"))), &r))
		return r
	}
	o := succeed(t, compare...)
	assert.Equal(t, "query", read().Provenance.Bootstrap.By)
	assert.Equal(t, 3, strings.Count(o.stdout, "[95% CI]"), "in tables of checkpoints, differences and groups")
	assert.Contains(t, o.stdout, ", CI by query\n")

	succeed(t, append(compare, "--ci-by", "triple")...)
	byTriple := read()
	for _, format := range []string{"table", "md", "latex"} {
		o = succeed(t, append(compare, "--ci-by", "relation", "--format", format)...)
		assert.Equal(t, 3, strings.Count(o.stdout, "% CI]"), format)
		assert.Contains(t, o.stdout, "by relation", format)
		assert.Contains(t, o.stdout, "too few: ", format)
	}
	byRelation := read()
	assert.Equal(t, "relation", byRelation.Provenance.Bootstrap.By)
	alone, together := byTriple.Comparisons[0].Whole[0], byRelation.Comparisons[0].Whole[0]
	assert.Equal(t, 40, alone.Clusters)
	assert.Less(t, *together.Effective, 10.)
	assert.NotNil(t, alone.Metrics[0].CILow)
	assert.Nil(t, together.Metrics[0].CILow)
	assert.Equal(t, *alone.Metrics[0].Difference, *together.Metrics[0].Difference)
	assert.Less(t, *alone.Metrics[0].P, *together.Metrics[0].P, "few clusters can be swapped in few ways")

	o = succeed(t, append(compare, "--ci-by", "relation", "--format", "csv")...)
	records, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, []string{"ci_low", "ci_high", "p", "ci_by", "clusters", "effective_clusters",
		"base_candidates", "other_candidates", "restricted", "tolerance_absolute", "tolerance_relative"},
		records[0][18:])
	assert.Equal(t, []string{"relation", strconv.Itoa(together.Clusters)}, records[1][21:23])
	assert.Equal(t, []string{"", ""}, records[1][18:20])
	assert.Equal(t, []string{"60", "60", "false", "0", "0"}, records[1][24:])
}

// Ranks files in place of checkpoints give the same comparison.
func TestCompareRanksFiles(t *testing.T) {
	w := newWorkplace(t)
	other := w.another(t)
	base, changed := w.path("base.tsv"), w.path("changed.tsv")
	succeed(t, "eval", w.model, "--data", w.data, "--ranks", base)
	succeed(t, "eval", other, "--data", w.data, "--filter", "all", "--ranks", changed)
	read := func(args ...string) (r compareJSON) {
		o := succeed(t, append([]string{"compare", "--data", w.data, "--by", "z-case", "--json", "-"}, args...)...)
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
		for i := range r.Comparisons { // the paths differ
			r.Comparisons[i].Base, r.Comparisons[i].Other = "", ""
		}
		return r
	}
	for _, sides := range []string{"both", "head"} {
		want := read(w.model, other, "--side", sides).Comparisons
		assert.Equal(t, want, read(base, changed, "--side", sides).Comparisons)
		assert.Equal(t, want, read(w.model, changed, "--side", sides).Comparisons)
		assert.Equal(t, want, read(base, other, "--side", sides).Comparisons)
	}

	list, restricted := w.path("list.txt"), w.path("restricted.tsv")
	entities := map[string]bool{}
	for line := range strings.Lines(string(must1(os.ReadFile(filepath.Join(w.data, "test.txt"))))) {
		f := strings.Fields(line)
		entities[f[0]], entities[f[2]] = true, true
	}
	require.NoError(t, os.WriteFile(list, []byte(strings.Join(slices.Collect(maps.Keys(entities)), "\n")), 0o600))
	succeed(t, "eval", w.model, "--data", w.data, "--candidates", list, "--ranks", restricted)
	for _, checkpoints := range [][]string{
		{base, changed}, {w.model, changed}, {base, other}, {restricted, restricted},
	} {
		says, file := checkpoints[0] == restricted, w.path("compared.json")
		compare := append([]string{"compare", "--data", w.data}, checkpoints...)
		o := succeed(t, append(compare, "--json", file, "--force")...)
		assert.Equal(t, says, strings.Contains(o.stdout, ", restricted candidates"))
		o = succeed(t, append(compare, "--format", "csv")...)
		assert.Contains(t, o.stdout, ",restricted,tolerance_absolute,tolerance_relative\n")
		assert.Equal(t, says, strings.Contains(o.stdout, ",true,0,0\n"))
		o = succeed(t, "report", file, "--out", "-")
		assert.Equal(t, says, strings.Contains(o.stdout, "The candidates are restricted."))
	}
	o := succeed(t, "compare", "--data", w.data, restricted, restricted, "--format", "latex")
	assert.Contains(t, o.stdout, "The candidates are restricted.")
	for _, checkpoints := range [][]string{{base, restricted}, {restricted, other}, {w.model, restricted}} {
		mquine(t, append([]string{"compare", "--data", w.data}, checkpoints...)...).requireSentence(t, exitFailed,
			"so their ranks are not comparable: rank both with the same candidates")
	}

	// The number of candidates includes the target.
	rows := slices.Collect(strings.Lines(string(must1(os.ReadFile(restricted)))))
	fields := strings.Split(rows[1], "\t")
	for i := 4; i+2 < len(fields); i += 3 {
		fields[i], fields[i+1], fields[i+2] = "3", "1", "4"
	}
	rows[1] = strings.Join(fields, "\t")
	require.NoError(t, os.WriteFile(restricted, []byte(strings.Join(rows, "")), 0o600))
	mquine(t, "compare", "--data", w.data, restricted, restricted).requireSentence(t, exitFailed,
		"restricted.tsv has a query with 3 better and 1 equal candidates among 4, which must include the target: "+
			"count the target in column all_candidates")

	compare := []string{"compare", base, changed, "--data", w.data}
	mquine(t, append(compare, "--filter", "none")...).requireSentence(t, exitFailed,
		"has no ranks under filter none: choose --filter all")
	mquine(t, append(compare, "--split", "valid")...).requireSentence(t, exitFailed,
		"base.tsv does not match the valid split of families: ")
	mquine(t, append(compare, "--json", base)...).requireSentence(t, exitUsage, "--json writes JSON")

	// The numbers of candidates must be possible.
	lines := slices.Collect(strings.Lines(string(must1(os.ReadFile(base)))))
	query := strings.Join(strings.Split(lines[1], "\t")[:4], "\t")
	for end, note := range map[string]string{
		"\t50\t9": "",
		"\t50\t10": "odd.tsv has a rank among at least 61 candidates, but data set families has only 60 entities: " +
			"check the file, unless its checkpoint has more",
	} {
		odd := w.path("odd.tsv")
		text := lines[0] + query + strings.Repeat(end, 3) + "\n" + strings.Join(lines[2:], "")
		require.NoError(t, os.WriteFile(odd, []byte(text), 0o644))
		o := succeed(t, "compare", odd, w.model, "--data", w.data)
		assert.Equal(t, note != "", strings.Contains(o.stderr, "note: "), o.stderr)
		assert.Contains(t, o.stderr, note)
	}
	impossible := strings.Replace(strings.Join(lines, ""), lines[1], query+"\t5\t0\t6\t0\t6\t0\n", 1)
	require.NoError(t, os.WriteFile(changed, []byte(impossible), 0o644))
	mquine(t, "compare", changed, base, "--data", w.data).requireSentence(t, exitFailed,
		"changed.tsv:2: train_better: 6 is more than none_better, which is 5, but filter train removes more candidates")

	long := lines[0] + strings.Repeat(lines[1], 1081) // 360 triples have 1,080 ranks on three sides
	require.NoError(t, os.WriteFile(changed, []byte(long), 0o644))
	mquine(t, "compare", changed, base, "--data", w.data).requireSentence(t, exitFailed,
		"changed.tsv:1082: the file has more than 1,080 ranks, so they are of other triples: rank the same split")
	require.NoError(t, os.WriteFile(base, []byte("side\thead\n"), 0o644))
	mquine(t, compare...).requireSentence(t, exitFailed, "base.tsv:1: the columns of a ranks file are")
}

// --changed 0 leaves out the list of queries that changed most.
func TestCompareChangedNone(t *testing.T) {
	w := newWorkplace(t)
	compare := []string{"compare", w.model, w.another(t), "--data", w.data, "--changed"}
	with := succeed(t, append(compare, "2")...).stdout
	without := succeed(t, append(compare, "0", "--json", w.path("c.json"))...).stdout
	list := strings.Index(with, "\nother against checkpoint: the queries that changed most\n")
	require.Positive(t, list)
	assert.Equal(t, with[:list], without)
	assert.Contains(t, string(must1(os.ReadFile(w.path("c.json")))), `"changed": []`)
	for _, format := range []string{"csv", "json", "latex", "markdown", "table"} {
		succeed(t, append(compare, "0", "--format", format)...)
	}
	for _, n := range []string{"-1", "many", "2147483648"} {
		mquine(t, append(compare, n)...).requireSentence(t, exitUsage,
			`--changed "`+n+`": must be a whole number from 0 to 2147483647`)
	}
}

// A note says if a checkpoint or a ranks file is compared with itself.
func TestCompareWithItself(t *testing.T) {
	w := newWorkplace(t)
	ranks := w.path("ranks.tsv")
	succeed(t, "eval", w.model, "--data", w.data, "--filter", "all", "--ranks", ranks)
	for _, path := range []string{w.model, ranks} {
		again := w.data + "/../" + filepath.Base(path)
		require.True(t, sameFile(path, again))
		for _, other := range []string{path, again} {
			o := succeed(t, "compare", path, other, "--data", w.data, "--no-ci")
			assert.Contains(t, o.stderr, "note: "+other+" is also the base, so it is compared with itself\n")
		}
	}
	assert.NotContains(t, succeed(t, "compare", w.model, ranks, "--data", w.data, "--no-ci").stderr, "itself")
}

// Ranks with a tolerance are comparable only with ranks of the same tolerance.
func TestCompareTolerance(t *testing.T) {
	w := newWorkplace(t)
	exact, near, other := w.path("exact.tsv"), w.path("near.tsv"), w.path("other.tsv")
	eval := []string{"eval", w.model, "--data", w.data}
	succeed(t, append(eval, "--filter", "all", "--ranks", exact)...)
	succeed(t, append(eval, "--protocol", "libkge", "--ranks", near)...)
	succeed(t, "eval", w.another(t), "--data", w.data, "--protocol", "libkge", "--ranks", other)
	header := "side\thead\trelation\ttail\tall_better\tall_equal"
	assert.Contains(t, sortedLines(t, exact), header)
	assert.Contains(t, sortedLines(t, near), header+"\ttolerance_absolute\ttolerance_relative")
	for _, pair := range [][]string{{exact, near}, {near, exact}, {near, w.model}, {w.model, near}} {
		mquine(t, append([]string{"compare", "--data", w.data}, pair...)...).requireSentence(t, exitFailed,
			" have ranks with different tolerances, so they are not comparable: rank both with mquine eval under the "+
				"same --protocol")
	}
	compare := []string{"compare", near, other, "--data", w.data, "--ties", "rounded", "--json", w.path("c.json")}
	assert.Contains(t, succeed(t, compare...).stdout, "rounded ties, tolerance 1e-05 + 0.0001·|score|, CI by")
	assert.Contains(t, succeed(t, append(compare, "--format", "latex")...).stdout,
		"rounded ties. In brackets: 95\\% bootstrap intervals, 1,000 resamples by query. Scores within 1e-05 + "+
			"0.0001·$|$score$|$ of the answer's count as equal.}\n")
	assert.Contains(t, string(must1(os.ReadFile(w.path("c.json")))), `"absolute": 0.00001`)
	records, err := csv.NewReader(strings.NewReader(succeed(t, append(compare, "--format", "csv")...).stdout)).ReadAll()
	require.NoError(t, err)
	for _, record := range records[1:] {
		assert.Equal(t, []string{"false", "1e-05", "0.0001"}, record[26:])
	}
}

// Ranks files identify their candidates by the labels, regardless of the order of the candidates and
// of the checkpoint's entities. compare refuses different candidates even if their numbers are equal.
func TestCompareDifferentCandidates(t *testing.T) {
	w, g := newNumberedWorkplace(t)
	write := func(name string, lines ...string) string {
		require.NoError(t, os.WriteFile(w.path(name), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		return w.path(name)
	}
	// The other checkpoint numbers the entities in another order.
	require.NoError(t, os.CopyFS(w.path("turned"), os.DirFS(w.data)))
	train := strings.Split(strings.TrimSpace(string(must1(os.ReadFile(w.path("turned/train.txt"))))), "\n")
	slices.Reverse(train)
	write("turned/train.txt", train...)
	other := w.path("other")
	succeed(t, "init", "--model", "mquade", "--dim", "6", "--data", w.path("turned"), "--out", other)

	tails := map[string]bool{}
	for _, triple := range g.Splits[kg.Test] {
		tails[g.Entities.Label(triple.Tail)] = true
	}
	var lists, types [2][]string
	left := 0
	for _, e := range g.Entities.Labels() {
		skip := -1
		if !tails[e] && left < 2 {
			skip = left
			left++
		}
		for i := range lists {
			if i != skip {
				lists[i] = append(lists[i], e)
				types[i] = append(types[i], e+"\tlisted")
			}
		}
	}
	require.Equal(t, 2, left)
	slices.Reverse(types[0])
	var negatives, turned, changed []string
	for _, triple := range g.Splits[kg.Test] {
		var list []string
		for e := triple.Tail + 1; len(list) < 5; e++ {
			list = append(list, g.Entities.Label(e%int32(g.Entities.Len())))
		}
		negatives = append(negatives, strings.Join(list[:4], "\t"))
		slices.Reverse(list)
		turned = append(turned, strings.Join(list[1:], "\t"))
		changed = append(changed, strings.Join(list[1:], "\t"))
		changed[0] = strings.Join(list[:4], "\t")
	}

	files := 0
	ranks := func(checkpoint string, flags ...string) string {
		files++
		path := w.path(fmt.Sprintf("ranks-%d.tsv", files))
		succeed(t, append([]string{"eval", checkpoint, "--data", w.data, "--side", "tail", "--filter", "none",
			"--ranks", path}, flags...)...)
		return path
	}
	compare := func(files ...string) outcome {
		args := []string{"compare", "--data", w.data, "--side", "tail", "--filter", "none"}
		return mquine(t, append(args, files...)...)
	}
	for _, c := range []struct {
		base, same, different []string
		queries               string
	}{
		{
			[]string{"--tail-candidates", write("a.txt", lists[0]...)},
			[]string{"--candidate-type", "listed", "--types", write("a.tsv", types[0]...)},
			[]string{"--tail-candidates", write("b.txt", lists[1]...)}, "40 queries",
		},
		{
			[]string{"--tail-negatives", write("n.tsv", negatives...)},
			[]string{"--tail-negatives", write("turned.tsv", turned...)},
			[]string{"--tail-negatives", write("changed.tsv", changed...)}, "1 query",
		},
	} {
		base, different := ranks(w.model, c.base...), ranks(w.model, c.different...)
		o := compare(base, ranks(other, c.same...))
		require.Zero(t, o.status, o.stderr)
		assert.NotContains(t, o.stderr, "note: ")
		compare(base, different).requireSentence(t, exitFailed,
			"have different candidates for "+c.queries+", so their ranks are not comparable")

		// Files of earlier versions have only the numbers.
		var old []string
		for line := range strings.Lines(string(must1(os.ReadFile(different)))) {
			old = append(old, line[:strings.LastIndex(line, "\t")])
		}
		o = compare(base, write("old.tsv", old...))
		require.Zero(t, o.status, o.stderr)
		assert.Contains(t, o.stderr, "note: old.tsv is a ranks file of an earlier version, which has only the "+
			"numbers of candidates: make sure that all files have the same candidates")
	}
	// Given negatives may be repeated, so a query may have more candidates than the data has entities.
	var many []string
	for _, line := range negatives {
		many = append(many, strings.Join(slices.Repeat([]string{line}, g.Entities.Len()), "\t"))
	}
	repeated := write("repeated.tsv", many...)
	o := compare(ranks(w.model, "--tail-negatives", repeated), ranks(other, "--tail-negatives", repeated))
	require.Zero(t, o.status, o.stderr)
	assert.NotContains(t, o.stderr, "note: ")

	digests := map[string]bool{}
	for _, checkpoint := range []string{w.model, other} {
		var r struct {
			Restrictions struct{ Tail struct{ SHA256 string } }
		}
		o := succeed(t, "eval", checkpoint, "--data", w.data, "--side", "tail", "--candidates", w.path("a.txt"),
			"--json", "-")
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
		digests[r.Restrictions.Tail.SHA256] = true
	}
	slices.Sort(lists[0])
	sum := sha256.Sum256([]byte(strings.Join(lists[0], "\n") + "\n"))
	assert.Equal(t, map[string]bool{hex.EncodeToString(sum[:]): true}, digests)
	unrestricted := strings.SplitN(string(must1(os.ReadFile(ranks(w.model)))), "\n", 2)
	assert.Equal(t, "side\thead\trelation\ttail\tnone_better\tnone_equal", unrestricted[0])
}

// Files of eval --skip-excluded can be compared if they lack the same queries. The metrics of each file
// equal the metrics of eval, and the wins and losses equal counts from the lines of the files.
func TestCompareExcluded(t *testing.T) {
	w, g := newNumberedWorkplace(t)
	lists, labels := [2]string{w.path("a.txt"), w.path("b.txt")}, g.Entities.Labels()
	for i, list := range [][]string{labels[:len(labels)*2/3], labels[len(labels)/3:]} {
		require.NoError(t, os.WriteFile(lists[i], []byte(strings.Join(list, "\n")+"\n"), 0o644))
	}
	eval := func(checkpoint, list, ranks string) evalReport {
		return readReport(t, []byte(succeed(t, "eval", checkpoint, "--data", w.data, "--filter", "all", "--candidates",
			list, "--skip-excluded", "--ranks", w.path(ranks), "--json", "-").stdout))
	}
	other := w.another(t)
	reports := []evalReport{eval(w.model, lists[0], "base.tsv"), eval(other, lists[0], "other.tsv")}
	eval(other, lists[1], "of-another-list.tsv")

	o := succeed(t, "compare", w.path("base.tsv"), w.path("other.tsv"), "--data", w.data, "--by", "z-case,category",
		"--json", "-")
	var r compareJSON
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
	base, changed := ranksIn(t, w.path("base.tsv")), ranksIn(t, w.path("other.tsv"))
	require.Less(t, len(base), 80)
	assert.Equal(t, 1, strings.Count(o.stderr, fmt.Sprintf("base.tsv lacks %d queries of the test split, as after "+
		"mquine eval --skip-excluded or --skip-unknown: the comparison is without them", 80-len(base))), o.stderr)
	for i, checkpoint := range r.Checkpoints {
		require.Len(t, checkpoint.Results, 3)
		for k, result := range checkpoint.Results {
			want := reports[i].Results[k]
			assert.Equal(t, []any{want.Side, want.N, *want.MRR, *want.MR, want.Clusters},
				[]any{result.Side, result.N, *result.MRR, *result.MR, result.Clusters})
			assert.Equal(t, want.MRRCILow, result.MRRCILow)
		}
	}
	wins, losses := 0, 0
	for query, rank := range changed {
		require.Contains(t, base, query)
		if rank < base[query] {
			wins++
		} else if rank > base[query] {
			losses++
		}
	}
	whole := r.Comparisons[0].Whole[2]
	assert.Equal(t, []int{len(base), wins, losses}, []int{whole.N, whole.Wins, whole.Losses})

	for _, pair := range [][]string{
		{w.path("base.tsv"), w.path("of-another-list.tsv")}, {w.path("base.tsv"), other},
		{w.model, w.path("other.tsv")},
	} {
		mquine(t, "compare", pair[0], pair[1], "--data", w.data).requireSentence(t, exitFailed,
			" have ranks of different queries, so they are not comparable: rank both with mquine eval and the same "+
				"candidates")
	}
}

// The error about a flag that only eval has says how to compare such ranks, and the way works.
func TestCompareEnsemble(t *testing.T) {
	eval, _, err := newRootCommand(time.Now()).Find([]string{"eval"})
	require.NoError(t, err)
	given := []string{"ensemble", "inverse-weight", "protocol", "weight", "weights"}
	eval.Flags().VisitAll(func(f *pflag.Flag) {
		// The estimates of --sample cannot be combined with --ranks.
		if groupOf(f) == candidateFlags && f.Name != "sample" && f.Name != "seed" {
			given = append(given, f.Name)
		}
	})
	assert.ElementsMatch(t, given, rankedByEval)
	for _, name := range given {
		mquine(t, "compare", "a", "b", "--data", "umls", "--"+name, "x").requireSentence(t, exitUsage,
			"unknown flag --"+name+": for ensembles, restricted candidates and protocols, write the ranks with mquine "+
				"eval --ranks FILE, and give compare the FILE in place of the checkpoint")
	}

	w := newWorkplace(t)
	other, file, report := w.path("other"), w.path("ens.tsv"), w.path("eval.json")
	succeed(t, "init", "--model", "complex", "--dim", "5", "--data", w.data, "--out", other)
	succeed(t, "eval", w.model, other, "--ensemble", "1,2", "--data", w.data, "--filter", "all", "--ranks", file,
		"--json", report)
	var ensemble struct{ Results []evalMetrics }
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(report)), &ensemble))
	var r compareJSON
	o := succeed(t, "compare", w.model, file, "--data", w.data, "--json", "-")
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
	for i, result := range r.Checkpoints[1].Results {
		assert.Equal(t, ensemble.Results[i].MRR, result.MRR)
	}
	assert.NotEqual(t, r.Checkpoints[0].Results[2].MRR, r.Checkpoints[1].Results[2].MRR)
}

// Nothing is ranked before all checkpoints and ranks files are known to be valid.
func TestCompareChecksBeforeRanking(t *testing.T) {
	w := newWorkplace(t)
	file, empty := w.path("list.txt"), w.path("empty")
	require.NoError(t, os.WriteFile(file, []byte("a\n"), 0o644))
	require.NoError(t, os.Mkdir(empty, 0o755))
	for path, sentence := range map[string]string{
		w.path("none"):                         "there is no checkpoint " + w.path("none") + ": no such file or folder",
		empty:                                  "empty is not a checkpoint: ",
		filepath.Join(w.model, "entities.tsv"): "entities.tsv:1: the columns of a ranks file are",
		file:                                   "list.txt:1: the columns of a ranks file are",
	} {
		o := mquine(t, "compare", w.model, path, "--data", w.data)
		o.requireSentence(t, exitFailed, sentence)
		assert.NotContains(t, o.stderr, "ranked")
	}
}

func TestCompareBadInput(t *testing.T) {
	w := newWorkplace(t)
	mquine(t, "compare", w.model, w.path("none"), "--data", w.data).requireSentence(t, exitFailed,
		"there is no checkpoint")
	mquine(t, "compare", w.model, w.model, "--data", w.path("none")).requireSentence(t, exitFailed, "none")
	mquine(t, "compare", w.model, "--data", w.data).requireSentence(t, exitUsage, "give at least two checkpoints")
	mquine(t, "compare", w.model, w.model).requireSentence(t, exitUsage, "--data is missing")
	mquine(t, "compare", w.model, w.model, "--data", w.data, "--format", "html").requireSentence(t, exitUsage,
		"choose from table, markdown, latex, csv and json")
}
