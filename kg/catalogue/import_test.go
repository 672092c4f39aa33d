package catalogue

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

func TestImport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	source := writeFiles(t, t.TempDir(), map[string]string{
		"train.txt.gz":  gzipped(t, "b\tr\ta\r\na\tr\tb\r\n"),
		"test.nt":       "<x:a> <x:r> <x:b> .\n",
		"entities.dict": "0\ta\n1\tb\n2\tx:a\n3\tx:b\n4\tunused\n",

		"test_negatives.nt": "<x:b> <x:r> <x:a> .\n",
		"labels.tsv":        "b\tBeta\na\tAlpha\nabsent\tGamma\n",
		"split.json":        "{\"schema\": \"mquine.data-split/1\"}\n",
	})
	imported, err := Import(t.Context(), dir, source, "mine")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "mine"), imported.Dir)
	require.Equal(t, []string{"mine"}, entries(t, dir))

	want, err := kg.Open(t.Context(), source)
	require.NoError(t, err)
	t.Setenv("MQUINE_DATA", dir)
	got, err := kg.Open(t.Context(), "mine")
	require.NoError(t, err)
	require.Equal(t, want.Splits, got.Splits)
	require.Equal(t, want.Entities.Labels(), got.Entities.Labels())
	require.Equal(t, want.Relations.Labels(), got.Relations.Labels())
	negatives, err := kg.ReadNegatives(t.Context(), got, kg.Test)
	require.NoError(t, err)
	require.Equal(t, []kg.Triple{{Head: 3, Relation: 1, Tail: 2}}, negatives)
	none, err := kg.ReadNegatives(t.Context(), got, kg.Valid)
	require.NoError(t, err)
	require.Nil(t, none)
	labels, err := kg.ReadLabels(t.Context(), got.Dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "Alpha", "b": "Beta", "absent": "Gamma"}, labels)

	record, err := os.ReadFile(filepath.Join(got.Dir, "split.json"))
	require.NoError(t, err)
	require.Equal(t, "{\"schema\": \"mquine.data-split/1\"}\n", string(record))

	_, err = Import(t.Context(), dir, source, "mine")
	require.ErrorContains(t, err, "data set mine already exists")
}

func TestImportRefuses(t *testing.T) {
	good := writeFiles(t, t.TempDir(), map[string]string{"train.txt": "a\tr\tb\n"})
	bad := writeFiles(t, t.TempDir(), map[string]string{"train.txt": "a\tr\tb\na b c\n"})
	strange := writeFiles(t, t.TempDir(), map[string]string{
		"train.txt": "a\tr\tb\n", "valid_negatives.txt": "a\tr\tstranger\n",
	})
	cases := []struct{ source, name, want string }{
		{good, "fb15k", `is the name of a public data set: choose another name, or run "mquine data get fb15k --from `},
		{good, "../up", "cannot be the name of a data set"},
		{good, ".hidden", "cannot be the name of a data set"},
		{good, "", "cannot be the name of a data set"},
		{bad, "mine", "train.txt:2: "},
		{strange, "mine", "valid_negatives.txt:1: unknown entity"},
		{t.TempDir(), "mine", "is not a data set"},
		{filepath.Join(good, "absent"), "mine", "no such file or directory"},
	}
	for _, c := range cases {
		dir := filepath.Join(t.TempDir(), "data")
		_, err := Import(t.Context(), dir, c.source, c.name)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
		require.Empty(t, entries(t, dir))
	}
}

// A data set of OpenKE becomes a data set of mquine with the same identifiers.
func TestImportFromOpenKE(t *testing.T) {
	source := writeFiles(t, t.TempDir(), map[string]string{
		"entity2id.txt":   "3\na\t2\nb\t0\nunused\t1\n",
		"relation2id.txt": "1\nr\t0\n",
		"train2id.txt":    "2\n2 0 0\n0 0 0\n",
	})
	imported, err := Import(t.Context(), t.TempDir(), source, "mine")
	require.NoError(t, err)
	got, err := kg.Open(t.Context(), imported.Dir)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "unused", "a"}, got.Entities.Labels())
	require.Equal(t, [kg.NumSplits][]kg.Triple{kg.Train: {{Head: 2}, {}}}, got.Splits)
}
