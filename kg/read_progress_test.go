package kg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenReportsProgress(t *testing.T) {
	const lines = 150_000
	files := map[string]string{
		"train.txt.gz":  strings.Repeat("a\tr\tb\n", lines),
		"valid.txt":     strings.Repeat("a\tr\tb\n", lines) + "\n",
		"test.nt.zst":   "# a comment\n" + strings.Repeat("<x:a> <x:r> <x:b> .\n", lines),
		"relations.txt": "r\nx:r\n",
		"README":        "not of the data",
	}
	dir := writeFolder(t, files)
	var size int64
	for name := range files {
		if name != "README" {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			size += info.Size()
		}
	}
	var reports []OpenProgress
	_, err := Open(t.Context(), dir, ReportProgress(func(p OpenProgress) { reports = append(reports, p) }))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(reports), 3*lines/(1<<16))
	assert.Equal(t, OpenProgress{Total: size}, reports[0])
	var before OpenProgress
	for _, p := range reports {
		assert.Equal(t, size, p.Total)
		assert.GreaterOrEqual(t, p.Bytes, before.Bytes)
		assert.GreaterOrEqual(t, p.Lines, before.Lines)
		before = p
	}
	assert.Equal(t, OpenProgress{Bytes: size, Total: size, Lines: 3*lines + 4}, before,
		"the last one: all triples, a blank line, a comment and two relations")
}
