package formats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Labels inside a parameter file must be labels that mquine can save.
func TestLabelsInParameterFile(t *testing.T) {
	for label, want := range map[string]string{
		"":         `label 1 of its vocabulary, "", is empty or occurs twice`,
		"a":        `label 1 of its vocabulary, "a", is empty or occurs twice`,
		"b\tc":     `label 1, "b\tc": label contains a tab: remove it, or write a space instead`,
		"b\n":      `label 1, "b\n": label contains a line feed: remove it, or write a space instead`,
		"\x00":     `label 1, "\x00": label contains a NUL character: remove it, or write a space instead`,
		"\ufeffb":  `label 1, "\ufeffb": label starts with a byte order mark: remove it`,
		"b\xff":    `label 1, "b\xff": label is not valid UTF-8; convert the file to UTF-8`,
		"good one": "",
	} {
		f := &Folder{Path: t.TempDir(), Format: &Format{
			vocabularies: []vocabularyFiles{delFiles},
			labels:       func(*Folder) (entities, relations []string) { return []string{"a", label}, []string{"r"} },
		}}
		err := f.ReadVocabularies(t.Context(), "", false)
		if want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, f.Path+": "+want+"; write the corrected labels to entity_ids.del and "+
			"relation_ids.del in this folder")
	}
}

// Vocabulary files next to a parameter file with labels must have the same labels. They replace only
// labels that mquine could not save.
func TestLabelsInBoth(t *testing.T) {
	for _, c := range []struct {
		entities, relations string
		inside              []string // the labels of the entities in the parameter file
		differ              bool
	}{
		{"0\ta\n1\tb\n", "0\tr\n", []string{"a", "b"}, false},
		{"0\tb\n1\ta\n", "0\tr\n", []string{"a", "b"}, true},
		{"0\ta\n1\tb\n", "0\ts\n", []string{"a", "b"}, true},
		{"0\ta\n1\tb\n", "0\tr\n", []string{"a", "b", "c"}, true},
		{"0\ta\n1\tb\n", "0\ts\n", []string{"a", ""}, false},
	} {
		f := &Folder{Path: t.TempDir(), Format: &Format{
			Name: "libkge", vocabularies: []vocabularyFiles{delFiles},
			labels: func(*Folder) (entities, relations []string) { return c.inside, []string{"r"} },
		}}
		for name, text := range map[string]string{delFiles.entities: c.entities, delFiles.relations: c.relations} {
			require.NoError(t, os.WriteFile(filepath.Join(f.Path, name), []byte(text), 0o644))
		}
		err := f.ReadVocabularies(t.Context(), "", false)
		if c.differ {
			assert.EqualError(t, err, f.Path+": the labels in the checkpoint of libkge differ from the labels in "+
				"entity_ids.del and relation_ids.del in this folder: remove these two files if they belong to "+
				"another model")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, f.Entities.Labels())
	}
}
