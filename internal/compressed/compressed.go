// Package compressed reads and writes files whose names say how they are compressed: with gzip
// (.gz) or Zstandard (.zst).
package compressed

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/mquine/mquine/internal/input"
)

const (
	gzipExtension = ".gz"
	zstdExtension = ".zst"
)

// A compressed file begins with one of these.
const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// MagicSize is the number of bytes that Detect needs.
const MagicSize = len(zstdMagic)

// maxWindow is the largest window, in bytes, that a Zstandard file may request. The zstd command
// also refuses larger windows unless it is asked to accept them.
const maxWindow = 1 << 27

// lfsPointer begins the small file that Git stores in place of a file in Git LFS.
const lfsPointer = "version https://git-lfs.github.com/spec/"

// Extensions returns the extensions of names. The first, "", means that a file is not compressed.
func Extensions() []string { return []string{"", gzipExtension, zstdExtension} }

// Is reports whether the name of a file says that it is compressed.
func Is(path string) bool { return slices.Contains(Extensions()[1:], extension(path)) }

func extension(path string) string { return strings.ToLower(filepath.Ext(path)) }

// Detect returns the name of the compression and the extension of a compressed file, given its first
// bytes, at most MagicSize of which matter. It returns "" and "" if the file is not compressed.
func Detect(start []byte) (name, extension string) {
	switch {
	case bytes.HasPrefix(start, []byte(gzipMagic)):
		return "gzip", gzipExtension
	case bytes.HasPrefix(start, []byte(zstdMagic)):
		return "Zstandard", zstdExtension
	}
	return "", ""
}

// Trim returns a name without the extension that says how the file is compressed.
func Trim(path string) string {
	if Is(path) {
		return strings.TrimSuffix(path, filepath.Ext(path))
	}
	return path
}

// Open opens a file, compressed or not. Cancelling the context ends every wait for the file. Reading
// more than DefaultLimits is an ExpansionError.
func Open(ctx context.Context, path string) (io.ReadCloser, error) {
	stored, err := input.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	contents, err := NewReader(stored, path)
	if err != nil {
		stored.Close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return &file{DefaultLimits.Bound(contents, path, stored.Size()), contents, stored}, nil
}

// file closes both a decompressor and the file that it reads.
type file struct {
	io.Reader
	contents, stored io.Closer
}

func (f *file) Close() error { return errors.Join(f.contents.Close(), f.stored.Close()) }

// ReadFile is like input.ReadFile, but decompresses the file. More than 256 MiB of contents are an error.
func ReadFile(ctx context.Context, path string) ([]byte, error) {
	f, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !Is(path) {
		return input.ReadAll(f)
	}
	contents, err := io.ReadAll(io.LimitReader(f, DefaultLimits.Expanded+1))
	if int64(len(contents)) > DefaultLimits.Expanded {
		return nil, errors.New("it expands to more than 256 MiB: decompress it yourself if you trust it")
	}
	return contents, err
}

// NewReader returns a reader of the contents of f, a file with the given name. Closing it does not
// close f. The error is ErrPointer if f is a pointer to a file in Git LFS.
func NewReader(f io.Reader, path string) (io.ReadCloser, error) {
	stored := bufio.NewReaderSize(f, 1<<16)
	start, err := stored.Peek(len(lfsPointer)) // the next read returns any other error
	if string(start) == lfsPointer {
		return nil, ErrPointer
	}
	if !Is(path) {
		return io.NopCloser(stored), nil
	}
	if len(start) == 0 && err == io.EOF {
		return nil, errors.New("the file is empty, so it is not an archive: fetch it again")
	}
	if extension(path) == gzipExtension {
		z, err := gzip.NewReader(stored)
		if err != nil {
			return nil, fmt.Errorf("it is not a gzip file (%w)", UnexpectedEnd(err))
		}
		z.Multistream(false)
		return &members{z, stored}, nil
	}
	z, err := zstd.NewReader(stored, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

// ErrPointer says that a file is a pointer to a file in Git LFS.
var ErrPointer = errors.New(
	"it is a Git LFS pointer, not the file itself: run \"git lfs pull\" in its repository and copy it again")

// ErrTrailing says that a file does not end with its gzip archive.
var ErrTrailing = errors.New("other data follow the end of the gzip archive")

// members reads the concatenated members of a gzip archive. Unlike a gzip.Reader, which it does not embed
// because that would also embed WriteTo, it can tell a truncated member from other data, such as padding.
type members struct {
	z      *gzip.Reader // reads one member
	stored *bufio.Reader
}

func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.z.Read(p)
		if err != io.EOF {
			return n, err
		}
		start, err := m.stored.Peek(len(gzipMagic))
		switch {
		case len(start) == 0:
			return n, err
		case !strings.HasPrefix(gzipMagic, string(start)):
			return n, ErrTrailing
		}
		if err := m.z.Reset(m.stored); err != nil {
			return n, UnexpectedEnd(err)
		}
		m.z.Multistream(false)
		if n > 0 {
			return n, nil
		}
	}
}

func (m *members) Close() error { return m.z.Close() }

// Write calls write with a writer that compresses what it writes to w, as the name of the file
// says. The same contents have the same bytes.
func Write(w io.Writer, path string, write func(io.Writer) error) error {
	var z io.WriteCloser
	switch extension(path) {
	case gzipExtension:
		z = gzip.NewWriter(w)
	case zstdExtension:
		encoder, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		z = encoder
	default:
		return write(w)
	}
	if err := write(z); err != nil {
		z.Close() // fails like write
		return err
	}
	return z.Close()
}

// UnexpectedEnd returns io.ErrUnexpectedEOF for a decompressor's error that ends in "EOF", and other
// errors unchanged.
func UnexpectedEnd(err error) error {
	if strings.HasSuffix(err.Error(), "EOF") {
		return io.ErrUnexpectedEOF
	}
	return err
}
