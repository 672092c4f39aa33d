package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	prettytext "github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mquine/mquine/internal/text"
)

// openTerminal opens a new terminal. It returns one end for the reader and one end for the command.
func openTerminal(t *testing.T) (reader, terminal *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system has no terminals to open: %v", err)
	}
	t.Cleanup(func() { reader.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(reader.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return reader, terminal
}

// showOnTerminal runs the command with a terminal as its standard output, and returns the text on
// the terminal.
func showOnTerminal(t *testing.T, args ...string) string {
	t.Helper()
	reader, terminal := openTerminal(t)
	var shown, stderr bytes.Buffer
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(&shown, reader) // when the terminal closes, Copy returns an error
		close(read)
	}()
	cmd := command(t, args...)
	cmd.Stdout, cmd.Stderr = terminal, &stderr
	err := cmd.Run()
	require.NoError(t, terminal.Close())
	<-read
	require.NoError(t, err, stderr.String())
	return strings.ReplaceAll(shown.String(), "\r\n", "\n")
}

// TestExactForProgramsOnTerminal checks that machine-readable output is escaped on a terminal.
func TestExactForProgramsOnTerminal(t *testing.T) {
	w := newHostileWorkplace(t)
	queries := w.path("queries.tsv")
	require.NoError(t, os.WriteFile(queries, []byte(w.head+"\t"+w.relation+"\t?\n"), 0o644))
	subject := []string{w.model, "--data", w.data}
	for _, args := range [][]string{
		append([]string{"predict", "--in", queries}, subject...),
		append([]string{"eval", "--ranks", "-"}, subject...),
		append([]string{"eval", "--json", "-"}, subject...),
		append([]string{"eval", "--ranks", "/dev/stdout"}, subject...),
		{"z", "stats", "--data", w.data, "--tsv", "-"},
		{"z", "stats", "--data", w.data, "--json", "-"},
		{"compare", w.model, w.other, "--data", w.data, "--by", "relation", "--format", "csv"},
		append([]string{"predict", "--head", w.head, "--relation", w.relation}, subject...),
	} {
		shown := showOnTerminal(t, args...)
		if args[0] == "compare" { // in CSV, a quoted line feed is part of a name
			shown = strings.ReplaceAll(shown, "\nINJECTED", "")
		}
		requireHarmless(t, shown)
		assert.Contains(t, shown, `\u202e\u2066\u200b`, args)
	}
}

// onTerminal runs the command with a terminal of the given width as its standard output and standard
// error. It returns the exit status and the text on the terminal.
func onTerminal(t *testing.T, columns int, environment []string, args ...string) (int, string) {
	t.Helper()
	reader, terminal := openTerminal(t)
	resize(t, terminal, columns)
	var shown bytes.Buffer
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(&shown, reader) // when the terminal closes, Copy returns an error
		close(read)
	}()
	cmd := command(t, args...)
	cmd.Env = append(append(cmd.Env, "TERM=xterm", "NO_COLOR="), environment...)
	cmd.Stdout, cmd.Stderr = terminal, terminal
	_ = cmd.Run() // the caller checks the status
	require.NoError(t, terminal.Close())
	<-read
	return cmd.ProcessState.ExitCode(), strings.ReplaceAll(shown.String(), "\r\n", "\n")
}

// Every note on a terminal is styled, also the notes about the checkpoint.
func TestNotesOnTerminal(t *testing.T) {
	w := newWorkplace(t)
	run := w.path("run")
	succeed(t, "train", "--data", w.data, "--dim", "4", "--epochs", "1", "--dropout", "0", "--out", run)
	status, shown := onTerminal(t, 200, nil, "eval", run, "--data", w.data, "--split", "train")
	require.Zero(t, status, shown)
	assert.Contains(t, shown, "\x1b[33mnote:\x1b[0m "+run+" is the folder of a training run")
	assert.NotRegexp(t, "(?m)^note:", shown)
}

func resize(t *testing.T, terminal *os.File, columns int) {
	t.Helper()
	require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: 24, Col: uint16(columns)}))
}

