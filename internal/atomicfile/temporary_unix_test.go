//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package atomicfile

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// childFolder names an environment variable that contains a folder. If it is set, the test binary
// begins a file and a folder in that folder and waits.
const childFolder = "MQUINE_ATOMICFILE_CHILD"

func TestMain(m *testing.M) {
	dir := os.Getenv(childFolder)
	if dir == "" {
		os.Exit(m.Run())
	}
	file, err := Create(filepath.Join(dir, "file"))
	if err != nil {
		panic(err)
	}
	temporary, err := TemporaryFolder(dir, "folder")
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(temporary.Path, "half"), nil, 0o600); err != nil {
		panic(err)
	}
	fmt.Fprintln(file, "half")
	fmt.Println("ready")
	select {}
}

func TestSweepAfterKill(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFolder+"="+dir)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	Sweep(dir)
	require.Len(t, namesIn(t, dir), 2, "the child is alive")
	require.NoError(t, Write(filepath.Join(dir, "other"), writeText("x")))
	require.Len(t, namesIn(t, dir), 3)

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.NoError(t, Write(filepath.Join(dir, "other"), writeText("y")))
	assert.Equal(t, []string{"other"}, namesIn(t, dir), "the next writer removes what the killed one left")
}

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

// Writers that sweep the same folder concurrently do not remove each other's files.
func TestConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 50 {
				assert.NoError(t, Write(filepath.Join(dir, strconv.Itoa(w)), writeText(strconv.Itoa(i))))
				assert.NoError(t, Folder(filepath.Join(dir, fmt.Sprintf("folder-%d-%d", w, i)),
					func(string) error { return nil }))
			}
		})
	}
	all.Wait()
	assert.Len(t, namesIn(t, dir), 4+200)
	for w := range 4 {
		assert.Equal(t, "49", contents(t, filepath.Join(dir, strconv.Itoa(w))))
	}
}

// setUmask is process-wide: tests that use it do not run in parallel.
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
