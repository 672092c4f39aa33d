//go:build unix

package input

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

// Opening a named pipe waits for a writer, and reading from it waits for data. Cancelling the
// context ends both waits.
func TestCancelledAtANamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := Open(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	writer, err := os.OpenFile(path, os.O_RDWR, 0) // does not block
	require.NoError(t, err)
	defer writer.Close()
	_, err = writer.WriteString("half a line")
	require.NoError(t, err)
	ctx, cancel = context.WithCancel(t.Context())
	r, err := Open(ctx, path)
	require.NoError(t, err)
	defer r.Close()
	assert.Negative(t, r.Size())
	buffer := make([]byte, 100)
	n, err := r.Read(buffer)
	require.NoError(t, err)
	assert.Equal(t, "half a line", string(buffer[:n]))
	time.AfterFunc(time.Millisecond, cancel)
	_, err = r.Read(buffer)
	assert.ErrorIs(t, err, context.Canceled)
}
