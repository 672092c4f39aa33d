package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAuthorsIn(t *testing.T) {
	for _, a := range authorsCode {
		folder := t.TempDir()
		_, err := authorsIn(folder)
		require.ErrorContains(t, err, "clone one of the two repositories")
		require.NoError(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(a.file)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(folder, a.file), nil, 0o666))
		got, err := authorsIn(folder)
		require.NoError(t, err)
		require.Equal(t, a.name, got.name)
		c, err := a.recipeFor(20)
		require.NoError(t, err)
		require.NoError(t, c.Check(), a.name)
	}
}
