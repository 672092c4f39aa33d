package compressed

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

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
