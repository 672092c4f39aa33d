package lint

import (
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module is the prefix of this project's import paths.
const module = "github.com/mquine/mquine/"

// layers lists, for every top-level folder, the other folders that it may import. Imports only
// point downwards: cmd → bench → train → metrics → rank → model → kernel → asm. Package report is
// on the level of bench, kg is on the level of kernel, and internal is below all other folders.
var layers = map[string][]string{
	"asm":      {},
	"kernel":   {"asm", "internal"},
	"kg":       {"internal"},
	"model":    {"kernel", "kg", "internal"},
	"rank":     {"model", "kernel", "kg", "internal"},
	"metrics":  {"rank", "model", "kernel", "kg", "internal"},
	"train":    {"metrics", "rank", "model", "kernel", "kg", "internal"},
	"report":   {"train", "metrics", "rank", "model", "kernel", "kg", "internal"},
	"bench":    {"train", "metrics", "rank", "model", "kernel", "kg", "internal"},
	"cmd":      {"bench", "report", "train", "metrics", "rank", "model", "kernel", "kg", "internal"},
	"internal": {},
}

// trainLayers lists, for every layer within train, the other layers that it may import. All of them
// may import train/internal.
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
	var found failures
	for _, f := range sources(t, ".go") {
		if strings.HasPrefix(f.name, "asm/gen/") { // a separate module
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, f.name, f.text, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if why := forbidden(f.name, imported); why != "" {
				found.add(f.name, set.Position(spec.Pos()).Line, "imports %s: %s", imported, why)
			}
		}
	}
	found.report(t)
}

// forbidden returns the reason why a file may not import a package, or "" if it may.
func forbidden(name, imported string) string {
	folder := path.Dir(name)
	top, _, _ := strings.Cut(folder, "/")
	allowed, known := layers[top]
	test := strings.HasSuffix(name, "_test.go")
	forTests := test || strings.HasSuffix(folder, "test") // kernel/kerneltest, internal/proc/proctest
	if !known {
		return "the folder " + top + " is missing from the list of layers"
	}
	if top == "asm" && !test {
		return "asm imports nothing"
	}
	if imported == "github.com/ebitengine/purego" {
		if strings.HasPrefix(name, "kernel/cuda/") || strings.HasPrefix(name, "bench/rivals/") {
			return ""
		}
		return "only kernel/cuda and bench/rivals may"
	}
	target, ours := strings.CutPrefix(imported, module)
	if !ours {
		return ""
	}
	if strings.HasSuffix(target, "test") && !forTests {
		return "only tests may"
	}
	to, _, _ := strings.Cut(target, "/")
	if to != top && to != "internal" && !slices.Contains(allowed, to) {
		return "imports point down only"
	}
	if top != "train" || to != "train" || forTests {
		return ""
	}
	from, within := trainLayer(folder), trainLayer(target)
	allowed, known = trainLayers[from]
	if !known {
		return "the folder " + from + " is missing from the list of layers"
	}
	if within != from && within != "train/internal" && !slices.Contains(allowed, within) {
		return "imports point down only"
	}
	return ""
}

func TestForbidden(t *testing.T) {
	for _, c := range []struct{ name, imported, why string }{
		{"kg/graph.go", module + "internal/text", ""},
		{"kg/graph.go", module + "kernel", "imports point down only"},
		{"kg/graph.go", "github.com/ebitengine/purego", "only kernel/cuda and bench/rivals may"},
		{"kernel/pool.go", module + "kernel/kerneltest", "only tests may"},
		{"kernel/pool_test.go", module + "kernel/kerneltest", ""},
		{"train/step.go", module + "train/run", "imports point down only"},
		{"train/run/run.go", module + "train", ""},
		{"asm/stubs.go", "fmt", "asm imports nothing"},
		{"new/x.go", "fmt", "the folder new is missing from the list of layers"},
	} {
		assert.Equal(t, c.why, forbidden(c.name, c.imported), "%s imports %s", c.name, c.imported)
	}
}

// A program loads CUDA's driver only if it imports rank/gpu. The packages for rankings, metrics,
// training, models and data sets do not import it.
func TestRankingLoadsNoDriver(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./rank", "./metrics", "./train/...", "./model/...", "./kg/...")
	list.Dir = root
	deps, err := list.Output()
	require.NoError(t, err)
	require.Contains(t, string(deps), module+"rank\n")
	for _, driver := range []string{"github.com/ebitengine/purego", module + "kernel/cuda", module + "rank/gpu"} {
		assert.NotContains(t, strings.Fields(string(deps)), driver)
	}
}
