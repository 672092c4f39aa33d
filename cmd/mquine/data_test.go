package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// data runs `mquine data` and returns what it printed.
func data(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := newDataCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&log)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), log.String(), err
}

// realDataset returns the folder of a real data set and sets MQUINE_DATA to a new folder.
func realDataset(t *testing.T, name string) string {
	t.Helper()
	parent := os.Getenv("MQUINE_DATA")
	if parent == "" {
		t.Skip("MQUINE_DATA does not name the folder of the real data sets")
	}
	dir := filepath.Join(parent, name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("MQUINE_DATA lacks a data set: %v", err)
	}
	t.Setenv("MQUINE_DATA", filepath.Join(t.TempDir(), "data"))
	return dir
}

func writeDataset(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

func TestDataImportListInfo(t *testing.T) {
	t.Setenv("MQUINE_DATA", filepath.Join(t.TempDir(), "data"))
	source := writeDataset(t, map[string]string{"train.txt": "a\tr\tb\na\tr\tb\n", "test.txt": "b\tr\tc\n"})

	stdout, stderr, err := data(t, "import", source, "--name", "mine")
	require.NoError(t, err)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "note: train: 1 triple repeats")
	require.Contains(t, stderr, "3 entities, 1 relation, 2 training, 0 validation and 1 test triples")

	stdout, _, err = data(t, "list")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^wn18rr +40,943 +11 +86,835 +3,034 +3,134 +not installed$`, stdout)
	require.Regexp(t, `(?m)^mine +installed \(local\)$`, stdout)

	stdout, _, err = data(t, "info", "mine")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^train +2 +1 +0 +1 +1 +0\n(.*\n)+split +1-1 +1-N +N-1 +N-N\ntrain +2 +0 +0 +0$`, stdout)
	require.Regexp(t, `(?m)^test +1 +0 +0 +1 +1 +1\n(.*\n)+test +1 +0 +0 +0$`, stdout)
	require.Contains(t, stdout, `note: there is no split "valid"`)

	byName, _, err := data(t, "info", "mine", "--json", "-")
	require.NoError(t, err)
	var info struct {
		Schema     string
		Public     *publicInfo
		Statistics struct{ Splits []struct{ Triples int } }
	}
	require.NoError(t, json.Unmarshal([]byte(byName), &info))
	require.Equal(t, "mquine.data-info/1", info.Schema)
	require.Nil(t, info.Public)
	require.Equal(t, []struct{ Triples int }{{2}, {1}}, info.Statistics.Splits)

	file := filepath.Join(t.TempDir(), "info.json")
	stdout, _, err = data(t, "info", source, "--json", file)
	require.NoError(t, err)
	require.Contains(t, stdout, "split", "the table is printed even if the JSON goes to a file")
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(written), `"distinct_triples": 2`)

	_, _, err = data(t, "import", source, "--name", "mine")
	require.ErrorContains(t, err, "data set mine already exists")
}

