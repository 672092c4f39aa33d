//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Sweep removes only files and folders with temporary names, and does not follow symbolic links.
func TestSweepLeavesTheRest(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	kept := filepath.Join(elsewhere, "kept")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	names := []string{".git", ".env", ".notes.mquine-tmp", ".last.123", ".a.0123456789abcde.mquine-tmp",
		"a.0123456789abcdef.mquine-tmp",
		".a.0123456789ABCDEF.mquine-tmp", ".a.0123456789abcdef.mquine-tmp.bak"}
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	link := ".last.0123456789abcdef.mquine-tmp"
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, link)))
	pipe := ".pipe.0123456789abcdef.mquine-tmp"
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, pipe), 0o600))

	litter := filepath.Join(dir, ".best.0123456789abcdef.mquine-tmp")
	require.NoError(t, os.Mkdir(litter, 0o700))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(litter, "link")))
	Sweep(dir)
	assert.ElementsMatch(t, append(names, link, pipe), namesIn(t, dir))
	assert.FileExists(t, kept)
}

// setUmask sets the umask of the whole process, so tests that use it must not run in parallel.
func setUmask(t *testing.T, mask int) {
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

func TestModesFollowUmask(t *testing.T) {
	for _, mask := range []int{0o077, 0o027, 0o022, 0o002} {
		setUmask(t, mask)
		dir := filepath.Join(t.TempDir(), "above", "dir")
		require.NoError(t, Folder(dir, func(temporary string) error {
			return Write(filepath.Join(temporary, "f"), writeText("x"))
		}))
		for path, want := range map[string]int{filepath.Dir(dir): 0o777, dir: 0o777, filepath.Join(dir, "f"): 0o666} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(want&^mask), info.Mode().Perm(), "%s with umask %03o", path, mask)
		}
	}
}

// A writer does not follow another user's link in a folder like /tmp. Only root can create such a
// link for the test.
func TestLinkOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a link to another user")
	}
	dir := t.TempDir()
	link, target := filepath.Join(dir, "link"), filepath.Join(dir, "target")
	require.NoError(t, os.Symlink("target", link))
	require.NoError(t, os.Lchown(link, 12345, 12345))
	require.NoError(t, Write(link, writeText("x")))
	require.NoError(t, os.Remove(target))

	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	assert.EqualError(t, Write(link, writeText("x")),
		"cannot write "+link+": it is a symbolic link that another user put into a folder that everyone can write to")
	assert.NoFileExists(t, target)
	require.NoError(t, os.Chown(dir, 12345, 12345))
	assert.NoError(t, Write(link, writeText("x")), "the owner of the folder may create the link")
}
