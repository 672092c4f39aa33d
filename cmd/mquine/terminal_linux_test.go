package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

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

// A progress bar uses control characters, but its text is escaped.
func TestProgressBarOnTerminal(t *testing.T) {
	reader, terminal := openTerminal(t)
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
}
