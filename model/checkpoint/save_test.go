package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

func toy(t require.TestingT) trained {
	return newTrained(t, model.Config{Model: "mquine", Dim: 2, Entities: 3, Relations: 2}, counting())
}

// TestSaveAgainstIndependentDecoder uses encoding/json and encoding/binary to read what Save wrote.
func TestSaveAgainstIndependentDecoder(t *testing.T) {
	m := toy(t)
	m.metadata = map[string]string{"dataset": "toy", "seed": "7", "model": "overruled"}
	dir := filepath.Join(t.TempDir(), "above", "ckpt")
	require.NoError(t, m.save(dir))
	assert.Equal(t, []string{"above", "above/ckpt", "above/ckpt/entities.tsv", "above/ckpt/model.safetensors",
		"above/ckpt/relations.tsv"},
		files(t, filepath.Dir(filepath.Dir(dir))), "nothing else is left")
	assert.Equal(t, map[string]string{"dataset": "toy", "seed": "7", "model": "overruled"}, m.metadata,
		"the caller's map is not touched")

	entities, err := os.ReadFile(filepath.Join(dir, "entities.tsv"))
	require.NoError(t, err)
	assert.Equal(t, "0\tentity 0\n1\tentity 1\n2\tentity 2\n", string(entities))
	relations, err := os.ReadFile(filepath.Join(dir, "relations.tsv"))
	require.NoError(t, err)
	assert.Equal(t, "0\trelation 0\n1\trelation 1\n", string(relations))

	file, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	size := binary.LittleEndian.Uint64(file)
	var header map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(file[8:8+size], &header))
	assert.JSONEq(t, fmt.Sprintf(`{"format":"mquine/1","model":"mquine","dim":"2","dataset":"toy","seed":"7","entities_sha256":"%x","relations_sha256":"%x","parameters_sha256":"%s"}`,
		sha256.Sum256(entities), sha256.Sum256(relations), checksumOf(file[8+size:], 36, 32, 32, 32)),
		string(header["__metadata__"]))
	assert.JSONEq(t, `{"dtype":"F32","shape":[3,3],"data_offsets":[0,36]}`, string(header["entity"]))
	assert.JSONEq(t, `{"dtype":"F32","shape":[2,2,2],"data_offsets":[36,68]}`, string(header["relation.head"]))
	assert.JSONEq(t, `{"dtype":"F32","shape":[2,2,2],"data_offsets":[68,100]}`, string(header["relation.tail"]))
	assert.JSONEq(t, `{"dtype":"F32","shape":[2,2,2],"data_offsets":[100,132]}`, string(header["relation.cross"]))
	data := file[8+size:]
	require.Len(t, data, 132)
	for i := range 33 {
		assert.Equal(t, float32(i+1), math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
}

func TestSaveOpenRoundTrip(t *testing.T) {
	parent := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		m := drawTrained(t)
		n++
		dirs := [2]string{filepath.Join(parent, fmt.Sprint(n, "a")), filepath.Join(parent, fmt.Sprint(n, "b"))}
		var sums [2]string
		for i, dir := range dirs {
			require.NoError(t, m.save(dir))
			c, err := Open(t.Context(), dir)
			require.NoError(t, err)
			require.Equal(t, m.model.Config(), c.Model.Config())
			require.Equal(t, m.model.Tensors(), c.Model.Tensors())
			require.Equal(t, m.entities.Labels(), c.Entities.Labels())
			require.Equal(t, m.relations.Labels(), c.Relations.Labels())
			for key, value := range m.metadata {
				require.Equal(t, value, c.Metadata[key])
			}
			sums[i] = sha256Of(t, c)
			require.NoError(t, c.Close())
		}
		require.Equal(t, sums[0], sums[1], "the same bytes every time")
	})
}

func TestSaveRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*trained)
		message string
	}{
		"no data set": {func(m *trained) { m.metadata = nil }, `the metadata lacks "dataset"`},
		"NaN": {func(m *trained) { m.model.Tensors()[2][5] = float32(math.NaN()) },
			`tensor "relation.tail" has NaN in row 1, column 1`},
		"too few labels": {func(m *trained) { m.entities = kg.NewVocabulary("a") },
			"the model has 3 entities and 2 relations, but its vocabularies have 1 and 2 labels"},
		"no vocabularies": {func(m *trained) { m.relations = nil },
			"a checkpoint needs a vocabulary of entities and one of relations"},
		"no model": {func(m *trained) { m.model = nil }, "the model is nil: give one"},
		"ensemble": {func(m *trained) {
			sum, err := model.NewEnsemble([]model.Member{{Model: m.model, Weight: 1}})
			require.NoError(t, err)
			m.model = sum
		}, "an ensemble cannot be saved: save its members"},
		"too many labels": {func(m *trained) { m.relations.Add("another") }, "have 3 and 3 labels"},
		"no relations": {func(m *trained) {
			*m = newTrained(t, model.Config{Model: "mquine", Dim: 2, Entities: 3}, counting())
		}, "its vocabulary has no relations, but a model needs at least one"},
		"tab in a label":     {func(m *trained) { m.entities = kg.NewVocabulary("a", "b\tc", "d") }, "entities.tsv"},
		"metadata not UTF-8": {func(m *trained) { m.metadata["x"] = "\xff" }, `metadata entry "x" is not valid UTF-8`},
	} {
		t.Run(name, func(t *testing.T) {
			m := toy(t)
			c.change(&m)
			parent := t.TempDir()
			dir := filepath.Join(parent, "ckpt")
			err := m.save(dir)
			require.ErrorContains(t, err, c.message)
			assert.ErrorContains(t, err, "saving checkpoint "+dir+": ")
			assert.NotContains(t, err.Error(), ".ckpt.", "no temporary name")
			assert.NotContains(t, err.Error(), "\n")
			assert.Empty(t, files(t, parent))
		})
	}
}

