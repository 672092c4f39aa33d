package input

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReaderReadsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := make([]byte, rapid.IntRange(0, 3*chunkSize+1).Draw(t, "size"))
		for i := range want {
			want[i] = byte(rand.Uint32())
		}
		var from io.Reader = bytes.NewReader(want)
		switch rapid.IntRange(0, 2).Draw(t, "pieces") {
		case 1:
			from = iotest.HalfReader(from)
		case 2:
			from = iotest.DataErrReader(from) // the end together with the last bytes
		}
		r := NewReader(context.Background(), from)
		defer r.Close()
		require.NoError(t, iotest.TestReader(r, want))
	})
}

func TestReaderKeepsTheError(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(t.Context(), io.MultiReader(bytes.NewReader([]byte("ab")), iotest.ErrReader(broken)))
	defer r.Close()
	got, err := io.ReadAll(r)
	assert.Equal(t, "ab", string(got))
	assert.ErrorIs(t, err, broken)
	_, err = r.Read(make([]byte, 1))
	assert.ErrorIs(t, err, broken)
}

func TestOpenAndReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o644))
	r, err := Open(t.Context(), path)
	require.NoError(t, err)
	assert.EqualValues(t, 4, r.Size())
	require.NoError(t, iotest.TestReader(r, []byte("text")))
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())

	text, err := ReadFile(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, "text", string(text))
	_, err = ReadFile(t.Context(), path+"x")
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadFile(t.Context(), filepath.Dir(path))
	assert.EqualError(t, err, "read "+filepath.Dir(path)+": it is a folder, not a file")
	require.NoError(t, os.Truncate(path, 256<<20+1))
	_, err = ReadFile(t.Context(), path)
	assert.EqualError(t, err, "read "+path+": it has more than 256 MiB: check that it is the right file")
}

func TestCancelledBeforehand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := NewReader(ctx, bytes.NewReader([]byte("text")))
	defer r.Close()
	cancel()
	_, err := r.Read(make([]byte, 1))
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Open(ctx, os.DevNull)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Await(ctx, func() (int, error) { panic("not to be called") })
	assert.ErrorIs(t, err, context.Canceled)
}

// A read that never returns does not block the reader.
func TestCancelledWhileReading(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	defer out.Close()
	r := NewReader(ctx, in)
	defer r.Close()
	go func() {
		_, _ = out.Write([]byte("first"))
		cancel()
	}()
	got, err := io.ReadAll(r)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "first"[:len(got)], string(got))
}

func TestAwait(t *testing.T) {
	n, err := Await(t.Context(), func() (int, error) { return 7, io.EOF })
	assert.Equal(t, 7, n)
	assert.ErrorIs(t, err, io.EOF)

	ctx, cancel := context.WithCancel(t.Context())
	block := make(chan struct{})
	defer close(block)
	n, err = Await(ctx, func() (int, error) {
		cancel()
		<-block
		return 7, nil
	})
	assert.Zero(t, n)
	assert.ErrorIs(t, err, context.Canceled)
}

func BenchmarkReader(b *testing.B) {
	path := filepath.Join(b.TempDir(), "file")
	const size = 64 << 20
	require.NoError(b, os.WriteFile(path, make([]byte, size), 0o644))
	buffer := make([]byte, 1<<18)
	b.Run("input", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			r, err := Open(b.Context(), path)
			require.NoError(b, err)
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, buffer)
			require.NoError(b, err)
			require.NoError(b, r.Close())
		}
	})
	b.Run("os", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			r, err := os.Open(path)
			require.NoError(b, err)
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, buffer)
			require.NoError(b, err)
			require.NoError(b, r.Close())
		}
	})
}
