package catalogue

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
)

// Sum is a checksum with its algorithm: "sha256:<hex>", "md5:<hex>" or "git:<hex>". The last is
// Git's object identifier of the file: the SHA-1 of "blob", the length and the content.
type Sum string

// hash returns a new hash of the sum's algorithm for a text of size bytes. Only Git's hash depends
// on the size.
func (s Sum) hash(size int64) (hash.Hash, error) {
	switch algorithm, _, _ := strings.Cut(string(s), ":"); algorithm {
	case "sha256":
		return sha256.New(), nil
	case "md5":
		return md5.New(), nil
	case "git":
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h, nil
	}
	return nil, fmt.Errorf("checksum %q has an unknown algorithm: sha256, md5 and git are known", s)
}

// Verify checks the stored file at path against the number of lines and the checksums in the
// catalogue. The error says how the file differs.
func (f File) Verify(ctx context.Context, path string) error { return f.verify(ctx, path, path) }

// verify is like Verify, but messages call the file by the given name instead of its path.
func (f File) verify(ctx context.Context, path, name string) error {
	var size int64
	if slices.ContainsFunc(f.Sums, func(s Sum) bool { return strings.HasPrefix(string(s), "git:") }) {
		count := writerFunc(func(p []byte) (int, error) {
			size += int64(len(p))
			return len(p), nil
		})
		if _, err := f.readStored(ctx, path, name, count); err != nil {
			return err
		}
	}

	hashes := make([]hash.Hash, len(f.Sums))
	writers := make([]io.Writer, len(f.Sums))
	for i, sum := range f.Sums {
		h, err := sum.hash(size)
		if err != nil {
			return err
		}
		hashes[i], writers[i] = h, h
	}
	lines, err := f.readStored(ctx, path, name, io.MultiWriter(writers...))
	if err != nil {
		return err
	}
	if err := f.checkLines(lines, name); err != nil {
		return err
	}
	for i, sum := range f.Sums {
		algorithm, want, _ := strings.Cut(string(sum), ":")
		if got := hex.EncodeToString(hashes[i].Sum(nil)); got != want {
			return mismatch("%s has the %s checksum %s instead of %s", name, algorithm, got, want)
		}
	}
	return nil
}

// VerifyLines checks only the number of lines, which takes a tenth of a second for the largest data
// sets in the catalogue.
func (f File) VerifyLines(ctx context.Context, path string) error {
	lines, err := f.readStored(ctx, path, path, io.Discard)
	if err != nil {
		return err
	}
	return f.checkLines(lines, path)
}

func (f File) checkLines(lines int, name string) error {
	if lines != f.Lines {
		return mismatch("%s has %s instead of %s", name, text.Plural(lines, "line"), text.Comma(f.Lines))
	}
	return nil
}

func (f File) readStored(ctx context.Context, path, name string, w io.Writer) (lines int, err error) {
	if isOther(path) {
		return 0, mismatch("%s has N-Triples instead of tab-separated text", name)
	}
	stored, err := input.Open(ctx, path)
	if err != nil {
		return 0, fmt.Errorf("checking a file: %w", err)
	}
	defer stored.Close()
	return f.copyText(ctx, w, stored, name)
}

// mismatchError means that a file differs from its description in the catalogue.
type mismatchError struct{ what string }

func mismatch(format string, args ...any) error {
	return &mismatchError{fmt.Sprintf(format, args...)}
}

func (e *mismatchError) Error() string { return e.what + ": it is damaged or another version" }

// copyText decompresses the text from r and writes it with LF line ends, including one after the
// last line, and without a blank last line. It returns the number of lines. It fails at the first excess
// line, so a hostile archive cannot fill the disk. Messages call the text by the given name.
func (f File) copyText(ctx context.Context, w io.Writer, r io.Reader, name string) (lines int, err error) {
	const maxLine = 1 << 16 // far above the longest line of a benchmark
	plain, err := uncompressed(r)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", name, err)
	}
	defer plain.Close()
	in := bufio.NewReaderSize(plain, maxLine)
	out := bufio.NewWriterSize(w, maxLine)
	for {
		if lines%4096 == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return lines, out.Flush()
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return 0, mismatch("line %d of %s is longer than %s", lines+1, name, humanize.IBytes(maxLine))
		}
		if err != nil && err != io.EOF {
			return 0, fmt.Errorf("reading %s: %w", name, err)
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) == 0 {
			if _, err := in.Peek(1); err == io.EOF {
				return lines, out.Flush()
			}
		}
		lines++
		if lines > f.Lines {
			return 0, mismatch("%s has more than %s", name, text.Plural(f.Lines, "line"))
		}
		if _, err := out.Write(line); err != nil {
			return 0, err
		}
		if err := out.WriteByte('\n'); err != nil {
			return 0, err
		}
	}
}

// uncompressed decompresses r. It detects the compression from the first bytes, because the
// compression that a server delivers may not match the file extension.
func uncompressed(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReader(r)
	start, err := in.Peek(compressed.MagicSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	_, extension := compressed.Detect(start)
	return compressed.NewReader(in, extension)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
