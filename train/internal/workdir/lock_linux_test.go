package workdir

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A folder that can only be read is an error that says what to do.
func TestLockOfReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(path, nil, 0o444))
	if os.Geteuid() == 0 { // root may write to every file: let this thread open files as another user
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, err := unix.SetfsuidRetUid(12345)
		require.NoError(t, err)
		defer unix.SetfsuidRetUid(0)
	}
	_, err := Acquire(path)
	assert.EqualError(t, err, "cannot write to "+dir+": permission denied; copy it to a folder that you may write to")
}
