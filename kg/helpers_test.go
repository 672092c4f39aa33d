package kg

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// numberedLabels returns a vocabulary of the labels "0", "1", …
func numberedLabels(n int) *Vocabulary {
	v := NewVocabulary()
	for i := range n {
		v.Add(strconv.Itoa(i))
	}
	return v
}

// newIndex returns the index of g.
func newIndex(t require.TestingT, g *Graph) *Index {
	x, err := NewIndex(context.Background(), g)
	require.NoError(t, err)
	return x
}

// writeFolder writes files, compressed as their names say, to a new folder.
func writeFolder(tb testing.TB, files map[string]string) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range files {
		require.NoError(tb, os.WriteFile(filepath.Join(dir, name), compressedText(tb, name, text), 0o644))
	}
	return dir
}

func compressedText(tb testing.TB, name, text string) []byte {
	tb.Helper()
	var out bytes.Buffer
	var z io.WriteCloser
	switch filepath.Ext(name) {
	case ".gz":
		z = gzip.NewWriter(&out)
	case ".zst":
		encoder, err := zstd.NewWriter(&out)
		require.NoError(tb, err)
		z = encoder
	default:
		return []byte(text)
	}
	_, err := io.WriteString(z, text)
	require.NoError(tb, err)
	require.NoError(tb, z.Close())
	return out.Bytes()
}

// named returns the triples of a split as labels.
func named(g *Graph, s Split) [][3]string {
	var triples [][3]string
	for _, t := range g.Splits[s] {
		labels := [3]string{g.Entities.Label(t.Head), g.Relations.Label(t.Relation), g.Entities.Label(t.Tail)}
		triples = append(triples, labels)
	}
	return triples
}
