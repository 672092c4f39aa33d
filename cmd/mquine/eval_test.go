package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
)

// TestEvalSameRanks ranks on every tier and with several numbers of threads. The ranks must be
// equal.
func TestEvalSameRanks(t *testing.T) {
	w := newWorkplace(t)
	backends, err := kernel.Available()
	require.NoError(t, err)
	var first []byte
	for _, b := range backends {
		for _, threads := range []int{1, 3} {
			path := w.path("ranks.tsv")
			o := succeed(t, "eval", w.model, "--data", w.data, "--ranks", path, "-v",
				"--backend", b.Tier.String(), "--threads", strconv.Itoa(threads))
			require.Contains(t, o.stderr, fmt.Sprintf("on %v with %d thread", b.Tier, threads))
			ranks, err := os.ReadFile(path)
			require.NoError(t, err)
			if first == nil {
				first = ranks
			}
			require.Equal(t, string(first), string(ranks), "%v, %d threads", b.Tier, threads)
		}
	}
	lines := bytes.Count(first, []byte("\n"))
	assert.Equal(t, 1+2*40, lines)
}

// TestEvalScreens ranks with every screen for dot products. The ranks must be equal. Models with
// other comparisons refuse --screen.
func TestEvalScreens(t *testing.T) {
	w := newWorkplace(t)
	var first string
	for _, screen := range []string{"auto", "float32", "int8", "int16"} {
		path := w.path("ranks.tsv")
		o := succeed(t, "eval", w.model, "--data", w.data, "--ranks", path, "--screen", screen, "-v")
		if screen != "auto" {
			require.Regexp(t, `\nundecided: [\d,]+ pairs? after `+screen+`, `, o.stderr)
		}
		ranks, err := os.ReadFile(path)
		require.NoError(t, err)
		if first == "" {
			first = string(ranks)
		}
		require.Equal(t, first, string(ranks), screen)
	}
	succeed(t, "init", "--model", "transe-l1", "--dim", "6", "--data", w.data, "--out", w.path("transe"))
	mquine(t, "eval", w.path("transe"), "--data", w.data, "--screen", "int16").
		requireSentence(t, exitFailed,
			"--screen int16 is for dot products and group norms, "+
				"but model transe-l1 uses comparison l1: leave out --screen")
}

// TestEvalFixture compares the ranks with the ranks that an independent program computed in
// float64.
func TestEvalFixture(t *testing.T) {
	dir := fixture.Dir(t, "mquine-umls")
	if _, err := os.Stat(filepath.Join(os.Getenv("MQUINE_DATA"), "umls")); err != nil {
		t.Skipf("MQUINE_DATA: %v", err)
	}
	path := filepath.Join(t.TempDir(), "ranks.tsv")
	o := succeed(t, "eval", dir, "--data", "umls", "--ranks", path)
	assert.Regexp(t, `all +both +1,322 +0\.8434 `, o.stdout)
	assert.Equal(t, sortedLines(t, filepath.Join(dir, "ranks.tsv")), sortedLines(t, path))
}

func sortedLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	sort.Strings(lines)
	return lines
}

