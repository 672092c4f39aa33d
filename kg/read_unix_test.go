//go:build unix

package kg

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Open returns when the context is cancelled, even if a named pipe has no writer or its writer is
// silent. Otherwise these tests would not end.
func TestOpenStopsAtANamedPipe(t *testing.T) {
	for _, name := range []string{"train.txt", "valid.txt.gz", "test.nt.zst", "entities.dict", "relations.txt.gz"} {
		dir := writeFolder(t, map[string]string{"train.txt": trainText})
		path := filepath.Join(dir, name)
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, unix.Mkfifo(path, 0o644))
		stopped := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := Open(ctx, dir)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.ErrorContains(t, err, "context deadline exceeded")
		}
		stopped()
		writer, err := os.OpenFile(path, os.O_RDWR, 0) // opens without waiting for a reader
		require.NoError(t, err)
		_, err = writer.WriteString("\x1f\x8b half")
		require.NoError(t, err)
		stopped()
		require.NoError(t, writer.Close())
	}
}

func TestReadVocabularyStopsAtANamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "entities.tsv")
	require.NoError(t, unix.Mkfifo(path, 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := ReadVocabulary(ctx, path)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// Open reads a named pipe as it reads a file, if the pipe has a writer.
func TestOpenReadsANamedPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "train.txt")
	require.NoError(t, unix.Mkfifo(path, 0o644))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte(trainText), 0) }()
	g, err := Open(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, <-written)
	assert.Len(t, g.Splits[Train], 3)
}
