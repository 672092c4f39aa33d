package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/formats"
)

func TestOpen(t *testing.T) {
	f := small()
	dir := f.write(t)
	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, dir, c.Path)
	assert.Equal(t, "mquine/1", c.Format)
	assert.Equal(t, model.Config{Model: "mquine", Dim: 2, Entities: 3, Relations: 2}, c.Model.Config())
	assert.Equal(t, "toy", c.Dataset)
	assert.Equal(t, f.metadata, c.Metadata)
	assert.Equal(t, []string{"annie", "bob", "carla"}, c.Entities.Labels())
	assert.Equal(t, []string{"likes", "knows"}, c.Relations.Labels())
	want := [][]float32{f.values["entity"], f.values["relation.head"], f.values["relation.tail"],
		f.values["relation.cross"]}
	assert.Equal(t, want, c.Model.Tensors(), "in the model's order, not the file's")
	assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(f.parameters(t))), sha256Of(t, c))
	require.NoError(t, c.Verify(t.Context()))
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())

	closed := "checkpoint " + filepath.Join(dir, "model.safetensors") + " is closed: open it again"
	assert.EqualError(t, c.Verify(t.Context()), closed)
	_, err = c.SHA256(t.Context())
	assert.EqualError(t, err, closed)
	assert.EqualError(t, c.Save(t.Context(), filepath.Join(t.TempDir(), "copy"), c.Metadata), closed)
}

func sha256Of(t require.TestingT, c *Checkpoint) string {
	sum, err := c.SHA256(context.Background())
	require.NoError(t, err)
	return sum
}

func TestOpenMQuadE(t *testing.T) {
	f := small()
	f.metadata["model"] = "mquade"
	f.names = f.names[1:]
	c, err := Open(t.Context(), f.write(t))
	require.NoError(t, err)
	defer c.Close()
	assert.Len(t, c.Model.Tensors(), 3)
}

func TestOpenRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	set := func(pairs ...string) func(*folder) {
		return func(f *folder) {
			for i := 0; i < len(pairs); i += 2 {
				f.metadata[pairs[i]] = pairs[i+1]
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(*folder)
		file    string // the file that the message names
		message string
	}{
		"no metadata": {func(f *folder) { f.metadata = map[string]string{} }, parametersName,
			`the metadata lacks "format", which format mquine/1 requires`},
		"no model": {func(f *folder) { delete(f.metadata, "model") }, parametersName,
			`the metadata lacks "model"`},
		"no dim": {func(f *folder) { delete(f.metadata, "dim") }, parametersName,
			`the metadata lacks "dim"`},
		"γ not a number": {set("model", "transe-l1", "gamma", "twelve"), parametersName,
			`metadata "gamma" is "twelve", not a number`},
		"no embedding range": {set("model", "rotate"), parametersName,
			"model rotate: embedding_range is missing: it must be from 1e-30 to 1e+30"},
		"modulus negative": {set("model", "protate", "embedding_range", "1", "modulus", "-0.5"), parametersName,
			"modulus is -0.5: it must be from 0"},
		"γ infinite": {set("model", "transe-l1", "gamma", "Inf"), parametersName,
			"gamma is +Inf: it must be from"},
		"no data set": {func(f *folder) { f.metadata["dataset"] = "" }, parametersName,
			`the metadata lacks "dataset"`},
		"later format": {func(f *folder) { f.metadata = map[string]string{"format": "mquine/2"} },
			parametersName, `format "mquine/2" is unknown: this version of mquine reads mquine/1`},
		"unknown model": {func(f *folder) { f.metadata["model"] = "mqueen" }, parametersName,
			`unknown model "mqueen"`},
		"dim not a number": {func(f *folder) { f.metadata["dim"] = "two" }, parametersName,
			`metadata "dim" is "two", not a dimension`},
		"dim 0":    {func(f *folder) { f.metadata["dim"] = "0" }, parametersName, "out of range"},
		"dim huge": {func(f *folder) { f.metadata["dim"] = "3037000500" }, parametersName, "out of range"},
		"dim of a different size": {func(f *folder) { f.metadata["dim"] = "3" }, parametersName,
			`tensor "entity" has shape [3 3], but mquine with d = 3, 3 entities (entities.tsv) and 2 relations (relations.tsv) needs [3 6]`},
		"model without cross": {func(f *folder) { f.metadata["model"] = "mquade" }, parametersName,
			`model mquade has no tensor "relation.cross"`},
		"tensor missing": {func(f *folder) { f.names = f.names[1:] }, parametersName,
			`tensor "relation.cross" of model mquine is missing`},
		"tensor transposed": {func(f *folder) { f.shapes["relation.head"] = []int{2, 4} }, parametersName,
			`tensor "relation.head" has shape [2 4]`},
		"NaN": {func(f *folder) { f.values["entity"][7] = nan }, parametersName,
			`tensor "entity" has NaN in row 2, column 1 (counted from 0)`},
		"infinity": {func(f *folder) { f.values["relation.tail"][6] = inf }, parametersName,
			`tensor "relation.tail" has -Inf in row 1, column 2 (counted from 0)`},
		"entity too few": {func(f *folder) { f.entities = "0\ta\n1\tb\n" }, parametersName,
			`tensor "entity" has shape [3 3], but mquine with d = 2, 2 entities (entities.tsv)`},
		"relation too many": {func(f *folder) { f.relations += "2\thates\n" }, parametersName,
			"3 relations (relations.tsv) needs [3 2 2]"},
		"no entities": {func(f *folder) { f.entities = "" }, parametersName,
			"ckpt has no entities, but a model needs at least one"},
		"no relations": {func(f *folder) {
			f.relations = ""
			for _, name := range []string{"relation.head", "relation.tail", "relation.cross"} {
				f.shapes[name], f.values[name] = []int{0, 2, 2}, nil
			}
		}, parametersName, "ckpt has no relations, but a model needs at least one"},
		"label twice": {func(f *folder) { f.entities = "0\ta\n1\tb\n2\ta\n" }, entitiesName + ":3",
			`duplicate label "a"`},
		"identifier twice": {func(f *folder) { f.relations = "0\ta\n0\tb\n" }, relationsName + ":2",
			"duplicate identifier 0"},
		"vocabulary cut": {func(f *folder) { f.entities = "0\ta\n1" }, entitiesName + ":2",
			"identifier and label"},
		"other entities": {func(f *folder) { f.metadata["entities_sha256"] = strings.Repeat("0", 64) },
			entitiesName, "is not the file that model.safetensors was saved with (SHA-256 "},
		"other relations": {func(f *folder) { f.metadata["relations_sha256"] = "x" }, relationsName,
			"not x): restore it, or save the checkpoint again"},
	} {
		t.Run(name, func(t *testing.T) {
			f := small()
			c.change(&f)
			dir := f.write(t)
			got, err := Open(t.Context(), dir)
			require.ErrorContains(t, err, c.message)
			assert.Nil(t, got)
			assert.Contains(t, err.Error(), filepath.Join(dir, c.file))
			assert.NotContains(t, err.Error(), "\n")

			_, err = Inspect(t.Context(), dir)
			assert.NoError(t, err, "the file can nevertheless be inspected")
		})
	}
}

func TestOpenRefusesFolders(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	_, err := Open(t.Context(), absent)
	assert.EqualError(t, err, "there is no checkpoint "+absent+": no such file or folder")

	empty := t.TempDir()
	_, err = Open(t.Context(), empty)
	assert.ErrorContains(t, err, empty+" is not a checkpoint: it has no model.safetensors and no files of npy, kbc, ")

	dir := small().write(t)
	_, err = Open(t.Context(), filepath.Join(dir, "model.safetensors"))
	assert.ErrorContains(t, err, "is not a folder: give the folder of the checkpoint")

	for _, name := range []string{"entities.tsv", "relations.tsv"} {
		dir := small().write(t)
		path := filepath.Join(dir, name)
		require.NoError(t, os.Remove(path))
		_, err = Open(t.Context(), dir)
		assert.EqualError(t, err,
			path+" is missing: a checkpoint consists of the files model.safetensors, entities.tsv and relations.tsv")
	}
}

func TestOpenUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	for _, name := range []string{"model.safetensors", "entities.tsv"} {
		dir := small().write(t)
		path := filepath.Join(dir, name)
		require.NoError(t, os.Chmod(path, 0))
		_, err := Open(t.Context(), dir)
		assert.EqualError(t, err, "reading "+path+": permission denied")
	}
}

