//go:build unix

package rank

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// meddled is a model that calls meddle before it or one of its workers reads parameters for the
// n-th time.
type meddled struct {
	model.Model
	calls  atomic.Int64
	n      int64
	once   sync.Once
	meddle func()
}

func (m *meddled) NewWorker(b *kernel.Backend) model.Worker {
	return meddledWorker{m.Model.NewWorker(b), m}
}

func (m *meddled) HashEntity(e int32) uint64 {
	m.count()
	return m.Model.HashEntity(e)
}

func (m *meddled) SameEntity(a, b int32) bool {
	m.count()
	return m.Model.SameEntity(a, b)
}

func (m *meddled) count() {
	if m.calls.Add(1) == m.n {
		m.once.Do(m.meddle)
	}
}

type meddledWorker struct {
	model.Worker
	m *meddled
}

func (w meddledWorker) Features(side kg.Side, relation int32, entities []int32, phi model.Rows, sizes []float64) {
	w.m.count()
	w.Worker.Features(side, relation, entities, phi, sizes)
}

func (w meddledWorker) Queries(side kg.Side, relation int32, anchors []int32, psi model.Rows, slacks []model.Slack) {
	w.m.count()
	w.Worker.Queries(side, relation, anchors, psi, slacks)
}

func (w meddledWorker) Reference(q kg.Query, e int32) float64 {
	w.m.count()
	return w.Worker.Reference(q, e)
}

// meddling changes the file of a checkpoint. other has the same size but different contents.
type meddling struct {
	name string
	do   func(t *testing.T, path string, other []byte)
	// harmless means that the opened checkpoint is unchanged.
	harmless bool
	// overflows means that a score can be NaN, which is a different error.
	overflows bool
}

// overwrite writes to a file in place.
func overwrite(t *testing.T, path string, contents []byte, at int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt(contents, at)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// longAgo is the modification time of the tests' files, so every change sets a different time.
var longAgo = time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)

var meddlings = []meddling{
	{name: "cut to nothing", do: func(t *testing.T, path string,
		_ []byte) {
		require.NoError(t, os.Truncate(path, 0))
	}},
	{name: "cut to a third", do: func(t *testing.T, path string, other []byte) {
		require.NoError(t, os.Truncate(path, int64(len(other)/3)))
	}},
	{name: "cut by a page", do: func(t *testing.T, path string, other []byte) {
		require.NoError(t, os.Truncate(path, int64((len(other)-1)/os.Getpagesize()*os.Getpagesize())))
	}},
	{name: "copied over", do: func(t *testing.T, path string, other []byte) {
		require.NoError(t, os.WriteFile(path, other, 0o644)) // truncates it first
	}},
	{name: "written in place", do: func(t *testing.T, path string, other []byte) { overwrite(t, path, other, 0) }},
	{name: "NaN written in place", overflows: true, do: func(t *testing.T, path string, other []byte) {
		overwrite(t, path, bytes.Repeat([]byte{0xff}, len(other)/2), int64(len(other)-len(other)/2))
	}},
	{name: "written in place, with the old time", do: func(t *testing.T, path string, other []byte) {
		overwrite(t, path, other, 0)
		require.NoError(t, os.Chtimes(path, longAgo, longAgo))
	}},
	{name: "one bit, with the old time", do: func(t *testing.T, path string, _ []byte) {
		contents, err := os.ReadFile(path)
		require.NoError(t, err)
		contents[len(contents)-1] ^= 1
		overwrite(t, path, contents, 0)
		require.NoError(t, os.Chtimes(path, longAgo, longAgo))
	}},
	{name: "written and undone", do: func(t *testing.T, path string, other []byte) {
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		overwrite(t, path, other, 0)
		overwrite(t, path, before, 0)
	}},
	{name: "replaced", harmless: true, do: func(t *testing.T, path string, other []byte) {
		require.NoError(t, os.WriteFile(path+".new", other, 0o644))
		require.NoError(t, os.Rename(path+".new", path))
	}},
	{name: "removed", harmless: true, do: func(t *testing.T, path string, _ []byte) {
		require.NoError(t, os.Remove(path))
	}},
}