// evalReport is the JSON of an evaluation, as users decode it.
type evalReport struct {
	Schema     string `json:"schema"`
	Provenance struct {
		Version string    `json:"version"`
		Date    time.Time `json:"date"`
		Command string    `json:"command"`
		Machine struct {
			CPU     string `json:"cpu"`
			Tier    string `json:"tier"`
			Threads int    `json:"threads"`
		} `json:"machine"`
		Checkpoint struct {
			Path   string `json:"path"`
			SHA256 string `json:"sha256"`
			Model  string `json:"model"`
			Dim    int    `json:"dim"`
		} `json:"checkpoint"`
		Data struct {
			Name   string `json:"name"`
			SHA256 string `json:"sha256"`
			Train  int    `json:"train"`
			Test   int    `json:"test"`
		} `json:"data"`
		Bootstrap struct {
			Resamples int     `json:"resamples"`
			Level     float64 `json:"level"`
			By        string  `json:"by"`
		} `json:"bootstrap"`
	} `json:"provenance"`
	RankBounds    []int              `json:"rank_bounds"`
	Results       []evalMetrics      `json:"results"`
	Groups        []evalMetrics      `json:"groups"`
	Worst         []rankedQueryJSON  `json:"worst"`
	Best          []rankedQueryJSON  `json:"best"`
	Queries       int                `json:"queries"`
	UniqueQueries int                `json:"unique_queries"`
	Rescored      map[string]int     `json:"rescored"`
	Timing        map[string]float64 `json:"timing"`
	PeakRSSBytes  int64              `json:"peak_rss_bytes"`
	FMAGFLOPSAll  float64            `json:"fma_gflops_all"`
	Share         float64            `json:"share"`
}

type rankedQueryJSON struct {
	Side, Head, Relation, Tail string
	Rank                       float64
}

type evalMetrics struct {
	By         string   `json:"by"`
	Group      string   `json:"group"`
	Side       string   `json:"side"`
	Filter     string   `json:"filter"`
	Ties       string   `json:"ties"`
	N          int      `json:"n"`
	MRR        *float64 `json:"mrr"`
	MRRCILow   *float64 `json:"mrr_ci_low"`
	MRRCIHigh  *float64 `json:"mrr_ci_high"`
	Clusters   int      `json:"clusters"`
	Effective  *float64 `json:"effective_clusters"`
	MR         *float64 `json:"mr"`
	Hits1      *float64 `json:"hits@1"`
	Hits2      *float64 `json:"hits@2"`
	Hits3      *float64 `json:"hits@3"`
	Hits5      *float64 `json:"hits@5"`
	Hits10     *float64 `json:"hits@10"`
	RankCounts []int    `json:"rank_counts"`
}

func readReport(t *testing.T, text []byte) evalReport {
	t.Helper()
	var r evalReport
	require.NoError(t, json.Unmarshal(text, &r))
	return r
}