func TestOpenTruncatedAtEveryByte(t *testing.T) {
	f := small()
	whole := f.parameters(t)
	dir := f.write(t)
	path := filepath.Join(dir, "model.safetensors")
	for n := range whole {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o644))
		c, err := Open(t.Context(), dir)
		require.ErrorContains(t, err, path, "the first %d of %d bytes", n, len(whole))
		require.Nil(t, c)
		inspected, err := Inspect(t.Context(), dir)
		data := n - 8 - int(binary.LittleEndian.Uint64(whole)) // bytes of data
		if data < 0 {
			require.Error(t, err, "the header is cut off after %d bytes", n)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, f.metadata, inspected.Metadata)
		assert.EqualValues(t, n, inspected.Bytes)
		require.Len(t, inspected.Tensors, len(f.names))
		for i, name := range f.names {
			tensor := inspected.Tensors[i]
			assert.Equal(t, f.shapes[name], tensor.Shape)
			data -= 4 * len(f.values[name])
			assert.Equal(t, data >= 0, tensor.Values != nil, name)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := small().write(t)
	_, err := Open(ctx, dir)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Inspect(ctx, dir)
	assert.ErrorIs(t, err, context.Canceled)
}

// stuck is a context that is cancelled during the n-th call of Err. That call returns only once the
// channel returned is closed or, so that the test ends, after a minute.
type stuck struct {
	context.Context
	cancel   func()
	n        int64
	looks    *atomic.Int64
	returned chan struct{}
	waited   *atomic.Bool
}

func (s stuck) Err() error {
	if s.looks.Add(1) == s.n {
		s.cancel()
		select {
		case <-s.returned:
		case <-time.After(time.Minute):
			s.waited.Store(true)
		}
	}
	return s.Context.Err()
}

// Wherever the work is when its context is cancelled, Open, OpenTensors and Inspect return without
// waiting for it.
func TestCancelledAtWork(t *testing.T) {
	mquine, rotate := small().write(t), rotateSmall().write(t)
	tables := formats.TensorFiles{
		Model: "rotate", Hyper: map[string]float64{"embedding_range": 4},
		Entity: filepath.Join(rotate, rotateEntities), Relation: filepath.Join(rotate, rotateRelations),
		Entities: filepath.Join(rotate, "entities.dict"), Relations: filepath.Join(rotate, "relations.dict"),
	}
	opened := func(c *Checkpoint, err error) error {
		if err == nil {
			err = c.Close()
		}
		return err
	}
	for name, work := range map[string]func(context.Context) error{
		"Open":           func(ctx context.Context) error { return opened(Open(ctx, mquine)) },
		"Open of RotatE": func(ctx context.Context) error { return opened(Open(ctx, rotate)) },
		"OpenTensors":    func(ctx context.Context) error { return opened(OpenTensors(ctx, tables)) },
		"Inspect":        func(ctx context.Context) error { _, err := Inspect(ctx, rotate); return err },
	} {
		// The first check is the caller's.
		for n := int64(2); ; n++ {
			ctx := stuck{n: n, looks: new(atomic.Int64), returned: make(chan struct{}), waited: new(atomic.Bool)}
			ctx.Context, ctx.cancel = context.WithCancel(t.Context())
			err := work(ctx)
			close(ctx.returned)
			if err == nil {
				ctx.cancel()
				assert.Greater(t, n, int64(5), name)
				break
			}
			require.ErrorIs(t, err, context.Canceled, name)
			require.False(t, ctx.waited.Load(), "%s, check %d", name, n)
		}
	}
}

