package kg

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mquine/mquine/internal/compressed"
)

// isNTriples reports whether the name of a file says that it is an N-Triples document. As in the name
// of a compressed file, case does not matter.
func isNTriples(path string) bool {
	return strings.EqualFold(filepath.Ext(compressed.Trim(path)), ".nt")
}

// readNTriples calls the function add with the labels of each statement of an N-Triples document
// (W3C Recommendation of 25 February 2014). Equal terms have equal labels, however they are
// escaped, and different terms have different labels:
//
//   - the label of an IRI is the IRI without angle brackets and with its escapes resolved;
//   - the label of a blank node is _:name, and a name identifies the same node in all files of a
//     data set;
//   - the label of a literal is its canonical N-Triples form, "text", "text"@language or
//     "text"^^<datatype>, without the datatype xsd:string.
func readNTriples(l *lines, add func(head, relation, tail []byte) error) error {
	var p statementParser
	return l.each(l.next, func(line []byte) error {
		empty, err := p.parse(line)
		if err != nil {
			return fmt.Errorf("column %d: %w", p.at+1, err)
		}
		if empty {
			return nil
		}
		return add(p.subject, p.predicate, p.object)
	})
}

// statementParser parses one line of N-Triples at a time.
type statementParser struct {
	line []byte
	at   int // offset of the next byte or, after an error, of the error
	// These are the labels of the terms. The next line reuses their memory.
	subject, predicate, object []byte
}

// parse parses a line. It reports whether the line contains no statement.
func (p *statementParser) parse(line []byte) (empty bool, err error) {
	p.line, p.at = line, 0
	if p.atEnd() {
		return true, p.checkComment()
	}
	switch p.peek() {
	case '<':
		p.subject, err = p.iri(p.subject[:0])
	case '_':
		p.subject, err = p.blankNode(p.subject[:0])
	default:
		err = p.expected("an IRI or a blank node as the subject")
	}
	if err != nil {
		return false, err
	}

	p.skipSpace()
	if p.peek() != '<' {
		return false, p.expected("an IRI as the predicate")
	}
	if p.predicate, err = p.iri(p.predicate[:0]); err != nil {
		return false, err
	}

	p.skipSpace()
	switch p.peek() {
	case '<':
		p.object, err = p.iri(p.object[:0])
	case '_':
		p.object, err = p.blankNode(p.object[:0])
	case '"':
		p.object, err = p.literal(p.object[:0])
	default:
		err = p.expected("an IRI, a blank node or a literal as the object")
	}
	if err != nil {
		return false, err
	}

	p.skipSpace()
	if p.peek() != '.' {
		return false, p.expected("a full stop after the object")
	}
	p.at++
	if !p.atEnd() {
		return false, p.expected("the end of the line after the full stop")
	}
	return false, p.checkComment()
}

// peek returns the next byte, or 0 at the end of the line.
func (p *statementParser) peek() byte {
	if p.at < len(p.line) {
		return p.line[p.at]
	}
	return 0
}

func (p *statementParser) skipSpace() {
	for p.peek() == ' ' || p.peek() == '\t' {
		p.at++
	}
}

// atEnd skips space and reports whether nothing but a comment follows.
func (p *statementParser) atEnd() bool {
	p.skipSpace()
	return p.at == len(p.line) || p.line[p.at] == '#'
}

// checkComment returns an error if the comment that starts here, if any, contains a carriage return.
// In N-Triples, a carriage return alone ends the comment, so a statement may follow.
func (p *statementParser) checkComment() error {
	if i := bytes.IndexByte(p.line[p.at:], '\r'); i >= 0 {
		p.at += i
		return errors.New("carriage return in a comment: end all lines with LF or CRLF")
	}
	return nil
}

func (p *statementParser) expected(what string) error {
	if p.at >= len(p.line) {
		return fmt.Errorf("the line ends where %s is expected", what)
	}
	r, _ := utf8.DecodeRune(p.line[p.at:])
	return fmt.Errorf("%q where %s is expected", r, what)
}

// iri appends the IRI that starts here, without its angle brackets.
func (p *statementParser) iri(label []byte) ([]byte, error) {
	start := p.at
	p.at++
	from := len(label)
	for {
		here, r := p.at, rune(p.peek())
		switch {
		case here == len(p.line):
			p.at = start
			return label, errors.New("the IRI has no closing >")
		case r == '>':
			p.at++
			if !hasScheme(label[from:]) {
				p.at = start
				return label, fmt.Errorf("%.200q is not an absolute IRI", label[from:])
			}
			return label, nil
		case r == '\\':
			var err error
			if r, err = p.unicodeEscape(); err != nil {
				return label, err
			}
			label = utf8.AppendRune(label, r)
		default:
			label = append(label, byte(r))
			p.at++
		}
		if r <= ' ' || strings.ContainsRune("<>\"{}|^`\\", r) {
			p.at = here
			return label, fmt.Errorf("an IRI must not contain %q", r)
		}
	}
}

