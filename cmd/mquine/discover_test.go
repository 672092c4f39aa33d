package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kg"
)

// The best triples of each query, of each relation and of the graph agree with the lists that
// predict prints for all queries. The output is the same for every instruction set and number of
// threads.
func TestDiscover(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	var queries strings.Builder
	for _, r := range g.Relations.Labels() {
		for _, h := range g.Entities.Labels() {
			fmt.Fprintf(&queries, "%s\t%s\t?\n", h, r)
		}
	}
	o := mquineReading(t, queries.String(), "predict", w.model, "--data", w.data, "--in", "-", "-k", "1000",
		"--filter-known")
	require.Zero(t, o.status, o.stderr)
	type found struct {
		line     string // head, relation, tail, rank, score
		relation string
		rank     int
		score    float64
	}
	var all []found
	for _, line := range strings.Split(strings.TrimSpace(o.stdout), "\n")[1:] {
		f := strings.Split(line, "\t")
		all = append(all, found{
			strings.Join([]string{f[0], f[1], f[2], f[4], f[6]}, "\t"), f[1], must1(strconv.Atoi(f[4])),
			must1(strconv.ParseFloat(f[6], 64)),
		})
	}
	best := func(list []found, k int) (lines []string) {
		list = slices.Clone(list)
		// The sort is stable, so triples with equal scores keep the order of the queries: by
		// relation, then by head, as in discover.
		slices.SortStableFunc(list, func(a, b found) int {
			if a.score > b.score {
				return -1
			}
			return map[bool]int{true: 1}[a.score < b.score]
		})
		for _, f := range list[:min(k, len(list))] {
			lines = append(lines, f.line)
		}
		return lines
	}
	var perQuery, perRelation []string
	for _, f := range all {
		if f.rank <= 3 {
			perQuery = append(perQuery, f.line)
		}
	}
	for _, r := range g.Relations.Labels() {
		perRelation = append(perRelation, best(slices.DeleteFunc(slices.Clone(all),
			func(f found) bool { return f.relation != r }), 7)...)
	}
	for _, c := range []struct {
		per  string
		k    int
		want []string
	}{{"query", 3, perQuery}, {"relation", 7, perRelation}, {"graph", 40, best(all, 40)}} {
		for _, machine := range [][]string{{"--backend", "generic", "--threads", "1"}, {"--threads", "3"}} {
			file := w.path("found.tsv")
			o := succeed(t, append([]string{"discover", w.model, "--data", w.data, "--per", c.per, "-k",
				strconv.Itoa(c.k), "--out", file}, machine...)...)
			assert.Empty(t, o.stdout)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			want := "head\trelation\ttail\trank\tscore\n" + strings.Join(c.want, "\n") + "\n"
			require.Equal(t, want, string(text), c.per)
			o = succeed(t, append([]string{"discover", w.model, "--data", w.data, "--per", c.per, "-k",
				strconv.Itoa(c.k), "--format", "tsv"}, machine...)...)
			require.Equal(t, want, o.stdout)
		}
	}
}

// With labels, the lines have three more columns.
func TestDiscoverLabels(t *testing.T) {
	w := newWorkplace(t)
	args := []string{"discover", w.model, "--data", w.data, "-k", "5", "--format"}
	plain := strings.Split(succeed(t, append(args, "tsv")...).stdout, "\n")
	head := strings.Split(plain[1], "\t")[0]
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "labels.tsv"), []byte(head+"\tAnna Ek\n"), 0o644))
	labelled := strings.Split(succeed(t, append(args, "tsv")...).stdout, "\n")
	require.Len(t, labelled, len(plain))
	assert.Equal(t, plain[0]+"\thead_label\trelation_label\ttail_label", labelled[0])
	for i, line := range plain[1:6] {
		fields, label := strings.Split(line, "\t"), map[string]string{head: "Anna Ek"}
		assert.Equal(t, line+"\t"+label[fields[0]]+"\t\t"+label[fields[2]], labelled[i+1])
	}
	assert.Regexp(t, `\n`+head+` \(Anna Ek\) +\S+ +\S+`, succeed(t, append(args, "table")...).stdout)
}

// A search without a split says that its triples may be among the results.
func TestDiscoverWithoutSplit(t *testing.T) {
	w := newWorkplace(t)
	args, note := []string{"discover", w.model, "--data", w.data}, "may be among the results"
	assert.NotContains(t, succeed(t, args...).stderr, note)
	require.NoError(t, os.Remove(filepath.Join(w.data, "test.txt")))
	assert.Contains(t, succeed(t, args...).stderr, "note: without a test split, its triples "+note+"\n")
}