// TestEvalJSON checks the provenance in the JSON, and compares the metrics with the ranks file.
func TestEvalJSON(t *testing.T) {
	w := newWorkplace(t)
	ranks, report := w.path("ranks.tsv"), w.path("report.json")
	succeed(t, "eval", w.model, "--data", w.data, "--ranks", ranks, "--json", report,
		"--filter", "all,none", "--hits", "2,5", "--by", "category,relation", "--threads", "2",
		"--backend", "generic", "--peak")
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	r := readReport(t, text)

	parameters, err := os.ReadFile(filepath.Join(w.model, "model.safetensors"))
	require.NoError(t, err)
	sum := sha256.Sum256(parameters)
	p := r.Provenance
	assert.Equal(t, "mquine.eval/2", r.Schema)
	assert.Equal(t, []any{w.model, hex.EncodeToString(sum[:]), "mquine", 6},
		[]any{p.Checkpoint.Path, p.Checkpoint.SHA256, p.Checkpoint.Model, p.Checkpoint.Dim})
	assert.Equal(t, []any{"generic", 2, 80}, []any{p.Machine.Tier, p.Machine.Threads, r.Queries})
	assert.NotEmpty(t, p.Machine.CPU)
	assert.WithinDuration(t, time.Now(), p.Date, time.Minute)
	assert.Contains(t, p.Command, "mquine eval "+w.model+" ")
	assert.Equal(t, []any{1000, 0.95, "query"}, []any{p.Bootstrap.Resamples, p.Bootstrap.Level, p.Bootstrap.By})
	triples := sha256.New()
	for _, split := range []string{"train", "valid", "test"} {
		triples.Write(must1(os.ReadFile(filepath.Join(w.data, split+".txt"))))
	}
	assert.Equal(t, []any{"families", 300, 40, hex.EncodeToString(triples.Sum(nil))},
		[]any{p.Data.Name, p.Data.Train, p.Data.Test, p.Data.SHA256})

	for _, key := range []string{"load_s", "pack_s", "rank_s", "total_s"} {
		assert.Positive(t, r.Timing[key], key)
	}
	assert.Greater(t, r.Timing["total_s"], r.Timing["load_s"]+r.Timing["pack_s"]+r.Timing["rank_s"])
	assert.Contains(t, r.Rescored, "float64")
	assert.Contains(t, r.Rescored, "reference")
	assert.Greater(t, r.PeakRSSBytes, int64(1<<20))

	lines := strings.Split(strings.TrimSpace(string(must1(os.ReadFile(ranks)))), "\n")
	require.Equal(t, "side\thead\trelation\ttail\tall_better\tall_equal\tnone_better\tnone_equal", lines[0])
	queries := map[string]bool{}
	var reciprocal float64
	hits := 0
	for _, line := range lines[1:] {
		f := strings.Split(line, "\t")
		if f[0] == "tail" {
			queries["tail "+f[1]+" "+f[2]] = true
		} else {
			queries["head "+f[3]+" "+f[2]] = true
		}
		rank := 1 + float64(must1(strconv.Atoi(f[4]))) + float64(must1(strconv.Atoi(f[5])))/2
		reciprocal += 1 / rank
		if rank <= 5 {
			hits++
		}
	}
	n := len(lines) - 1
	assert.Equal(t, len(queries), r.UniqueQueries)
	assert.Len(t, r.Results, 2*3, "one tie rule")
	found := false
	for _, m := range r.Results {
		if m.Side == "both" && m.Filter == "all" && m.Ties == "realistic" {
			found = true
			assert.Equal(t, n, m.N)
			assert.InDelta(t, reciprocal/float64(n), *m.MRR, 1e-12)
			assert.InDelta(t, float64(hits)/float64(n), *m.Hits5, 1e-12)
			assert.NotNil(t, m.Hits2)
			assert.Nil(t, m.Hits10)
			assert.True(t, *m.MRRCILow <= *m.MRR && *m.MRR <= *m.MRRCIHigh)
		}
	}
	assert.True(t, found)
	inGroups := map[string]int{}
	for _, g := range r.Groups {
		if g.Side == "both" && g.Filter == "all" && g.Ties == "realistic" {
			inGroups[g.By] += g.N
		}
	}
	assert.Equal(t, map[string]int{"category": n, "relation": n}, inGroups)

	const width = 6 * 7
	work := 2 * width * 60 * float64(r.UniqueQueries)
	assert.InEpsilon(t, work/r.Timing["rank_s"]/1e9/r.FMAGFLOPSAll, r.Share, 1e-9)
}

func must1[T any](v T, err error) T {
	must(err)
	return v
}

func TestEvalTable(t *testing.T) {
	w := newWorkplace(t)
	eval := []string{"eval", w.model, "--data", w.data}
	o := succeed(t, append(eval, "--side", "head", "--filter", "all", "--ties", "pessimistic", "--by", "category",
		"--split", "valid", "-v")...)
	assert.Contains(t, o.stdout, "families valid: mquine (d = 6), 60 candidates, pessimistic ties")
	assert.Contains(t, o.stdout, "By category: filter all, side head, pessimistic ties")
	assert.NotContains(t, o.stdout, "both")
	assert.Contains(t, o.stderr, "ranking 20 queries (20 valid triples of families, side head) among 60 candidates")
	assert.Regexp(t, `: \d+ KiB of candidate features, \d+ KiB of graph and index\n`, o.stderr)
	assert.NotContains(t, o.stdout, "ceiling")

	o = succeed(t, append(eval, "--peak")...)
	below := o.stdout[max(strings.Index(o.stdout, "FMA ceiling: "), 0):]
	for _, line := range strings.Split(below, "\n") {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
	}
	below = strings.ReplaceAll(below, "\n", " ")
	assert.Regexp(t, `^FMA ceiling: \d+ GFLOP/s .* The ranking reached \d+\.\d% of it`, below)
}

