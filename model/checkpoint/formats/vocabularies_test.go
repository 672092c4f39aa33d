package formats

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
