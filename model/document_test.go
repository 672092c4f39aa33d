package model_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The code in docs/adding-a-model.md equals the code in the files that the page names.
func TestAddingAModel(t *testing.T) {
	root := ".."
	text, err := os.ReadFile(filepath.Join(root, "docs", "adding-a-model.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n// (\\S+)\n(.*?)```").FindAllSubmatch(text, -1)
	assert.Len(t, blocks, len(regexp.MustCompile("```go").FindAll(text, -1)), "every block names its file")
	assert.NotEmpty(t, blocks)
	for _, b := range blocks {
		file, err := os.ReadFile(filepath.Join(root, string(b[1])))
		require.NoError(t, err)
		// The page may leave out comments above methods.
		code := regexp.MustCompile(`(?m)^// .*\n`).ReplaceAllString(string(file), "")
		assert.Contains(t, code, string(b[2]), "%s", b[1])
	}
}
