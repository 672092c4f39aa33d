package text

import (
	"io"
	"os"
	"strings"
)

// Style is the appearance of text on a terminal, as the escape sequence that switches it on.
type Style string

// The styles. They use the terminal's own palette, which suits its background.
const (
	Bold   Style = "\x1b[1m"
	Red    Style = "\x1b[31m"
	Green  Style = "\x1b[32m"
	Yellow Style = "\x1b[33m"
)

// endStyle switches all styles off.
const endStyle = "\x1b[0m"

// Of returns s in this style if w shows styles, and s otherwise. Escape s first: a Writer lets the
// escape sequences of a style through, and Escape does not.
func (style Style) Of(w io.Writer, s string) string {
	if !styled(w) {
		return s
	}
	return string(style) + s + endStyle
}

// styled reports whether text on w may have a style: w leads to a terminal that can show it, and
// the environment variable NO_COLOR (https://no-color.org) is empty.
func styled(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && OnCapableTerminal(w) }

// OnCapableTerminal reports whether w writes to a terminal that understands escape sequences.
func OnCapableTerminal(w io.Writer) bool { return os.Getenv("TERM") != "dumb" && OnTerminal(w) }

// cutStyle returns the sequence of a style at the start of s, or "".
func cutStyle(s string) string {
	for _, sequence := range [...]string{string(Bold), string(Red), string(Green), string(Yellow), endStyle} {
		if strings.HasPrefix(s, sequence) {
			return sequence
		}
	}
	return ""
}
