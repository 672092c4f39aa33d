package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/model/checkpoint/formats"
)

// smallCheckpoint saves and opens a small model with distinct parameters.
func smallCheckpoint(t *testing.T, config model.Config) *checkpoint.Checkpoint {
	t.Helper()
	config.Entities, config.Relations = 3, 2
	parameters, err := model.Parameters(config)
	require.NoError(t, err)
	tensors := make([][]float32, len(parameters))
	next := float32(0.125)
	for i, p := range parameters {
		for range p.Len() {
			tensors[i] = append(tensors[i], next)
			next += 0.25
		}
	}
	m, err := model.New(config, tensors)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "saved")
	metadata := map[string]string{"dataset": "toy", "note": "3.5", "reciprocal": "false"}
	require.NoError(t, checkpoint.Save(t.Context(), dir, m, kg.NewVocabulary("annie", "bob", "carla"),
		kg.NewVocabulary("likes", "knows"), metadata))
	c, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// exportTo returns the form with the given name.
func exportTo(t *testing.T, name string) *checkpoint.ExportFormat {
	for _, f := range checkpoint.ExportFormats {
		if f.Name == name {
			return f
		}
	}
	require.Fail(t, "no form is called "+name)
	return nil
}

// For every model, an exported checkpoint opens with the same parameters, bit for bit.
func TestExport(t *testing.T) {
	for _, spec := range model.Specs() {
		for _, reciprocal := range []bool{false, true} {
			config := spec.Initial(model.Config{Model: spec.Name, Dim: 4, Reciprocal: reciprocal})
			c := smallCheckpoint(t, config)
			for _, name := range []string{"npy", "safetensors", "libkge-ids"} {
				out := filepath.Join(t.TempDir(), "out")
				require.NoError(t, c.Export(t.Context(), out, exportTo(t, name)), spec.Name)
				back := requireSame(t, c, out)
				assert.Equal(t, "3.5", back.Metadata["note"])
				assert.Equal(t, map[string]string{"npy": "npy", "safetensors": "mquine/1", "libkge-ids": "npy"}[name],
					back.Format)
			}
		}
	}
}

// For every model with two tables, the exported tables import with the same parameters, bit for bit.
func TestExportedTablesImport(t *testing.T) {
	for _, name := range formats.TensorModels() {
		spec, err := model.Lookup(name)
		require.NoError(t, err)
		c := smallCheckpoint(t, spec.Initial(model.Config{Model: name, Dim: 8}))
		imported, err := checkpoint.OpenTensors(t.Context(), exportedTables(t, c))
		require.NoError(t, err, name)
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, imported.Save(t.Context(), out, map[string]string{"dataset": c.Dataset}), name)
		requireSame(t, c, out)
		require.NoError(t, imported.Close())
	}
}

// exportedTables exports c, which has two tables, and describes them.
func exportedTables(t *testing.T, c *checkpoint.Checkpoint) formats.TensorFiles {
	dir := filepath.Join(t.TempDir(), "npy")
	require.NoError(t, c.Export(t.Context(), dir, exportTo(t, "npy")))
	return formats.TensorFiles{
		Model: c.Model.Config().Model, Hyper: c.Model.Config().Hyper,
		Entity: filepath.Join(dir, "entity.npy"), Relation: filepath.Join(dir, "relation.npy"),
		Entities: filepath.Join(dir, "entities.tsv"), Relations: filepath.Join(dir, "relations.tsv"),
	}
}

// Tables whose widths do not fit the model are refused.
func TestTablesOfWrongWidth(t *testing.T) {
	given := exportedTables(t, smallCheckpoint(t, model.Config{Model: "distmult", Dim: 5}))
	for _, c := range []struct {
		model string
		hyper map[string]float64
		want  string
	}{
		{"complex", nil, given.Entity + `: tensor "entity" has rows of 5 numbers, ` +
			"but an entity of model complex has a multiple of 2"},
		{"expressive", nil, given.Relation + `: "relation" has rows of 5 numbers, but expressive with d = 5 needs 30`},
		{"ote", map[string]float64{model.Group: 4}, filepath.Dir(given.Entity) +
			": model ote: group is 4: it must be a divisor of the dimension 5"},
		{"house", map[string]float64{model.Group: 4, model.Translation: 1},
			"model house does not have exactly two tables, one of entities and one of relations"},
	} {
		given.Model, given.Hyper = c.model, c.hyper
		_, err := checkpoint.OpenTensors(t.Context(), given)
		assert.EqualError(t, err, c.want)
	}
}

// An error about a tensor that a file lacks lists the tensors that the file has.
func TestTablesNotNamed(t *testing.T) {
	c := smallCheckpoint(t, model.Config{Model: "distmult", Dim: 4})
	path := filepath.Join(c.Path, "model.safetensors")
	_, err := checkpoint.OpenTensors(t.Context(), formats.TensorFiles{
		Model: "distmult", Entity: path, Relation: path + ":relations",
	})
	assert.EqualError(t, err, "--entity: "+path+` has no tensor "": it has "entity", "relation"`+"\n"+
		"--relation: "+path+` has no tensor "relations": it has "entity", "relation"`)
}

// TestExportForeign checks that the checkpoints of other tools, exported as npy, open with the same
// parameters, configuration and labels.
func TestExportForeign(t *testing.T) {
	for _, dir := range fixtureFolders(t) {
		c, err := checkpoint.Open(t.Context(), dir)
		if err != nil {
			continue // TestForeignFormats checks the error
		}
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, c.Export(t.Context(), out, exportTo(t, "npy")), dir)
		requireSame(t, c, out)
		require.NoError(t, c.Close())
	}
}

