// Package lint checks rules of the house that no compiler checks.
package lint

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/mquine/mquine/"

// layers lists, for every top-level folder, the other folders of the module that it may import. Imports point
// down only: cmd → bench → train → metrics → rank → model → kernel → asm; kg stands beside kernel, and internal, which imports
// none of them, below all but asm.
var layers = map[string][]string{
	"asm":      {},
	"kernel":   {"asm", "internal"},
	"kg":       {"internal"},
	"model":    {"kernel", "kg", "internal"},
	"rank":     {"model", "kernel", "kg", "internal"},
	"metrics":  {"rank", "model", "kernel", "kg", "internal"},
	"train":    {"metrics", "rank", "model", "kernel", "kg", "internal"},
	"bench":    {"train", "metrics", "rank", "model", "kernel", "kg", "internal"},
	"cmd":      {"bench", "train", "metrics", "rank", "model", "kernel", "kg", "internal"},
	"internal": {},
}

// trainLayers does so within train, whose internal packages import none of the others.
var trainLayers = map[string][]string{
	"train/internal":  {},
	"train/recipe":    {},
	"train":           {"train/recipe"},
	"train/run":       {"train", "train/recipe"},
	"train/search":    {"train/run", "train", "train/recipe"},
	"train/clustered": {"train", "train/recipe"},
}

// trainLayer returns the layer of a folder of train.
func trainLayer(folder string) string {
	parts := strings.Split(folder, "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func TestImportsPointDown(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || rel == filepath.Join("asm", "gen")) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		files++
		folder := strings.Split(filepath.ToSlash(rel), "/")[0]
		allowed, ok := layers[folder]
		if !assert.True(t, ok, "%s: the folder %s has no place in the order of layers", rel, folder) {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if folder == "asm" && !strings.HasSuffix(path, "_test.go") {
				assert.Fail(t, "asm imports nothing", "%s imports %s", rel, imported)
			}
			if imported == "github.com/ebitengine/purego" {
				allowed := strings.HasPrefix(filepath.ToSlash(rel), "kernel/cuda/") || strings.HasPrefix(filepath.ToSlash(rel), "bench/rivals/")
				assert.True(t, allowed, "%s imports purego: only kernel/cuda and bench/rivals may", rel)
			}
			if rest, ours := strings.CutPrefix(imported, module); ours {
				if strings.HasSuffix(rest, "test") { // kernel/kerneltest, internal/proc/proctest
					test := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test")
					assert.True(t, test, "%s imports %s: only tests may", rel, imported)
				}
				to := strings.Split(rest, "/")[0]
				within := filepath.ToSlash(filepath.Dir(rel))
				forTests := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(within, "test")
				if folder == "train" && to == "train" && !forTests {
					from, to := trainLayer(within), trainLayer(rest)
					allowed, ok := trainLayers[from]
					assert.True(t, ok, "%s: the folder %s has no place in the order of layers", rel, from)
					assert.True(t, to == from || to == "train/internal" || slices.Contains(allowed, to),
						"%s imports %s: imports point down only", rel, imported)
				}
				assert.True(t, to == folder || to == "internal" || slices.Contains(allowed, to), "%s imports %s: imports point down only", rel, imported)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 50)
}

// Only who imports rank/gpu loads CUDA's driver: rankings, measures and training do without.
func TestRankingLoadsNoDriver(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./rank", "./metrics", "./train/...", "./model/...", "./kg/...")
	list.Dir = filepath.Join("..", "..")
	deps, err := list.Output()
	require.NoError(t, err)
	require.Contains(t, string(deps), module+"rank\n")
	for _, driver := range []string{"github.com/ebitengine/purego", module + "kernel/cuda", module + "rank/gpu"} {
		assert.NotContains(t, strings.Fields(string(deps)), driver)
	}
}
