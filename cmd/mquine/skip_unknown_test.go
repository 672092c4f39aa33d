package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// A checkpoint that lacks entities and a relation of the data ranks, with --skip-unknown, as it does with data
// from which this test removed their triples.
func TestSkipUnknown(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	unknown := map[string]bool{g.Relations.Label(0): true, g.Entities.Label(1): true, g.Entities.Label(4): true}
	rest := w.path("rest")
	require.NoError(t, os.Mkdir(rest, 0o755))
	left := map[kg.Split]int{}
	for s, triples := range g.Splits {
		var lines strings.Builder
		for _, tr := range triples {
			head, relation, tail := g.Entities.Label(tr.Head), g.Relations.Label(tr.Relation), g.Entities.Label(tr.Tail)
			if unknown[head] || unknown[relation] || unknown[tail] {
				left[kg.Split(s)]++
				continue
			}
			fmt.Fprintf(&lines, "%s\t%s\t%s\n", head, relation, tail)
		}
		path := filepath.Join(rest, kg.Split(s).String()+".txt")
		require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o644))
	}
	require.Positive(t, left[kg.Test])
	require.Less(t, left[kg.Test], len(g.Splits[kg.Test]))
	small := w.path("small")
	succeed(t, "init", "--model", "complex", "--dim", "4", "--data", rest, "--out", small)

	o := mquine(t, "eval", small, "--data", w.data)
	o.requireSentence(t, 1, "the checkpoint lacks 2 entities of the data (")
	assert.Contains(t, o.stderr, "or leave out their triples with --skip-unknown")

	eval := func(data, ranks string, more ...string) outcome {
		return succeed(t, append([]string{"eval", small, "--data", data, "--ranks", w.path(ranks)}, more...)...)
	}
	eval(rest, "expected.tsv")
	o = eval(w.data, "skipped.tsv", "--skip-unknown")
	assert.Contains(t, strings.Join(strings.Fields(o.stderr), " "), fmt.Sprintf(
		"the checkpoint lacks 2 entities and 1 relation of the data: left out %d train, %d valid and %d test triples",
		left[kg.Train], left[kg.Valid], left[kg.Test]))
	assert.Contains(t, strings.Join(strings.Fields(o.stdout), " "),
		fmt.Sprintf("test without %d triples with unknown labels: complex", left[kg.Test]))
	assert.Contains(t, succeed(t, "eval", small, "--data", w.data, "--skip-unknown", "--format", "csv").stdout,
		fmt.Sprintf(" candidates, without %d triples with unknown labels\",", left[kg.Test]))
	for _, format := range []string{"latex", "json"} {
		for _, args := range [][]string{{"eval", small}, {"compare", small, w.model}} {
			o = succeed(t, append(args, "--data", w.data, "--skip-unknown", "--format", format)...)
			if format == "latex" {
				assert.Contains(t, o.stdout, fmt.Sprintf(", without %d triples with unknown labels: ", left[kg.Test]))
				continue
			}
			var report struct{ Provenance metrics.Provenance }
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &report))
			assert.Equal(t, metrics.LeftOut{Train: left[kg.Train], Valid: left[kg.Valid], Test: left[kg.Test]},
				report.Provenance.Data.LeftOut)
			assert.Equal(t, must1(g.SHA256(t.Context())), report.Provenance.Data.SHA256, "of the whole data set")
		}
	}
	read := func(name string) string { return string(must1(os.ReadFile(w.path(name)))) }
	assert.Equal(t, read("expected.tsv"), read("skipped.tsv"))

	// All checkpoints of a comparison rank the same queries, in both orders.
	for _, models := range [][2]string{{small, w.model}, {w.model, small}} {
		o := succeed(t, "compare", models[0], models[1], "--data", w.data, "--skip-unknown")
		n := 2 * (len(g.Splits[kg.Test]) - left[kg.Test])
		assert.Equal(t, 2, strings.Count(o.stderr, fmt.Sprintf("ranked %d queries with ", n)), o.stderr)
		notes := strings.Join(strings.Fields(o.stderr), " ")
		assert.Equal(t, 1, strings.Count(notes, "checkpoint "+small+" lacks 2 entities and 1 relation"), notes)
	}

	// Known answers that small lacks do not compete in the ranking of the other checkpoint.
	succeed(t, "eval", w.model, "--data", w.data, "--filter", "all", "--ranks", w.path("all.tsv"))
	entities, relations := kg.NewVocabulary(), kg.NewVocabulary()
	listed, err := metrics.ReadRanks("all.tsv", strings.NewReader(read("all.tsv")), 1e6, entities, relations)
	require.NoError(t, err)
	var sum, n float64
	for _, r := range listed.Ranks {
		if !unknown[entities.Label(r.Triple.Head)] && !unknown[entities.Label(r.Triple.Tail)] &&
			!unknown[relations.Label(r.Triple.Relation)] {
			sum += 1 / (1 + float64(r.Better[rank.All]) + float64(r.Equal[rank.All])/2)
			n++
		}
	}
	var compared metrics.ComparisonReport
	o = succeed(t, "compare", small, w.model, "--data", w.data, "--skip-unknown", "--json", "-")
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &compared))
	both := compared.Checkpoints[1].Results[len(compared.Checkpoints[1].Results)-1]
	assert.Equal(t, float64(both.N), n)
	assert.InDelta(t, sum/n, float64(both.MRR), 1e-12)

	// If a split has no known triples, commands that do not need it have no error and no doubt.
	emptied := w.path("emptied")
	require.NoError(t, os.CopyFS(emptied, os.DirFS(rest)))
	entity, relation := g.Entities.Label(0), g.Relations.Label(2)
	require.NoError(t, os.WriteFile(filepath.Join(emptied, "valid.txt"), []byte("new\t"+relation+"\tnew\n"), 0o644))
	known := []string{"--data", emptied, "--skip-unknown"}
	succeed(t, append([]string{"eval", small, "--filter", "all"}, known...)...)
	predict := []string{"predict", small, "--head", entity, "--relation", relation, "--filter-known"}
	o = succeed(t, append(predict, known...)...)
	assert.NotContains(t, o.stdout, "?\n")
	mquine(t, append([]string{"eval", small, "--split", "valid"}, known...)...).requireSentence(t, exitFailed,
		"data set emptied: the checkpoint lacks labels of every valid triple: use the data set of the checkpoint")

	// Ranks files and checkpoints rank the same queries too.
	ranks := w.path("expected.tsv")
	without := []string{"compare", ranks, ranks, "--data", w.data}
	mquine(t, without...).requireSentence(t, exitFailed, "rank the same split, without leaving out triples; after "+
		"mquine eval --skip-unknown, give compare this flag too")
	o = succeed(t, append(without, "--skip-unknown")...)
	assert.Contains(t, strings.Join(strings.Fields(o.stderr), " "), fmt.Sprintf("lacks %s of the test split, as after "+
		"mquine eval --skip-excluded or --skip-unknown: the comparison is without them", text.Plural(2*left[kg.Test],
		"query")))
	assert.Contains(t, strings.Join(strings.Fields(o.stdout), " "),
		text.Plural(2*left[kg.Test], "query")+" left out, CI by query")
	table := succeed(t, "compare", small, ranks, "--data", w.data, "--skip-unknown").stdout
	assert.Contains(t, table, fmt.Sprintf("both  %7d     0       0  %5d\n", 2*(len(g.Splits[kg.Test])-left[kg.Test]),
		2*(len(g.Splits[kg.Test])-left[kg.Test])))
	mquine(t, "compare", w.model, ranks, "--data", w.data, "--skip-unknown").requireSentence(t, exitFailed,
		" have ranks of different queries, so they are not comparable")
	mquine(t, "eval", small, "--data", w.data, "--skip-unknown", "--tail-negatives", ranks, "--side", "tail").
		requireSentence(t, exitUsage, "--skip-unknown does not apply to given negatives")
	mquine(t, "score", small, "--skip-unknown", "--in", filepath.Join(rest, "test.txt")).
		requireSentence(t, 1, "--skip-unknown is about the triples of a data set: add --data, or leave it out")
}

