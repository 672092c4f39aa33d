package formats

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model/checkpoint/npy"
)

// The last colon separates a file from a tensor in it, unless it belongs to the path of a file.
func TestCutTensor(t *testing.T) {
	for where, want := range map[string][2]string{
		"e.npy": {"e.npy", ""}, "m.pt:a/b": {"m.pt", "a/b"}, "x:y/m.pt:a": {"x:y/m.pt", "a"},
		`C:\e.npy`: {`C:\e.npy`, ""}, `C:\m.pt:a`: {`C:\m.pt`, "a"},
	} {
		path, inside := cutTensor(where)
		assert.Equal(t, want, [2]string{path, inside})
	}
	if runtime.GOOS == "windows" {
		t.Skip("names of files cannot contain a colon")
	}
	dir := filepath.Join(t.TempDir(), "a:b")
	require.NoError(t, os.Mkdir(dir, 0o755))
	table := filepath.Join(dir, "e.npy")
	require.NoError(t, os.WriteFile(table, nil, 0o644))
	path, inside := cutTensor(table)
	assert.Equal(t, [2]string{table, ""}, [2]string{path, inside})
	path, inside = cutTensor(table + ":a")
	assert.Equal(t, [2]string{table, "a"}, [2]string{path, inside})
}

// A table of complex numbers with an axis for the two parts must have the layout that the user names.
func TestTensorsAxesOfPairs(t *testing.T) {
	dir := t.TempDir()
	files := TensorFiles{Model: "complex", Entity: filepath.Join(dir, "e.npy"), Relation: filepath.Join(dir, "r.npy"),
		Entities: filepath.Join(dir, "entities.tsv"), Relations: filepath.Join(dir, "relations.tsv")}
	require.NoError(t, os.WriteFile(files.Entities, []byte("0\ta\n"), 0o644))
	require.NoError(t, os.WriteFile(files.Relations, []byte("0\tr\n"), 0o644))
	numbers := []float32{1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		shape        []int
		halves, pair bool // whether the layout fits
	}{
		{[]int{1, 6}, true, true}, {[]int{1, 3, 2}, false, true}, {[]int{1, 2, 3}, true, false},
		{[]int{1, 1, 3, 2}, false, false}, {[]int{1, 6, 1}, false, false},
	} {
		for _, table := range []string{files.Entity, files.Relation} {
			for _, name := range []string{files.Entity, files.Relation} {
				require.NoError(t, npy.WriteFile(t.Context(), name, []int{1, 6}, numbers))
			}
			require.NoError(t, npy.WriteFile(t.Context(), table, c.shape, numbers))
			for layout, fits := range map[string]bool{"halves": c.halves, "interleaved": c.pair} {
				files.Pairs = layout == "interleaved"
				f, err := OpenTensors(t.Context(), files)
				require.NoError(t, err)
				converted, err := f.Convert()
				if !fits {
					assert.ErrorContains(t, err, fmt.Sprintf("has shape %v, but with --layout %s its rows must be",
						c.shape, layout))
				} else if assert.NoError(t, err) {
					want := numbers
					if files.Pairs {
						want = []float32{1, 3, 5, 2, 4, 6}
					}
					assert.Equal(t, want, converted.Parameters[0].Values())
				}
				require.NoError(t, f.Close())
			}
		}
	}
}