func TestSaveNeverOverwrites(t *testing.T) {
	m := toy(t)
	for name, make := range map[string]func(string) error{
		"checkpoint":   m.save,
		"empty folder": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"file":         func(dir string) error { return os.WriteFile(dir, []byte("mine"), 0o644) },
		"broken link":  func(dir string) error { return os.Symlink("nowhere", dir) },
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "ckpt")
			require.NoError(t, make(dir))
			before := files(t, parent)
			assert.EqualError(t, m.save(dir+"/"), dir+" already exists: remove it or choose another folder")
			assert.Equal(t, before, files(t, parent))
		})
	}
}

// countdown is a context that is cancelled after the given number of checks.
type countdown struct {
	context.Context
	left *atomic.Int64
}

func (c countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestSaveStops cancels Save and Replace at every point at which they check their contexts. A
// cancelled Save must leave no file, and a cancelled Replace must leave the checkpoint unchanged.
func TestSaveStops(t *testing.T) {
	m := newTrained(t, model.Config{Model: "mquine", Dim: 20, Entities: 2000, Relations: 2}, counting())
	kept := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, m.save(kept))
	path := filepath.Join(kept, "model.safetensors")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	m.metadata["seed"] = "2"
	stops := int64(0)
	for ; ; stops++ {
		parent := t.TempDir()
		ctx := countdown{t.Context(), new(atomic.Int64)}
		ctx.left.Store(stops)
		err := Save(ctx, filepath.Join(parent, "ckpt"), m.model, m.entities, m.relations, m.metadata)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, files(t, parent))

		ctx.left.Store(stops)
		require.ErrorIs(t, Replace(ctx, kept, m.model, m.entities, m.relations, m.metadata), context.Canceled)
		require.Len(t, files(t, kept), 3)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	assert.Greater(t, stops, int64(10), "Replace checks its context at every tensor and before every chunk")
}

func TestReplace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ckpt")
	first := toy(t)
	require.NoError(t, first.save(dir))
	notes := filepath.Join(dir, "notes.txt")
	require.NoError(t, os.WriteFile(notes, []byte("mine"), 0o644))
	before, err := Open(t.Context(), dir)
	require.NoError(t, err)
	defer before.Close()

	second := newTrained(t, model.Config{Model: "mquade", Dim: 3, Entities: 3, Relations: 2}, counting())
	second.metadata["epoch"] = "2"
	require.NoError(t, second.replace(dir))
	after, err := Open(t.Context(), dir)
	require.NoError(t, err)
	defer after.Close()
	assert.Equal(t, second.model.Tensors(), after.Model.Tensors())
	assert.Equal(t, "2", after.Metadata["epoch"])
	assert.Equal(t, first.model.Tensors(), before.Model.Tensors(), "an open checkpoint keeps its old contents")
	assert.Equal(t, []string{"entities.tsv", "model.safetensors", "notes.txt", "relations.tsv"}, files(t, dir))
}

func TestReplaceRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*trained)
		message string
	}{
		"other labels": {func(m *trained) { m.entities = kg.NewVocabulary("a", "b", "c") },
			"entities.tsv or their order differ from the model's"},
		"another order": {func(m *trained) { m.relations = kg.NewVocabulary("relation 1", "relation 0") },
			"relations.tsv or their order differ from the model's: choose another folder"},
		"infinity": {func(m *trained) { m.model.Tensors()[0][0] = float32(math.Inf(1)) },
			`tensor "entity" has +Inf in row 0, column 0`},
		"no data set": {func(m *trained) { m.metadata = nil }, `the metadata lacks "dataset"`},
		"too few labels": {func(m *trained) { m.entities = kg.NewVocabulary("a") },
			"its vocabularies have 1 and 2 labels"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ckpt")
			m := toy(t)
			require.NoError(t, m.save(dir))
			path := filepath.Join(dir, "model.safetensors")
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			c.change(&m)
			err = m.replace(dir)
			assert.ErrorContains(t, err, c.message)
			assert.ErrorContains(t, err, "replacing checkpoint "+dir+": ")
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, before, after)
			assert.Len(t, files(t, dir), 3)
		})
	}
	err := toy(t).replace(filepath.Join(t.TempDir(), "absent"))
	assert.ErrorContains(t, err, "entities.tsv: no such file or directory")
}
