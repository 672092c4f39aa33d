package atomicfile

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFolder(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "above", "dir")
	require.NoError(t, Folder(dir+"/", func(temporary string) error {
		assert.NoDirExists(t, dir)
		return Write(filepath.Join(temporary, "f"), writeText("x"))
	}))
	assert.Equal(t, "x", contents(t, filepath.Join(dir, "f")))
	assert.Equal(t, []string{"dir"}, namesIn(t, filepath.Join(parent, "above")))

	err := Folder(dir, func(string) error { panic("not reached") })
	assert.EqualError(t, err, dir+" already exists: remove it or choose another folder")
	assert.ErrorIs(t, err, fs.ErrExist)
}

func TestFolderThatFails(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "dir")
	err := Folder(dir, func(temporary string) error {
		require.NoError(t, Write(filepath.Join(temporary, "f"), writeText("x")))
		return Write(filepath.Join(temporary, "none", "f"), writeText("x"))
	})
	assert.EqualError(t, err, "cannot write "+filepath.Join(dir, "none", "f")+": "+noSuchFile(t),
		"the temporary name is of no use to the reader")
	assert.Empty(t, namesIn(t, parent))
	assert.ErrorIs(t, Folder(dir, func(string) error { return context.Canceled }), context.Canceled)

	file := filepath.Join(parent, "file")
	require.NoError(t, Write(file, writeText("x")))
	below := filepath.Join(file, "dir")
	assert.ErrorContains(t, Folder(below, func(string) error { return nil }), "cannot write "+below+": ")
}

// If two writers create the same folder, the second fails and changes nothing.
func TestFolderMadeMeanwhile(t *testing.T) {
	parent := t.TempDir()
	for _, files := range [][]string{nil, {"theirs"}} {
		dir := filepath.Join(parent, "dir")
		err := Folder(dir, func(temporary string) error {
			require.NoError(t, os.Mkdir(dir, 0o755))
			for _, f := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, f), nil, 0o644))
			}
			return Write(filepath.Join(temporary, "mine"), writeText("x"))
		})
		assert.EqualError(t, err, dir+" already exists: remove it or choose another folder")
		assert.ElementsMatch(t, files, namesIn(t, dir))
		assert.Equal(t, []string{"dir"}, namesIn(t, parent))
		require.NoError(t, os.RemoveAll(dir))
	}
}

func TestTemporaryFolder(t *testing.T) {
	parent := t.TempDir()
	temporary, err := TemporaryFolder(parent, "demo")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(temporary.Path, "f"), nil, 0o600))
	Sweep(parent)
	assert.FileExists(t, filepath.Join(temporary.Path, "f"), "its owner is alive")
	require.NoError(t, temporary.Remove())
	require.NoError(t, temporary.Remove())
	assert.Empty(t, namesIn(t, parent))

	_, err = TemporaryFolder(filepath.Join(parent, "none"), "demo")
	assert.EqualError(t, err, "cannot create a temporary folder in "+filepath.Join(parent, "none")+": "+noSuchFile(t))
}
