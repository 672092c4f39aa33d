package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"

	"github.com/mquine/mquine/kg"
)

// TestPredictAgreesWithEval finds the true answers in the lists of predictions. Their positions
// must agree with the ranks.
func TestPredictAgreesWithEval(t *testing.T) {
	w := newWorkplace(t)
	ranks := w.path("ranks.tsv")
	succeed(t, "eval", w.model, "--data", w.data, "--ranks", ranks, "--filter", "none")
	text, err := os.ReadFile(ranks)
	require.NoError(t, err)

	var input strings.Builder
	type truth struct {
		answer        string
		better, equal int
	}
	var truths []truth
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Split(line, "\t")
		tr := truth{answer: f[3], better: must1(strconv.Atoi(f[4])), equal: must1(strconv.Atoi(f[5]))}
		if f[0] == "tail" {
			input.WriteString(f[1] + "\t" + f[2] + "\t?\n")
		} else {
			tr.answer = f[1]
			input.WriteString("?\t" + f[2] + "\t" + f[3] + "\n")
		}
		truths = append(truths, tr)
	}

	predict := []string{"predict", w.model, "--data", w.data, "--in", "-", "-k", "100"}
	o := mquineReading(t, input.String(), predict...)
	require.Zero(t, o.status, o.stderr)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	require.Equal(t, "head\trelation\ttail\tanswer\trank\tlabel\tscore\tknown", lines[0])
	const candidates = 60
	require.Len(t, lines, 1+candidates*len(truths), "every query lists all candidates")
	asked := strings.Split(input.String(), "\n")
	for i, tr := range truths {
		place, last := 0, 0.0
		for j, line := range lines[1+i*candidates:][:candidates] {
			f := strings.Split(line, "\t")
			answer := map[string]int{"head": 0, "tail": 2}[f[3]]
			found := f[answer]
			f[answer] = "?"
			require.Equal(t, asked[i], strings.Join(f[:3], "\t"), "the answer completes the query to a triple")
			require.Equal(t, strconv.Itoa(j+1), f[4])
			score := must1(strconv.ParseFloat(f[6], 64))
			require.LessOrEqual(t, score, 0.0, "a score is the negative of a square")
			if j > 0 {
				require.LessOrEqual(t, score, last)
			}
			last = score
			if found == tr.answer {
				place = j
				require.Equal(t, "true", f[7], "a test triple is known")
			}
		}
		require.GreaterOrEqual(t, place, tr.better, asked[i])
		require.LessOrEqual(t, place, tr.better+tr.equal, asked[i])
	}

	o = mquineReading(t, input.String(), append(predict, "--filter-known")...)
	require.Zero(t, o.status, o.stderr)
	assert.NotContains(t, o.stdout, "\ttrue\n")
	for _, backend := range []string{"generic", "auto"} {
		again := mquineReading(t, input.String(), append(predict, "--filter-known", "--backend", backend, "--threads",
			"3")...)
		require.Equal(t, o.stdout, again.stdout, backend)
	}
}

func TestPredictOne(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	tr := g.Splits[kg.Train][0]
	head, relation, tail := g.Entities.Label(tr.Head), g.Relations.Label(tr.Relation), g.Entities.Label(tr.Tail)
	predict := []string{"predict", w.model, "--data", w.data}

	o := succeed(t, append(predict, "--head", head, "--relation", relation, "-k", "3")...)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	require.Len(t, lines, 6)
	assert.Equal(t, "("+head+", "+relation+", ?)", lines[0])
	assert.Equal(t, []string{"rank", "answer", "score", "known"}, strings.Fields(lines[2]))
	assert.Regexp(t, `^ +1  \w+ +-[0-9.e+-]+  (yes|no)$`, lines[3])

	o = succeed(t, append(predict, "--tail", tail, "--relation", relation)...)
	assert.Contains(t, o.stdout, "(?, "+relation+", "+tail+")")

	// The output says which candidates the answers are among.
	list := w.path("list.txt")
	require.NoError(t, os.WriteFile(list, []byte(head+"\n"+tail+"\n"), 0o644))
	among := append(predict, "--tail", tail, "--relation", relation, "--candidates", list, "--filter-known")
	protocol := "2 candidates (" + list + "). Known answers are left out."
	assert.Contains(t, strings.ReplaceAll(succeed(t, among...).stdout, "\n", " "), protocol)
	assert.Contains(t, succeed(t, append(among, "--format", "latex")...).stdout,
		"Model: mquine (d = 6). "+strings.ReplaceAll(protocol, "_", `\_`)+"}\n")

	// Ask for more answers than there are candidates.
	o = succeed(t, append(predict, "--head", head, "--relation", relation, "-k", "1000")...)
	assert.Equal(t, 3+60, strings.Count(o.stdout, "\n"))
}

