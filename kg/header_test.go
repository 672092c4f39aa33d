package kg

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A note says that the columns of a header are in another order.
func TestHeaderNoteAboutOrder(t *testing.T) {
	const rest = "a\tb\tknows\nb\tc\tknows\n"
	for _, columns := range [][3]string{
		{"head", "tail", "relation"}, {"Subject", "Object", "Predicate"}, {"predicate", "subject", "object"},
		{"from", "to", "label"}, {":START_ID", ":END_ID", ":TYPE"},
		{"tail", "relation", "head"}, {"object", "predicate", "subject"},
	} {
		text := strings.Join(columns[:], "\t") + "\n" + rest
		g, err := OpenTriples(t.Context(), filepath.Join(writeFolder(t, map[string]string{"all.tsv": text}), "all.tsv"))
		require.NoError(t, err)
		assert.Equal(t, []string{fmt.Sprintf(`the first line may be a header, and its columns %q, %q, %q are in `+
			`another order: if so, remove it, and write each line as head, relation, tail`,
			columns[0], columns[1], columns[2])}, g.Notes)
	}
}

// A note says that the first line of a file may be a header. Headers are not removed: they may be
// triples.
func TestHeaderNote(t *testing.T) {
	const rest = "a\tknows\tb\nb\tknows\tc\n"
	for text, label := range map[string]string{
		"head\trelation\ttail\n" + rest:         "relation",
		"Subject\tPredicate\tObject\n" + rest:   "Predicate",
		"h\tR\tt\n" + rest:                      "R",
		"source\tedge\ttarget\n" + rest:         "edge",
		"s\tp\to\n" + rest:                      "p",
		"lhs\trel\trhs\n" + rest:                "rel",
		"item\tproperty\tvalue\n" + rest:        "property",
		rest + "head\trelation\ttail\n":         "", // not the first line
		"a\trelation\tb\n" + "b\trelation\tc\n": "", // an ordinary relation
		"a\tr\tb\n":                             "", // a single triple
		"head\trelates\ttail\n" + rest:          "",

		"source\ttype\ttarget\n" + rest:                    "type",
		"from\tlabel\tto\n" + rest:                         "label",
		"head_id\trelation_type\ttail_id\n" + rest:         "relation_type",
		"\"head\"\t\"relation\"\t\"tail\"\n" + rest:        `\"relation\"`,
		" Head\t Relation \tTail\n" + rest:                 " Relation ",
		":START_ID\t:TYPE\t:END_ID\n" + rest:               ":TYPE",
		"Start ID\tEdge Type\tEnd ID\n" + rest:             "Edge Type",
		"cat\ttype\tanimal\n" + rest:                       "", // only one field is a name for a column
		"cat\tr\tanimal\n" + rest:                          "",
		"h\tname\tt\n" + rest:                              "",
		"a\ttail\trelation\n" + rest:                       "", // "tail" and "relation" may be labels
		"head\ttail\tt\n" + rest:                           "",
		"idea\tlabel\tnode\n" + "b\tlabel\tc\n" + rest:     "",
		"source\ttype\ttarget\n" + "b\ttype\tc\n" + rest:   "",
		"head\ttail\trelation\n" + "b\ttail\tc\n" + rest:   "",
		"source\tsubtype\ttarget\n" + rest:                 "",
		"<http://a/head>\t<http://a/relation>\tb\n" + rest: "",
	} {
		dir := writeFolder(t, map[string]string{"train.txt": rest, "test.txt": text})
		g, err := Open(t.Context(), dir)
		require.NoError(t, err)
		single, err := OpenTriples(t.Context(), filepath.Join(dir, "test.txt"))
		require.NoError(t, err)
		require.Len(t, g.Splits[Test], strings.Count(text, "\n"))
		if label == "" {
			assert.NotContains(t, strings.Join(g.Notes, "\n"), "header", text)
			assert.Empty(t, single.Notes, text)
			continue
		}
		want := `the first line may be a header, because its relation is "` + label +
			`", and no other line of the file has it: if it is one, remove it`
		assert.Contains(t, g.Notes, "test: "+want)
		assert.Equal(t, []string{want}, single.Notes)
	}
}

// A note says that most relations are also entities, as in files with another order of columns. Numbers do not
// count.
func TestColumnsNote(t *testing.T) {
	for text, note := range map[string]string{
		"a\tb\tknows\nb\ta\tknows\nc\ta\tlikes\na\tc\tlikes\n":         "3 of 3 relations are also entities",
		"a\tb\tknows\nb\td\tknows\n":                                   "", // 1 of 2
		"a\ta\tb\n":                                                    "1 of 1 relation is also an entity",
		"a\tknows\tb\nb\tknows\tc\n":                                   "",
		"1\t2\t3\n2\t1\t2\n3\t1\t1\n":                                  "",
		"1\t7\tknows\n7\t1\tknows\n":                                   "",
		"a\t1\tb\nb\t2\tc\nc\tb\ta\n":                                  "", // 1 of 3
		"http://a\thttp://p\thttp://b\nhttp://p\thttp://p\thttp://c\n": "",
	} {
		g, err := OpenTriples(t.Context(), filepath.Join(writeFolder(t, map[string]string{"all.tsv": text}), "all.tsv"))
		require.NoError(t, err)
		if note == "" {
			assert.Empty(t, g.Notes, "%q", text)
			continue
		}
		want := note + ": if the columns are in another order, write each line as head, relation, tail"
		assert.Equal(t, []string{want}, g.Notes, "%q", text)
	}
}