func TestDataInfoOfAbsentPublicSet(t *testing.T) {
	t.Setenv("MQUINE_DATA", t.TempDir())
	stdout, _, err := data(t, "info", "yago3-10")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^entities +123,182$`, stdout)
	require.Regexp(t, `(?m)^train +1,079,040 +not installed$`, stdout)
	require.Contains(t, stdout, `Run "mquine data get yago3-10" to download the missing files.`)
}

func TestDataGet(t *testing.T) {
	source := realDataset(t, "umls")
	server := httptest.NewServer(http.FileServer(http.Dir(source)))
	defer server.Close()
	for verb, from := range map[string]string{"copied": source, "downloaded": server.URL + "/"} {
		t.Run(verb, func(t *testing.T) {
			t.Setenv("MQUINE_DATA", filepath.Join(t.TempDir(), "data"))
			_, stderr, err := data(t, "get", "umls", "--from", from)
			require.NoError(t, err)
			require.Contains(t, stderr, verb+" umls into ")

			_, stderr, err = data(t, "get", "umls")
			require.NoError(t, err)
			require.Contains(t, stderr, ", and its files match the catalogue")

			stdout, _, err := data(t, "info", "umls")
			require.NoError(t, err)
			require.Regexp(t, `(?m)^train +5,216 +matches the catalogue \(sha256\)$`, stdout)
			require.NotContains(t, stdout, "not installed")

			dir := filepath.Join(os.Getenv("MQUINE_DATA"), "umls")
			require.NoError(t, os.Remove(filepath.Join(dir, "valid.txt.gz")))
			require.NoError(t, os.Remove(filepath.Join(dir, "test.txt.gz")))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "test.txt"), []byte("a\tr\tb\n"), 0o644))
			stdout, _, err = data(t, "info", "umls")
			require.EqualError(t, err,
				filepath.Join(dir,
					"test.txt")+` has 1 triple, but the test split of the public data set umls has 661: `+
					`remove the file and run "mquine data get umls", or rename the folder if it is another data set`)
			require.Regexp(t, `(?m)^valid +652 +not installed$`, stdout)
			require.Regexp(t, `(?m)^test +661 +differs: .*test.txt has 1 line instead of 661`, stdout)
			stdout, _, err = data(t, "list")
			require.NoError(t, err)
			require.Regexp(t, `(?m)^umls .* differs in test: see "mquine data info umls"$`, stdout)

			require.NoError(t, os.Remove(filepath.Join(dir, "test.txt")))
			stdout, _, err = data(t, "info", "umls")
			require.NoError(t, err)
			require.Regexp(t, `(?m)^entities +135$`, stdout)
			stdout, _, err = data(t, "list")
			require.NoError(t, err)
			require.Regexp(t, `(?m)^umls .* missing valid, test$`, stdout)
		})
	}
}

// A public data set in another form is another version, and no command advises to add a second form.
func TestDataOfAnotherForm(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("MQUINE_DATA", parent)
	dir := filepath.Join(parent, "nations")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, lines := range map[string]int{"train.nt": 1592, "valid.nt": 199, "test.nt": 201} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name),
			[]byte(strings.Repeat("<x:a> <x:r> <x:b> .\n", lines)), 0o644))
	}
	stdout, _, err := data(t, "list")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^nations .* differs in train, valid, test: see "mquine data info nations"$`, stdout)

	stdout, _, err = data(t, "info", "nations")
	require.ErrorContains(t, err, filepath.Join(dir, "train.nt")+" has N-Triples instead of tab-separated text: "+
		"it is damaged or another version; ")
	require.ErrorContains(t, err, ", or rename the folder if it is another data set")
	require.Regexp(t, `(?m)^test +201 +differs: .*test.nt has N-Triples instead of tab-separated text`, stdout)
	require.NotContains(t, stdout, "to download the missing files")

	_, _, err = data(t, "get", "nations")
	require.ErrorContains(t, err, "train.nt has N-Triples instead of tab-separated text")
	requireFiles(t, dir, "train.nt", "valid.nt", "test.nt")
}

// TestDataInfoOfAnotherContent checks that data info detects a file with the right number of lines and
// the wrong contents.
func TestDataInfoOfAnotherContent(t *testing.T) {
	source := realDataset(t, "umls")
	_, _, err := data(t, "get", "umls", "--from", source)
	require.NoError(t, err)
	dir := filepath.Join(os.Getenv("MQUINE_DATA"), "umls")
	require.NoError(t, os.Remove(filepath.Join(dir, "valid.txt.gz")))
	path := filepath.Join(dir, "valid.txt")
	require.NoError(t,
		os.WriteFile(path, []byte(strings.Repeat("acquired_abnormality\tlocation_of\texperimental_model_of_disease\n",
			652)), 0o644))

	report := filepath.Join(t.TempDir(), "info.json")
	stdout, _, err := data(t, "info", "umls", "--json", report)
	require.ErrorContains(t, err, path+" has the sha256 checksum ")
	require.ErrorContains(t, err,
		`it is damaged or another version; to download a file again, remove it and run "mquine data get umls"`)
	require.Regexp(t, `(?m)^valid +652 +651 +`, stdout, "the statistics are still shown")
	require.Regexp(t, `(?m)^valid +652 +differs: `, stdout)
	var info struct {
		Public  *publicInfo
		Problem string
	}
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(report)), &info))
	require.Equal(t, []string{"matches", "differs", "matches"},
		[]string{info.Public.Files[0].State, info.Public.Files[1].State, info.Public.Files[2].State})
	require.Empty(t, info.Problem)

	require.NoError(t, os.WriteFile(path, nil, 0o644))
	_, _, err = data(t, "info", "umls", "--json", report)
	require.ErrorContains(t, err, "valid.txt has no triples")
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(report)), &info))
	require.Equal(t, err.Error(), info.Problem)
}

// data info refuses files that other commands read, with their errors.
func TestDataInfoChecksExtras(t *testing.T) {
	w := newWorkplace(t)
	labels, negatives := filepath.Join(w.data, "labels.tsv"), filepath.Join(w.data, "test_negatives.txt")
	valid := must1(os.ReadFile(filepath.Join(w.data, "valid.txt")))
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "valid_negatives.txt"), valid, 0o644))
	info := []string{"data", "info", w.data}
	succeed(t, info...)
	for _, c := range []struct {
		file, content, want string
		other               []string
	}{
		{labels, "x\tX\nx\tY\n", labels + `:2: duplicate identifier "x"`, []string{"eval", w.model, "--data", w.data}},
		{negatives, "x\tlikes\ty\n", negatives + `:1: unknown entity "x"`,
			[]string{"classify", w.model, "--data", w.data}},
	} {
		require.NoError(t, os.WriteFile(c.file, []byte(c.content), 0o644))
		for _, args := range [][]string{info, c.other} {
			mquine(t, args...).requireSentence(t, exitFailed, c.want)
		}
		require.NoError(t, os.Remove(c.file))
	}
}

