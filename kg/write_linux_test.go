package kg

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If a write fails halfway, Write leaves no folder and WriteVocabulary leaves the old file. A limit
// on the size of files makes the writes fail, like a full disk.
func TestWriteFailsWholly(t *testing.T) {
	// The limit is far above the size of the files that go test writes at the same time.
	const limit = 1 << 19
	g := &Graph{Name: "g", Entities: NewVocabulary(), Relations: numberedLabels(1)}
	for i := range int32(2*limit/maxLabel + 2) {
		g.Entities.Add(strings.Repeat(string('a'+i), maxLabel))
		g.Splits[Train] = append(g.Splits[Train], Triple{i, 0, i})
	}
	parent := t.TempDir()
	vocabulary := filepath.Join(parent, "entities.tsv")
	require.NoError(t, WriteVocabulary(vocabulary, NewVocabulary("old")))

	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: old.Max}))

	dir := filepath.Join(parent, "g")
	assert.EqualError(t, Write(t.Context(), dir, g), "cannot write "+dir+"/train.txt: file too large")
	assert.EqualError(t, WriteVocabulary(vocabulary, g.Entities), "cannot write "+vocabulary+": file too large")
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	v, err := ReadVocabulary(t.Context(), vocabulary)
	require.NoError(t, err)
	assert.Equal(t, []string{"old"}, v.Labels())
}