// A Parquet file has the same rows and columns as the tab-separated file, with and without --state.
func TestDiscoverParquet(t *testing.T) {
	w := newWorkplace(t)
	g := must1(kg.Open(t.Context(), w.data))
	labels := g.Entities.Label(0) + "\tAnna Ek\n" + g.Relations.Label(0) + "\tknows\n"
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "labels.tsv"), []byte(labels), 0o644))
	lines := func(options ...string) (rows [][]string) {
		file := w.path("found.tsv")
		succeed(t, append([]string{"discover", w.model, "--data", w.data, "--out", file}, options...)...)
		for _, line := range strings.Split(strings.TrimSuffix(string(must1(os.ReadFile(file))), "\n"), "\n") {
			rows = append(rows, strings.Split(line, "\t"))
		}
		return rows
	}
	for _, options := range [][]string{{"-k", "30"}, {"-k", "3", "--per", "query", "--order", "z"}} {
		want := lines(options...)
		for _, state := range [][]string{nil, {"--state", w.path("state")}} {
			name := w.path("found.PARQUET")
			succeed(t, slices.Concat([]string{"discover", w.model, "--data", w.data, "--out", name}, options, state)...)
			file := must1(os.Open(name))
			table := must1(parquet.OpenFile(file, must1(file.Stat()).Size()))
			var got [][]string
			var header []string
			for _, column := range table.Schema().Columns() {
				header = append(header, column[0])
			}
			got = append(got, header)
			for _, group := range table.RowGroups() {
				reader := group.Rows()
				rows := make([]parquet.Row, group.NumRows())
				n, err := reader.ReadRows(rows)
				require.True(t, err == nil || err == io.EOF, err)
				require.Equal(t, len(rows), n)
				for _, row := range rows {
					var fields []string
					for i, v := range row {
						switch header[i] {
						case "rank":
							fields = append(fields, strconv.Itoa(int(v.Int32())))
						case "score", "z":
							fields = append(fields, strconv.FormatFloat(v.Double(), 'g', -1, 64))
						default:
							fields = append(fields, string(v.ByteArray()))
						}
					}
					got = append(got, fields)
				}
				require.NoError(t, reader.Close())
			}
			require.NoError(t, file.Close())
			require.Equal(t, want, got)
		}
	}
}

