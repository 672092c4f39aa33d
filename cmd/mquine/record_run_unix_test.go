//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder runs scripts/record-run in a new repository, whose bin/mquine is this test.
type recorder struct {
	dir, python, data string
}

func newRecorder(t *testing.T) recorder {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	r := recorder{t.TempDir(), python, filepath.Dir(smallFamilies(t))}
	for link, to := range map[string]string{
		"scripts/record-run": must1(filepath.Abs("../../scripts/record-run")),
		"bin/mquine":         must1(os.Executable()),
	} {
		require.NoError(t, os.Mkdir(filepath.Dir(r.path(link)), 0o755))
		require.NoError(t, os.Symlink(to, r.path(link)))
	}
	r.git(t, "init", "--quiet")
	return r
}

func (r recorder) path(name string) string { return filepath.Join(r.dir, name) }

func (r recorder) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// commit makes a commit, and returns it as records show it.
func (r recorder) commit(t *testing.T) string {
	t.Helper()
	r.git(t, "commit", "--quiet", "--allow-empty", "--message", "x")
	return r.git(t, "rev-parse", "--short=12", "HEAD")
}

// run runs the script for the run named run, with options of train.
func (r recorder) run(t *testing.T, options ...string) outcome {
	t.Helper()
	return r.script(t, append([]string{"families", "run", "small"}, options...)...)
}

// command returns the script as a command.
func (r recorder) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.python, append([]string{r.path("scripts/record-run")}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), asCommand+"=1", "MQUINE_DATA="+r.data)
	return cmd
}

// script runs the script.
func (r recorder) script(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := r.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the status tells
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

type runRecord struct {
	Options, Date, Commit string
	Epochs                int
}

// record runs the script, and returns the record that it prints.
func (r recorder) record(t *testing.T, options ...string) (got runRecord, stderr string) {
	t.Helper()
	o := r.run(t, options...)
	require.Zero(t, o.status, o.stderr)
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &got), o.stdout)
	return got, o.stderr
}

// SIGTERM to the script also ends the training.
func TestRecordRunEndsWithItsTraining(t *testing.T) {
	r := newRecorder(t)
	r.commit(t)
	cmd := r.command("families", "run", "small", "--dim", "4", "--batch", "256", "--epochs", "1000000")
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, 10*time.Second
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(r.path("runs/families/run/log.jsonl"))
		return err == nil
	}, 5*time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // the status tells
	assert.Equal(t, 143, cmd.ProcessState.ExitCode(), stderr.String())
	assert.Contains(t, stderr.String(), "mquine train: interrupted; to continue: ")
}

// A record states the options, the commit and the date of the training. A later call of the script
// does not change them.
func TestRecordRun(t *testing.T) {
	r := newRecorder(t)
	before := r.commit(t)
	small := []string{"--dim", "4", "--batch", "256", "--valid-every", "1", "--dropout", "0"}
	two := append([]string{"--epochs", "2"}, small...)
	first, stderr := r.record(t, two...)
	assert.Equal(t, runRecord{strings.Join(two, " "), first.Date, before, 2}, first)
	assert.Empty(t, stderr)

	// As if the training had been on an earlier day.
	start := must1(os.ReadFile(r.path("runs/families/run.json")))
	start = bytes.Replace(start, []byte(first.Date), []byte("2020-02-29"), 1)
	require.NoError(t, os.WriteFile(r.path("runs/families/run.json"), start, 0o644))
	after := r.commit(t)
	again, _ := r.record(t, two...)
	assert.Equal(t, runRecord{first.Options, "2020-02-29", before, 2}, again)

	for _, other := range [][]string{append(two, "--seed", "7"), small, two[:len(two)-2]} {
		o := r.run(t, other...)
		assert.Equal(t, 1, o.status)
		assert.Empty(t, o.stdout)
		assert.Regexp(t, `^record-run: runs/families/run was trained with the options "--epochs 2 --dim 4 .*", not with `+
			`".*": give the same options, or another NAME for a new run\n$`, o.stderr)
	}

	// The number of epochs may grow, but train refuses a smaller one.
	three := append([]string{"--epochs=3"}, small...)
	more, _ := r.record(t, three...)
	assert.Equal(t, runRecord{strings.Join(three, " "), "2020-02-29", before, 3}, more)
	assert.Contains(t, string(must1(os.ReadFile(r.path("runs/families/run.json")))), `"--epochs=3"`)
	o := r.run(t, two...)
	assert.Equal(t, 1, o.status)
	assert.Regexp(t, `^mquine train: .* already has 3 epochs: set epochs \(--epochs\) to a larger number\n$`, o.stderr)

	// Runs without the file are older than this check.
	require.NoError(t, os.Remove(r.path("runs/families/run.json")))
	old, stderr := r.record(t, append(three, "--seed", "7")...)
	assert.Equal(t, after, old.Commit)
	assert.NotEqual(t, "2020-02-29", old.Date)
	assert.Regexp(t, `^record-run: runs/families/run\.json is missing, so the options are not compared, .*\n$`, stderr)
}

