package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/kg"
)

// TestFullDisk prints to a device that is always full. Every command must fail.
func TestFullDisk(t *testing.T) {
	const device = "/dev/full"
	if _, err := os.Stat(device); err != nil {
		t.Skip(device + " does not exist on this system")
	}
	w := newWorkplace(t)
	run, results := w.path("run"), benchFile(t, 1e6)
	succeed(t, "train", "--data", w.data, "--out", run, "--dim", "4", "--epochs", "1")
	for _, args := range [][]string{
		{"version"},
		{"--help"},
		{"info"},
		{"info", w.model},
		{"info", w.model, "--json", "-"},
		{"data", "list"},
		{"data", "list", "--json", "-"},
		{"data", "info", w.data},
		{"init", "--model", "mquine", "--dim", "4", "--data", w.data, "--out", w.path("new"), "--kind", "clustered"},
		{"train", "--resume", run},
		{"train", "--data", w.data, "--out", w.path("other"), "--dim", "4", "--epochs", "1"},
		{"train", "--print-config"},
		{"eval", w.model, "--data", w.data},
		{"eval", w.model, "--data", w.data, "--protocol", "pykeen", "--format", "markdown", "--peak"},
		{"eval", w.model, "--data", w.data, "--format", "csv"},
		{"compare", w.model, w.model, "--data", w.data},
		{"classify", w.model, "--data", w.data},
		{"predict", w.model, "--data", w.data, "--head", "person_01", "--relation", "lives_in"},
		{"discover", w.model, "--data", w.data},
		{"score", w.model, "--in", filepath.Join(w.data, "test.txt")},
		{"similar", w.model, "person_01"},
		{"report", run, "--out", "-"},
		{"abilities"},
		{"bench", "list"},
		{"bench", "run", "--bench", "Panel"},
		{"bench", "compare", results, results},
		{"z", "stats", "--data", w.data},
	} {
		full, err := os.OpenFile(device, os.O_WRONLY, 0)
		require.NoError(t, err)
		cmd := command(t, args...)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = full, &stderr
		_ = cmd.Run() // the test checks the status
		require.NoError(t, full.Close())
		outcome{status: cmd.ProcessState.ExitCode(), stderr: stderr.String()}.
			requireSentence(t, exitFailed, ": cannot write standard output: no space left on device")
		require.Equal(t, 1, strings.Count(stderr.String(), "no space left"), stderr.String())
	}
}

// A command prints its result even if it cannot write the file of --json.
func TestTableOutlivesTheFile(t *testing.T) {
	const device = "/dev/full"
	if _, err := os.Stat(device); err != nil {
		t.Skip(device + " does not exist on this system")
	}
	w := newWorkplace(t)
	search := w.path("search")
	succeed(t, "tune", "--data", w.data, "--space", spaceFile(t, smallSpace), "--trials", "1", "--rungs", "1",
		"--out", search)
	triple := strings.Fields(sortedLines(t, filepath.Join(w.data, "test.txt"))[0])
	many := w.path("many.tsv") // the file of --json is larger than a buffer
	training := must1(os.ReadFile(filepath.Join(w.data, "train.txt")))
	require.NoError(t, os.WriteFile(many, bytes.Repeat(training, 10), 0o644))
	for _, args := range [][]string{
		{"abilities"},
		{"data", "list"},
		{"data", "info", w.data},
		{"info", w.model},
		{"predict", w.model, "--data", w.data, "--head", "person_00", "--relation", "lives_in"},
		{"discover", w.model, "--data", w.data, "-k", "3"},
		{"score", w.model, "--in", many},
		{"score", w.model, "--in", many, "--format", "table"},
		{"classify", w.model, "--data", w.data},
		{"similar", w.model, "person_00", "-k", "3"},
		{"tune", "--resume", search},
		{"z", "show", "--data", w.data, "--head", triple[0], "--relation", triple[1], "--tail", triple[2]},
	} {
		want := mquine(t, args...)
		o := mquine(t, append(args, "--json", device)...)
		o.requireSentence(t, exitFailed, "cannot write "+device+": no space left on device")
		assert.NotEmpty(t, want.stdout, args)
		assert.Equal(t, want.stdout, o.stdout, args)
	}
}

// If the file of --out cannot be written, discover still writes the file of --json.
func TestDiscoverWritesTheOtherFile(t *testing.T) {
	const device = "/dev/full"
	if _, err := os.Stat(device); err != nil {
		t.Skip(device + " does not exist on this system")
	}
	w := newWorkplace(t)
	search := []string{"discover", w.model, "--data", w.data, "-k", "3", "--json"}
	succeed(t, append(search, w.path("want.json"), "--out", w.path("want.tsv"))...)
	mquine(t, append(search, w.path("got.json"), "--out", device)...).
		requireSentence(t, exitFailed, "cannot write "+device+": no space left on device")
	triples := func(name string) (result struct{ Triples []foundTriple }) {
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path(name))), &result))
		return result
	}
	require.Len(t, triples("got.json").Triples, 3)
	assert.Equal(t, triples("want.json"), triples("got.json"))
}

