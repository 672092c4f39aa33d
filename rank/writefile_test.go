package rank

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func writeText(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, WriteFile(path, writeText("one")))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, WriteFile(path, writeText("two")))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "two", string(text))
	assert.Equal(t, []string{"f"}, namesIn(t, dir))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode(), "an old file keeps its permissions")
}

func TestWriteFileThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, WriteFile(path, writeText("old")))
	full := &fs.PathError{Op: "write", Path: filepath.Join(dir, ".f123"), Err: syscall.ENOSPC}
	err := WriteFile(path, func(w io.Writer) error {
		require.NoError(t, writeText("half")(w))
		return full
	})
	assert.EqualError(t, err, "cannot write "+path+": no space left on device; free some space or choose another place")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "old", string(text))
	assert.Equal(t, []string{"f"}, namesIn(t, dir))

	missing := filepath.Join(dir, "none", "f")
	assert.EqualError(t, WriteFile(missing, writeText("x")), "cannot write "+missing+": no such file or directory")
	assert.ErrorIs(t, WriteFile(dir, writeText("x")), syscall.EISDIR)
}

func TestWriteFileKeepsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(target, []byte("old"), 0o644))
	require.NoError(t, os.Symlink("target", link))
	require.NoError(t, WriteFile(link, writeText("new")))
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "new", string(text))
	_, err = os.Readlink(link)
	assert.NoError(t, err)
}

// A device is not replaced, and a real full one gives the same sentence.
func TestWriteFileToFullDevice(t *testing.T) {
	const device = "/dev/full"
	before, err := os.Stat(device)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(device + " does not exist on this system")
	}
	require.NoError(t, err)
	require.NotZero(t, before.Mode()&fs.ModeDevice)
	err = WriteFile(device, writeText("x"))
	assert.EqualError(t, err, "cannot write /dev/full: no space left on device; free some space or choose another place")
	after, err := os.Stat(device)
	require.NoError(t, err)
	assert.Equal(t, before.Mode(), after.Mode())
}
