package formats

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The last colon separates a file from a tensor in it, unless it belongs to the path of a file.
func TestCutTensor(t *testing.T) {
	for where, want := range map[string][2]string{
		"e.npy": {"e.npy", ""}, "m.pt:a/b": {"m.pt", "a/b"}, "x:y/m.pt:a": {"x:y/m.pt", "a"},
		`C:\e.npy`: {`C:\e.npy`, ""}, `C:\m.pt:a`: {`C:\m.pt`, "a"},
	} {
		path, inside := cutTensor(where)
		assert.Equal(t, want, [2]string{path, inside})
	}
	if runtime.GOOS == "windows" {
		t.Skip("names of files cannot contain a colon")
	}
	dir := filepath.Join(t.TempDir(), "a:b")
	require.NoError(t, os.Mkdir(dir, 0o755))
	table := filepath.Join(dir, "e.npy")
	require.NoError(t, os.WriteFile(table, nil, 0o644))
	path, inside := cutTensor(table)
	assert.Equal(t, [2]string{table, ""}, [2]string{path, inside})
	path, inside = cutTensor(table + ":a")
	assert.Equal(t, [2]string{table, "a"}, [2]string{path, inside})
}