func TestDataRefuses(t *testing.T) {
	t.Setenv("MQUINE_DATA", filepath.Join(t.TempDir(), "data"))
	cases := []struct {
		args []string
		want string
	}{
		{[]string{"get", "umls2"}, `no public data set "umls2": did you mean umls? The others are fb15k, `},
		{[]string{"get", "umls", "--from", filepath.Join(t.TempDir(), "none")}, "umls could not be fetched: "},
		{[]string{"get"}, "give the name of a public data set"},
		{[]string{"info"}, "give the name or the path of a data set"},
		{[]string{"info", "umls", "wn18rr"}, `unexpected argument "wn18rr"`},
		{[]string{"import", "--name", "mine"}, "give the folder to read"},
		{[]string{"list", "umls"}, `unexpected argument "umls"`},
		{[]string{"info", "absent"}, `no data set "absent"`},
		{[]string{"import", t.TempDir()}, `required flag(s) "name" not set`},
		{[]string{"import", t.TempDir(), "--name", "mine"}, "is not a data set"},
		{[]string{"list", "--json", filepath.Join(t.TempDir(), "no", "folder")}, "folder: no such file or directory"},
		{[]string{"lsit"}, `unknown command "lsit"`},
	}
	for _, c := range cases {
		_, _, err := data(t, c.args...)
		require.ErrorContains(t, err, c.want)
	}
}

// The error about a data set that is not installed suggests a name or a command.
func TestDataSuggestions(t *testing.T) {
	installed := t.TempDir()
	t.Setenv("MQUINE_DATA", installed)
	require.NoError(t, os.Rename(smallFamilies(t), filepath.Join(installed, "families")))
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("families2", 0o755))
	require.NoError(t, os.WriteFile("family", nil, 0o644))
	for name, want := range map[string]string{
		"families2": `no data set "families2" in ` + installed + ": to use the folder of that name in the working " +
			"directory, write ./families2",
		"family":    "data set folder family is a file: give the folder that contains it",
		"famillies": `no data set "famillies": did you mean families? "mquine data list" lists all data sets`,
		"fb15k237":  `no data set "fb15k237": did you mean fb15k-237? "mquine data list" lists all data sets`,
		"umls":      "data set umls is not installed: run mquine data get umls",
		"xyzxyzxyz": `no data set "xyzxyzxyz" in ` + installed + " (it has families): run",
		"./umls": "data set folder ./umls: no such file or directory; did you mean the data set umls, " +
			"without a slash?",
		"./x/y": "data set folder ./x/y: no such file or directory",
	} {
		mquine(t, "z", "stats", "--data", name).requireSentence(t, exitFailed, want)
	}
	const swapped = "families is a data set, not a checkpoint: give the folder of a checkpoint"
	mquine(t, "eval", "families", "--data", "x").requireSentence(t, exitFailed, swapped)
	mquine(t, "info", "families").requireSentence(t, exitFailed, swapped)
	missing := filepath.Join(installed, "none")
	t.Setenv("MQUINE_DATA", missing)
	mquine(t, "z", "stats", "--data", "umls").requireSentence(t, exitFailed, "MQUINE_DATA names "+missing+
		", which does not exist: correct it, or run mquine data get umls to create it")
	t.Setenv("MQUINE_DATA", installed)
	mquine(t, "data", "get", "fb15k237").requireSentence(t, exitFailed, "did you mean fb15k-237?")
}

func TestProgressDownloading(t *testing.T) {
	var terminal bytes.Buffer
	m := newMeter(&terminal)
	m.terminal = true
	show := m.downloading()
	show("https://example.org/toy/train.txt", 50, 100)
	show("https://example.org/toy/valid.txt", 10, -1)
	m.clear()
	require.Equal(t, "\r█████░░░░░  50% downloading train.txt, 0s left, 50 B\x1b[K\r\x1b[K"+
		"\rdownloading valid.txt, 10 B\x1b[K\r\x1b[K", terminal.String())
}

// Without a folder for data sets, an error does not suggest to download one.
func TestNoFolderForData(t *testing.T) {
	for _, name := range []string{"MQUINE_DATA", "HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	for _, args := range [][]string{{"train", "--data", "umls"}, {"data", "get", "umls"}} {
		o := mquine(t, args...)
		o.requireSentence(t, exitFailed, ": set MQUINE_DATA to one")
		assert.NotContains(t, o.stderr, "not installed")
	}
}
