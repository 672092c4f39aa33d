package main

import (
	"bytes"
	"context"
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
	"github.com/mquine/mquine/kg/synth"
)

// tripleFile writes the triples of all splits of a small data set to one file, and returns its path
// and the number of triples.
func tripleFile(t *testing.T) (path string, n int) {
	t.Helper()
	g, _, err := synth.Families(t.Context(), synth.Config{Entities: 60, Seed: 3})
	require.NoError(t, err)
	var all bytes.Buffer
	for _, triples := range g.Splits {
		for _, x := range triples {
			all.WriteString(g.Entities.Label(x.Head) + "\t" + g.Relations.Label(x.Relation) + "\t" +
				g.Entities.Label(x.Tail) + "\n")
			n++
		}
	}
	path = filepath.Join(t.TempDir(), "all.tsv")
	require.NoError(t, os.WriteFile(path, all.Bytes(), 0o644))
	return path, n
}

func TestDataSplit(t *testing.T) {
	path, n := tripleFile(t)
	twice := filepath.Join(t.TempDir(), "twice.txt")
	content := must1(os.ReadFile(path))
	require.NoError(t, os.WriteFile(twice, append(content, content...), 0o644))

	dir := t.TempDir()
	out, again := filepath.Join(dir, "graph"), filepath.Join(dir, "again")
	_, stderr, err := data(t, "split", twice, "--out", out, "--test", "40", "--seed", "7")
	require.NoError(t, err)
	assert.Contains(t, stderr, "note: "+text.Comma(n)+" triples repeat an earlier one: left out\n")
	assert.Contains(t, stderr, "wrote "+out+": 60 entities, 17 relations, ")
	assert.Contains(t, stderr, " and 40 test triples\n")
	assert.Regexp(t, `note: \d+ of 40 test triples connect entities that a training triple connects: see --keep-pairs`,
		stderr)
	requireFiles(t, dir, "graph")
	requireFiles(t, out, "train.txt", "valid.txt", "test.txt", "split.json")

	g, err := kg.Open(t.Context(), out)
	require.NoError(t, err)
	assert.Empty(t, g.Notes, "every entity and relation is in train, and no triple repeats")
	valid := (n + 10) / 20
	assert.Equal(t, []int{n - valid - 40, valid, 40},
		[]int{len(g.Splits[kg.Train]), len(g.Splits[kg.Valid]), len(g.Splits[kg.Test])})

	var record splitRecord
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(filepath.Join(out, "split.json"))), &record))
	all, err := kg.OpenTriples(t.Context(), twice)
	require.NoError(t, err)
	digest, err := all.SHA256(t.Context())
	require.NoError(t, err)
	version, revision := build()
	assert.Equal(t, splitRecord{
		Schema: "mquine.data-split/1", Version: version, Revision: revision, File: twice, SHA256: digest, Seed: 7,
		Repeats: n, Train: n - valid - 40, Valid: splitSize{"5%", valid, valid}, Test: splitSize{"40", 40, 40},
		TestLinked: g.Linked(kg.Test),
	}, record)

	// The same flags give the same bytes.
	_, _, err = data(t, "split", twice, "--out", again, "--test", "40", "--seed", "7")
	require.NoError(t, err)
	for _, name := range []string{"train.txt", "valid.txt", "test.txt", "split.json"} {
		assert.Equal(t, must1(os.ReadFile(filepath.Join(out, name))), must1(os.ReadFile(filepath.Join(again, name))))
	}

	// The folder is a data set for other commands.
	succeed(t, "train", "--data", out, "--dim", "4", "--epochs", "1", "--out", filepath.Join(dir, "run"))
}

func TestDataSplitWithoutValid(t *testing.T) {
	path, _ := tripleFile(t)
	out := filepath.Join(t.TempDir(), "graph")
	_, stderr, err := data(t, "split", path, "--out", out, "--valid", "0", "--test", "12.5%", "--keep-pairs")
	require.NoError(t, err)
	assert.NotContains(t, stderr, "note:")
	requireFiles(t, out, "train.txt", "test.txt", "split.json")
}

// A split may be smaller than asked for, but not empty.
func TestDataSplitSmallGraphs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "all.tsv")
	split := func(triples string, args ...string) (string, error) {
		require.NoError(t, os.WriteFile(path, []byte(triples), 0o644))
		out := filepath.Join(dir, "graph")
		defer os.RemoveAll(out)
		_, stderr, err := data(t, append([]string{"split", path, "--out", out}, args...)...)
		return stderr, err
	}
	// In a chain, every second triple can be held out, except the first and the last one.
	chain := func(n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, "%d\tr\t%d\n", i, i+1)
		}
		return all.String()
	}
	const needed = " is needed so that every entity and relation has a training triple"

	stderr, err := split(chain(30), "--valid", "10", "--test", "10")
	require.NoError(t, err)
	assert.Regexp(t, `note: held out only \d+ of 10 validation and \d+ of 10 test triples, because any other triple`+
		needed+"\n", stderr)

	_, err = split(chain(4), "--valid", "1", "--test", "1")
	assert.EqualError(t, err, path+": only 1 triple can be held out, and none is left for the test split, because "+
		"any other triple"+needed+": give more triples, or leave out the split with --test 0")
	_, err = split(chain(4), "--valid", "0", "--test", "1")
	assert.NoError(t, err)
	_, err = split(chain(4), "--valid", "0", "--test", "1", "--keep-pairs")
	assert.NoError(t, err)

	_, err = split("a\tr\tb\nc\ts\td\ne\tr\tf\n", "--valid", "1", "--test", "1")
	assert.EqualError(t, err, path+": no triple can be held out, because each triple"+needed+": give more triples")
	_, err = split("a\tr\tb\nb\tr\ta\na\tr\tc\nc\tr\ta\nb\tr\tc\nc\tr\tb\n",
		"--valid", "0", "--test", "1", "--keep-pairs")
	assert.EqualError(t, err, path+": no triple can be held out, because each pair of entities"+needed+
		", or has too many triples: give more triples, or ask for larger splits, or leave out --keep-pairs")
	pairs := strings.ReplaceAll(chain(5), "0\tr\t1\n", "0\tr\t1\n2\ts\t1\n2\tu\t1\n0\ts\t1\n0\tu\t1\n")
	_, err = split(pairs, "--valid", "1", "--test", "1", "--keep-pairs")
	assert.EqualError(t, err, path+": only 1 triple can be held out, and none is left for the test split, because "+
		"any other pair of entities"+needed+", or has too many triples: "+
		"give more triples, ask for larger splits, leave out --keep-pairs, or leave out the split with --test 0")
}