// changing is a kind of checkpoint. write writes such a checkpoint to a folder, with parameters
// that depend on the seed. file is the name of the file to change.
type changing struct {
	name, file string
	entities   int
	write      func(t *testing.T, dir string, g *kg.Graph, seed uint64)
}

func mquineChanging(name string, entities, d int) changing {
	return changing{name, "model.safetensors", entities, func(t *testing.T, dir string, g *kg.Graph, seed uint64) {
		m := ranktest.Model(t, "mquine", d, g, seed, ranktest.MatrixKinds[0])
		width := model.Triangle(m.Config().Dim)
		copy(m.Tensors()[0][width:2*width], m.Tensors()[0]) // one row twice, which Run compares before it begins
		err := checkpoint.Save(t.Context(), dir, m, g.Entities, g.Relations, map[string]string{"dataset": "random"})
		require.NoError(t, err)
	}}
}

// changingKinds lists a checkpoint smaller than a page, a checkpoint of many pages, and folders in
// the format of the RotatE repository.
var changingKinds = []changing{
	mquineChanging("small", 40, 4),
	mquineChanging("large", 3000, 16),
	{"entity table", "entity_embedding.npy", 200, writeRotateFolder},
	{"relation table", "relation_embedding.npy", 200, writeRotateFolder},
}

// writeRotateFolder writes a TransE checkpoint in the format of the RotatE repository, with tables
// of several pages.
func writeRotateFolder(t *testing.T, dir string, g *kg.Graph, seed uint64) {
	const width = 500
	rng := rand.New(rand.NewPCG(seed, 0))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, part := range []struct {
		table, labels string
		vocabulary    *kg.Vocabulary
	}{
		{"entity_embedding.npy", "entities.dict", g.Entities},
		{"relation_embedding.npy", "relations.dict", g.Relations},
	} {
		header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }",
			part.vocabulary.Len(), width)
		header += strings.Repeat(" ", 117-len(header)) + "\n"
		table := append([]byte("\x93NUMPY\x01\x00\x76\x00"), header...)
		for range part.vocabulary.Len() * width {
			table, _ = binary.Append(table, binary.LittleEndian, float32(rng.NormFloat64()))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, part.table), table, 0o644))
		require.NoError(t, kg.WriteVocabulary(filepath.Join(dir, part.labels), part.vocabulary))
	}
	config := fmt.Sprintf(`{"model":"TransE","hidden_dim":%d,"gamma":12,
		"double_entity_embedding":false,"double_relation_embedding":false,
		"nentity":%d,"nrelation":%d,"data_path":"data/random"}`, width, g.Entities.Len(), g.Relations.Len())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644))
}

// TestChangingCheckpoint changes the file of a checkpoint at different moments of rankings and
// predictions.
func TestChangingCheckpoint(t *testing.T) {
	backend := kerneltest.Best(t)
	for _, kind := range changingKinds {
		t.Run(kind.name, func(t *testing.T) {
			checkChanging(t, kind, Options{Backend: backend, Threads: 1}, Options{Backend: backend, Threads: 3})
		})
	}
}

// CheckChanging calls checkChanging for two kinds of checkpoints. Tests of other engines use it.
func CheckChanging(t *testing.T, o Options) {
	for _, kind := range []changing{
		mquineChanging("model", 100, 8),
		{"entity table", "entity_embedding.npy", 60, writeRotateFolder},
	} {
		t.Run(kind.name, func(t *testing.T) { checkChanging(t, kind, o) })
	}
}

