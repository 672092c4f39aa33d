package formats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An error about a file of options says what is wrong, and in which line.
func TestReadOptions(t *testing.T) {
	const wrong = " is not a single JSON object"
	for text, want := range map[string]string{
		"{\"a\": 1}\n": "", "\ufeff{\"a\": 1}": "", `{"b": [], "a": 1}`: "",
		"{\n\"a\": 1,\n}": wrong + ": invalid character '}' looking for beginning of object key string (line 3)",
		`{"a": NaN}`:      wrong + ": invalid character 'N' looking for beginning of value (line 1)",
		"{\"a\": 1}\n}":   wrong + ": invalid character '}' after top-level value (line 2)",
		`{"a": 1}{}`:      wrong + ": invalid character '{' after top-level value (line 1)",
		"{\n\"a\": 1\n":   wrong + ": unexpected end of JSON input (line 3)",
		"":                wrong + ": unexpected end of JSON input (line 1)",
		"[1]":             wrong, "null": wrong, `"a"`: wrong,
	} {
		f := &Folder{Path: t.TempDir(), Metadata: map[string]string{}}
		path := filepath.Join(f.Path, "config.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := f.readOptions("config.json")
		if want != "" {
			assert.EqualError(t, err, path+want)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "1", f.Metadata["a"])
	}
}
