package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/model"
)

// TestScoreRanks compares the ranks of all models with the golden ranks, which come from an
// independent Python program.
func TestScoreRanks(t *testing.T) {
	data := filepath.Join("..", "..", "testdata")
	test := string(must1(os.ReadFile(filepath.Join(data, "graph", "test.txt"))))
	for _, name := range model.Names() {
		golden := readTSV(t, string(must1(os.ReadFile(filepath.Join(data, "ranks", name+".tsv")))))
		want := map[string]string{} // rank by side and triple
		for _, filter := range []string{"none", "all"} {
			clear(want)
			for _, row := range golden {
				key := strings.Join([]string{row["side"], row["head"], row["relation"], row["tail"]}, "\t")
				better, equal := number64(t, row[filter+"_better"]), number64(t, row[filter+"_equal"])
				want[key] = fmt.Sprint(1 + better + equal/2)
			}
			o := mquineReading(t, test, "score", filepath.Join(data, "checkpoints", name), "--data",
				filepath.Join(data, "graph"), "--in", "-", "--ranks", "--filter", filter)
			require.Zero(t, o.status, o.stderr)
			rows := readTSV(t, o.stdout)
			require.Len(t, rows, strings.Count(test, "\n"))
			for i, line := range strings.Split(strings.TrimSpace(test), "\n") {
				row := rows[i]
				require.Equal(t, line, row["head"]+"\t"+row["relation"]+"\t"+row["tail"])
				for _, side := range []string{"tail", "head"} {
					require.Equal(t, want[side+"\t"+line], row[side+"_rank"], "%s, %s", name, line)
				}
				assert.Contains(t, row["known"], "test")
			}
		}
	}
}

// TestScoreOfFixture compares scores with the distances that an independent program computed.
func TestScoreOfFixture(t *testing.T) {
	dir := fixture.Dir(t, "mquine-umls")
	rows := readTSV(t, string(must1(os.ReadFile(filepath.Join(dir, "scores.tsv")))))
	var in strings.Builder
	for _, row := range rows {
		in.WriteString(row["head"] + "\t" + row["relation"] + "\t" + row["tail"] + "\n")
	}
	for _, side := range []string{"tail", "head"} {
		o := mquineReading(t, in.String(), "score", dir, "--in", "-", "--side", side)
		require.Zero(t, o.status, o.stderr)
		got := readTSV(t, o.stdout)
		require.Len(t, got, len(rows))
		for i, row := range rows {
			want := -number64(t, row["s"])
			assert.InEpsilon(t, want, number64(t, got[i]["score"]), 1e-9)
			assert.NotContains(t, got[i], "known", "there is no data set")
		}
	}
}

// TestScoreBothSides checks that --side both is the mean of the scores of the two sides, for a model
// that scores a triple differently on them.
func TestScoreBothSides(t *testing.T) {
	data := filepath.Join("..", "..", "testdata")
	ckpt, graph := filepath.Join(data, "checkpoints", "ote"), filepath.Join(data, "graph")
	scores := func(side string) (list []float64) {
		o := succeed(t, "score", ckpt, "--in", filepath.Join(graph, "test.txt"), "--side", side)
		for _, row := range readTSV(t, o.stdout) {
			list = append(list, number64(t, row["score"]))
		}
		return list
	}
	tail, head, both := scores("tail"), scores("head"), scores("both")
	require.Len(t, both, len(tail))
	for i := range both {
		require.NotEqual(t, tail[i], head[i])
		require.Equal(t, (tail[i]+head[i])/2, both[i])
	}
	file := filepath.Join(t.TempDir(), "predictions.tsv")
	succeed(t, "classify", ckpt, "--data", graph, "--side", "both", "--predictions", file)
	rows := readTSV(t, string(must1(os.ReadFile(file))))
	require.Greater(t, len(rows), len(both))
	for i, score := range both { // the true triples come first
		require.Equal(t, score, number64(t, rows[i]["score"]))
	}
}

