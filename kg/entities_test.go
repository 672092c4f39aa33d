package kg

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	v := NewVocabulary("aspirin", "ibuprofen", "fever")
	read := func(text string) ([]int32, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return ReadList(t.Context(), path, "the checkpoint", "entity", v)
	}
	ids, err := read("fever\naspirin\r\n")
	require.NoError(t, err)
	assert.Equal(t, []int32{2, 0}, ids)
	for text, want := range map[string]string{
		"":                          path + " is empty: write one entity in each line",
		"\n":                        path + " is empty: write one entity in each line",
		"fever\nasprin\n":           path + `:2: the checkpoint has no entity "asprin"; did you mean aspirin`,
		"fever\naspirin\nfever\n":   path + `:3: entity "fever" is also on line 1: list it once`,
		"fever\n\naspirin\n":        path + ":2: blank line: remove it",
		"fever\tsymptom\naspirin\n": path + `:1: the checkpoint has no entity "fever\tsymptom"`,
	} {
		_, err := read(text)
		assert.EqualError(t, err, want)
	}
}

func TestReadCandidates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tails.tsv")
	v := NewVocabulary("aspirin", "ibuprofen", "fever")
	read := func(text string) ([][]int32, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return ReadCandidates(t.Context(), path, "the checkpoint", v, []int32{1, 0})
	}
	for _, end := range []string{"", "\n", "\n\n", "\r\n\r\n"} {
		lists, err := read("fever\taspirin\tfever\r\nibuprofen" + end)
		require.NoError(t, err)
		assert.Equal(t, [][]int32{{0, 2, 2}, {1}}, lists)
	}
	for text, want := range map[string]string{
		"": path + " has 0 lines, but there are 2 triples to rank: write one line for each, in the order of the split",
		"fever\nfever\nfever\n": path + ":3: there are only 2 triples to rank: write one line for each, " +
			"in the order of the split",
		"fever\nasprin\n":  path + `:2: the checkpoint has no entity "asprin"; did you mean aspirin`,
		"\nfever\n":        path + ":1: no candidates: list at least one",
		"fever\n\nfever\n": path + ":2: no candidates: list at least one",
		"fever\n\n": path + " has 1 line, but there are 2 triples to rank: write one line for each, " +
			"in the order of the split",
		"fever\nfever\n\nfever\n":   path + ":3: no candidates: list at least one",
		"fever\taspirin\nfever\t\n": path + `:2: the checkpoint has no entity ""`,
		"fever\nfever\taspirin\n":   path + `:2: "aspirin" is the true answer to this query: list only its competitors`,
	} {
		_, err := read(text)
		assert.EqualError(t, err, want)
	}
}

// A line may list all entities of a graph twice, however long their labels are.
func TestReadCandidatesInLongLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tails.tsv")
	v := NewVocabulary("target")
	for i := range 1200 {
		v.Add(strings.Repeat("x", 400) + strconv.Itoa(i))
	}
	read := func(line string) ([][]int32, error) {
		require.NoError(t, os.WriteFile(path, []byte(line), 0o644))
		return ReadCandidates(t.Context(), path, "the checkpoint", v, []int32{0, 0})
	}
	others := strings.Join(v.Labels()[1:], "\t")
	require.Greater(t, len(others), maxLine)
	lists, err := read(others + "\t" + others + "\n" + v.Label(7) + "\r\n")
	require.NoError(t, err)
	require.Len(t, lists[0], 2*1200)
	for i, e := range lists[0] {
		require.Equal(t, int32(i/2+1), e)
	}
	assert.Equal(t, []int32{7}, lists[1])
	_, err = read(v.Label(7) + "\n" + others + "\t" + others + "\t" + others + "\n")
	assert.EqualError(t, err, path+":2: line is longer than 947 KiB")
}
