package kg

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		rest + "head\trelation\ttail\n":         "", // not the first line
		"a\trelation\tb\n" + "b\trelation\tc\n": "", // an ordinary relation
		"a\tr\tb\n":                             "", // a single triple
		"head\trelates\ttail\n" + rest:          "",
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
