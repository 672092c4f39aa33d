//go:build unix

package catalogue

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An interruption ends Get even while it reads a long archive member or a silent named pipe.
func TestGetIsInterruptedWhileReading(t *testing.T) {
	dir := t.TempDir()
	pipe := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, unix.Mkfifo(path, 0o644))
		return path
	}
	for name, from := range map[string]string{
		"long archive":         longArchive(t, 16<<30),
		"pipe":                 pipe("train.txt"),
		"pipe for an archive":  pipe("toy.tar.gz"),
		"pipe in a folder":     filepath.Dir(pipe("folder/train.txt")),
		"pipe that is present": "present",
	} {
		t.Run(name, func(t *testing.T) {
			f := fetcher(t)
			if from == "present" {
				require.NoError(t, os.MkdirAll(filepath.Join(f.Dir, "toy"), 0o755))
				require.NoError(t, unix.Mkfifo(filepath.Join(f.Dir, "toy", "train.txt"), 0o644))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := f.Get(ctx, toy(), from)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}

// longArchive returns the path of an archive with one member, which consists of NUL bytes and takes
// seconds to read. size is the size of the member in bytes.
func longArchive(t *testing.T, size int64) string {
	t.Helper()
	const chunk = 16 << 20
	var header bytes.Buffer
	require.NoError(t, tar.NewWriter(&header).WriteHeader(&tar.Header{
		Name: "README", Typeflag: tar.TypeReg, Size: size, Format: tar.FormatGNU,
	}))
	zip := func(text []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, err := z.Write(text)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return out.Bytes()
	}
	file := zip(header.Bytes())
	for member := zip(make([]byte, chunk)); size > 0; size -= chunk {
		file = append(file, member...)
	}
	path := filepath.Join(t.TempDir(), "long.tar.gz")
	require.NoError(t, os.WriteFile(path, file, 0o644))
	return path
}
