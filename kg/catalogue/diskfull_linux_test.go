package catalogue

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// On a full disk, Get and Import return one error and leave no file. The disk may become full
// during a download or afterwards, when Get stores the file.
func TestGetDiskFull(t *testing.T) {
	s := serve(t, toyFiles(".txt", nil))
	local := writeFiles(t, t.TempDir(), toyFiles(".txt", nil))
	packed := len(gzipped(t, toyTexts["train"]))
	plain := len(toyTexts["train"])
	cases := map[string]struct {
		from string
		room int
	}{
		"download":              {s.URL, plain / 2},
		"storing the download":  {s.URL, plain + packed/2},
		"storing a local split": {local, packed / 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := fetcher(t)
			f.Dir = smallDisk(t, c.room)
			_, err := f.Get(t.Context(), toy(), c.from)
			require.ErrorContains(t, err, "the disk is full: toy needs more space in "+f.Dir)
			require.ErrorContains(t, err, "no space left on device")
			require.NotContains(t, err.Error(), "\n")
			require.Empty(t, entries(t, f.Dir))
		})
	}
	t.Run("import", func(t *testing.T) {
		dir := smallDisk(t, packed/2)
		_, err := Import(t.Context(), dir, local, "mine")
		require.ErrorIs(t, err, unix.ENOSPC)
		require.Empty(t, entries(t, dir))
	})
}

// smallDisk mounts a file system of the given size in bytes.
func smallDisk(t *testing.T, room int) string {
	dir := filepath.Join(t.TempDir())
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", room)); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}