// hasScheme reports whether an IRI is absolute. The label of an absolute IRI differs from the label
// of any other term.
func hasScheme(iri []byte) bool {
	scheme, _, found := bytes.Cut(iri, []byte{':'})
	if !found || len(scheme) == 0 || !isLetter(scheme[0]) {
		return false
	}
	for _, c := range scheme {
		if !isLetter(c) && !isDigit(c) && c != '+' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// blankNode appends the blank node that starts here.
func (p *statementParser) blankNode(label []byte) ([]byte, error) {
	start := p.at
	end := start + len("_:")
	if !bytes.HasPrefix(p.line[start:], []byte("_:")) {
		return label, p.expected("a blank node such as _:a")
	}
	for i := end; i < len(p.line); {
		r, size := utf8.DecodeRune(p.line[i:])
		first := i == start+len("_:")
		if !unicode.Is(nameStart, r) && !isDigit(r) && (first || r != '.' && !unicode.Is(nameRest, r)) {
			break
		}
		i += size
		if r != '.' { // a final full stop ends the statement, not the name
			end = i
		}
	}
	if end == start+len("_:") {
		return label, errors.New("a blank node without a name")
	}
	p.at = end
	return append(label, p.line[start:end]...), nil
}

// nameStart is the production PN_CHARS_U. nameRest contains the other characters of PN_CHARS,
// except digits.
var (
	nameStart = &unicode.RangeTable{
		R16: []unicode.Range16{
			{':', ':', 1}, {'A', 'Z', 1}, {'_', '_', 1}, {'a', 'z', 1},
			{0xC0, 0xD6, 1}, {0xD8, 0xF6, 1}, {0xF8, 0x2FF, 1}, {0x370, 0x37D, 1}, {0x37F, 0x1FFF, 1},
			{0x200C, 0x200D, 1}, {0x2070, 0x218F, 1}, {0x2C00, 0x2FEF, 1}, {0x3001, 0xD7FF, 1},
			{0xF900, 0xFDCF, 1}, {0xFDF0, 0xFFFD, 1},
		},
		R32:         []unicode.Range32{{0x10000, 0xEFFFF, 1}},
		LatinOffset: 6,
	}
	nameRest = &unicode.RangeTable{
		R16:         []unicode.Range16{{'-', '-', 1}, {0xB7, 0xB7, 1}, {0x300, 0x36F, 1}, {0x203F, 0x2040, 1}},
		LatinOffset: 2,
	}
)

// literal appends the canonical form of the literal that starts here.
func (p *statementParser) literal(label []byte) ([]byte, error) {
	start := p.at
	p.at++
	label = append(label, '"')
	for p.peek() != '"' {
		if p.at == len(p.line) {
			p.at = start
			return label, errors.New("the literal has no closing quotation mark")
		}
		c := p.line[p.at]
		switch {
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return label, err
			}
			label = appendCanonical(label, r)
		case c < utf8.RuneSelf:
			label = appendCanonical(label, rune(c))
			p.at++
		default:
			label = append(label, c)
			p.at++
		}
	}
	p.at++
	label = append(label, '"')

	switch rest := p.line[p.at:]; {
	case bytes.HasPrefix(rest, []byte{'@'}):
		n := languageTag(rest[1:])
		if n == 0 {
			p.at++
			return label, p.expected("a language such as en or en-GB")
		}
		label = append(label, rest[:1+n]...)
		p.at += 1 + n
	case bytes.HasPrefix(rest, []byte("^^")):
		p.at += len("^^")
		if p.peek() != '<' {
			return label, p.expected("the IRI of a datatype")
		}
		plain := len(label)
		label = append(label, "^^<"...)
		var err error
		if label, err = p.iri(label); err != nil {
			return label, err
		}
		label = append(label, '>')
		if string(label[plain:]) == "^^<http://www.w3.org/2001/XMLSchema#string>" {
			label = label[:plain]
		}
	}
	return label, nil
}

// languageTag returns the length of the language tag at the start of s, or 0 if there is none. A
// tag starts with letters. Then come groups of letters and digits, each after a hyphen.
func languageTag(s []byte) int {
	n := 0
	for n < len(s) && isLetter(s[n]) {
		n++
	}
	for n > 0 && n+1 < len(s) && s[n] == '-' && (isLetter(s[n+1]) || isDigit(s[n+1])) {
		n++
		for n < len(s) && (isLetter(s[n]) || isDigit(s[n])) {
			n++
		}
	}
	return n
}

// escapeLetters lists the letters of the escapes in literals, and escapedRunes the characters that
// they mean. The canonical form escapes tabs, \b, \n, \r, \f, " and \, but not '.
const (
	escapeLetters = `tbnrf"\'`
	escapedRunes  = "\t\b\n\r\f\"\\'"
)

// escape reads the escape sequence of a literal that starts here.
func (p *statementParser) escape() (rune, error) {
	if p.at+1 < len(p.line) {
		if i := strings.IndexByte(escapeLetters, p.line[p.at+1]); i >= 0 {
			p.at += 2
			return rune(escapedRunes[i]), nil
		}
	}
	return p.unicodeEscape()
}

// unicodeEscape reads the escape sequence \uXXXX or \UXXXXXXXX that starts here.
func (p *statementParser) unicodeEscape() (rune, error) {
	digits := 0
	if p.at+1 < len(p.line) {
		switch p.line[p.at+1] {
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		}
	}
	end := p.at + 2 + digits
	if digits == 0 || end > len(p.line) {
		return 0, errors.New("unknown escape sequence")
	}
	code, err := strconv.ParseUint(string(p.line[p.at+2:end]), 16, 32)
	if err != nil || !utf8.ValidRune(rune(code)) {
		return 0, fmt.Errorf("%q is not a Unicode character", p.line[p.at:end])
	}
	p.at = end
	return rune(code), nil
}

// appendCanonical appends a character of a literal as canonical N-Triples writes it.
func appendCanonical(label []byte, r rune) []byte {
	if i := strings.IndexRune(escapedRunes[:len(escapedRunes)-1], r); i >= 0 {
		return append(label, '\\', escapeLetters[i])
	}
	if r < ' ' || r == 0x7F {
		return fmt.Appendf(label, `\u%04X`, r)
	}
	return utf8.AppendRune(label, r)
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit[T byte | rune](c T) bool { return '0' <= c && c <= '9' }
