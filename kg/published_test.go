package kg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenComparesPublicDatasets(t *testing.T) {
	data := t.TempDir()
	t.Setenv("MQUINE_DATA", data)
	lines := func(n int) string { return strings.Repeat("a\tr\tb\n", n) }
	install := func(files map[string]string) string {
		dir := filepath.Join(data, "umls")
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.Rename(writeFolder(t, files), dir))
		return dir
	}

	install(map[string]string{"train.txt": lines(5216), "valid.txt": lines(652) + "\n", "test.txt.gz": lines(661)})
	_, err := Open(t.Context(), "umls")
	require.NoError(t, err)
	install(map[string]string{"valid.txt": lines(652)})
	_, err = Open(t.Context(), "umls")
	require.NoError(t, err, "missing splits make no difference")

	dir := install(map[string]string{"train.txt": lines(5216), "valid.txt": lines(652), "test.txt.gz": lines(660)})
	const difference = " has 660 triples, but the test split of the public data set umls has 661"
	want := filepath.Join(dir, "test.txt.gz") + difference +
		`: remove the file and run "mquine data get umls", or rename the folder if it is another data set`
	_, err = Open(t.Context(), "umls")
	assert.EqualError(t, err, want)
	_, err = Open(t.Context(), dir)
	assert.EqualError(t, err, want, "the same folder by its path")
	t.Chdir(dir)
	_, err = Open(t.Context(), ".")
	assert.EqualError(t, err, "test.txt.gz"+strings.TrimPrefix(want, filepath.Join(dir, "test.txt.gz")))

	// In another folder, the difference is only a note.
	elsewhere := filepath.Join(t.TempDir(), "umls")
	require.NoError(t, os.Rename(dir, elsewhere))
	g, err := Open(t.Context(), elsewhere)
	require.NoError(t, err)
	assert.Contains(t, g.Notes, filepath.Join(elsewhere, "test.txt.gz")+difference)
	require.NoError(t, os.Rename(elsewhere, filepath.Join(data, "umls-mine")))
	g, err = Open(t.Context(), "umls-mine")
	require.NoError(t, err)
	assert.NotContains(t, strings.Join(g.Notes, "\n"), "public data set")
}

// If all public data sets are installed, each has the published numbers of triples.
func TestRealDatasetsOpenWithoutADifference(t *testing.T) {
	realData(t)
	for name := range published {
		g := realDataset(t, name)
		assert.NotContains(t, strings.Join(g.Notes, "\n"), "public data set")
	}
}
