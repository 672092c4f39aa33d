//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mquine/mquine/kg"
)

// A named pipe without a writer replaces each file that a command reads, in turn. The command can
// be interrupted while it waits for the pipe; otherwise this test would not end.
func TestInterruptAtANamedPipe(t *testing.T) {
	w := newWorkplace(t)
	pipe := w.path("pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	replace := func(dir, name string) string {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink(pipe, filepath.Join(dir, name)))
		return dir
	}
	data := replace(copyFolder(t, w.data, without("valid.txt")), "valid.txt")
	trained, search, space := w.path("run"), w.path("search"), w.path("space.yaml")
	succeed(t, "train", "--data", w.data, "--dim", "4", "--epochs", "1", "--out", trained)
	require.NoError(t, os.WriteFile(space, []byte("dim: 4\nepochs: 1\nlearning_rate: {min: 0.001, max: 0.01}\n"),
		0o644))
	succeed(t, "tune", "--data", w.data, "--space", space, "--trials", "1", "--out", search)
	for name, args := range map[string][]string{
		"eval":            {"eval", w.model, "--data", data},
		"compare":         {"compare", w.model, w.model, "--data", data},
		"predict data":    {"predict", w.model, "--data", data, "--in", "-"},
		"predict queries": {"predict", w.model, "--data", w.data, "--in", pipe},
		"init":            {"init", "--model", "mquine", "--dim", "4", "--data", data, "--out", w.path("out")},
		"data info":       {"data", "info", data},
		"data import":     {"data", "import", data, "--name", "mine"},
		"data get": {"data", "get", "nations", "--from",
			replace(copyFolder(t, w.data, without("train.txt")), "train.txt")},
		"train data":    {"train", "--data", data, "--out", w.path("out")},
		"train config":  {"train", "--data", w.data, "--config", pipe, "--out", w.path("out")},
		"train print":   {"train", "--config", pipe, "--print-config"},
		"train resume":  {"train", "--resume", replace(trained, "config.yaml")},
		"tune space":    {"tune", "--data", w.data, "--space", pipe, "--trials", "1", "--out", w.path("out")},
		"tune resume":   {"tune", "--resume", replace(search, "trials.jsonl")},
		"z stats":       {"z", "stats", "--data", data},
		"bench compare": {"bench", "compare", pipe, pipe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MQUINE_DATA", t.TempDir())
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			var stdout, stderr bytes.Buffer
			status := execute(ctx, time.Now(), args, strings.NewReader(""), &stdout, &stderr)
			assert.Equal(t, exitInterrupted, status, "%s", stderr.String())
			assert.Regexp(t, ": interrupted(; to continue: mquine (train|tune) --resume .*)?\n$", stderr.String())
			assert.NoFileExists(t, w.path("out"))
		})
	}
}

// A signal also ends commands that wait for the reader of their output: of a named pipe that nothing opens, and of
// standard output.
func TestInterruptedOutput(t *testing.T) {
	w := newWorkplace(t)
	pipe := w.path("pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	full := func(t *testing.T) *os.File {
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = errors.Join(reader.Close(), writer.Close()) })
		require.NoError(t, writer.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		_, err = writer.Write(make([]byte, 1<<20))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, writer.SetWriteDeadline(time.Time{}))
		return writer
	}
	for name, args := range map[string][]string{
		"eval":     {"eval", w.model, "--data", w.data, "--ranks", pipe},
		"json":     {"eval", w.model, "--data", w.data, "--json", pipe},
		"discover": {"discover", w.model, "--data", w.data, "-k", "2", "--out", pipe},
		"stdout":   {"eval", w.model, "--data", w.data},
		"list":     {"bench", "list"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			var stdout io.Writer = io.Discard
			if !slices.Contains(args, pipe) {
				stdout = full(t)
			}
			var stderr bytes.Buffer
			status := execute(ctx, time.Now(), args, strings.NewReader(""), stdout, &stderr)
			assert.Equal(t, exitInterrupted, status, "%s", stderr.String())
			assert.Regexp(t, ": interrupted\n$", stderr.String())
		})
	}
}