// A query has the same answers and scores however often it is asked. The margin γ = 9, which is added to
// a score when it is printed, must be added once.
func TestPredictRepeatedQueries(t *testing.T) {
	w := newWorkplace(t)
	dir := w.path("transe")
	succeed(t, "init", "--model", "transe-l1", "--dim", "4", "--gamma", "9", "--data", w.data, "--out", dir)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	tr := g.Splits[kg.Train][0]
	tail := g.Entities.Label(tr.Head) + "\t" + g.Relations.Label(tr.Relation) + "\t?\n"
	head := "?\t" + g.Relations.Label(tr.Relation) + "\t" + g.Entities.Label(tr.Tail) + "\n"
	answers := func(queries string) []string {
		o := mquineReading(t, queries, "predict", dir, "--data", w.data, "--in", "-", "-k", "2")
		require.Zero(t, o.status, o.stderr)
		return strings.Split(strings.TrimSpace(o.stdout), "\n")[1:]
	}
	once := answers(tail + head)
	require.Len(t, once, 4)
	assert.Equal(t, slices.Concat(once, once[:2], once), answers(tail+head+tail+tail+head))
}

// Answers to queries that ask for relations have the ranks of eval. Such queries may be mixed with
// other queries.
func TestPredictRelations(t *testing.T) {
	w := newWorkplace(t)
	ranks := w.path("relations.tsv")
	succeed(t, "eval", w.model, "--data", w.data, "--ranks", ranks, "--filter", "none", "--side", "relation")
	contents, err := os.ReadFile(ranks)
	require.NoError(t, err)
	triples := strings.Split(strings.TrimSpace(string(contents)), "\n")[1:]
	var input strings.Builder
	for _, line := range triples {
		f := strings.Split(line, "\t")
		fmt.Fprintf(&input, "%s\t?\t%s\n%[1]s\t%[3]s\t?\n", f[1], f[3], f[2])
	}
	predict := []string{"predict", w.model, "--data", w.data}
	o := mquineReading(t, input.String(), append(predict, "--in", "-", "-k", "100")...)
	require.Zero(t, o.status, o.stderr)
	places := make(map[string]int) // by triple
	entities := 0
	for _, line := range strings.Split(strings.TrimSpace(o.stdout), "\n")[1:] {
		if f := strings.Split(line, "\t"); f[3] == "relation" {
			places[strings.Join(f[:3], " ")] = must1(strconv.Atoi(f[4]))
		} else {
			require.Equal(t, "tail", f[3])
			entities++
		}
	}
	assert.Equal(t, 60*len(triples), entities)
	for _, line := range triples {
		f := strings.Split(line, "\t")
		place, better, equal := places[strings.Join(f[1:4], " ")], must1(strconv.Atoi(f[4])), must1(strconv.Atoi(f[5]))
		require.Greater(t, place, better, line)
		require.LessOrEqual(t, place, better+equal+1, line)
	}

	f := strings.Split(triples[0], "\t")
	predict = append(predict, "--head", f[1], "--tail", f[3])
	assert.Contains(t, succeed(t, predict...).stdout, "("+f[1]+", ?, "+f[3]+")")
	assert.NotRegexp(t, `(?m)yes$`, succeed(t, append(predict, "--filter-known")...).stdout)
	mquine(t, append(predict, "--candidates", "observed")...).requireSentence(t, exitFailed,
		"lists and types of candidates are for entities")
	mquine(t, append(predict, "--relation", f[2])...).requireSentence(t, exitUsage,
		"leave out one of --head, --relation and --tail")
}

