package kg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadLabels(t *testing.T) {
	dir := t.TempDir()
	labels, err := ReadLabels(t.Context(), dir)
	require.NoError(t, err)
	assert.Nil(t, labels, "no file")
	labels, err = ReadLabels(t.Context(), "")
	require.NoError(t, err)
	assert.Nil(t, labels, "no folder")
	labels, err = ReadLabels(t.Context(), filepath.Join(dir, "missing"))
	require.NoError(t, err)
	assert.Nil(t, labels, "the folder is missing")

	path := filepath.Join(dir, "labels.tsv")
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("Q42\tDouglas Adams\r\nP27\tcountry of \"citizenship\"\n")
	labels, err = ReadLabels(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"Q42": "Douglas Adams", "P27": `country of "citizenship"`}, labels)

	for text, want := range map[string]string{
		"Q42\n":          path + ":1: 1 field instead of 2: a line is identifier and label, separated by tabs",
		"Q1\ta\nQ1\tb\n": path + ":2: duplicate identifier \"Q1\": an identifier has one label",
		"Q1\ta\nQ2\t\n":  path + ":2: empty label",
	} {
		write(text)
		_, err = ReadLabels(t.Context(), dir)
		assert.EqualError(t, err, want)
	}

	require.NoError(t, os.WriteFile(path+".gz", compressedText(t, path+".gz", "Q42\tDouglas Adams\n"), 0o644))
	_, err = ReadLabels(t.Context(), dir)
	assert.EqualError(t, err, dir+" has both labels.tsv and labels.tsv.gz: remove one of them")
	require.NoError(t, os.Remove(path))
	labels, err = ReadLabels(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"Q42": "Douglas Adams"}, labels)
}

// The digest of a graph is the digest of its joined files, and does not depend on identifiers.
func TestGraphSHA256(t *testing.T) {
	dir := t.TempDir()
	for split, text := range map[string]string{
		"train": "a\tr\tb\nb\tr\tc\n", "valid": "a\tr\tc\n", "test": "c\tr\ta\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, split+".txt"), []byte(text), 0o644))
	}
	g, err := Open(t.Context(), dir)
	require.NoError(t, err)
	digest, err := g.SHA256(t.Context())
	require.NoError(t, err)
	// printf 'a\tr\tb\nb\tr\tc\na\tr\tc\nc\tr\ta\n' | sha256sum
	assert.Equal(t, "1b4620542278e2459b096ad8c08052a6e16f0e0dae713c5e3dc41be4124935f0", digest)
	g, err = g.Relabel(NewVocabulary("c", "x", "b", "a"), NewVocabulary("s", "r"))
	require.NoError(t, err)
	again, err := g.SHA256(t.Context())
	require.NoError(t, err)
	assert.Equal(t, digest, again)
}