// An error in a checkpoint ends the reading of the data set, and the reverse. A named pipe without a
// writer replaces a file of the other; otherwise this test would not end.
func TestFirstErrorEndsReading(t *testing.T) {
	w := newWorkplace(t)
	pipe := w.path("pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	waiting := func(dir, name string) string {
		dir = copyFolder(t, dir, without(name))
		require.NoError(t, os.Symlink(pipe, filepath.Join(dir, name)))
		return dir
	}
	none, data := w.path("none"), waiting(w.data, "valid.txt")
	for _, args := range [][]string{
		{"eval", none},
		{"eval", w.model, none, "--ensemble", "fit"},
		{"score", none, "--in", "-"},
		{"compare", none, w.model},
		{"compare", w.model, none},
	} {
		mquine(t, append(args, "--data", data)...).requireSentence(t, exitFailed,
			"there is no checkpoint "+none+": no such file or folder")
	}
	run := w.path("run")
	require.NoError(t, os.Mkdir(run, 0o755))
	require.NoError(t, os.Symlink(pipe, filepath.Join(run, "config.yaml")))
	broken := errors.New("broken")
	_, err := inputs{checkpoint: run}.openFirst(t.Context(), io.Discard, func(context.Context) (*kg.Graph, error) {
		return nil, broken
	})
	require.Equal(t, broken, err)
	// Without waiting, the error of the checkpoint comes first.
	mquine(t, "eval", none, "--data", none).requireSentence(t, exitFailed, "there is no checkpoint "+none)
}

// compare reads the data set once, also for checkpoints that number its entities in other orders. A
// named pipe, which can be read only once, replaces the train split.
func TestCompareReadsDataOnce(t *testing.T) {
	w := newWorkplace(t)
	turned := copyFolder(t, w.data, replacing("train.txt", func(train []byte) []byte {
		lines := slices.Collect(bytes.Lines(train))
		slices.Reverse(lines)
		return bytes.Join(lines, nil)
	}))
	require.NoError(t, os.Remove(filepath.Join(turned, "entities.tsv")))
	other, third := w.path("other"), w.path("third")
	for out, data := range map[string]string{other: turned, third: w.data} {
		succeed(t, "init", "--model", "mquade", "--dim", "6", "--data", data, "--out", out)
	}
	entities := func(model string) string { return string(must1(os.ReadFile(filepath.Join(model, "entities.tsv")))) }
	require.NotEqual(t, entities(w.model), entities(other))
	require.Equal(t, entities(w.model), entities(third))
	models := []string{w.model, third, other, third}
	var want []float64
	for _, model := range models {
		sum := 0.
		ranks := ranksOf(t, w, model)
		for _, r := range ranks {
			sum += 1 / r
		}
		want = append(want, sum/float64(len(ranks)))
	}
	require.NotEqual(t, want[1], want[2])

	pipe, train := filepath.Join(turned, "pipe"), filepath.Join(turned, "train.txt")
	triples := must1(os.ReadFile(train))
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	require.NoError(t, os.Remove(train))
	require.NoError(t, os.Rename(pipe, train))
	written := make(chan error)
	go func() { written <- os.WriteFile(train, triples, 0) }()
	o := succeed(t, append([]string{"compare", "--data", turned, "--by", "degree", "--json", "-"}, models...)...)
	require.NoError(t, <-written)
	var r compareJSON
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
	for i, checkpoint := range r.Checkpoints {
		assert.InDelta(t, want[i], *checkpoint.Results[2].MRR, 1e-12)
	}
	assert.Len(t, r.Checkpoints, len(models))
}

// train reads the data set once to begin a run, and once to extend it. A named pipe, which can be read only
// once, replaces the train split.
func TestTrainReadsDataOnce(t *testing.T) {
	w := newWorkplace(t)
	data, run := copyFolder(t, w.data, without("train.txt")), w.path("run")
	pipe, triples := filepath.Join(data, "train.txt"), must1(os.ReadFile(filepath.Join(w.data, "train.txt")))
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	for _, args := range [][]string{
		{"train", "--data", data, "--dim", "4", "--epochs", "1", "--out", run},
		{"train", "--resume", run, "--epochs", "2"},
	} {
		written := make(chan error)
		go func() { written <- os.WriteFile(pipe, triples, 0) }()
		assert.Contains(t, succeed(t, args...).stdout, "done; best epoch")
		require.NoError(t, <-written)
	}
}

// A list of candidates that restricts both sides may be a pipe, which can be read only once.
func TestCandidatesFromAPipe(t *testing.T) {
	w := newWorkplace(t)
	pipe := w.path("pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	labels := strings.Join(g.Entities.Labels(), "\n") + "\n"
	written := make(chan error)
	go func() { written <- os.WriteFile(pipe, []byte(labels), 0) }()
	eval := []string{"eval", w.model, "--data", w.data, "--format", "csv"}
	o := succeed(t, append(eval, "--candidates", pipe)...)
	require.NoError(t, <-written)
	file := w.path("list.txt")
	require.NoError(t, os.WriteFile(file, []byte(labels), 0o644))
	want := succeed(t, append(eval, "--candidates", file)...)
	assert.Equal(t, strings.ReplaceAll(want.stdout, file, pipe), o.stdout)
}