// The commit of a record is the one that mquine was built from. If the build does not know it, it is
// the commit of the working tree. Changes have a mark in both cases.
func TestRecordRunCommit(t *testing.T) {
	r := newRecorder(t)
	require.NoError(t, os.WriteFile(r.path("code"), nil, 0o644))
	r.git(t, "add", "code")
	commit := r.commit(t)
	require.NoError(t, os.WriteFile(r.path("code"), []byte("changed"), 0o644))
	options := []string{"small", "--dim", "4", "--batch", "256", "--epochs", "1"}
	record := func(name string) (got runRecord) {
		t.Helper()
		o := r.script(t, append([]string{"families", name}, options...)...)
		require.Zero(t, o.status, o.stderr)
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &got), o.stdout)
		return got
	}
	assert.Equal(t, commit+"+changes", record("tree").Commit)

	real := must1(os.Executable())
	require.NoError(t, os.Remove(r.path("bin/mquine")))
	for revision, want := range map[string]string{
		strings.Repeat("0123456789", 4):         "012345678901",
		strings.Repeat("abc0", 10) + "+changes": "abc0abc0abc0+changes",
	} {
		program := "#!/bin/sh\nif [ \"$1\" = version ]; then echo 'mquine (devel) " + revision +
			", go1.26, linux/amd64'; else exec '" + real + "' \"$@\"; fi\n"
		require.NoError(t, os.WriteFile(r.path("bin/mquine"), []byte(program), 0o755))
		assert.Equal(t, want, record("built-"+want[:4]).Commit)
	}

	t.Setenv("THREADS", "x")
	o := r.run(t, options[1:]...)
	assert.Equal(t, 1, o.status)
	assert.Equal(t, "record-run: THREADS is 'x': give a number of threads from 1 up\n", o.stderr)
}

// The script continues a run that was stopped before its first epoch, and says so if a folder is not
// a run.
func TestRecordRunFolder(t *testing.T) {
	r := newRecorder(t)
	r.commit(t)
	small := []string{"--dim", "4", "--batch", "256", "--valid-every", "1", "--dropout", "0", "--epochs", "1"}
	_, _ = r.record(t, small...)
	for _, name := range []string{"state.safetensors", "log.jsonl", "last", "best"} {
		require.NoError(t, os.RemoveAll(r.path("runs/families/run/"+name)))
	}
	got, _ := r.record(t, small...)
	assert.Equal(t, 1, got.Epochs)

	require.NoError(t, os.Remove(r.path("runs/families/run/config.yaml")))
	o := r.run(t, small...)
	assert.Equal(t, 1, o.status)
	assert.Regexp(t, `^record-run: runs/families/run is not the folder of a run`, o.stderr)
}

// If the test split is too small for an interval, the record has none.
func TestRecordRunWithoutInterval(t *testing.T) {
	r := newRecorder(t)
	r.commit(t)
	test := filepath.Join(r.data, "families", "test.txt")
	triples := must1(os.ReadFile(test))
	require.NoError(t, os.WriteFile(test, triples[:bytes.IndexByte(triples, '\n')+1], 0o644))
	small := []string{"--dim", "4", "--batch", "256", "--valid-every", "1", "--dropout", "0", "--epochs", "1"}
	for _, args := range [][]string{
		{"families", "a", "small"}, {"--less", "a", "families", "b", "small", "--seed", "2"},
	} {
		o := r.script(t, append(args, small...)...)
		require.Zero(t, o.status, o.stderr)
		var record struct {
			MRR    map[string]float64
			CI     json.RawMessage
			Paired []map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &record))
		assert.NotZero(t, record.MRR["both/all"])
		assert.Equal(t, "null", string(record.CI))
		if args[0] == "--less" {
			require.Len(t, record.Paired, 1)
			for _, key := range []string{"low", "high"} {
				assert.Contains(t, record.Paired[0], key)
				assert.Nil(t, record.Paired[0][key])
			}
		}
	}
}
