// Package text shows untrusted text safely: labels, names, metadata and messages from data sets,
// checkpoints, folders and servers. Unescaped, such text can move the cursor, write to the
// clipboard, reverse the reading order, hide part of itself, break a table row, or become a link.
//
// Escape replaces dangerous characters with Go escapes and leaves everything else alone, so labels
// in any script stay readable. Escape is idempotent. The package has one function or type for each
// destination: Escape for a line, Table, Markdown and JSON for documents, and Writer for streams.
// CSV and tab-separated output is exact, because programs read it and compare labels. A spreadsheet
// must therefore import such columns as text. The writer that Exact returns escapes such output
// only on a terminal.
//
// The package also formats counts (Comma, Count, Plural), names enumeration values (Name) and finds
// the words nearest to a misspelt name (Nearest, Similar).
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns s for display within a line. It escapes
//
//   - control characters, including line feeds and tabs: \n, \t, \r, \x1b, \u009b
//   - invalid UTF-8, byte by byte: \xff
//   - line and paragraph separators, and directional marks, overrides and isolates: \u2028, \u202e
//   - other invisible characters, such as zero-width spaces, soft hyphens, fillers and tags:
//     \u200b, \U000e0041
//
// Persian, Indic scripts and emoji need joiners (U+200C, U+200D) and variation selectors. Escape
// keeps a single joiner or selector after a visible character outside ASCII, and a joiner after
// U+FE0F. It does not escape backslashes.
func Escape(s string) string {
	shown, _ := appendEscaped(nil, s, 0, "", goEscape)
	if shown == nil {
		return s
	}
	return string(shown)
}

// appendEscaped appends s to b. It calls escape to append a hidden character, except for the
// control characters in keep. previous is the character before s, or 0 at the start of the text.
// appendEscaped also returns the last character of s, for the next call. If b is nil and nothing
// needs escaping, it returns a nil slice.
func appendEscaped(
	b []byte, s string, previous rune, keep string, escape func(b []byte, r rune) []byte,
) ([]byte, rune) {
	done := 0 // b already holds s[:done]
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

// hidden reports whether r is a control character, or is invisible after the character previous.
func hidden(r, previous rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' || r == '\x7f'
	case r == zeroWidthNonJoiner || r == zeroWidthJoiner:
		return !seen(previous) && previous != emojiSelector
	case unicode.Is(unicode.Variation_Selector, r):
		return !seen(previous)
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // visible format characters, such as U+06DD
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// seen reports whether a joiner or a variation selector may follow r.
func seen(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) &&
		!unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// goEscape appends the escape that represents r in a Go string literal.
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

// Markdown returns s for a line or a table cell in Markdown. It escapes more than Escape, so s
// cannot become HTML, an entity, a link, code, mathematics or emphasis, and cannot end the cell. An
// https:// address can still become a link to itself.
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
			b.WriteByte(c) // an underscore within a word does not start emphasis
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
