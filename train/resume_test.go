package train

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// litterName is a temporary name of package atomicfile.
const litterName = ".model.safetensors.0123456789abcdef.mquine-tmp"

// writeAll makes files with their folders.
func writeAll(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
	}
}

// contentsOf returns the files below a folder with their contents.
func contentsOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return files
}

// small is a configuration that trains in no time.
func small(epochs int) Config {
	c := Default()
	c.Dim, c.Batch, c.Epochs = 4, 128, epochs
	return c
}

// resume opens the run in a folder and trains it to its end.
func resume(t testing.TB, dir string) error {
	t.Helper()
	r, err := OpenRun(t.Context(), dir, machineOf(t, 1))
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Train(t.Context(), func(Epoch) {})
}

// Resuming removes temporary files of killed processes and nothing else, whatever its name.
func TestResumeKeepsHiddenFiles(t *testing.T) {
	data := familiesFolder(t)
	dir := trainIn(t, data, small(1), machineOf(t, 1))
	hidden := []string{".git/HEAD", ".notes", ".ssh/id", ".last.bak/x", "last/.git/HEAD", "best/.keep", "best/.model.safetensors.old"}
	litter := []string{litterName, "last/" + litterName, "best/" + litterName + "/half"}
	writeAll(t, dir, append(hidden, litter...)...)
	require.NoError(t, Extend(dir, 2))
	require.NoError(t, resume(t, dir))
	files := contentsOf(t, dir)
	for _, name := range hidden {
		assert.Equal(t, name, files[name])
	}
	for _, name := range litter {
		assert.NotContains(t, files, name)
	}

	search := createTuning(t, tuningSpace, Plan{Seed: 3, Rungs: 1, Trials: 1})
	writeAll(t, search, append([]string{".git/HEAD", ".gitignore"}, litterName)...)
	require.NoError(t, openTuning(t, search, machineOf(t, 1)).Close())
	files = contentsOf(t, search)
	assert.Contains(t, files, ".git/HEAD")
	assert.Contains(t, files, ".gitignore")
	assert.NotContains(t, files, litterName)
}

// A checkpoint whose folder is a symbolic link stays where the user has put it, and nothing else there is touched.
func TestResumeThroughLinks(t *testing.T) {
	data := familiesFolder(t)
	want := trainIn(t, data, small(3), machineOf(t, 1))
	dir := trainIn(t, data, small(1), machineOf(t, 1))
	home := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Rename(filepath.Join(dir, lastName), home))
	require.NoError(t, os.Symlink(home, filepath.Join(dir, lastName)))
	writeAll(t, home, ".bashrc", ".ssh/id", "notes")
	require.NoError(t, Extend(dir, 3))
	require.NoError(t, resume(t, dir))
	for _, file := range []string{".bashrc", ".ssh/id", "notes"} {
		assert.Equal(t, file, contentsOf(t, home)[file])
	}
	link, err := os.Readlink(filepath.Join(dir, lastName))
	require.NoError(t, err)
	assert.Equal(t, home, link)
	assert.Equal(t, fileDigest(t, want, outputs[0]), fileDigest(t, home, "model.safetensors"))
}
