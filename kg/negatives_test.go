package kg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadNegatives(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("train.txt", "a\tr\tb\nb\ts\tc\nhttp://x/a\thttp://x/r\thttp://x/b\n")
	g, err := Open(t.Context(), dir)
	require.NoError(t, err)
	none, err := ReadNegatives(t.Context(), g, Valid)
	require.NoError(t, err)
	require.Nil(t, none)

	write("valid_negatives.txt", "b\tr\ta\r\nc\ts\tc\n")
	got, err := ReadNegatives(t.Context(), g, Valid)
	require.NoError(t, err)
	require.Equal(t, []Triple{{1, 0, 0}, {2, 1, 2}}, got)
	none, err = ReadNegatives(t.Context(), g, Test)
	require.NoError(t, err)
	require.Nil(t, none)

	for text, message := range map[string]string{
		"a\tr\tb\nx\tr\tb\n": `valid_negatives.txt:2: unknown entity "x"`,
		"a\tx\tb\n":          `valid_negatives.txt:1: unknown relation "x"`,
		"a\tr\tx\n":          `valid_negatives.txt:1: unknown entity "x"`,
		"a\tr\n":             "valid_negatives.txt:1: 2 fields instead of 3",
		"":                   "valid_negatives.txt has no triples",
	} {
		write("valid_negatives.txt", text)
		_, err = ReadNegatives(t.Context(), g, Valid)
		require.ErrorContains(t, err, message)
	}
	write("valid_negatives.nt", "<http://x/b> <http://x/r> <http://x/a> .\n")
	_, err = ReadNegatives(t.Context(), g, Valid)
	require.ErrorContains(t, err, "remove one of them")
	require.NoError(t, os.Remove(filepath.Join(dir, "valid_negatives.txt")))
	got, err = ReadNegatives(t.Context(), g, Valid)
	require.NoError(t, err)
	require.Equal(t, []Triple{{4, 2, 3}}, got)

	// False triples with labels that Restrict left out are left out too, and unknown labels stay errors.
	require.NoError(t, os.Remove(filepath.Join(dir, "valid_negatives.nt")))
	small, err := g.Restrict("the checkpoint", NewVocabulary("b", "a"), g.Relations)
	require.NoError(t, err)
	small, err = small.Relabel(NewVocabulary("b", "a"), g.Relations)
	require.NoError(t, err)
	write("valid_negatives.txt", "b\tr\ta\nc\ts\tc\na\ts\tb\n")
	got, err = ReadNegatives(t.Context(), small, Valid)
	require.NoError(t, err)
	require.Equal(t, []Triple{{0, 0, 1}, {1, 1, 0}}, got)
	write("valid_negatives.txt", "b\tr\ta\nx\ts\tc\n")
	_, err = ReadNegatives(t.Context(), small, Valid)
	require.ErrorContains(t, err, `valid_negatives.txt:2: unknown entity "x"`)
}

// CoDEx has as many false triples as true triples, and no split contains a false triple.
func TestNegativesOfCoDEx(t *testing.T) {
	if os.Getenv("MQUINE_DATA") == "" {
		t.Skip("MQUINE_DATA is not set")
	}
	g, err := Open(t.Context(), "codex-s")
	if err != nil {
		t.Skip("codex-s is not installed")
	}
	x := newIndex(t, g)
	for _, split := range []Split{Valid, Test} {
		negatives, err := ReadNegatives(t.Context(), g, split)
		require.NoError(t, err)
		require.Len(t, negatives, len(g.Splits[split]))
		for _, n := range negatives {
			require.Zero(t, x.Splits(n))
		}
	}
}
