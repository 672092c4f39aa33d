package model_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
			assert.True(t, first.MatchString(table), "docs/%s has no row for %s", path, name)
		}
	}
	table := rows("README.md")
	for _, s := range model.Specs() {
		variant := regexp.MustCompile(`^Functional | \(L[12]\)$`) // shares the entry of the model
		title := regexp.MustCompile(`\b` + variant.ReplaceAllString(s.Title, "") + `\b`)
		assert.True(t, title.MatchString(table), "README.md does not list %s", s.Title)
	}
}

// The lists of models whose scores are linear in the relation are complete.
func TestRelationModelsInDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "training.md"))
	require.NoError(t, err)
	var want []string
	for _, s := range model.Specs() {
		m, err := model.Unfilled(s.Initial(model.Config{Model: s.Name, Dim: 4, Entities: 1, Relations: 1}))
		require.NoError(t, err)
		if m.Training().Relations != nil {
			want = append(want, s.Name)
		}
	}
	slices.Sort(want)
	list := regexp.MustCompile("(?s)The\\s+scores\\s+of\\s+([^.]*?)\\s+are\\s+linear\\s+in\\s+the\\s+relation|" +
		"prediction\\s+by\\s+ρ\\s+support\\s+the\\s+third\\s+pair:\\s+([^.]*)\\.")
	found := list.FindAllStringSubmatch(string(text), -1)
	require.Len(t, found, 2)
	for _, f := range found {
		var names []string
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(f[1]+f[2], -1) {
			names = append(names, name[1])
		}
		slices.Sort(names)
		assert.Equal(t, want, names, "docs/training.md: %s", f[0])
	}
}
