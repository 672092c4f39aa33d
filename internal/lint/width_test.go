package lint

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	codeColumns  = 120
	proseColumns = 100
	tabColumns   = 4
)

// columns returns the width of a line on screen.
func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// rawString matches a long raw string on one line, such as a JSON document, which cannot be wrapped.
var rawString = regexp.MustCompile("`[^`]{60,}`")

// Handwritten lines of Go, C++ and CUDA C++ have at most 120 columns.
func TestCodeLinesAreShort(t *testing.T) {
	var found failures
	for _, f := range sources(t, ".go", ".cu", ".cuh", ".cc", ".h") {
		if f.generated() {
			continue
		}
		for i, line := range f.lines() {
			if n := columns(line); n > codeColumns && !rawString.MatchString(line) {
				found.add(f.name, i+1, "%d columns, but the limit is %d", n, codeColumns)
			}
		}
	}
	found.report(t)
}

// Lines of Markdown prose have at most 100 columns. Tables, code blocks and lines without a space
// at which they could be broken may be longer.
func TestProseLinesAreShort(t *testing.T) {
	var found failures
	for _, f := range sources(t, ".md") {
		if f.generated() {
			continue
		}
		for _, line := range prose(f) {
			n := columns(line.text)
			if n <= proseColumns || strings.HasPrefix(strings.TrimSpace(line.text), "|") {
				continue
			}
			if words := strings.TrimLeft(line.text, " -*>0123456789."); strings.Contains(words, " ") {
				found.add(f.name, line.number, "%d columns, but the limit is %d", n, proseColumns)
			}
		}
	}
	found.report(t)
}

// line is a line of a file with its number, from 1.
type line struct {
	number int
	text   string
}

// prose returns the lines of a Markdown file outside fenced code blocks.
func prose(f file) []line {
	var kept []line
	fence := ""
	for i, text := range f.lines() {
		start := strings.TrimSpace(text)
		if fence != "" {
			if strings.HasPrefix(start, fence) {
				fence = ""
			}
			continue
		}
		if strings.HasPrefix(start, "```") || strings.HasPrefix(start, "~~~") {
			fence = start[:3]
			continue
		}
		kept = append(kept, line{i + 1, text})
	}
	return kept
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "ab": 2, "\tψ := φ": 10, "a\tb": 6} {
		if got := columns(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
}
