package kg

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func parseNTriples(tb testing.TB, text string) ([][3]string, error) {
	tb.Helper()
	var triples [][3]string
	err := readNTriples(newLines(tb.Context(), "test.nt", strings.NewReader(text)), func(h, r, t []byte) error {
		triples = append(triples, [3]string{string(h), string(r), string(t)})
		return nil
	})
	return triples, err
}

func TestReadNTriplesMakesLabelsOfTerms(t *testing.T) {
	for line, want := range map[string][3]string{
		`<http://a/s> <http://a/p> <http://a/o> .`:             {"http://a/s", "http://a/p", "http://a/o"},
		`<urn:s><urn:p><urn:o>.`:                               {"urn:s", "urn:p", "urn:o"},
		"\t<urn:s>\t<urn:p> \t<urn:o> \t.\t# <urn:x> comment":  {"urn:s", "urn:p", "urn:o"},
		`<urn:s> <urn:p> <urn:o> .# comment`:                   {"urn:s", "urn:p", "urn:o"},
		"<urn:s> <urn:p> <urn:o> .\r":                          {"urn:s", "urn:p", "urn:o"},
		`<http://é/\u00E9\U0001F600#?%20> <urn:p> <urn:o> .`:   {"http://é/é😀#?%20", "urn:p", "urn:o"},
		`_:a <urn:p> _:b-1.c .`:                                {"_:a", "urn:p", "_:b-1.c"},
		`_:a<urn:p>_:b.`:                                       {"_:a", "urn:p", "_:b"},
		`_:0:_·é <urn:p> _:b .`:                                {"_:0:_·é", "urn:p", "_:b"},
		`<urn:s> <urn:p> "" .`:                                 {"urn:s", "urn:p", `""`},
		`<urn:s> <urn:p> "chat"@fr .`:                          {"urn:s", "urn:p", `"chat"@fr`},
		`<urn:s> <urn:p> "chat"@fr-BE-1694acad.`:               {"urn:s", "urn:p", `"chat"@fr-BE-1694acad`},
		`<urn:s> <urn:p> "2"^^<http://a/\u0069nt> .`:           {"urn:s", "urn:p", `"2"^^<http://a/int>`},
		`<urn:s> <urn:p> "é 漢"^^<` + xsdString + `> .`:         {"urn:s", "urn:p", `"é 漢"`},
		`<urn:s> <urn:p> "\u00e9\U00006F22" .`:                 {"urn:s", "urn:p", `"é漢"`},
		`<urn:s> <urn:p> "\t\b\n\r\f\"\'\\" .`:                 {"urn:s", "urn:p", `"\t\b\n\r\f\"'\\"`},
		"<urn:s> <urn:p> \"a\tb'c\" .":                         {"urn:s", "urn:p", `"a\tb'c"`},
		`<urn:s> <urn:p> "\u0000\u001b\u007F\u000A" .`:         {"urn:s", "urn:p", `"\u0000\u001B\u007F\n"`},
		`<urn:s> <urn:p> "not <urn:o> . # a \"comment\"" . #c`: {"urn:s", "urn:p", `"not <urn:o> . # a \"comment\""`},
	} {
		got, err := parseNTriples(t, line)
		require.NoError(t, err, line)
		assert.Equal(t, [][3]string{want}, got, line)
	}
	none, err := parseNTriples(t, "\n# comment\n  \t\n\r\n   # another")
	require.NoError(t, err)
	assert.Empty(t, none)
}

const xsdString = "http://www.w3.org/2001/XMLSchema#string"