// checkChanging checks that every change to the mapped file causes an error that names the file,
// and that harmless operations do not change the results.
func checkChanging(t *testing.T, kind changing, options ...Options) {
	g := ranktest.Graph(rand.New(rand.NewPCG(1, 2)), kind.entities, 3, 200, 10, 15)
	index := kgtest.Index(t, g)
	var queries []kg.Query
	for i, triple := range g.Splits[kg.Test] {
		q, _ := triple.Query(kg.Side(i % 2))
		queries = append(queries, q)
	}
	parent := t.TempDir()
	kept, dir := filepath.Join(parent, "kept"), filepath.Join(parent, "ckpt")
	path := filepath.Join(dir, kind.file)
	kind.write(t, kept, g, 1)
	kind.write(t, filepath.Join(parent, "other"), g, 2)
	other, err := os.ReadFile(filepath.Join(parent, "other", kind.file))
	require.NoError(t, err)
	open := func() *checkpoint.Checkpoint {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.CopyFS(dir, os.DirFS(kept)))
		require.NoError(t, os.Chtimes(path, longAgo, longAgo))
		c, err := checkpoint.Open(t.Context(), dir)
		require.NoError(t, err)
		return c
	}

	for what, compute := range map[string]func(model.Model, Options) (any, error){
		"ranks": func(m model.Model, o Options) (any, error) {
			r, err := Run(t.Context(), m, index, g.Splits[kg.Test], o)
			if err != nil {
				return nil, err
			}
			return r.Ranks, nil
		},
		"predictions": func(m model.Model, o Options) (any, error) {
			return Predict(t.Context(), m, index, queries, Top{K: 5}, o)
		},
	} {
		for i, o := range options {
			c := open()
			counting := &meddled{Model: c.Model}
			want, err := compute(counting, o)
			require.NoError(t, err)
			require.NoError(t, c.Verify(t.Context()))
			require.NoError(t, c.Close())
			calls := counting.calls.Load()
			require.Greater(t, calls, int64(kind.entities))

			for j, m := range meddlings {
				for n, moment := range []int64{0, 1, int64(kind.entities) + 1, calls / 2, calls - 5, calls} {
					if (i > 0 || o.Engine != nil) && (j+n)%2 == 1 {
						continue // only the first options are tested at all moments
					}
					c := open()
					watched := &meddled{Model: c.Model, n: moment, meddle: func() { m.do(t, path, other) }}
					var got any
					if moment == 0 {
						watched.meddle()
						got, err = compute(c.Model, o)
					} else {
						got, err = compute(watched, o)
						watched.once.Do(watched.meddle) // at the latest
					}
					if err == nil {
						err = c.Verify(t.Context())
					}
					when := fmt.Sprintf("%s, %s at %d of %d, %d threads", what, m.name, moment, calls, o.Threads)
					if m.harmless {
						require.NoError(t, err, when)
						require.Equal(t, want, got, when)
					} else if !m.overflows || !strings.Contains(fmt.Sprint(err), "another program changed it") {
						require.EqualError(t, err, path+" was changed while it was in use, so there are no results: "+
							"try again when no other program is writing to it", when)
					}
					require.NoError(t, c.Close())
				}
			}
		}
	}
}

// TestChangingCheckpointHash checks that every later reader returns an error if a file is truncated
// after Open.
func TestChangingCheckpointHash(t *testing.T) {
	for _, kind := range changingKinds {
		g := ranktest.Graph(rand.New(rand.NewPCG(1, 2)), kind.entities, 3, 200, 10, 15)
		dir := filepath.Join(t.TempDir(), "ckpt")
		kind.write(t, dir, g, 1)
		c, err := checkpoint.Open(t.Context(), dir)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, os.Truncate(filepath.Join(dir, kind.file), 0))
		const want = " was changed while it was in use"
		_, err = c.SHA256(t.Context())
		assert.ErrorContains(t, err, kind.file+want)
		assert.ErrorContains(t, c.Verify(t.Context()), kind.file+want)
		out := filepath.Join(t.TempDir(), "out")
		assert.ErrorContains(t, c.Save(t.Context(), out, map[string]string{"dataset": "random"}), kind.file+want)
		assert.NoDirExists(t, out)
	}
}