// A progress bar uses control characters, but its text is escaped.
func TestProgressBarOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	reader, terminal := openTerminal(t)
	resize(t, terminal, 200)
	m := newMeter(text.NewWriter(terminal))
	require.True(t, m.terminal)
	m.show(1, 2, 0, "a"+hostileLabel)
	m.clear()
	var shown bytes.Buffer
	require.NoError(t, terminal.Close())
	_, _ = io.Copy(&shown, reader)
	assert.Contains(t, shown.String(), "\r")
	assert.Contains(t, shown.String(), `a\x1b]52;c;cm0gLXJmIH4=\x07`)
	assert.NotContains(t, shown.String(), "\x1b]")
	assert.NotContains(t, shown.String(), "\u202e")

	t.Setenv("TERM", "dumb")
	_, terminal = openTerminal(t)
	assert.False(t, newMeter(terminal).terminal, "a dumb terminal gets no escape sequences")
}

// A bar stays on one line at any width, even if the width changes.
func TestProgressBarFits(t *testing.T) {
	t.Setenv("TERM", "xterm")
	reader, terminal := openTerminal(t)
	m := newMeter(text.NewWriter(terminal))
	widths := []int{40, 60, 80, 200, 60, 1, 40, 0}
	for i, columns := range widths {
		resize(t, terminal, columns)
		m.drawn = m.drawn.Add(-drawEvery)
		m.show(int64(i), int64(len(widths)), 0, "trial 12, epoch 2/3, 1h2m3s left, 東京 "+strings.Repeat("x", 200))
	}
	m.clear()
	var shown bytes.Buffer
	require.NoError(t, terminal.Close())
	_, _ = io.Copy(&shown, reader)
	assert.NotContains(t, shown.String(), "\n")
	lines := strings.Split(shown.String(), "\r")[1:]
	require.Len(t, lines, len(widths)+1)
	for i, columns := range widths {
		line, ok := strings.CutSuffix(lines[i], "\x1b[K")
		assert.True(t, ok)
		if columns == 0 { // unknown
			columns = helpWidth
		}
		width := prettytext.StringWidth(line)
		assert.LessOrEqual(t, width, max(columns-1, 1), line)
		assert.GreaterOrEqual(t, width, columns-2, "the text uses the whole width")
	}
	assert.Equal(t, "\x1b[K", lines[len(widths)])
}

// TestLinesFit checks that progress, notes and help fit a terminal of 80 columns.
func TestLinesFit(t *testing.T) {
	data := smallFamilies(t)
	t.Chdir(t.TempDir())
	space := spaceFile(t, smallSpace)
	require.NoError(t, os.Rename(space, "space.yaml"))
	require.NoError(t, os.Rename(data, "families"))
	for _, args := range []string{
		"--help", "eval --help", "train --help",
		"train --data ./families --out ./run --dim 8 --epochs 3 --batch 128",
		"train --data ./families --out ./other --dim 8 --epochs 12 --filter --z-samples 2 " +
			"--valid-metric hits@10/both/all",
		"tune --data ./families --space space.yaml --trials 4 --budget 1h --out ./search",
		"eval ./run --data ./families --verbose",
		"train --resume ./run --epochs 4",
	} {
		status, shown := onTerminal(t, helpWidth, nil, strings.Fields(args)...)
		require.Zero(t, status, shown)
		shown = regexp.MustCompile("\x1b\\[[0-9]*[mK]").ReplaceAllString(shown, "")
		shown, _, _ = strings.Cut(shown, "\nfilter  side ") // package metrics tests the tables
		for line := range strings.Lines(shown) {
			line = line[strings.LastIndex(line, "\r")+1:]
			if !strings.HasPrefix(line, "  mquine train --") && !strings.HasPrefix(line, "families test: ") {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), helpWidth, line)
			}
		}
	}
}

// Errors and notes have colours on a terminal, unless the environment forbids them.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		environment []string
		coloured    bool
	}{
		{nil, true}, {[]string{"NO_COLOR=1"}, false}, {[]string{"TERM=dumb"}, false},
	} {
		status, shown := onTerminal(t, helpWidth, c.environment, "eval", "--wrong")
		assert.Equal(t, exitUsage, status)
		want := "mquine eval: unknown flag --wrong (see mquine eval --help)\n"
		if c.coloured {
			want = strings.Replace(want, "mquine eval:", "\x1b[31mmquine eval:\x1b[0m", 1)
		}
		assert.Equal(t, want, shown)
		_, shown = onTerminal(t, helpWidth, c.environment, "train", "--print-config", "--average", "0.5")
		assert.Equal(t, c.coloured, strings.HasPrefix(shown, "\x1b[33mnote:\x1b[0m --average is now --ema\n"), shown)
	}
	assert.NotContains(t, mquine(t, "eval", "--wrong").stderr, "\x1b", "not on a terminal")
}
