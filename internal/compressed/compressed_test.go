package compressed

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriteAndRead(t *testing.T) {
	contents := strings.Repeat("héad\trelation\ttail\n", 5000)
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, contents)
		return err
	}
	for _, extension := range append(Extensions(), ".parquet") {
		path := "f.tsv" + extension
		var first, second bytes.Buffer
		require.NoError(t, Write(&first, path, write))
		require.NoError(t, Write(&second, path, write))
		assert.Equal(t, first.Bytes(), second.Bytes(), extension)
		assert.Equal(t, Is(path), first.Len() < len(contents)/10, extension)
		r, err := NewReader(&first, path)
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		assert.Equal(t, contents, string(got), extension)
	}
}

// The contents of a gzip archive are the contents of all its members. Other data after them are an error, also
// zeros, and differ from a member that is cut off.
func TestGzipMembers(t *testing.T) {
	member := func(contents string) string {
		var b strings.Builder
		require.NoError(t, Write(&b, "f.gz", func(w io.Writer) error {
			_, err := io.WriteString(w, contents)
			return err
		}))
		return b.String()
	}
	archive, empty := member("a\n")+member("b\n"), strings.Repeat(member(""), 200)
	// The header of a member may contain the name of a file, which ends with a zero byte.
	cutName := "\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03name"
	for name, c := range map[string]struct {
		stored, contents string
		want             error
	}{
		"members":       {archive, "a\nb\n", nil},
		"empty members": {empty + archive + empty, "a\nb\n", nil},
		"text":          {archive + "more", "a\nb\n", ErrTrailing},
		"a byte":        {archive + "m", "a\nb\n", ErrTrailing},
		"zeros":         {archive + strings.Repeat("\x00", 1<<17), "a\nb\n", ErrTrailing},
		"cut magic":     {archive + archive[:1], "a\nb\n", io.ErrUnexpectedEOF},
		"cut header":    {archive + archive[:9], "a\nb\n", io.ErrUnexpectedEOF},
		"cut name":      {archive + cutName, "a\nb\n", io.ErrUnexpectedEOF},
		"cut checksum":  {archive[:len(archive)-1], "a\nb\n", io.ErrUnexpectedEOF},
	} {
		for reads, from := range map[string]io.Reader{
			"whole": strings.NewReader(c.stored), "bytes": iotest.OneByteReader(strings.NewReader(c.stored)),
		} {
			r, err := NewReader(from, "f.gz")
			require.NoError(t, err)
			var contents strings.Builder
			_, err = io.Copy(&contents, r)
			assert.ErrorIs(t, err, c.want, "%s, %s", name, reads)
			assert.Equal(t, c.contents, contents.String(), "%s, %s", name, reads)
			assert.NoError(t, r.Close())
		}
	}
}

// A small file cannot fill the memory.
func TestOpenBoundsTheContents(t *testing.T) {
	for more, isTooLong := range []bool{false, true} {
		size := DefaultLimits.Expanded + int64(more)
		path := filepath.Join(t.TempDir(), "a.tsv.zst")
		var stored bytes.Buffer
		require.NoError(t, Write(&stored, path, func(w io.Writer) error {
			zeros := make([]byte, 1<<20)
			for left := size; left > 0; left -= int64(len(zeros)) {
				if _, err := w.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Less(t, DefaultLimits.Ratio*int64(stored.Len()), DefaultLimits.Expanded)
		require.NoError(t, os.WriteFile(path, stored.Bytes(), 0o666))
		r, err := Open(t.Context(), path)
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, r)
		require.NoError(t, r.Close())
		if !isTooLong {
			require.NoError(t, err)
			assert.Equal(t, size, n)
			continue
		}
		assert.ErrorAs(t, err, new(ExpansionError))
		assert.EqualError(t, err, "expands to more than 256 MiB and 100 times its size, which is too much: "+
			"decompress it yourself if you trust it")
	}
}

func TestReadFileBoundsTheContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o666))
	contents, err := ReadFile(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, "{}", string(contents))
	require.NoError(t, os.Truncate(path, 256<<20+1))
	_, err = ReadFile(t.Context(), path)
	assert.EqualError(t, err, "it has more than 256 MiB: check that it is the right file")
}

func TestWriteFails(t *testing.T) {
	full := errors.New("the disk is full")
	for _, extension := range Extensions() {
		assert.ErrorIs(t, Write(io.Discard, "f"+extension, func(io.Writer) error { return full }), full, extension)
	}
}

func TestNames(t *testing.T) {
	for path, trimmed := range map[string]string{
		"a.tsv": "a.tsv", "a.tsv.gz": "a.tsv", "d.gz/a.nt.zst": "d.gz/a.nt", "d.gz/a": "d.gz/a", "a.gz.gz": "a.gz",
	} {
		assert.Equal(t, trimmed, Trim(path))
		assert.Equal(t, trimmed != path, Is(path), path)
	}
}

func TestReadsNoOtherFiles(t *testing.T) {
	for path, test := range map[string]struct{ text, want string }{
		"a.txt.gz":  {"plain text", "it is not a gzip file"},
		"b.txt.zst": {"", "the file is empty, so it is not an archive"},
		"c.txt":     {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
	} {
		_, err := NewReader(strings.NewReader(test.text), path)
		assert.ErrorContains(t, err, test.want, path)
	}
}
