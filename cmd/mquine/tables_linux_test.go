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
