package kg

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenHonoursVocabularyFiles(t *testing.T) {
	numbered := "2\tanna\r\n0\tbert\n1\tclara\n3\tunused\n"
	want := []string{"bert", "clara", "anna", "unused"}
	for name, text := range map[string]string{
		"entities.dict":       numbered,
		"entity_ids.del":      numbered,
		"entities.tsv":        numbered,
		"entities.tsv.gz":     numbered,
		"entities.txt":        "bert\nclara\nanna\nunused\n",
		"entities.txt.gz":     "bert\nclara\nanna\nunused\n",
		"entities.txt.zst":    "bert\nclara\nanna\nunused",
		"entities.dict.zst":   numbered + "\n",
		"./entities.dict.gz":  "\ufeff" + numbered,
		"./entity_ids.del.gz": numbered,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := Open(t.Context(), writeFolder(t, map[string]string{"train.txt": trainText, name: text}))
			require.NoError(t, err)
			assert.Equal(t, want, g.Entities.Labels())
			assert.Equal(t, []string{"likes", "knows"}, g.Relations.Labels())
			assert.Equal(t, []Triple{{2, 0, 0}, {0, 0, 1}, {1, 1, 2}}, g.Splits[Train])
			assert.Contains(t, g.Notes, "1 entity occurs in no training triple")
		})
	}
	for name, text := range map[string]string{
		"relations.dict":   "1\tlikes\n0\tknows\n",
		"relation_ids.del": "1\tlikes\n0\tknows\n",
		"relations.tsv":    "1\tlikes\n0\tknows\n",
		"relations.txt":    "knows\nlikes\n",
	} {
		t.Run(name, func(t *testing.T) {
			g, err := Open(t.Context(), writeFolder(t, map[string]string{"train.txt": trainText, name: text}))
			require.NoError(t, err)
			assert.Equal(t, []Triple{{0, 1, 1}, {1, 1, 2}, {2, 0, 0}}, g.Splits[Train])
		})
	}
}

func TestReadVocabularyRejectsMalformedFiles(t *testing.T) {
	for text, want := range map[string]string{
		"0\ta\n2\tb\n":                 "v.tsv:2: identifier 2 in a file of 2 labels: the identifiers must be 0 to 1",
		"0\ta\n1\tb\n0\tc\n":           "v.tsv:3: duplicate identifier 0, first on line 1",
		"1\ta\n0\tb\n2\ta\n":           `v.tsv:3: duplicate label "a", first on line 1`,
		"0\ta\n1\n":                    "v.tsv:2: 1 field instead of 2: a line is identifier and label",
		"0\ta\tb\n":                    "v.tsv:1: 3 fields instead of 2",
		"a\t0\n":                       `v.tsv:1: identifier "a" is not a number`,
		"-1\ta\n":                      `v.tsv:1: identifier "-1" is not a number`,
		"99999999999999999999999\ta\n": "v.tsv:1: identifier \"99999999999999999999999\" is not a number",
		"2147483647\ta\n":              "v.tsv:1: identifier 2147483647 in a file of 1 label",
		"0\t\n":                        "v.tsv:1: empty label",
		"0\ta\n\n1\tb\n":               "v.tsv:2: blank line",
		"0\t\xc3(\n":                   "v.tsv:1: label is not valid UTF-8",
	} {
		path := filepath.Join(writeFolder(t, map[string]string{"v.tsv": text}), "v.tsv")
		_, err := ReadVocabulary(t.Context(), path)
		assert.ErrorContains(t, err, want)
	}
	for text, want := range map[string]string{ // identifiers 0 and 1 may be in any line
		"0\tx\n2\ta\n1\ty\n3\tb\n3\tc\n": "v.tsv:5: duplicate identifier 3, first on line 4",
		"2\ta\n0\tx\n4\tb\n1\ty\n4\tc\n": "v.tsv:5: duplicate identifier 4, first on line 3",
		"2\ta\n1\ty\n3\ta\n":             `v.tsv:3: duplicate label "a", first on line 1`,
		"2\ta\n1\ty\n5\tb\n":             "v.tsv:3: identifier 5 in a file of 2 labels: the identifiers must be 2 to 3",
	} {
		path := filepath.Join(writeFolder(t, map[string]string{"v.tsv": text}), "v.tsv")
		_, err := ReadVocabularyLayout(t.Context(), path, VocabularyLayout{Skip: 2})
		assert.ErrorContains(t, err, want)
	}
	for text, want := range map[string]string{
		"a\nb\na\n": `entities.txt:3: duplicate label "a", first on line 1`,
		"a\n\nb\n":  "entities.txt:2: blank line",
		"a\nb\tc\n": "entities.txt:2: a tab in a vocabulary that has one label per line: give the file the " +
			"ending .tsv if its lines are an identifier, a tab and a label, or remove it if it is not a vocabulary",
	} {
		_, err := Open(t.Context(), writeFolder(t, map[string]string{"train.txt": "", "entities.txt": text}))
		assert.ErrorContains(t, err, want)
	}
	_, err := ReadVocabulary(t.Context(), filepath.Join(t.TempDir(), "absent.tsv"))
	assert.ErrorContains(t, err, "absent.tsv: no such file or directory")
}

