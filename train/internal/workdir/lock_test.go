package workdir

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/atomicfile"
)

// A folder can be locked only once, and Check notices that the locked file was replaced or removed.
func TestLockOfReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	l, err := Acquire(path)
	require.NoError(t, err)
	require.NoError(t, l.Check())
	_, err = Acquire(path)
	assert.ErrorContains(t, err, "another process is using")

	require.NoError(t, atomicfile.WriteBytes(path, nil))
	if runtime.GOOS == "windows" { // the lock is on the folder
		require.NoError(t, l.Check())
		require.NoError(t, l.Close())
		return
	}
	assert.ErrorContains(t, l.Check(), path+" was removed or replaced")
	require.NoError(t, os.Remove(path))
	assert.ErrorContains(t, l.Check(), path+" was removed or replaced")
	require.NoError(t, l.Close())
}