func TestDataSplitRefuses(t *testing.T) {
	path, n := tripleFile(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "graph")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "give the file to read, as in: mquine data split all.tsv --out ./my-graph"},
		{[]string{path}, `required flag(s) "out" not set`},
		{[]string{path, path, "--out", out}, "unexpected argument"},
		{[]string{path, "--out", dir}, dir + " already exists: remove it or choose another folder"},
		{[]string{dir, "--out", out}, dir + " is a folder: give a file of triples"},
		{[]string{path + "x", "--out", out}, "all.tsvx: no such file or directory"},
		{[]string{path, "--out", out, "--valid", "0", "--test", "0"}, "hold out no triples"},
		{[]string{path, "--out", out, "--valid", "60%", "--test", "40%"},
			"--valid 60% and --test 40% hold out " + text.Comma(n) + " triples, but " + path + " has only " +
				text.Comma(n) + " distinct triples: hold out fewer"},
		{[]string{path, "--out", out, "--valid", "100%"}, "must be a percentage between 0% and 100%, such as 5%"},
		{[]string{path, "--out", out, "--valid", "nan%"}, "must be a percentage between 0% and 100%, such as 5%"},
		{[]string{path, "--out", out, "--valid", "0%"},
			"must be a percentage between 0% and 100%, such as 5%; 0 without % leaves out the split"},
		{[]string{path, "--out", out, "--valid", "3000000000"}, "must be at most 2,147,483,647 triples"},
		{[]string{path, "--out", out, "--valid", "-3000000000"},
			"must be a number of triples, or a percentage such as 5%"},
		{[]string{path, "--out", out, "--test", "0.1"}, "must be a number of triples, or a percentage such as 5%"},
		{[]string{path, "--out", out, "--test", "-1"}, "must be a number of triples, or a percentage such as 5%"},
	} {
		_, _, err := data(t, append([]string{"split"}, c.args...)...)
		require.ErrorContains(t, err, c.want)
		assert.NotContains(t, err.Error(), "\n")
	}
	requireFiles(t, dir)

	// A cancelled command leaves nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := newDataCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"split", path, "--out", out})
	cmd.SetErr(&bytes.Buffer{})
	require.ErrorIs(t, cmd.ExecuteContext(ctx), context.Canceled)
	requireFiles(t, dir)
}

// In the folder of the installed data sets, a new data set cannot have the name of a public one.
func TestNewDataSetWithPublicName(t *testing.T) {
	path, _ := tripleFile(t)
	parent := t.TempDir()
	existing, link := filepath.Join(parent, "data"), filepath.Join(parent, "link")
	absent := filepath.Join(parent, "absent")
	require.NoError(t, os.Mkdir(existing, 0o755))
	require.NoError(t, os.Symlink(existing, link))
	t.Chdir(parent)
	for _, c := range []struct{ installed, out string }{
		{existing, filepath.Join(existing, "nations")}, {existing, filepath.Join(link, "nations")},
		{link, filepath.Join(existing, "nations")}, {absent, filepath.Join(absent, "nations")},
		{"data", "data/nations"}, {existing, "./data/nations"}, {"absent", "absent/nations"},
	} {
		t.Setenv("MQUINE_DATA", c.installed)
		for _, args := range [][]string{{"split", path}, {"make", "families"}, {"make", "zipf", "--entities", "100"}} {
			_, _, err := data(t, append(args, "--out", c.out)...)
			assert.EqualError(t, err,
				"cannot write "+c.out+": nations is the name of a public data set; choose another name", "%v", c)
		}
	}
	requireFiles(t, parent, "data", "link")
	requireFiles(t, existing)
	t.Setenv("MQUINE_DATA", existing)
	for _, out := range []string{"nations", "data/my-nations"} {
		_, _, err := data(t, "split", path, "--out", out)
		assert.NoError(t, err)
	}
}

// Commands that are given a file, or a folder with a file, name the command that makes splits.
func TestDataSplitIsTheWayOut(t *testing.T) {
	path, _ := tripleFile(t)
	for _, dataset := range []string{path, filepath.Dir(path)} {
		mquine(t, "train", "--data", dataset, "--out", filepath.Join(t.TempDir(), "run")).requireSentence(t, exitFailed,
			`"mquine data split FILE --out DIR"`)
	}
}