func TestScoreFormats(t *testing.T) {
	w := newWorkplace(t)
	line := strings.SplitN(string(must1(os.ReadFile(filepath.Join(w.data, "valid.txt")))), "\n", 2)[0]
	f := strings.Split(line, "\t")
	score := []string{"score", w.model, "--data", w.data}

	o := succeed(t, append(score, "--head", f[0], "--relation", f[1], "--tail", f[2])...)
	assert.Regexp(t, `(?m)^`+f[0]+` +`+f[1]+` +`+f[2]+` +-[0-9.e+-]+  (train\+)?valid(\+test)?$`, o.stdout)
	assert.Contains(t, o.stdout, "Score of mquine: −‖H Rʰ − Rᵗ T + H Rᶜ T‖².\nHigher is better.\n"+
		"Scores as answers to (h, r, ?).\n")
	for side, want := range map[string]string{
		"head": "Scores as answers to (?, r, t).",
		"both": "Scores: the mean of the scores as answers to (h, r, ?) and to (?, r, t).",
	} {
		o = succeed(t, append(score, "--head", f[0], "--relation", f[1], "--tail", f[2], "--side", side, "--ranks",
			"--filter", "train", "--ties", "pessimistic")...)
		assert.True(t, strings.HasSuffix(o.stdout, "\n"+want+"\nRanks: filter train, pessimistic ties.\n"), o.stdout)
	}

	file := w.path("scores.json")
	in := line + "\n" + f[2] + "\t" + f[1] + "\t" + f[0]
	o = mquineReading(t, in, append(score, "--in", "-", "--ranks", "--json", file)...)
	require.Zero(t, o.status, o.stderr)
	rows := readTSV(t, o.stdout)
	require.Len(t, rows, 2)
	assert.Equal(t, "unknown", rows[1]["known"])
	for _, args := range [][]string{{"--format", "json"}, {"--json", "-"}} {
		o := mquineReading(t, in, append(append(score, "--in", "-", "--ranks"), args...)...)
		require.Zero(t, o.status, o.stderr)
		for _, text := range []string{o.stdout, string(must1(os.ReadFile(file)))} {
			var got scores
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			assert.Equal(t, "mquine.score/1", got.Schema)
			assert.Equal(t, "families", got.Provenance.Data.Name)
			assert.Len(t, got.Provenance.Checkpoint.SHA256, 64)
			require.Len(t, got.Triples, 2)
			for i, s := range got.Triples {
				assert.Equal(t, rows[i]["score"], strconv.FormatFloat(s.Score, 'g', -1, 64))
				assert.Equal(t, rows[i]["tail_rank"], formatRank(*s.TailRank))
				assert.Equal(t, rows[i]["head_rank"], formatRank(*s.HeadRank))
			}
		}
	}
}

// If the data set lacks a split, a triple that the other splits do not have may still be true. score
// says so in the way of predict.
func TestScoreKnownWithoutSplit(t *testing.T) {
	w := newWorkplace(t)
	first := func(split string) []string {
		line, _, _ := strings.Cut(string(must1(os.ReadFile(filepath.Join(w.data, split+".txt")))), "\n")
		return strings.Split(line, "\t")
	}
	triples := [][]string{first("train"), first("test")}
	require.NoError(t, os.Remove(filepath.Join(w.data, "test.txt")))
	for i, tr := range triples {
		args := []string{"score", w.model, "--data", w.data, "--head", tr[0], "--relation", tr[1], "--tail", tr[2]}
		known, inTable, inJSON := "train", "train", `"known":"train"`
		if i == 1 {
			known, inTable, inJSON = "", `\?`, `"known":null`
		}
		assert.Regexp(t, `(?m)^`+strings.Join(tr, " +")+` +-[0-9.e+-]+  `+inTable+`$`, succeed(t, args...).stdout)
		rows := readTSV(t, succeed(t, append(args, "--format", "tsv")...).stdout)
		assert.Equal(t, known, rows[0]["known"])
		assert.Contains(t, succeed(t, append(args, "--json", "-")...).stdout, inJSON)
	}
}

// Triples in several batches get the same lines as in a single batch.
func TestScoreManyBatches(t *testing.T) {
	w := newWorkplace(t)
	test := string(must1(os.ReadFile(filepath.Join(w.data, "test.txt"))))
	score := []string{"score", w.model, "--in", "-"}
	one := mquineReading(t, test, score...)
	header, body, _ := strings.Cut(one.stdout, "\n")
	times := 2*scoreBatch/strings.Count(test, "\n") + 1
	many := mquineReading(t, strings.Repeat(test, times), score...)
	require.Zero(t, many.status, many.stderr)
	assert.True(t, many.stdout == header+"\n"+strings.Repeat(body, times), "every batch has the same scores")
}