func TestReadNTriplesRejectsMalformedStatements(t *testing.T) {
	const object = "an IRI, a blank node or a literal as the object is expected"
	for line, want := range map[string]string{
		`"a" <urn:p> <urn:o> .`:               `column 1: '"' where an IRI or a blank node as the subject is expected`,
		`<urn:s> _:p <urn:o> .`:               `column 9: '_' where an IRI as the predicate is expected`,
		`<urn:s> <urn:p> .`:                   "column 17: '.' where " + object,
		`<urn:s> <urn:p>`:                     "column 16: the line ends where " + object,
		`<urn:s> <urn:p> <urn:o>`:             "column 24: the line ends where a full stop",
		`<urn:s> <urn:p> <urn:o> <urn:g> .`:   `column 25: '<' where a full stop after the object is expected`,
		`<urn:s> <urn:p> <urn:o> . .`:         `column 27: '.' where the end of the line`,
		`<urn:s> <urn:p> 42 .`:                `column 17: '4' where`,
		`<urn:s`:                              `column 1: the IRI has no closing >`,
		`<s> <urn:p> <urn:o> .`:               `column 1: "s" is not an absolute IRI`,
		`<> <urn:p> <urn:o> .`:                `column 1: "" is not an absolute IRI`,
		`<_:s> <urn:p> <urn:o> .`:             `column 1: "_:s" is not an absolute IRI`,
		`<urn:a b> <urn:p> <urn:o> .`:         `column 7: an IRI must not contain ' '`,
		`<urn:a\u0020b> <urn:p> <urn:o> .`:    `column 7: an IRI must not contain ' '`,
		`<urn:a\u003Eb> <urn:p> <urn:o> .`:    `column 7: an IRI must not contain '>'`,
		"<urn:a\tb> <urn:p> <urn:o> .":        `column 7: an IRI must not contain '\t'`,
		"<urn:\x00> <urn:p> <urn:o> .":        `column 6: an IRI must not contain '\x00'`,
		`<urn:a\nb> <urn:p> <urn:o> .`:        `column 7: unknown escape sequence`,
		`<urn:\u00E> <urn:p> <urn:o> .`:       `column 6: "\\u00E>" is not a Unicode character`,
		`<urn:s> <urn:p> "a .`:                `column 17: the literal has no closing quotation mark`,
		`<urn:s> <urn:p> "a\" .`:              `column 17: the literal has no closing quotation mark`,
		`<urn:s> <urn:p> "\x" .`:              `column 18: unknown escape sequence`,
		`<urn:s> <urn:p> "\`:                  `column 18: unknown escape sequence`,
		`<urn:s> <urn:p> "\uD800" .`:          `column 18: "\\uD800" is not a Unicode character`,
		`<urn:s> <urn:p> "\U00110000" .`:      `column 18: "\\U00110000" is not a Unicode character`,
		`<urn:s> <urn:p> "\U0000" .`:          `column 18: unknown escape sequence`,
		`<urn:s> <urn:p> "\u+0a1" .`:          `column 18: "\\u+0a1" is not a Unicode character`,
		`<urn:s> <urn:p> "a"@ .`:              `column 21: ' ' where a language such as en or en-GB is expected`,
		`<urn:s> <urn:p> "a"@en- .`:           `column 23: '-' where a full stop`,
		`<urn:s> <urn:p> "a"@1 .`:             `column 21: '1' where a language`,
		`<urn:s> <urn:p> "a"^<urn:d> .`:       `column 20: '^' where a full stop`,
		`<urn:s> <urn:p> "a"^^"b" .`:          `column 22: '"' where the IRI of a datatype is expected`,
		`_a <urn:p> <urn:o> .`:                `column 1: '_' where a blank node such as _:a is expected`,
		`_: <urn:p> <urn:o> .`:                `column 1: a blank node without a name`,
		`_:.a <urn:p> <urn:o> .`:              `column 1: a blank node without a name`,
		`_:-a <urn:p> <urn:o> .`:              `column 1: a blank node without a name`,
		`<urn:s> <urn:p> _:b...`:              `column 21: '.' where the end of the line`,
		`<< <urn:s> <urn:p> <urn:o> >> <u:p>`: `column 2: an IRI must not contain '<'`,
		"<urn:s> <urn:p> <urn:o> .\r<urn:s>":  `column 26: '\r' where the end of the line`,
		"<urn:s> <urn:p> \"a\" . \xff":        `column 23: '�' where the end of the line`,
		"# a\r<urn:s> <urn:p> <urn:o> .":      `column 4: carriage return in a comment: end all lines with LF or CRLF`,
		"<urn:s> <urn:p> <urn:o> . # a\r_:b":  `column 30: carriage return in a comment`,
		`@prefix a: <urn:a> .`:                `column 1: '@' where an IRI or a blank node`,
	} {
		_, err := parseNTriples(t, "# first\n"+line)
		require.Error(t, err, line)
		assert.Contains(t, err.Error(), "test.nt:2: "+want, line)
	}
}

func TestOpenReadsNTriples(t *testing.T) {
	g, err := Open(t.Context(), writeFolder(t, map[string]string{
		"train.nt":    "# people\n<urn:anna> <urn:knows> _:b .\n",
		"valid.nt.gz": "_:b <urn:name> \"Bert\"@de .\n",
		"test.nt.zst": "<urn:\\u0061nna> <urn:name> \"Anna\"^^<" + xsdString + "> .\n",
	}))
	require.NoError(t, err)
	assert.Equal(t, []string{"urn:anna", "_:b", `"Bert"@de`, `"Anna"`}, g.Entities.Labels())
	assert.Equal(t, [NumSplits][]Triple{{{0, 0, 1}}, {{1, 1, 2}}, {{0, 1, 3}}}, g.Splits)

	dir := writeFolder(t, map[string]string{"train.nt": "<urn:s> <urn:p> <urn:\xff> .\n"})
	_, err = Open(t.Context(), dir)
	assert.ErrorContains(t, err, "train.nt:1: tail: label is not valid UTF-8")
}

// The label of a literal is a literal of N-Triples that gives the same label again, and the label
// determines the text.
func TestLiteralLabelsAreCanonical(t *testing.T) {
	character := rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\x00\t\n\r\"\\'\x7f\u0080é😀")))
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SliceOf(character).Draw(rt, "text")
		var statement strings.Builder
		statement.WriteString(`<urn:s> <urn:p> "`)
		for _, r := range text {
			switch form := rapid.IntRange(0, 2).Draw(rt, "form"); {
			case form == 0:
				fmt.Fprintf(&statement, `\U%08x`, r)
			case form == 1 && r <= 0xFFFF || strings.ContainsRune("\"\\\n\r", r):
				fmt.Fprintf(&statement, `\u%04X`, r)
			default:
				statement.WriteRune(r)
			}
		}
		statement.WriteString(`" .`)
		got, err := parseNTriples(t, statement.String())
		require.NoError(rt, err)
		label := got[0][2]
		require.NoError(rt, checkLabel(label))
		again, err := parseNTriples(t, "<urn:s> <urn:p> "+label+" .")
		require.NoError(rt, err)
		assert.Equal(rt, got, again)

		// JSON includes all the canonical escapes, so encoding/json is an independent reader of the
		// label.
		var back string
		require.NoError(rt, json.Unmarshal([]byte(label), &back))
		assert.Equal(rt, string(text), back)
	})
}

