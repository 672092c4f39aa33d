package filelock

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// childPath names an environment variable with a path. If it is set, the test binary locks the file
// at the path and waits.
const childPath = "MQUINE_FILELOCK_CHILD"

func TestMain(m *testing.M) {
	path := os.Getenv(childPath)
	if path == "" {
		os.Exit(m.Run())
	}
	if _, err := locked(path); err != nil {
		panic(err)
	}
	fmt.Println("locked")
	time.Sleep(time.Hour)
}

// locked opens and locks a file or folder.
func locked(path string) (*os.File, error) {
	file, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return file, Lock(file)
}

// A lock excludes other processes until its process is killed. The file can still be read and
// renamed.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []string{"file", "folder"} {
		path := filepath.Join(dir, kind)
		if kind == "file" {
			require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
		} else {
			require.NoError(t, os.Mkdir(path, 0o700))
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childPath+"="+path)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		t.Cleanup(func() { _ = child.Process.Kill() })
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)

		_, err = locked(path)
		require.ErrorIs(t, err, ErrHeld, kind)
		if kind == "file" {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, "text", string(text))
		} else {
			require.NoError(t, os.WriteFile(filepath.Join(path, "new"), nil, 0o600))
			entries, err := os.ReadDir(path)
			require.NoError(t, err)
			assert.Len(t, entries, 1)
		}
		renamed := path + " renamed"
		require.NoError(t, os.Rename(path, renamed), kind)
		_, err = locked(renamed)
		require.ErrorIs(t, err, ErrHeld, kind)

		require.NoError(t, child.Process.Kill())
		_ = child.Wait()
		file, err := locked(renamed)
		require.NoError(t, err, kind)
		require.NoError(t, os.RemoveAll(renamed), "even while it is locked")
		require.NoError(t, file.Close())
		assert.NoFileExists(t, renamed)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	file, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, Lock(file))
	_, err = Create(path)
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = locked(path)
	require.ErrorIs(t, err, ErrHeld)
	_, err = file.WriteString("text")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	file, err = locked(path)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	_, err = Open(filepath.Join(t.TempDir(), "none"), os.O_RDWR)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
