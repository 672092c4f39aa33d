package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/text"
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

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// noSuchFile returns the system's message for a file in a folder that does not exist.
func noSuchFile(t *testing.T) string {
	t.Helper()
	_, err := os.Create(filepath.Join(t.TempDir(), "none", "file"))
	return text.Cause(err).Error()
}

func writeText(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, Write(path, writeText("one")))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, WriteBytes(path, []byte("two")))
	assert.Equal(t, "two", contents(t, path))
	assert.Equal(t, []string{"f"}, namesIn(t, dir))
	info, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		assert.Equal(t, fs.FileMode(0o600), info.Mode(), "an old file keeps its permissions")
	}
}

func TestWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, Write(path, writeText("old")))
	changed := errors.New("the input has changed")
	err := Write(path, func(w io.Writer) error {
		require.NoError(t, writeText("half")(w))
		return changed
	})
	assert.Equal(t, changed, err)
	assert.Equal(t, "old", contents(t, path))
	assert.Equal(t, []string{"f"}, namesIn(t, dir))
	for cause, want := range map[error]string{
		syscall.ENOSPC: syscall.ENOSPC.Error() + "; free some space or choose another place",
		syscall.EACCES: syscall.EACCES.Error() + "; choose a place that you may write to",
	} {
		err = explain(path, &fs.PathError{Op: "write", Path: filepath.Join(dir, ".f123"), Err: cause})
		assert.EqualError(t, err, "cannot write "+path+": "+want)
	}

	missing := filepath.Join(dir, "none", "f")
	err = Write(missing, writeText("x"))
	assert.EqualError(t, err, "cannot write "+missing+": "+noSuchFile(t))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorIs(t, Write(dir, writeText("x")), syscall.EISDIR)
}

// If the file cannot replace the target, it remains beside it, and no sweep removes it.
func TestWriteKeepsTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.tsv")
	err := Write(path, func(w io.Writer) error {
		require.NoError(t, os.Mkdir(path, 0o755)) // a rename does not replace a folder
		return writeText("complete")(w)
	})
	require.ErrorContains(t, err, "cannot write "+path+": ")
	require.ErrorContains(t, err, "; the complete file is "+filepath.Join(dir, "f."))
	_, kept, _ := strings.Cut(err.Error(), "the complete file is ")
	Sweep(dir)
	assert.Equal(t, "complete", contents(t, kept))
	assert.ElementsMatch(t, []string{"f.tsv", filepath.Base(kept)}, namesIn(t, dir))
	assert.Regexp(t, `^f\.\d+\.tsv$`, filepath.Base(kept))
}

func TestWriteFollowsLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows lets only administrators create symbolic links")
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(dir, "a", "b"), filepath.Join(dir, "b")))
	for link, at := range map[string]struct{ to, target string }{
		"plain":    {"target", "target"},
		"chain":    {"plain", "target"},
		"absolute": {filepath.Join(dir, "a", "f"), "a/f"},
		"dangling": {"a/new", "a/new"},
		"up":       {"b/../up", "a/up"}, // b is a link to a/b, so b/.. is a
	} {
		if link == "chain" {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "plain")))
			require.NoError(t, os.Symlink("target", filepath.Join(dir, "plain")))
		}
		path := filepath.Join(dir, link)
		_ = os.Remove(path)
		require.NoError(t, os.Symlink(at.to, path))
		require.NoError(t, Write(path, writeText(link)))
		assert.Equal(t, link, contents(t, filepath.Join(dir, at.target)))
		read, err := os.Readlink(path)
		require.NoError(t, err, "the link remains a link")
		assert.Equal(t, at.to, read)
	}
	loop := filepath.Join(dir, "loop")
	require.NoError(t, os.Symlink("loop", loop))
	assert.EqualError(t, Write(loop, writeText("x")), "cannot write "+loop+": too many levels of symbolic links")
}

// Write does not replace a device, and a full device gives the usual error.
func TestWriteToFullDevice(t *testing.T) {
	const device = "/dev/full"
	before, err := os.Stat(device)
	if errors.Is(err, fs.ErrNotExist) || runtime.GOOS == "windows" { // Wine has it, too
		t.Skip(device + " does not exist on this system")
	}
	require.NoError(t, err)
	require.NotZero(t, before.Mode()&fs.ModeDevice)
	err = Write(device, writeText("x"))
	assert.EqualError(t, err,
		"cannot write /dev/full: no space left on device; free some space or choose another place")
	after, err := os.Stat(device)
	require.NoError(t, err)
	assert.Equal(t, before.Mode(), after.Mode())
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	file, err := Create(path)
	require.NoError(t, err)
	assert.NoFileExists(t, path)
	require.NoError(t, writeText("text")(file))
	require.NoError(t, file.Commit())
	file.Discard()
	assert.Equal(t, "text", contents(t, path))

	file, err = Create(path)
	require.NoError(t, err)
	require.NoError(t, writeText("other")(file))
	file.Discard()
	assert.Equal(t, "text", contents(t, path))
	assert.Equal(t, []string{"f"}, namesIn(t, dir))
}

// A file or folder with a long name has a temporary name that the system accepts.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	long := string(make([]byte, 0, 255))
	for len(long) < 255 {
		long += "x"
	}
	require.NoError(t, Write(filepath.Join(dir, long), writeText("x")))
	require.NoError(t, Folder(filepath.Join(dir, long[1:]), func(string) error { return nil }))
	assert.Len(t, namesIn(t, dir), 2)
}