func FuzzReadNTriples(f *testing.F) {
	for _, seed := range []string{
		"<urn:s> <urn:p> <urn:o> .\n",
		"_:a <urn:p> \"x\\u00e9\\n\"@en-GB . # c\r\n\n",
		"<urn:s> <urn:p> \"1\"^^<urn:d> .",
		"_:a<urn:p>_:b.\n", "<urn:\\U0001F600> <urn:p> \"\\\\\" .", "# only\n", "<urn:s> <urn:p> \"\\",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table := newTripleTable(nil, nil, defaultLimits.triples)
		if err := readNTriples(newLines(t.Context(), "fuzz", bytes.NewReader(text)), table.add); err != nil {
			assert.Contains(t, err.Error(), "fuzz:")
			return
		}
		require.NoError(t, table.entities.Check())
		require.NoError(t, table.relations.Check())
		// With brackets around the IRIs, the labels are terms of N-Triples, and reading these terms
		// gives the same labels.
		term := func(label string) string {
			if strings.HasPrefix(label, `"`) || strings.HasPrefix(label, "_:") {
				return label
			}
			return "<" + label + ">"
		}
		var again strings.Builder
		for _, x := range table.triples {
			head, tail := term(table.entities.Label(x.Head)), term(table.entities.Label(x.Tail))
			fmt.Fprintf(&again, "%s <%s> %s .\n", head, table.relations.Label(x.Relation), tail)
		}
		second := newTripleTable(nil, nil, defaultLimits.triples)
		require.NoError(t, readNTriples(newLines(t.Context(), "again", strings.NewReader(again.String())), second.add))
		assert.Equal(t, table, second)
	})
}