// The flags for verbosity do not change the results. Without them, eval prints one line besides its
// results.
func TestEvalVerbosity(t *testing.T) {
	w := newWorkplace(t)
	eval := []string{"eval", w.model, "--data", w.data}
	usual := succeed(t, eval...)
	assert.Regexp(t, `^ranked 80 queries in \d+\.\d\d s\n$`, usual.stderr)
	verbose := succeed(t, append(eval, "--verbose")...)
	assert.Regexp(t, `(?s)^ranking .*\nmemory: .*\nranked 80 queries in .*\nundecided: `, verbose.stderr)
	quiet := succeed(t, append(eval, "--quiet", "--filters", "none,train,all")...)
	assert.Empty(t, quiet.stderr, "not even the note about the former name of a flag")
	assert.Equal(t, usual.stdout, verbose.stdout)
	assert.Equal(t, usual.stdout, quiet.stdout)

	mquine(t, append(eval, "-q", "-v")...).requireSentence(t, exitUsage, "give --verbose or --quiet, not both")
	mquine(t, "eval", w.path("none"), "-q", "--data", w.data).requireSentence(t, exitFailed, "none")
}

// TestEvalCIBy tries each value of --ci-by. The MRR must be the same for all values, but the number
// of clusters must differ.
func TestEvalCIBy(t *testing.T) {
	w := newWorkplace(t)
	eval := []string{"eval", w.model, "--data", w.data, "--by", "relation", "--json", w.path("report.json")}
	clusters := map[string]int{}
	var mrr float64
	for _, by := range []string{"triple", "query", "entity", "relation", ""} {
		args := eval
		if by != "" {
			args = append(args, "--ci-by", by)
		}
		o := succeed(t, args...)
		r := readReport(t, must1(os.ReadFile(w.path("report.json"))))
		if by == "" {
			by = "query" // the default
		}
		assert.Equal(t, by, r.Provenance.Bootstrap.By)
		assert.Equal(t, 2, strings.Count(o.stdout, "MRR [95% CI]"), "in tables of all queries and of groups")
		assert.Contains(t, o.stdout, ", CI by "+by+"\n")
		last := r.Results[len(r.Results)-1]
		clusters[by] = last.Clusters
		if mrr == 0 {
			mrr = *last.MRR
		}
		assert.Equal(t, mrr, *last.MRR)
		assert.LessOrEqual(t, *last.Effective, float64(last.Clusters))
		for _, g := range r.Groups {
			if g.N > 0 && *g.Effective < 10 {
				assert.Nil(t, g.MRRCILow)
				assert.Nil(t, g.MRRCIHigh)
			} else if g.N > 0 {
				assert.NotNil(t, g.MRRCILow)
			}
		}
		if by == "relation" {
			assert.Contains(t, o.stdout, "[too few: 1.0]", "a relation is one cluster")
		}
	}
	assert.Equal(t, 40, clusters["triple"])
	assert.Less(t, clusters["query"], 40)
	assert.Less(t, clusters["entity"], clusters["query"])
	assert.Less(t, clusters["relation"], clusters["entity"])
	mquine(t, append(eval, "--ci-by", "hub")...).requireSentence(t, exitUsage,
		"choose from triple, query, entity and relation")
}

// TestEvalCollapsed checks the note about a checkpoint that gives all candidates almost the same
// score.
func TestEvalCollapsed(t *testing.T) {
	w := newWorkplace(t)
	// Entities differ only in the last bits of a few entries: near ties, but not identical rows.
	collapsed := w.path("collapsed")
	rewriteCheckpoint(t, w.model, collapsed, func(tensor string, values []float32) {
		if tensor == "entity" {
			for i := range values {
				values[i] = math.Nextafter32(1, 2+float32(values[i])) // 1, or a neighbour of 1 in float32
			}
		}
	})
	o := succeed(t, "eval", collapsed, "--data", w.data)
	assert.Contains(t, o.stderr, "note: "+collapsedNote)
	o = succeed(t, "eval", w.model, "--data", w.data)
	assert.NotContains(t, o.stderr, collapsedNote)
}