func TestExportWord2vec(t *testing.T) {
	c := smallCheckpoint(t, model.Config{Model: "mquine", Dim: 2})
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, c.Export(t.Context(), out, exportTo(t, "word2vec")))
	tensors := c.Model.Tensors()
	for name, want := range map[string]struct {
		labels []string
		rows   func(i int) []float32
	}{
		"entities.bin": {c.Entities.Labels(), func(i int) []float32 { return tensors[0][3*i:][:3] }},
		"relations.bin": {c.Relations.Labels(), func(i int) (row []float32) {
			for _, table := range tensors[1:] {
				row = append(row, table[4*i:][:4]...)
			}
			return row
		}},
	} {
		text, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		expected := fmt.Sprintf("%d %d\n", len(want.labels), len(want.rows(0)))
		for i, label := range want.labels {
			expected += label + " "
			for _, v := range want.rows(i) {
				expected = string(binary.LittleEndian.AppendUint32([]byte(expected), math.Float32bits(v)))
			}
			expected += "\n"
		}
		assert.Equal(t, []byte(expected), text)
	}
}

// Export refuses a label that the format cannot hold, and an existing folder. It then writes
// nothing.
func TestExportRefuses(t *testing.T) {
	c := smallCheckpoint(t, model.Config{Model: "distmult", Dim: 4})
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.Mkdir(out, 0o755))
	assert.ErrorIs(t, c.Export(t.Context(), out, exportTo(t, "npy")), os.ErrExist)
	require.NoError(t, os.Remove(out))
	c.Relations = kg.NewVocabulary("likes", "is fond of")
	assert.EqualError(t, c.Export(t.Context(), out, exportTo(t, "word2vec")), "exporting to "+out+
		`: label "is fond of" contains a space, which would end a label in the format word2vec: choose another format`)
	left, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	assert.Empty(t, left)

	// Export fails if a file changes while it runs.
	path := filepath.Join(c.Path, "model.safetensors")
	contents, err := os.ReadFile(path)
	require.NoError(t, err)
	contents[len(contents)-1] ^= 1
	require.NoError(t, os.WriteFile(path, contents, 0o644))
	assert.ErrorContains(t, c.Export(t.Context(), out, exportTo(t, "npy")), "was changed while it was in use")
	assert.NoDirExists(t, out)
}

// Export refuses metadata that are too long for the file of options that Open reads.
func TestExportLongMetadata(t *testing.T) {
	c := smallCheckpoint(t, model.Config{Model: "distmult", Dim: 4})
	for n, fits := range map[int]bool{formats.MaxOptions - 1000: true, formats.MaxOptions: false} {
		c.Metadata["long"] = strings.Repeat("x", n)
		for _, f := range checkpoint.ExportFormats {
			out := filepath.Join(t.TempDir(), "out")
			err := c.Export(t.Context(), out, f)
			if !fits && (f.Name == "npy" || f.Name == "libkge-ids") {
				assert.ErrorContains(t, err, "exporting to "+out+": config.json with the metadata of the checkpoint "+
					"would have 10")
				assert.NoDirExists(t, out)
				continue
			}
			require.NoError(t, err)
			if f.Name != "word2vec" {
				requireSame(t, c, out)
			}
		}
	}
}

// Damaged exports give errors that name a file.
func TestExportedRefuses(t *testing.T) {
	c := smallCheckpoint(t, model.Config{Model: "rotate", Dim: 4, Hyper: map[string]float64{"embedding_range": 2}})
	for name, change := range map[string]struct {
		file    string
		change  func(text []byte) []byte
		message string
	}{
		"no model":  {"config.json", replace(`"rotate"`, `"nosuch"`), `nosuch`},
		"dimension": {"config.json", replace(`"dim": 4`, `"dim": 5`), "needs [3 10]"},
		"type": {"config.json", replace(`"dim": 4`, `"dim": "4"`),
			`option "dim" is the text "4", not a positive integer`},
		"range": {"config.json", replace(`_range": 2`, `_range": "x"`), `is the text "x", not a number`},
		"not JSON": {"config.json", func(text []byte) []byte { return text[:20] },
			"config.json is not a single JSON object"},
		"brackets": {"config.json", func(text []byte) []byte { return append(text, '}') },
			"config.json is not a single JSON object"},
		"table":  {"entity.npy", func([]byte) []byte { return nil }, "not a .npy file"},
		"shape":  {"entity.npy", replace("(3, 8)", "(8, 3)"), "has shape [8 3], but rotate with d = 4"},
		"labels": {"entities.tsv", func(text []byte) []byte { return append(text, "3\tdora\n"...) }, "4 entities"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, c.Export(t.Context(), out, exportTo(t, "npy")))
		path := filepath.Join(out, change.file)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, change.change(text), 0o644))
		_, err = checkpoint.Open(t.Context(), out)
		require.ErrorContains(t, err, change.message, name)
		assert.True(t, strings.HasPrefix(err.Error(), out), err)
	}
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, c.Export(t.Context(), out, exportTo(t, "npy")))
	require.NoError(t, os.Remove(filepath.Join(out, "relation.npy")))
	_, err := checkpoint.Open(t.Context(), out)
	assert.ErrorContains(t, err, filepath.Join(out, "relation.npy"))
}

func replace(from, to string) func(text []byte) []byte {
	return func(text []byte) []byte { return bytes.Replace(text, []byte(from), []byte(to), 1) }
}
