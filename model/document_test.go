package model_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
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

// The tables of models in the documents have a row for every registered model.
func TestModelTables(t *testing.T) {
	rows := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{".."}, path...)...))
		require.NoError(t, err)
		return strings.Join(regexp.MustCompile(`(?m)^\|.*$`).FindAllString(string(text), -1), "\n")
	}
	for _, path := range []string{"models/README.md", "checkpoint.md"} {
		table := rows("docs", filepath.FromSlash(path))
		for _, name := range model.Names() {
			first := regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(name) + "`")
			assert.Regexp(t, first, table, "docs/%s has no row for %s", path, name)
		}
	}
	table := rows("README.md")
	for _, s := range model.Specs() {
		variant := regexp.MustCompile(`^Functional | \(L[12]\)$`) // shares the entry of the model
		title := regexp.MustCompile(`\b` + variant.ReplaceAllString(s.Title, "") + `\b`)
		assert.Regexp(t, title, table, "README.md does not list %s", s.Title)
	}
}