// TestEvalToStandardOutput runs the command as a process, because a file named "-" goes to the
// standard output of the process.
func TestEvalToStandardOutput(t *testing.T) {
	w := newWorkplace(t)
	for flag, want := range map[string]string{"--json": "{\n  \"schema\"", "--ranks": "side\thead\trelation\ttail\t"} {
		var stdout, stderr strings.Builder
		cmd := command(t, "eval", w.model, "--data", w.data, flag, "-")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		require.NoError(t, cmd.Run(), stderr.String())
		assert.True(t, strings.HasPrefix(stdout.String(), want), stdout.String()[:80])
		assert.NotContains(t, stdout.String(), "MRR [95% CI]")
		assert.Contains(t, stderr.String(), "MRR [95% CI]")
		if flag == "--json" {
			readReport(t, []byte(stdout.String()))
		}
	}
	requireFiles(t, w.dir, "families", "checkpoint")
}

// Former names of flags still work, and each gives a note.
func TestFormerNames(t *testing.T) {
	w := newWorkplace(t)
	for former, current := range map[string]string{
		"eval --model " + w.model + " --filters all --sides=tail": "eval " + w.model + " --filter all --side tail",
		"predict --model=" + w.model + " --head person_00 --relation lives_in": "predict --checkpoint " + w.model +
			" --head person_00 --relation lives_in",
		"compare --sides head " + w.model + " " + w.model: "compare --side head " + w.model + " " + w.model,
		"z stats --sides both":                            "z stats --side both",
	} {
		old := succeed(t, append(strings.Fields(former), "--data", w.data)...)
		assert.Equal(t, succeed(t, append(strings.Fields(current), "--data", w.data)...).stdout, old.stdout)
		for name, now := range map[string]string{"model": "checkpoint", "filters": "filter", "sides": "side"} {
			note := "note: --" + name + " is now --" + now + "\n"
			if strings.Contains(former, "--"+name) {
				assert.Equal(t, 1, strings.Count(old.stderr, note), old.stderr)
			} else {
				assert.NotContains(t, old.stderr, note)
			}
		}
	}
	for _, command := range []string{"eval", "predict", "compare", "z stats"} {
		help := succeed(t, append(strings.Fields(command), "--help")...).stdout
		assert.NotRegexp(t, "--(model|filters|sides)", help)
	}
}

// TestEvalRelations compares the ranks of relations with the scores that mquine score prints.
func TestEvalRelations(t *testing.T) {
	w := newWorkplace(t)
	other := w.path("other")
	succeed(t, "init", "--model", "complex", "--dim", "5", "--data", w.data, "--out", other, "--kind", "random")
	requireRelationRanks(t, w.data, w.model, other, "--ensemble", "1,0.3")
	otherMRR, mrr := requireRelationRanks(t, w.data, other), requireRelationRanks(t, w.data, w.model)

	eval := []string{"eval", w.model, "--data", w.data, "--side", "relation"}
	o := succeed(t, append(eval, "--json", w.path("r.json"), "--by", "relation,category", "--ci-by", "query")...)
	assert.Contains(t, o.stdout, "candidate relations")
	assert.Contains(t, o.stdout, "\nfilter  queries ", "all lines are of the same side")
	var r metrics.Report
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path("r.json"))), &r))
	assert.Equal(t, metrics.RelationProtocol, r.Protocol)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	assert.Equal(t, g.Relations.Len(), r.Candidates)
	require.Len(t, r.Results, 3)
	assert.InDelta(t, mrr, float64(r.Results[2].MRR), 1e-12)

	o = succeed(t, append(eval, "-v", "--ranks", w.path("relations.tsv"))...)
	assert.Contains(t, o.stderr, "\nall pairs have reference scores\n")
	var compared metrics.ComparisonReport
	o = succeed(t, "compare", other, w.path("relations.tsv"), w.model, "--data", w.data, "--side",
		"relation", "--json", "-")
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &compared))
	for i, want := range []float64{otherMRR, mrr, mrr} {
		require.Len(t, compared.Checkpoints[i].Results, 1)
		assert.InDelta(t, want, float64(compared.Checkpoints[i].Results[0].MRR), 1e-12)
	}
	mquine(t, "compare", w.model, w.path("relations.tsv"), "--data", w.data).requireSentence(t, exitFailed,
		"it has ranks on side relation but not on side tail: choose the same side")

	for flag, sentence := range map[string]string{
		"--screen int8": "--screen does not apply to --side relation", "--peak": "--peak does not apply",
		"--backend cuda": "--backend cuda does not apply",
	} {
		mquine(t, append(eval, strings.Fields(flag)...)...).requireSentence(t, exitUsage, sentence)
	}
	for _, key := range []string{"entity", "degree", "z-case"} {
		mquine(t, append(eval, "--by", key)...).requireSentence(t, exitFailed, "groups by "+key+" need an entity")
	}
}

