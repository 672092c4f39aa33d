// Package text shows text of unknown origin safely: labels, names, metadata and messages that come from data
// sets, checkpoints, folders and servers. Shown as it is, such text can move the cursor, write to the clipboard,
// reverse the reading order, hide part of itself, end a line of a table, or become a link.
//
// Escape writes what does that as an escape of Go and leaves everything else alone, so that labels in any script
// read as before. Escaping twice changes nothing more. The package has a function or type for each place that text
// goes to: Escape for one line, Table for tables, Markdown, JSON, and Writer for whole streams. CSV and
// tab-separated text are exact, because programs read them and compare labels: a spreadsheet must import such
// columns as text, and Exact escapes them on a terminal alone.
//
// It also has the words that all messages share: counts (Comma, Count, Plural) and the names of enumerations (Name).
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns s for display within a line. It escapes
//
//   - control characters, line feeds and tabs included: \n, \t, \r, \x1b, \u009b
//   - invalid UTF-8, byte by byte: \xff
//   - the separators of lines and paragraphs, and marks, overrides and isolates of the direction: \u2028, \u202e
//   - other characters that nobody sees: zero-width spaces, soft hyphens, fillers, tags: \u200b, \U000e0041
//
// Joiners (U+200C, U+200D) and variation selectors stay where Persian, the scripts of India and emoji have them:
// one at a time, after a character that is seen and is not ASCII, or a joiner after U+FE0F. A backslash stays one.
func Escape(s string) string {
	shown, _ := appendEscaped(nil, s, 0, "", goEscape)
	if shown == nil {
		return s
	}
	return string(shown)
}

// appendEscaped appends s to b with what is hidden as escape writes it, except for the control characters of keep.
// previous is the character before s, 0 at the start; the last one is returned. A nil b stays nil if nothing is
// escaped.
func appendEscaped(b []byte, s string, previous rune, keep string, escape func(b []byte, r rune) []byte) ([]byte, rune) {
	done := 0 // s[:done] is in b
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		invalid := r == utf8.RuneError && size == 1
		if !invalid && (!hidden(r, previous) || strings.ContainsRune(keep, r)) {
			previous = r
			i += size
			continue
		}
		b = append(b, s[done:i]...)
		if invalid {
			b = fmt.Appendf(b, `\x%02x`, s[i])
		} else {
			b = escape(b, r)
		}
		previous = 0
		i += size
		done = i
	}
	if done == 0 && b == nil {
		return nil, previous
	}
	return append(b, s[done:]...), previous
}

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
	emojiSelector      = '\ufe0f'
)

// hidden tells whether r after previous is a control character or cannot be seen.
func hidden(r, previous rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' || r == '\x7f'
	case r == zeroWidthNonJoiner || r == zeroWidthJoiner:
		return !seen(previous) && previous != emojiSelector
	case unicode.Is(unicode.Variation_Selector, r):
		return !seen(previous)
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // format characters with a shape, such as U+06DD
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// seen tells whether a joiner or a variation selector has its place after r.
func seen(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) &&
		!unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// goEscape appends r as a Go string literal has it.
func goEscape(b []byte, r rune) []byte {
	switch {
	case r == '\n':
		return append(b, `\n`...)
	case r == '\r':
		return append(b, `\r`...)
	case r == '\t':
		return append(b, `\t`...)
	case r < utf8.RuneSelf:
		return fmt.Appendf(b, `\x%02x`, r)
	case r <= 0xffff:
		return fmt.Appendf(b, `\u%04x`, r)
	}
	return fmt.Appendf(b, `\U%08x`, r)
}

// Markdown returns s for a line or a cell of a Markdown table: as Escape does, and so that it is not HTML, an
// entity, a link, code, mathematics, emphasis or the end of the cell. An address with https:// can still become a
// link to itself.
func Markdown(s string) string {
	s = Escape(s)
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '&':
			b.WriteString("&amp;")
		case c == '<':
			b.WriteString("&lt;")
		case c == '>':
			b.WriteString("&gt;")
		case c == '_' && i > 0 && i+1 < len(s) && isLetterOrDigit(s[i-1]) && isLetterOrDigit(s[i+1]):
			b.WriteByte(c) // no emphasis within a word
		case strings.IndexByte("\\`|[]*_~$#", c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isLetterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
