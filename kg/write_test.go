package kg

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOpenReadsWhatWriteWrote(t *testing.T) {
	parent := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		for s, triples := range g.Splits {
			if len(triples) == 0 {
				g.Splits[s] = nil
			}
		}
		if !g.Has(Train) && !g.Has(Valid) && !g.Has(Test) {
			t.Skip("there is nothing to write")
		}
		var options []WriteOption
		if rapid.Bool().Draw(t, "gzip") {
			options = append(options, Gzip())
		}
		dir := filepath.Join(parent, "drawn")
		defer os.RemoveAll(dir)
		require.NoError(t, Write(context.Background(), dir, g, options...))
		got, err := Open(context.Background(), dir)
		require.NoError(t, err)
		assert.Equal(t, g.Entities.Labels(), got.Entities.Labels())
		assert.Equal(t, g.Relations.Labels(), got.Relations.Labels())
		for s := range NumSplits {
			assert.Equal(t, g.Has(s), got.Has(s))
			assert.Equal(t, g.Splits[s], got.Splits[s])
		}
	})
}

// A canonical literal may be several times as long as in its file. Labels that can be read can be
// written and read again, in triples and in a vocabulary.
func TestLongestLabels(t *testing.T) {
	read := func(characters int) (*Graph, error) {
		literal := `"` + strings.Repeat("\x01", characters) + `"`
		return Open(t.Context(), writeFolder(t, map[string]string{
			"train.nt": "<urn:a> <urn:r> <urn:b> .\n<urn:b> <urn:r> " + literal + " .\n",
		}))
	}
	_, err := read(maxLabel / 6) // \u0001 has six bytes, and there are quotation marks
	require.ErrorContains(t, err, "train.nt:2: tail: label has 87,362 bytes, more than the limit of 87,360")
	g, err := read(maxLabel/6 - 1)
	require.NoError(t, err)

	long := func(first string) string { return first + strings.Repeat("x", maxLabel-1) }
	g.Entities = NewVocabulary(long("a"), long("b"), g.Entities.Label(2), "unused")
	g.Relations = NewVocabulary(long("r"))
	dir := filepath.Join(t.TempDir(), "g")
	require.NoError(t, Write(t.Context(), dir, g))
	assert.FileExists(t, filepath.Join(dir, "entities.tsv"))
	again, err := Open(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, g.Entities.Labels(), again.Entities.Labels())
	assert.Equal(t, g.Splits, again.Splits)
}

func TestWriteAddsVocabulariesOnlyWhereNeeded(t *testing.T) {
	for want, triples := range map[string][]Triple{
		"train.txt":                            {{0, 0, 1}, {2, 1, 0}},
		"entities.tsv train.txt":               {{1, 0, 0}, {2, 1, 0}},
		"entities.tsv relations.tsv train.txt": {{0, 1, 1}, {0, 0, 1}}, // entity 2 is in no triple
		"relations.tsv train.txt":              {{0, 1, 1}, {0, 0, 2}},
	} {
		g := &Graph{Name: "g", Entities: numberedLabels(3), Relations: numberedLabels(2)}
		g.Splits[Train] = triples
		dir := filepath.Join(t.TempDir(), "new", "folder")
		require.NoError(t, Write(t.Context(), dir, g))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		names := ""
		for i, e := range entries {
			if i > 0 {
				names += " "
			}
			names += e.Name()
		}
		assert.Equal(t, want, names)
	}
}

// TestWriteExtras compares the copied extras with the files that the graph came from.
func TestWriteExtras(t *testing.T) {
	extras := map[string]string{
		"test_negatives.txt": "b\tr\tb\na\tr\ta\n",
		"labels.tsv":         "a\tAnn\nr\tknows\n",
		"split.json":         "{\"seed\": 7}\n",
	}
	files := map[string]string{"train.txt": "a\tr\tb\n", "test.txt": "b\tr\ta\n"}
	maps.Copy(files, extras)
	g, err := Open(t.Context(), writeFolder(t, files))
	require.NoError(t, err)
	with, without := filepath.Join(t.TempDir(), "with"), filepath.Join(t.TempDir(), "without")
	require.NoError(t, Write(t.Context(), with, g, Extras()))
	require.NoError(t, Write(t.Context(), without, g))
	for name, want := range extras {
		got, err := os.ReadFile(filepath.Join(with, name))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
		assert.NoFileExists(t, filepath.Join(without, name))
	}
}

// Files beside the splits cannot leave the folder or replace a file of the data set.
func TestWriteBeside(t *testing.T) {
	g := gridGraph(2)
	parent := t.TempDir()
	for name, want := range map[string]string{
		"":               `"" is not the name of a file: leave out folders`,
		".":              `"." is not the name of a file: leave out folders`,
		"..":             `".." is not the name of a file: leave out folders`,
		"../out":         `"../out" is not the name of a file: leave out folders`,
		"sub/out":        `"sub/out" is not the name of a file: leave out folders`,
		"train.txt":      "train.txt is the name of a file of a data set: choose another name",
		"test.nt.gz":     "test.nt.gz is the name of a file of a data set: choose another name",
		"entities.tsv":   "entities.tsv is the name of a file of a data set: choose another name",
		"valid2id.txt":   "valid2id.txt is the name of a file of a data set: choose another name",
		"/absolute/file": `"/absolute/file" is not the name of a file: leave out folders`,
	} {
		err := Write(t.Context(), filepath.Join(parent, "g"), g, Beside(name, nil))
		assert.EqualError(t, err, "writing data set grid: "+want)
	}
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Empty(t, entries)
	require.NoError(t, Write(t.Context(), filepath.Join(parent, "g"), g, Beside("split.json", []byte("{}"))))
	assert.FileExists(t, filepath.Join(parent, "g", "split.json"))
}

func TestWriteLeavesNothingBehind(t *testing.T) {
	g := &Graph{Name: "g", Entities: numberedLabels(2), Relations: numberedLabels(1)}
	g.Splits[Train] = []Triple{{0, 0, 1}}
	parent := t.TempDir()
	empty := func() {
		entries, err := os.ReadDir(parent)
		require.NoError(t, err)
		assert.Empty(t, entries)
	}
	dir := filepath.Join(parent, "g")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, Write(cancelled, dir, g), context.Canceled)
	empty()

	bad := *g
	bad.Entities = NewVocabulary("a", "b\tc")
	assert.ErrorContains(t, Write(t.Context(), dir, &bad),
		`writing data set g: label 1, "b\tc": label contains a tab: remove it, or write a space instead`)
	empty()
	noSplits := &Graph{Name: "none", Entities: NewVocabulary(), Relations: NewVocabulary()}
	assert.ErrorContains(t, Write(t.Context(), dir, noSplits), "it has no split")
	empty()
	none := *g
	none.Splits[Test] = []Triple{}
	assert.ErrorContains(t, Write(t.Context(), dir, &none), "its test split is empty")
	empty()

	require.NoError(t, os.Mkdir(dir, 0o755))
	assert.ErrorContains(t, Write(t.Context(), dir, g), "already exists")
	require.NoError(t, os.Remove(dir))

	file := filepath.Join(parent, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	assert.ErrorContains(t, Write(t.Context(), filepath.Join(file, "g"), g), "not a directory")
}