// Groups of a comparison belong to the triples whose labels all checkpoints have, so they do not depend on
// the order of the checkpoints.
func TestSkipUnknownGroups(t *testing.T) {
	dir := t.TempDir()
	create := func(name, train string) (data, model string) {
		data, model = filepath.Join(dir, name), filepath.Join(dir, name+"-model")
		require.NoError(t, os.Mkdir(data, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(data, "train.txt"), []byte(train), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(data, "test.txt"), []byte("b\tr\tc\n"), 0o644))
		succeed(t, "init", "--model", "distmult", "--dim", "2", "--data", data, "--out", model)
		return data, model
	}
	const common = "a\tr\tb\nc\tr\td\n"
	_, small := create("small", common)
	data, full := create("full", common+"a\tr\tx\na\tr\ty\nc\tr\ty\nc\tr\tz\n") // r is 1-1 without x, y and z
	ranks := filepath.Join(dir, "small.tsv")
	options := []string{"--data", data, "--filter", "train", "--skip-unknown"}
	succeed(t, append([]string{"eval", small, "--ranks", ranks}, options...)...)
	for _, models := range [][]string{{small, full}, {full, small}, {ranks, full, small}} {
		o := succeed(t, append(append([]string{"compare", "--by", "category"}, models...), options...)...)
		assert.Contains(t, o.stdout, "\n1-1 ", models)
		assert.NotContains(t, o.stdout, "\n1-N ", models)
	}
}