// TestOutputFollowsLinks writes a result through a symbolic link, which must not be replaced.
func TestOutputFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target.json"), filepath.Join(dir, "link.json")
	require.NoError(t, os.WriteFile(target, []byte("old"), 0o644))
	require.NoError(t, os.Symlink("target.json", link))
	t.Setenv("MQUINE_DATA", dir)
	succeed(t, "data", "list", "--json", link)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
	assert.Contains(t, string(must1(os.ReadFile(target))), "mquine.data-list/1")

	none := filepath.Join(dir, "none", "f.json")
	o := mquine(t, "data", "list", "--json", none)
	assert.Equal(t, outcome{exitFailed, "", "mquine data list: cannot write " + none +
		": no such file or directory; create the folder " + filepath.Dir(none) + " first\n"}, o)
}

// Names that end with .gz or .zst stand for compressed files, both to write and to read.
func TestCompressedFiles(t *testing.T) {
	w := newWorkplace(t)
	rank := []string{"eval", w.model, "--data", w.data, "--filter", "all", "--ranks"}
	search := []string{"discover", w.model, "--data", w.data, "-k", "5", "--out"}
	for _, args := range [][]string{rank, search} {
		succeed(t, append(args, w.path("plain.tsv"), "--force")...)
		plain, err := os.ReadFile(w.path("plain.tsv"))
		require.NoError(t, err)
		for _, extension := range []string{".gz", ".zst"} {
			path := w.path(args[0] + ".tsv" + extension)
			succeed(t, append(args, path)...)
			file, err := os.ReadFile(path)
			require.NoError(t, err)
			r, err := compressed.NewReader(bytes.NewReader(file), path)
			require.NoError(t, err)
			contents, err := io.ReadAll(r)
			require.NoError(t, err)
			assert.Equal(t, string(plain), string(contents))
		}
	}
	o := succeed(t, "compare", w.path("eval.tsv.gz"), w.path("eval.tsv.zst"), "--data", w.data, "--format", "json")
	assert.Contains(t, o.stdout, `"difference": 0`)

	succeed(t, "eval", w.model, "--data", w.data, "--json", w.path("e.json.gz"))
	succeed(t, "report", w.path("e.json.gz"), "--out", w.path("page.html"))
	calibration := w.path("calibration.json.zst")
	succeed(t, "classify", w.model, "--data", w.data, "--calibrate", "platt", "--calibration", calibration)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	succeed(t, "score", w.model, "--head", g.Entities.Label(0), "--relation", g.Relations.Label(0), "--tail",
		g.Entities.Label(1), "--calibration", calibration)

	query := g.Entities.Label(0) + "\t" + g.Relations.Label(0) + "\t"
	for command, line := range map[string]string{"predict": query + "?", "score": query + g.Entities.Label(1)} {
		path := w.path(command + "-in.tsv.zst")
		var file bytes.Buffer
		require.NoError(t, compressed.Write(&file, path, func(w io.Writer) error {
			_, err := io.WriteString(w, line+"\n")
			return err
		}))
		require.NoError(t, os.WriteFile(path, file.Bytes(), 0o644))
		args := []string{command, w.model, "--data", w.data, "--in"}
		want := mquineReading(t, line+"\n", append(args, "-")...)
		require.Zero(t, want.status, want.stderr)
		assert.Equal(t, want.stdout, succeed(t, append(args, path)...).stdout)
		cut := w.path("cut.tsv.gz") // the file ends in the middle of a line
		file.Reset()
		require.NoError(t, compressed.Write(&file, cut, func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat(line+"\n", 1000))
			return err
		}))
		require.NoError(t, os.WriteFile(cut, file.Bytes()[:file.Len()-12], 0o644))
		mquine(t, append(args, cut)...).requireSentence(t, exitFailed,
			"cannot read any further (unexpected EOF): the file may be damaged or truncated")
		o := mquineReading(t, string(must1(os.ReadFile(path))), append(args, "-")...)
		o.requireSentence(t, exitFailed, "standard input is compressed with ")
		assert.Contains(t, o.stderr, ": decompress it first")
		require.NoError(t, os.Rename(path, w.path("unnamed.tsv")))
		mquine(t, append(args, w.path("unnamed.tsv"))...).requireSentence(t, exitFailed, "is compressed with ")
		require.NoError(t, os.WriteFile(w.path("plain.gz"), []byte(line), 0o644))
		mquine(t, append(args, w.path("plain.gz"))...).requireSentence(t, exitFailed, "it is not a gzip file")
	}
}

func TestSizes(t *testing.T) {
	assert.Equal(t, "1 entity, 1 relation", sizes(1, 1))
	assert.Equal(t, "1,000 entities, 2 relations", sizes(1000, 2))
}
