package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Tables with long labels fit terminals of several widths. Other outputs get complete labels.
func TestTablesOnTerminal(t *testing.T) {
	w := newWorkplace(t)
	data := copyFolder(t, w.data, func(_ string, contents []byte) []byte {
		return bytes.ReplaceAll(contents, []byte("\tlives_in"), []byte("\t/"+strings.Repeat("long/", 30)))
	})
	model, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, path := range []string{model, other} {
		succeed(t, "init", "--model", "distmult", "--dim", "4", "--data", data, "--out", path, "--kind", "random",
			"--seed", map[string]string{model: "1", other: "2"}[path])
	}
	compare := []string{"compare", model, other, "--data", data, "--by", "relation"}
	assert.Contains(t, succeed(t, compare...).stdout, strings.Repeat("long/", 30))
	for _, columns := range []int{80, 100, 200} {
		for _, environment := range []string{"NO_COLOR=", "NO_COLOR=1"} {
			shown := onWideTerminal(t, columns, environment, compare...)
			for line := range strings.Lines(shown) {
				line = strings.TrimSuffix(line, "\n")
				assert.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), columns, line)
			}
			assert.Contains(t, shown, "…")
			assert.Equal(t, environment == "NO_COLOR=", strings.Contains(shown, "\x1b[1m"), "best values are bold")
		}
	}

	// The number of hidden groups and the names of tie rules stay whole.
	for columns := 50; columns < 80; columns++ {
		shown := onWideTerminal(t, columns, "NO_COLOR=1", "eval", model, "--data", data, "--by", "relation",
			"--top", "3", "--filter", "all", "--all-ties", "--no-ci")
		for _, whole := range []string{"\n… 10 more\n", "optimistic", "pessimistic"} {
			assert.Contains(t, shown, whole, columns)
		}
	}
}

// Checksums, tensors and discovered triples fit 80 columns. Labels of tails are left-aligned.
func TestInfoAndDiscoverOnTerminal(t *testing.T) {
	w := newWorkplace(t)
	for _, args := range [][]string{{"info", w.model}, {"discover", w.model, "--data", w.data, "-k", "3", "-q"}} {
		shown := onWideTerminal(t, 80, "NO_COLOR=1", args...)
		for line := range strings.Lines(shown) {
			if !strings.Contains(line, w.dir) {
				line = strings.TrimSuffix(line, "\n")
				assert.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), 80, line)
			}
		}
		if args[0] == "info" {
			checksums := regexp.MustCompile(`(?m)^(\w+_)?sha256\s+"?[0-9a-f]{64}"?$`).FindAllString(shown, -1)
			assert.Len(t, checksums, 4, "of the file, the vocabularies and the parameters")
		}
	}
	lines := strings.Split(succeed(t, "discover", w.model, "--data", w.data, "-k", "3").stdout, "\n")
	tail := strings.Index(lines[0], "tail")
	require.Positive(t, tail, lines[0])
	for _, line := range lines[1:4] {
		assert.NotEqual(t, byte(' '), line[tail], line)
	}
}

// The table of a search fits the terminal, and a line names the options that it leaves out. Other
// outputs have all options.
func TestTuneOnTerminal(t *testing.T) {
	data := smallFamilies(t)
	t.Chdir(t.TempDir())
	space := spaceFile(t, "model: {choice: [complex, distmult]}\ndim: {choice: [4, 8]}\nepochs: 1\nvalid_every: 1\n"+
		"batch: {choice: [64, 128]}\nregulariser: {choice: [n3, none]}\ndropout: {min: 0, max: 0.5}\n"+
		"learning_rate: {min: 1e-3, max: 1e-1, scale: log}\nema: {choice: [0, 0.9]}\n")
	o := succeed(t, "tune", "--data", data, "--space", space, "--trials", "2", "--rungs", "1", "--out", "search", "-v")
	assert.Contains(t, o.stderr, "searching model, dim, batch, regulariser, dropout, learning_rate, ema on\n"+
		"families in search; rung at epoch 1\n")
	for line := range strings.Lines(o.stderr) {
		assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80, line)
	}
	const options = "  model  dim  batch  regulariser  dropout  learning_rate  ema"
	header, _, _ := strings.Cut(o.stdout, "\n")
	assert.Equal(t, options, regexp.MustCompile(" +").ReplaceAllString(header[strings.Index(header, "  model"):], "  "))
	assert.NotContains(t, o.stdout, "no room")

	resume := []string{"tune", "--resume", "search", "-q"}
	shown := onWideTerminal(t, 80, "NO_COLOR=1", resume...)
	for line := range strings.Lines(shown) {
		if !strings.Contains(line, data) {
			assert.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), 80+len("\n"), line)
		}
	}
	cut, _, _ := strings.Cut(shown, "\n")
	assert.True(t, strings.HasPrefix(header, cut), cut)
	assert.Contains(t, cut, "  batch")
	assert.Regexp(t, `\n\nThe table has no room for (dropout, )?learning_rate and ema: see search/trials\.jsonl, or\s`+
		`use\s--format\scsv\.\nBest trial: `, shown)
	assert.Equal(t, o.stdout, onWideTerminal(t, 200, "NO_COLOR=1", resume...))
	for _, format := range []string{"csv", "json", "markdown", "latex"} {
		formatted := onWideTerminal(t, 80, "NO_COLOR=1", append(resume, "--format", format)...)
		assert.Contains(t, formatted, "ema", format)
		assert.NotContains(t, formatted, "no room", format)
	}
}

// onWideTerminal runs the command with a terminal of the given width as its standard output.
func onWideTerminal(t *testing.T, columns int, environment string, args ...string) string {
	t.Helper()
	reader, terminal := openTerminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: 24, Col: uint16(columns)}))
	var shown bytes.Buffer
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(&shown, reader) // when the terminal closes, Copy returns an error
		close(read)
	}()
	cmd := command(t, args...)
	cmd.Env = append(cmd.Env, "TERM=xterm", environment)
	cmd.Stdout, cmd.Stderr = terminal, os.Stderr
	err := cmd.Run()
	require.NoError(t, terminal.Close())
	<-read
	require.NoError(t, err)
	return strings.ReplaceAll(shown.String(), "\r\n", "\n")
}
