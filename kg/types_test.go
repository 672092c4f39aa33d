package kg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "types.tsv")
	v := NewVocabulary("aspirin", "ibuprofen", "fever")
	read := func(text string) (*Types, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return ReadTypes(t.Context(), path, v)
	}
	types, err := read("aspirin\tT1\tdrug\nfever\tT2\tsymptom\nibuprofen\tT1\tdrug\nibuprofen\tT3\t\n" +
		"morphine\tT4\tdrug\nmeasles\tT5\nmorphine\tpill\tpill\n")
	require.NoError(t, err)
	for name, want := range map[string][]int32{"T1": {0, 1}, "symptom": {2}, "T3": {1}} {
		members, err := types.Members(name)
		require.NoError(t, err)
		assert.Equal(t, want, members, name)
	}
	for name, want := range map[string]string{
		"drug":     path + ` has several types with the name "drug": give the identifier of one`,
		"T5":       `no entity of the checkpoint has type "T5" in ` + path + ": choose another type",
		"symptoms": path + ` has no type "symptoms"; did you mean symptom`,
		"mineral":  path + ` has no type "mineral": choose from T1, T2, T3, T4, T5 and pill`,
		"":         path + ` has no type "": choose from T1, T2, T3, T4, T5 and pill`,
		"pil":      path + ` has no type "pil"; did you mean pill`,
	} {
		_, err := types.Members(name)
		assert.EqualError(t, err, want)
	}
	for text, want := range map[string]string{
		"":                path + " is empty: write an entity and its type in each line, separated by a tab",
		"aspirin\n":       path + ":1: 1 field: write an entity and its type, separated by a tab",
		"a\tb\tc\td\n":    path + ":1: 4 fields: write an entity and its type, separated by a tab",
		"aspirin\t\tT1\n": path + ":1: empty field: write an entity and its type, separated by a tab",
	} {
		_, err := read(text)
		assert.EqualError(t, err, want)
	}
}