// TestFixture opens a checkpoint in the format mquine/1 that another program wrote, and compares
// its configuration, checksum, first labels and some parameters with known values.
func TestFixture(t *testing.T) {
	c, err := Open(t.Context(), fixture.Dir(t, "mquine-umls"))
	require.NoError(t, err)
	defer c.Close()
	assert.Equal(t, model.Config{Model: "mquine", Dim: 12, Entities: 135, Relations: 46}, c.Model.Config())
	assert.Equal(t, "umls", c.Dataset)
	assert.Equal(t, "de17d2f83148633af61557f859b3927c6b80ddab9954ec6a18339d09d11a4b73", sha256Of(t, c))
	assert.Equal(t, "acquired_abnormality", c.Entities.Label(0))
	assert.Equal(t, "location_of", c.Relations.Label(0))
	assert.Equal(t, math.Float32frombits(0xbd7a9447), c.Model.Tensors()[0][0])

	row := func(label string) []float32 {
		id, known := c.Entities.ID(label)
		require.True(t, known, label)
		return c.Model.Tensors()[0][int(id)*78:][:78]
	}
	assert.Equal(t, row("disease_or_syndrome"), row("neoplastic_process"), "copied after training")
	assert.NotEqual(t, row("disease_or_syndrome"), row("acquired_abnormality"))
}

// FuzzOpen checks that Open, given any files, returns an error or a valid checkpoint.
func FuzzOpen(f *testing.F) {
	add := func(s folder) { f.Add(s.parameters(f), []byte(s.entities), []byte(s.relations)) }
	add(small())
	s := small()
	s.values["entity"][3] = float32(math.NaN())
	add(s)
	s = small()
	s.metadata["model"] = "mquade"
	add(s)
	f.Add([]byte{}, []byte{}, []byte{})
	dir := filepath.Join(f.TempDir(), "ckpt")
	f.Fuzz(func(t *testing.T, parameters, entities, relations []byte) {
		require.NoError(t, os.RemoveAll(dir)) // much faster than truncating the files
		writeFiles(t, dir, parameters, entities, relations)
		c, err := Open(t.Context(), dir)
		if err != nil {
			require.Nil(t, c)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		defer c.Close()
		require.Equal(t, "mquine/1", c.Metadata["format"])
		config := c.Model.Config()
		require.Equal(t, config.Entities, c.Entities.Len())
		require.Equal(t, config.Relations, c.Relations.Len())
		list, err := model.Parameters(config)
		require.NoError(t, err)
		for i, values := range c.Model.Tensors() {
			require.Len(t, values, list[i].Len())
			for _, v := range values {
				require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0))
			}
		}
	})
}

func benchmarkFolder(b *testing.B) (trained, string) {
	m := newTrained(b, model.Config{Model: "mquine", Dim: 38, Entities: 30_000, Relations: 400},
		func() float32 { return 0.5 })
	dir := filepath.Join(b.TempDir(), "ckpt")
	require.NoError(b, m.save(dir))
	info, err := os.Stat(filepath.Join(dir, parametersName))
	require.NoError(b, err)
	b.SetBytes(info.Size())
	return m, dir
}

func BenchmarkOpen(b *testing.B) {
	_, dir := benchmarkFolder(b)
	for b.Loop() {
		c, err := Open(b.Context(), dir)
		require.NoError(b, err)
		require.NoError(b, c.Close())
	}
}

func BenchmarkVerify(b *testing.B) {
	_, dir := benchmarkFolder(b)
	c, err := Open(b.Context(), dir)
	require.NoError(b, err)
	defer c.Close()
	for b.Loop() {
		require.NoError(b, c.Verify(b.Context()))
	}
}

func BenchmarkReplace(b *testing.B) {
	m, dir := benchmarkFolder(b)
	for b.Loop() {
		require.NoError(b, m.replace(dir))
	}
}