// TestPredictWithoutSplit predicts with a data set that lacks a split. Answers are then known or
// uncertain, but never new, and --filter-known is an error.
func TestPredictWithoutSplit(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	tr := g.Splits[kg.Train][0]
	head, relation, tail := g.Entities.Label(tr.Head), g.Relations.Label(tr.Relation), g.Entities.Label(tr.Tail)
	for _, split := range []string{"valid", "test"} {
		data := copyFolder(t, w.data, func(name string, contents []byte) []byte {
			if name == split+".txt" {
				return nil
			}
			return contents
		})
		predict := []string{"predict", w.model, "--data", data, "--head", head, "--relation", relation,
			"-k", "100"}
		mquine(t, append(predict, "--filter-known")...).requireSentence(t, exitFailed,
			"--filter-known needs the "+split+" split, which data set families lacks: put "+split+".txt into "+data)
		o := succeed(t, predict...)
		assert.Regexp(t, `(?m) `+tail+` .* yes$`, o.stdout)
		assert.Regexp(t, `(?m) \?$`, o.stdout)
		assert.NotRegexp(t, `(?m) no$`, o.stdout)
	}
}

func TestPredictBadInput(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	known := g.Entities.Label(0)
	predict := []string{"predict", w.model, "--data", w.data}

	typo := strings.Replace(known, "_", "", 1)
	mquine(t, append(predict, "--head", typo, "--relation", "lives_in")...).
		requireSentence(t, exitFailed, `the checkpoint has no entity "`+typo+`"; did you mean `+known)
	mquine(t, append(predict, "--head", known, "--relation", "lives-in")...).
		requireSentence(t, exitFailed, `the checkpoint has no relation "lives-in"; did you mean lives_in`)
	mquine(t, append(predict, "--head", "zzz", "--relation", "lives_in")...).
		requireSentence(t, exitFailed, `the checkpoint has no entity "zzz"`)
	labels := known + "\tAnna\nx1\tanna\nx2\tAnna\nx3\tAnna\n"
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "labels.tsv"), []byte(labels), 0o644))
	mquine(t, append(predict, "--head", "Anna", "--relation", "lives_in")...).requireSentence(t, exitFailed,
		`the checkpoint has no entity "Anna"; this is the label of `+known+`, x1, x2 and 1 more: give an identifier`)
	mquine(t, append(predict, "--head", "?", "--relation", "lives_in")...).
		requireSentence(t, exitFailed, `no entity "?"; leave out the flag of the side that you ask for`)
	mquine(t, append(predict, "--in", w.path("none.tsv"))...).requireSentence(t, exitFailed,
		"mquine predict: cannot read queries from "+w.path("none.tsv")+": no such file or directory; name a file")
	mquine(t, append(predict, "--in", w.dir)...).requireSentence(t, exitFailed,
		"cannot read queries from "+w.dir+": it is a folder, not a file")

	good := known + "\tlives_in\t?\n"
	for input, sentence := range map[string]string{
		"":                    "standard input is empty",
		good + "one\ttwo\n":   "standard input:2: 2 fields instead of 3",
		good + "\n" + good:    "standard input:2: blank line: remove it",
		"\n":                  "standard input is empty",
		good + "a\tb\tc\td\n": "standard input:2: 4 fields instead of 3",
		"?\tlives_in\t?\n":    "standard input:1: put ? in exactly one of the three columns",
		"head\trelation\ttail\n" + good: "standard input:1: put ? in exactly one of the three columns: it marks " +
			"what to predict; if the first line is a header, remove it",
		good[:len(good)-2] + "\n":                "standard input:1: put ? in exactly one of the three columns",
		good + "?\t?\t?\n":                       "standard input:2: put ? in exactly one of the three columns",
		good + good + good[:len(good)-2] + known: "standard input:3: put ? in exactly one of the three columns",
		good + "stranger\tlives_in\t?":           `standard input:2: the checkpoint has no entity "stranger"`,
		good + "Anna\tlives_in\t?":               `input:2: the checkpoint has no entity "Anna"; this is the label of `,
		good + strings.Repeat("x", 1<<18):        "standard input:2: line is longer than 256 KiB",
	} {
		o := mquineReading(t, input, append(predict, "--in", "-")...)
		o.requireSentence(t, exitFailed, sentence)
		assert.Empty(t, o.stdout)
	}

	// predict accepts CRLF line endings, a byte order mark and a blank last line.
	o := mquineReading(t, "\ufeff"+known+"\tlives_in\t?\r\n?\tlives_in\t"+known+"\r\n\r\n",
		append(predict, "--in", "-", "-k", "1")...)
	require.Zero(t, o.status, o.stderr)
	assert.Equal(t, 3, strings.Count(o.stdout, "\n"))
}

