//go:build unix

package checkpoint

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mquine/mquine/model"
)

// alone marks the child process of TestSaveToAFullDisk.
const alone = "MQUINE_TEST_ALONE"

// TestSaveToAFullDisk limits the size of files, so that writing fails as on a full disk, within the
// vocabulary or within the parameters. Save must then leave no file, and Replace must keep the old
// file. The test runs in a child process, because the limit also applies to files of the testing
// package.
func TestSaveToAFullDisk(t *testing.T) {
	if os.Getenv(alone) == "" {
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(self, "-test.run=^TestSaveToAFullDisk$")
		cmd.Env = append(os.Environ(), alone+"=1")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		return
	}
	m := newTrained(t, model.Config{Model: "mquine", Dim: 8, Entities: 2000, Relations: 3}, counting())
	there := filepath.Join(t.TempDir(), "ckpt")
	require.NoError(t, m.save(there))
	before, err := os.ReadFile(filepath.Join(there, parametersName))
	require.NoError(t, err)

	for name, size := range map[string]uint64{entitiesName: 1000, parametersName: 100_000} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "ckpt")
		err := withFileSizeLimit(t, size, func() error { return m.save(dir) })
		assert.EqualError(t, err,
			"saving checkpoint "+dir+": cannot write "+filepath.Join(dir, name)+": file too large")
		assert.ErrorIs(t, err, unix.EFBIG)
		assert.Empty(t, files(t, parent))
	}

	err = withFileSizeLimit(t, 100_000, func() error { return m.replace(there) })
	assert.ErrorIs(t, err, unix.EFBIG)
	after, err := os.ReadFile(filepath.Join(there, parametersName))
	require.NoError(t, err)
	assert.Equal(t, before, after)
	assert.Len(t, files(t, there), 3)
}

// withFileSizeLimit calls f while this process cannot write files larger than size bytes.
func withFileSizeLimit(t *testing.T, size uint64, f func() error) error {
	t.Helper()
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	limit := old
	limit.Cur = size
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old)) }()
	return f()
}
