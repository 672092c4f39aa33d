// Package traintest provides helpers for the tests of package train and its subpackages.
package traintest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/train/recipe"
)

// Backend returns the best kernels of this machine.
func Backend(t testing.TB) *kernel.Backend {
	t.Helper()
	backend, err := kernel.New()
	require.NoError(t, err)
	return backend
}

// FamiliesFolder writes a small graph and returns its folder.
func FamiliesFolder(t testing.TB) string {
	t.Helper()
	g, _, err := synth.Families(t.Context(), synth.Config{Seed: 1, Entities: 120, Train: 500, Valid: 20, Test: 20})
	require.NoError(t, err)
	g.Name = "families"
	dir := filepath.Join(t.TempDir(), "families")
	require.NoError(t, kg.Write(t.Context(), dir, g))
	return dir
}

// RandomGraph returns a graph with repeated triples, loops, a rare relation and many known answers.
func RandomGraph(entities, relations, triples int, seed uint64) *kg.Graph {
	rng := rand.New(rand.NewPCG(seed, 5))
	g := &kg.Graph{Name: "random", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for e := range entities {
		g.Entities.Add(string(rune('a' + e)))
	}
	for r := range relations {
		g.Relations.Add(string(rune('A' + r)))
	}
	for s, n := range []int{triples, 6, 6} {
		for range n {
			r := min(rng.Int32N(int32(relations)), rng.Int32N(int32(relations)))
			head := rng.Int32N(int32(entities))
			tail := rng.Int32N(int32(entities))
			g.Splits[s] = append(g.Splits[s], kg.Triple{Head: head, Relation: r, Tail: tail})
		}
	}
	return g
}

// OpenGraph opens a data set.
func OpenGraph(t testing.TB, data string) *kg.Graph {
	t.Helper()
	g, err := kg.Open(t.Context(), data)
	require.NoError(t, err)
	return g
}

// Small returns a recipe for a run whose epochs take a few milliseconds each.
func Small(epochs int) recipe.Recipe {
	c := recipe.Default()
	c.Dim, c.Batch, c.Epochs = 4, 128, epochs
	return c
}

// WriteFiles writes files below dir, each with its name as contents.
func WriteFiles(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
	}
}

// Contents returns the contents of the files below a folder, by path.
func Contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return files
}

// Change replaces the first occurrence of a text in a file and returns a function that restores the
// file.
func Change(t testing.TB, path, old, text string) (undo func()) {
	t.Helper()
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(before), old)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(before), old, text, 1)), 0o600))
	return func() { require.NoError(t, os.WriteFile(path, before, 0o600)) }
}

// Digest returns the SHA-256 of a file in hexadecimal.
func Digest(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// Litter is a name in the form that package atomicfile uses for temporary files.
const Litter = ".model.safetensors.0123456789abcdef.mquine-tmp"

// Gone is the end of the error about a folder that was removed while it was in use. The path comes
// before it.
const Gone = " was removed or replaced while the folder was in use, so nothing more is written there: " +
	"restore it and use --resume, or start again"