// The error about a first line mentions headers only if its relation is unknown.
func TestReadQueriesHeader(t *testing.T) {
	for relation, want := range map[string]bool{"relation": true, "r": false} {
		g := &kg.Graph{Entities: kg.NewVocabulary("a"), Relations: kg.NewVocabulary("r")}
		_, err := readQueries(t.Context(), "file", strings.NewReader("b\t"+relation+"\t?\n"), g)
		require.ErrorContains(t, err, `file:1: the checkpoint has no entity "b"`)
		assert.Equal(t, want, strings.Contains(err.Error(), "header"), err)
	}
}

func FuzzReadQueries(f *testing.F) {
	g := &kg.Graph{Entities: kg.NewVocabulary("a", "b"), Relations: kg.NewVocabulary("r")}
	for _, seed := range []string{"a\tr\t?\n?\tr\tb\n", "\ufeffa\tr\t?\r\n", "a\tr\n", "?\tr\t?", "", "\n", "c\tr\t?",
		"a\tr\t?\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		queries, err := readQueries(t.Context(), "file", strings.NewReader(text), g)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, queries)
		// Writing the queries and reading them again gives the same queries.
		var lines []string
		for _, q := range queries {
			fields := q.fields(g)
			lines = append(lines, strings.Join(fields[:], "\t"))
		}
		again, err := readQueries(t.Context(), "file", strings.NewReader(strings.Join(lines, "\n")), g)
		require.NoError(t, err)
		require.Equal(t, queries, again)
	})
}

// In a flag, ? is a label like any other. In a file of queries, it marks what to predict.
func TestPredictQuestionMark(t *testing.T) {
	dir := t.TempDir()
	data, model := filepath.Join(dir, "data"), filepath.Join(dir, "model")
	require.NoError(t, os.Mkdir(data, 0o755))
	for _, split := range []string{"train", "valid", "test"} {
		require.NoError(t, os.WriteFile(filepath.Join(data, split+".txt"), []byte("?\tr\ta\na\tr\t"+split+"\n"), 0o644))
	}
	succeed(t, "init", "--model", "distmult", "--dim", "4", "--data", data, "--out", model)
	predict := []string{"predict", model, "--data", data, "--format", "tsv"}
	o := succeed(t, append(predict, "--head", "?", "--relation", "r")...)
	assert.Contains(t, o.stdout, "\n?\tr\ta\ttail\t")
	o = succeed(t, append(predict, "--tail", "a", "--relation", "r")...)
	assert.Contains(t, o.stdout, "\n?\tr\ta\thead\t")
	mquine(t, append(predict, "--head", "a", "--relation", "?")...).
		requireSentence(t, exitFailed, `the checkpoint has no relation "?"`)
}

// In the help, all formulas begin in the same column.
func TestScoreHelp(t *testing.T) {
	formulas := 0
	for line := range strings.Lines(scoreHelp()) {
		if name, formula := line[:14], line[14:]; strings.HasSuffix(name, "  ") && formula[0] != ' ' {
			formulas++
		}
	}
	assert.Len(t, model.Names(), formulas)
}