// Lists and types restrict the heads and the tails of triples, --order z adds z-scores, and JSON
// has the same triples as the table.
func TestDiscoverOptions(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	heads, tail, relation := g.Entities.Labels()[:3], g.Entities.Label(7), g.Relations.Label(1)
	require.NoError(t, os.WriteFile(w.path("heads.txt"), []byte(strings.Join(heads, "\n")+"\n"), 0o644))
	require.NoError(t, os.WriteFile(w.path("types.tsv"), []byte(tail+"\tperson\n"), 0o644))
	require.NoError(t, os.WriteFile(w.path("relations.txt"), []byte(relation+"\n"), 0o644))
	for _, side := range []string{"tail", "head"} {
		o := succeed(t, "discover", w.model, "--data", w.data, "--relations", w.path("relations.txt"), "--side", side,
			"--head-candidates", w.path("heads.txt"), "--types", w.path("types.tsv"), "--tail-type", "person",
			"--order", "z", "--json", w.path("d.json"))
		text, err := os.ReadFile(w.path("d.json"))
		require.NoError(t, err)
		var report struct {
			Order   string
			Triples []struct {
				Head, Relation, Tail string
				Z                    *float64
			}
		}
		require.NoError(t, json.Unmarshal(text, &report))
		assert.Equal(t, "z", report.Order)
		require.NotEmpty(t, report.Triples)
		for _, x := range report.Triples {
			assert.Contains(t, heads, x.Head)
			assert.Equal(t, relation, x.Relation)
			assert.Equal(t, tail, x.Tail)
			assert.NotNil(t, x.Z)
		}
		table, remark, _ := strings.Cut(o.stdout, "\n\n")
		assert.Equal(t, len(report.Triples), strings.Count(table, "\n"))
		assert.Equal(t, "Tails among 1 candidate (type person), heads among 3 candidates ("+w.path("heads.txt")+").",
			strings.Join(strings.Fields(remark), " "))
		assert.Regexp(t, `^head +relation +tail +rank +score +z\n`, o.stdout)
	}
	// Discovered triples have the probabilities that score gives them.
	calibration := w.path("calibration.json")
	succeed(t, "classify", w.model, "--data", w.data, "--calibration", calibration)
	o := succeed(t, "discover", w.model, "--data", w.data, "-k", "5", "--calibration", calibration, "--format", "tsv")
	var triples, probabilities []string
	for i, line := range strings.Split(strings.TrimSpace(o.stdout), "\n") {
		f := strings.Split(line, "\t")
		if i == 0 {
			require.Equal(t, "probability", f[5])
			continue
		}
		triples, probabilities = append(triples, strings.Join(f[:3], "\t")), append(probabilities, f[5])
	}
	require.Len(t, triples, 5)
	o = mquineReading(t, strings.Join(triples, "\n"), "score", w.model, "--in", "-", "--calibration", calibration)
	require.Zero(t, o.status, o.stderr)
	for i, line := range strings.Split(strings.TrimSpace(o.stdout), "\n")[1:] {
		assert.Contains(t, strings.Split(line, "\t"), probabilities[i])
	}
	mquine(t, "discover", w.model, "--data", w.data, "--calibration", calibration, "--side", "head").
		requireSentence(t, exitFailed, "is for --side tail, not for --side head: write another with "+
			"mquine classify --side head --calibration")
	o = succeed(t, "discover", w.model, "--data", w.data, "-k", "3", "--per", "query", "--format", "latex")
	assert.Contains(t, o.stdout, "\\caption{Unknown triples of families that mquine (d = 6) finds most plausible, "+
		"at most 3 of each query. Answers to (h, r, ?), by score.}\n")
	// The last column is right-aligned, so all lines have the same width.
	o = succeed(t, "discover", w.model, "--data", w.data, "-k", "3", "--order", "z", "--calibration", calibration)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	assert.True(t, strings.HasSuffix(lines[0], "  probability"), lines[0])
	for _, line := range lines {
		assert.Len(t, line, len(lines[0]))
	}
	succeed(t, "classify", w.model, "--data", w.data, "--side", "both", "--calibration", calibration)
	discover := []string{"discover", w.model, "--data", w.data, "--calibration", calibration, "--side", "head"}
	mquine(t, discover...).requireSentence(t, exitFailed, "is for --side both, not for --side head: "+
		"write another with mquine classify --side head --calibration")
	mquine(t, "discover", w.model, "--data", w.data, "--relation", "lives-in").
		requireSentence(t, exitFailed, `the checkpoint has no relation "lives-in"; did you mean`)
	mquine(t, "discover", w.model, "--data", w.data, "--out", w.path("x.tsv"), "--format", "csv").
		requireSentence(t, exitUsage, "--format is for standard output, and the name of --out decides between "+
			"tab-separated lines and Parquet: leave out --format")
}

// A result whose triples do not fit into memory is refused before the search. Lines that are written
// as they are found need no memory.
func TestDiscoverTooLittleMemory(t *testing.T) {
	w := newWorkplace(t)
	data, model := w.path("large"), w.path("large-model")
	succeed(t, "data", "make", "families", "--entities", "120", "--train", "600", "--out", data)
	succeed(t, "init", "--model", "distmult", "--dim", "4", "--data", data, "--out", model)
	proctest.Leave(t, 40<<20)
	all := []string{"discover", model, "--data", data, "--per", "query", "-k", "5000"}
	for _, c := range []struct{ want, advice, flags string }{
		{"holding up to ", "write the triples with --out FILE or --format tsv, or ask for fewer", ""},
		{" triples for --format latex needs about ", "write the triples with --out FILE", "--format latex"},
		{" triples for --format json needs about ", "write the triples with --out FILE", "--format json"},
		{" triples for --json needs about ", "leave out --json, and write the triples with --out FILE",
			"--json " + w.path("j") + " --out " + w.path("o")},
	} {
		o := mquine(t, append(slices.Clone(all), strings.Fields(c.flags)...)...)
		o.requireSentence(t, exitFailed, c.want)
		o.requireSentence(t, exitFailed, "but only 40 MiB is available (a limit of the test): "+c.advice)
		assert.Empty(t, o.stdout)
	}
	succeed(t, append(slices.Clone(all), "--format", "tsv")...)
	succeed(t, append(slices.Clone(all), "--out", w.path("o"))...)
	// -k bounds the triples of the graph and of each relation.
	succeed(t, "discover", model, "--data", data, "-k", "5000")
	succeed(t, "discover", model, "--data", data, "--per", "relation", "-k", "10")
}
