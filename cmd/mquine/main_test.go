package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asCommand is the name of the environment variable that makes the test binary run as the command.
const asCommand = "MQUINE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	status := m.Run()
	first.remove()
	os.Exit(status)
}

// command returns the command for a separate process, not yet started. The end of the test validates
// the JSON files that the command wrote, as far as they still exist.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	if len(args) > 0 {
		t.Cleanup(func() { checkJSONFiles(t, args, false) })
	}
	return cmd
}

// outcome is the exit status and the output of a command.
type outcome struct {
	status         int
	stdout, stderr string
}

// mquine runs the command in the test's process, and validates the JSON that it writes.
func mquine(t *testing.T, args ...string) outcome { return mquineReading(t, "", args...) }

func mquineReading(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := executeTested(t.Context(), t, args, strings.NewReader(stdin), &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

// executeTested is like execute, and validates the JSON that the command writes.
func executeTested(
	ctx context.Context, t *testing.T, args []string, stdin io.Reader, stdout, stderr io.Writer,
) int {
	t.Helper()
	status := execute(ctx, time.Now(), args, stdin, stdout, stderr)
	if text, ok := stdout.(*bytes.Buffer); ok {
		checkJSON(t, "standard output", text.Bytes(), status == exitOK)
	}
	checkJSONFiles(t, args, status == exitOK)
	return status
}

// succeed runs the command and returns what it printed.
func succeed(t *testing.T, args ...string) outcome {
	t.Helper()
	o := mquine(t, args...)
	require.Zero(t, o.status, o.stderr)
	return o
}

// requireSentence checks that the command failed with the given status and with one error line that
// contains the text.
func (o outcome) requireSentence(t *testing.T, status int, text string) {
	t.Helper()
	require.Equal(t, status, o.status, o.stderr)
	lines := strings.Split(strings.TrimSuffix(o.stderr, "\n"), "\n")
	last := lines[len(lines)-1]
	require.Contains(t, last, text)
	require.True(t, strings.HasPrefix(last, "mquine"), last)
	for _, line := range lines[:len(lines)-1] {
		require.NotContains(t, line, "goroutine")
		require.False(t, strings.HasPrefix(line, "mquine"), "a second error line: %s", line)
	}
}

// workplace is a folder with a small data set and checkpoints for it.
type workplace struct{ dir, data, model string }

// newWorkplace copies a graph of families, and a clustered checkpoint with some good ranks, to a
// temporary folder of the test.
func newWorkplace(t *testing.T) workplace {
	t.Helper()
	first.once.Do(first.create)
	require.NoError(t, first.err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(first.dir)))
	return workplaceIn(dir)
}

func workplaceIn(dir string) workplace {
	return workplace{dir, filepath.Join(dir, "families"), filepath.Join(dir, "checkpoint")}
}

// first is the workplace that newWorkplace copies. The tests create it once, because fitting the
// checkpoint takes seconds.
var first firstWorkplace

type firstWorkplace struct {
	once sync.Once
	dir  string
	err  error
}

func (f *firstWorkplace) create() {
	if f.dir, f.err = os.MkdirTemp("", "mquine-test-"); f.err != nil {
		return
	}
	w := workplaceIn(f.dir)
	for _, args := range [][]string{
		{"data", "make", "families", "--out", w.data, "--entities", "60", "--train", "300", "--valid", "20", "--test",
			"40"},
		{"init", "--model", "mquine", "--dim", "6", "--data", w.data, "--out", w.model, "--kind", "clustered"},
	} {
		var stderr bytes.Buffer
		if execute(context.Background(), time.Now(), args, strings.NewReader(""), io.Discard, &stderr) != exitOK {
			f.err = errors.New(stderr.String())
			return
		}
	}
}

func (f *firstWorkplace) remove() {
	if f.dir != "" {
		_ = os.RemoveAll(f.dir)
	}
}

// path returns a path within the workplace.
func (w workplace) path(name ...string) string {
	return filepath.Join(append([]string{w.dir}, name...)...)
}

// requireFiles checks the names of all files in a folder, including hidden ones.
func requireFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, names, got)
}

func TestInterruptBeforeWork(t *testing.T) {
	w := newWorkplace(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"eval", w.model, "--data", w.data, "--ranks", w.path("ranks.tsv"), "--json", w.path("report.json")},
		{"predict", w.model, "--data", w.data, "--in", "-"},
		{"score", w.model, "--in", "-"},
		{"init", "--model", "mquine", "--dim", "6", "--data", w.data, "--out", w.path("other"), "--kind", "clustered"},
		{"demo", "--keep", w.path("demo")},
		{"tune", "--data", w.data, "--space", spaceFile(t, smallSpace), "--budget", "1h", "--out", w.path("other")},
		{"init", "--model", "mquine", "--dim", "6", "--data", w.data, "--out", w.path("other")},
		{"info"},
		{"info", w.model},
	} {
		var stdout, stderr bytes.Buffer
		status := execute(ctx, time.Now(), args, strings.NewReader(""), &stdout, &stderr)
		assert.Equal(t, exitInterrupted, status, args)
		assert.Equal(t, "mquine "+args[0]+": interrupted\n", stderr.String())
		assert.Empty(t, stdout.String())
	}
	requireFiles(t, w.dir, "families", "checkpoint")
}

func TestVersion(t *testing.T) {
	o := succeed(t, "--version")
	assert.Equal(t, o, succeed(t, "version"))
	assert.Regexp(t, `^mquine .+, go1\.\d+.*, \w+/\w+\n$`, o.stdout)
	assert.Empty(t, o.stderr)
}

// The message about interrupted work also names another problem, such as a save that failed.
func TestInterruptedWithAnotherProblem(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	full := errors.New("cannot write part.tsv: the disk is full")
	for want, err := range map[string]error{
		"": fmt.Errorf("ranking: %w", ctx.Err()),
		": cannot write part.tsv: the disk is full": workError{resumableError{full, "mquine"}},
	} {
		assert.Equal(t, want, otherProblem(ctx, err))
	}
	both := workError{errors.Join(fmt.Errorf("ranking: %w", ctx.Err()), full)}
	assert.Equal(t, ": "+full.Error(), otherProblem(ctx, both))
	assert.Empty(t, otherProblem(ctx, nil))
}