// A small compressed file can repeat a line millions of times, so the first repetition ends the reading.
func TestReadVocabularyStopsAtARepeatedIdentifier(t *testing.T) {
	for _, start := range []string{"0\ta\n", "1\ta\n", "0\ta\n2\tc\n1\tb\n"} {
		rest := strings.NewReader(strings.Repeat("1\tb\n", 1<<20))
		_, err := ParseVocabulary(t.Context(), "v.tsv", io.MultiReader(strings.NewReader(start+"1\tb\n"), rest))
		assert.ErrorContains(t, err, "duplicate identifier 1, first on line ")
		assert.Greater(t, rest.Len(), 1<<21, "the rest of the file was read")
	}
}

// pandas writes a label with a double quote between quotes, and doubles its quotes.
func TestReadVocabularyUnquotesLabels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quoted.tsv")
	quoted := VocabularyLayout{Header: true, Quoted: true}
	for field, want := range map[string]string{
		`a`: `a`, `5'10`: `5'10`, `"5'10"""`: `5'10"`, `"""The ""Boss"""""`: `"The "Boss""`, `"a, b"`: `a, b`,
		`a"b`: `a"b`, // no quotes around it
	} {
		require.NoError(t, os.WriteFile(path, []byte("id\tlabel\n0\t"+field+"\n1\tother\n"), 0o644))
		v, err := ReadVocabularyLayout(t.Context(), path, quoted)
		require.NoError(t, err, field)
		require.Equal(t, []string{want, "other"}, v.Labels())
		v, err = ReadVocabularyLayout(t.Context(), path, VocabularyLayout{Header: true})
		require.NoError(t, err)
		require.Equal(t, []string{field, "other"}, v.Labels(), "without Quoted")
	}
	for _, field := range []string{`"`, `"a`, `"a"b"`, `"a"b`, `"""`} {
		require.NoError(t, os.WriteFile(path, []byte("id\tlabel\n0\t"+field+"\n"), 0o644))
		_, err := ReadVocabularyLayout(t.Context(), path, quoted)
		require.ErrorContains(t, err, path+":2: label ")
		require.ErrorContains(t, err, "begins with a double quote, but the others do not match it")
	}
	require.NoError(t, os.WriteFile(path, []byte("id\tlabel\n0\t\"\"\n"), 0o644))
	_, err := ReadVocabularyLayout(t.Context(), path, quoted)
	require.ErrorContains(t, err, "empty label")
}

func TestWriteVocabularyReplacesAWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "entities.tsv")
	require.NoError(t, WriteVocabulary(path, NewVocabulary("old")))
	v := NewVocabulary("anna", "Zoë 漢", " b ")
	require.NoError(t, WriteVocabulary(path, v))
	got, err := ReadVocabulary(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, v, got)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "0\tanna\n1\tZoë 漢\n2\t b \n", string(content))

	for _, label := range []string{"", "a\tb", "a\nb", "a\rb", "\x00", "\xff"} {
		assert.ErrorContains(t, WriteVocabulary(path, NewVocabulary("x", label)), "label 1")
	}
	again, err := ReadVocabulary(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, v, again, "a refused vocabulary leaves the old file")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	assert.ErrorContains(t, WriteVocabulary(filepath.Join(path, "x"), v), "entities.tsv/x: not a directory")
}

func FuzzReadVocabulary(f *testing.F) {
	for _, seed := range []string{
		"0\ta\n1\tb\n", "1\ta\r\n0\tb\r\n", "0\ta\n0\tb\n", "7\ta\n", "0\ta\n1\ta\n", "\n", "0\t\n", "a\nb\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := readNumbered(newLines(t.Context(), "fuzz", bytes.NewReader(text))); err != nil {
			assert.Contains(t, err.Error(), "fuzz:")
		} else {
			var again strings.Builder
			for id, label := range v.Labels() {
				fmt.Fprintf(&again, "%d\t%s\n", id, label)
			}
			second, err := readNumbered(newLines(t.Context(), "again", strings.NewReader(again.String())))
			require.NoError(t, err)
			assert.Equal(t, v, second)
		}
		if v, err := readListed(newLines(t.Context(), "fuzz", bytes.NewReader(text))); err != nil {
			assert.Contains(t, err.Error(), "fuzz:")
		} else {
			require.NoError(t, v.Check())
			assert.LessOrEqual(t, v.Len(), bytes.Count(text, []byte("\n"))+1)
		}
	})
}