// requireRelationRanks requires that eval ranks relations by the scores that score prints for the same
// checkpoints. It returns the MRR with the filter all.
func requireRelationRanks(t *testing.T, data string, checkpoints ...string) float64 {
	g, err := kg.Open(t.Context(), data)
	require.NoError(t, err)
	var all strings.Builder
	for _, tr := range g.Splits[kg.Test] {
		for _, r := range g.Relations.Labels() {
			all.WriteString(g.Entities.Label(tr.Head) + "\t" + r + "\t" + g.Entities.Label(tr.Tail) + "\n")
		}
	}
	args := append(checkpoints, "--data", data)
	scores := readTSV(t, mquineReading(t, all.String(), append([]string{"score", "--in", "-"}, args...)...).stdout)
	n := g.Relations.Len()
	ranks := readTSV(t, succeed(t, append([]string{"eval", "--side", "relation", "--ranks", "-"}, args...)...).stdout)
	require.Len(t, ranks, len(g.Splits[kg.Test]))
	sum := 0.0
	for i, row := range ranks {
		require.Equal(t, "relation", row["side"])
		target, better, filtered := 0.0, 0, 0
		for _, s := range scores[i*n:][:n] {
			if s["relation"] == row["relation"] {
				target = number64(t, s["score"])
			}
		}
		for _, s := range scores[i*n:][:n] {
			if number64(t, s["score"]) > target {
				better++
				if s["known"] == "unknown" {
					filtered++
				}
			}
		}
		require.Equal(t, strconv.Itoa(better), row["none_better"])
		require.Equal(t, strconv.Itoa(filtered), row["all_better"])
		sum += 1 / float64(1+filtered)
	}
	return sum / float64(len(ranks))
}

// Relations that only the checkpoint has are candidates, and a note counts them if relations are ranked.
func TestRelationsOfTheCheckpoint(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	last := g.Relations.Label(int32(g.Relations.Len() - 1))
	for split := range kg.NumSplits {
		path := filepath.Join(w.data, split.String()+".txt")
		var kept strings.Builder
		for line := range strings.Lines(string(must1(os.ReadFile(path)))) {
			if strings.Split(line, "\t")[1] != last {
				kept.WriteString(line)
			}
		}
		require.NoError(t, os.WriteFile(path, []byte(kept.String()), 0o644))
	}
	require.NoError(t, os.Remove(filepath.Join(w.data, "relations.tsv")))
	const note = "note: 1 relation that is only in the checkpoint stays a candidate\n"
	for _, args := range [][]string{{"eval", w.model}, {"compare", w.model, w.model}} {
		args = append(args, "--data", w.data)
		assert.NotContains(t, succeed(t, args...).stderr, note)
		assert.Contains(t, succeed(t, append(args, "--side", "relation")...).stderr, note)
	}
}