func TestScoreBadInput(t *testing.T) {
	w := newWorkplace(t)
	score := []string{"score", w.model}
	with := func(more ...string) []string { return slices.Concat(score, more) }
	for _, test := range []struct {
		args     []string
		sentence string
	}{
		{nil, "the triples are missing: give --in, or --head, --relation and --tail"},
		{[]string{"--head", "a"}, "the triples are missing"},
		{[]string{"--in", "f", "--tail", "a"}, "--in already gives the triples"},
		{[]string{"--in", "f", "--ranks"}, "--ranks needs --data"},
		{[]string{"--in", "f", "--ties", "realistic"}, "add --ranks"},
		{[]string{"--in", "f", "--side", "relation"}, `--side "relation": choose from tail, head and both`},
	} {
		mquine(t, with(test.args...)...).requireSentence(t, exitUsage, test.sentence)
	}
	line := strings.SplitN(string(must1(os.ReadFile(filepath.Join(w.data, "valid.txt")))), "\n", 2)[0]
	f := strings.Split(line, "\t")
	file := w.path("scores.json")
	for in, sentence := range map[string]string{
		"":                                  "standard input is empty: it must hold at least one triple",
		"\n":                                "standard input is empty: it must hold at least one triple",
		line + "\n\n" + line:                "standard input:2: blank line: remove it",
		line + "\na\tb\n":                   "standard input:2: 2 fields instead of 3: write head, relation and tail",
		line + "\n" + f[0] + "\t?\t" + f[2]: `standard input:2: the checkpoint has no relation "?"`,
		"head\tRelation\ttail\n" + line: `standard input:1: the checkpoint has no entity "head"; if the first line ` +
			`is a header, remove it`,
		"stranger\t" + f[1] + "\t" + f[2]:    `standard input:1: the checkpoint has no entity "stranger"`,
		f[0] + "\t" + f[1] + "\tfamily\x1b0": `standard input:1: the checkpoint has no entity "family\x1b0"`,
	} {
		for _, more := range [][]string{nil, {"--json", file}, {"--json", "-"}, {"--format", "table"}} {
			o := mquineReading(t, in, with(append(more, "--in", "-")...)...)
			o.requireSentence(t, exitFailed, "mquine score: "+sentence)
			assert.NoFileExists(t, file)
		}
	}
	for _, end := range []string{"\n\n", "\r\n\r\n"} {
		o := mquineReading(t, line+end, with("--in", "-")...)
		require.Zero(t, o.status, o.stderr)
		assert.Equal(t, 2, strings.Count(o.stdout, "\n"), "a blank last line is not a triple")
	}
	mquine(t, with("--in", w.dir)...).requireSentence(t, exitFailed,
		"cannot read triples from "+w.dir+": it is a folder, not a file")
}

// readTSV returns the rows of tab-separated text with a header.
func readTSV(t *testing.T, text string) (rows []map[string]string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	header := strings.Split(lines[0], "\t")
	for _, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		require.Len(t, fields, len(header), line)
		row := map[string]string{}
		for i, name := range header {
			row[name] = fields[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func number64(t *testing.T, s string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	require.False(t, math.IsNaN(x))
	return x
}

// Tables show the labels of the data set beside the identifiers. Other formats have them in separate
// columns, which are empty for identifiers without a label.
func TestScoreLabels(t *testing.T) {
	w := newWorkplace(t)
	triple := strings.Split(strings.SplitN(string(must1(os.ReadFile(filepath.Join(w.data, "test.txt")))), "\n", 2)[0],
		"\t")
	labels := triple[0] + "\tAnna\n" + triple[1] + "\tknows\n"
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "labels.tsv"), []byte(labels), 0o644))
	args := []string{"score", w.model, "--data", w.data, "--head", triple[0], "--relation", triple[1],
		"--tail", triple[2]}
	assert.Regexp(t, triple[0]+` \(Anna\) +`+triple[1]+` \(knows\) +`+triple[2]+` +\S`, succeed(t, args...).stdout)
	assert.Contains(t, succeed(t, append(args, "--format", "latex")...).stdout,
		"\\caption{Scores of mquine (d = 6). Higher is better. Scores as answers to (h, r, ?).}\n", "LaTeX may lack ‖")
	lines := strings.Split(succeed(t, append(args, "--format", "tsv")...).stdout, "\n")
	assert.Equal(t, "head\trelation\ttail\tscore\tknown\thead_label\trelation_label\ttail_label", lines[0])
	assert.Regexp(t, "^"+strings.Join(triple, "\t")+`\t\S+\ttest\tAnna\tknows\t$`, lines[1])
	assert.Regexp(t, `"known":"test","head_label":"Anna","relation_label":"knows"}`,
		succeed(t, append(args, "--json", "-")...).stdout)
}

// On a terminal, the note about the number of triples follows the triples.
func TestScoreNoteComesLast(t *testing.T) {
	w := newWorkplace(t)
	triple := strings.SplitAfter(string(must1(os.ReadFile(filepath.Join(w.data, "test.txt")))), "\n")[0]
	var terminal bytes.Buffer
	args := []string{"score", w.model, "--in", "-"}
	require.Zero(t, execute(t.Context(), time.Now(), args, strings.NewReader(triple), &terminal, &terminal))
	lines := strings.Split(strings.TrimSpace(terminal.String()), "\n")
	assert.True(t, strings.HasPrefix(lines[len(lines)-2], strings.TrimSpace(triple)+"\t"), terminal.String())
	assert.Equal(t, "scored 1 triple", lines[len(lines)-1])
}

// The lines below a table have at most 80 columns.
func TestScoreRemarksAreShort(t *testing.T) {
	w := newWorkplace(t)
	args := []string{"score", w.model, w.model, "--ensemble", "equal", "--data", w.data}
	triple := strings.Fields(string(must1(os.ReadFile(filepath.Join(w.data, "test.txt")))))[:3]
	o := succeed(t, append(args, "--head", triple[0], "--relation", triple[1], "--tail", triple[2])...)
	_, remarks, _ := strings.Cut(o.stdout, "Score of ensemble: ")
	require.Greater(t, len(remarks), 80)
	for line := range strings.Lines("Score of ensemble: " + remarks) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
}
