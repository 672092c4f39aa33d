package checkpoint

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// folder is a checkpoint that the tests write with nothing but encoding/json and encoding/binary.
type folder struct {
	metadata            map[string]string
	names               []string // names of the tensors, in the order of their data
	shapes              map[string][]int
	values              map[string][]float32
	entities, relations string
}

// small returns an MQuinE checkpoint with 3 entities and 2 relations, d = 2.
func small() folder {
	return folder{
		metadata: map[string]string{"format": "mquine/1", "model": "mquine", "dim": "2", "dataset": "toy", "seed": "7"},
		names:    []string{"relation.cross", "entity", "relation.tail", "relation.head"},
		shapes: map[string][]int{"entity": {3, 3}, "relation.head": {2, 2, 2}, "relation.tail": {2, 2, 2},
			"relation.cross": {2, 2, 2}},
		values: map[string][]float32{
			"entity":         {1, 2, 3, 4, 5, 6, 7, 8, 9},
			"relation.head":  {.1, .2, .3, .4, .5, .6, .7, .8},
			"relation.tail":  {-1, -2, -3, -4, -5, -6, -7, -8},
			"relation.cross": {0, 1, 0, 1, 0, 1, 0, 1},
		},
		entities:  "0\tannie\n1\tbob\n2\tcarla\n",
		relations: "0\tlikes\n1\tknows\n",
	}
}

// parameters returns the contents of model.safetensors.
func (f folder) parameters(t testing.TB) []byte {
	t.Helper()
	header := map[string]any{"__metadata__": f.metadata}
	var data []byte
	for _, name := range f.names {
		begin := len(data)
		for _, v := range f.values[name] {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": f.shapes[name], "data_offsets": []int{begin, len(data)}}
	}
	text, err := json.Marshal(header)
	require.NoError(t, err)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(file, text...), data...)
}

// write writes the folder and returns its path.
func (f folder) write(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ckpt")
	writeFiles(t, dir, f.parameters(t), []byte(f.entities), []byte(f.relations))
	return dir
}

func writeFiles(t testing.TB, dir string, parameters, entities, relations []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), parameters, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "entities.tsv"), entities, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "relations.tsv"), relations, 0o644))
}

// files returns the names of all files and folders below dir, including hidden ones.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	}))
	slices.Sort(names)
	return names
}

// trained holds the arguments of Save: a model with its vocabularies and metadata.
type trained struct {
	model               model.Model
	entities, relations *kg.Vocabulary
	metadata            map[string]string
}

func (m trained) save(dir string) error {
	return Save(context.Background(), dir, m.model, m.entities, m.relations, m.metadata)
}

func (m trained) replace(dir string) error {
	return Replace(context.Background(), dir, m.model, m.entities, m.relations, m.metadata)
}

// newTrained returns a model with values from next.
func newTrained(t require.TestingT, c model.Config, next func() float32) trained {
	parameters, err := model.Parameters(c)
	require.NoError(t, err)
	tensors := make([][]float32, len(parameters))
	for i, s := range parameters {
		tensors[i] = make([]float32, s.Len())
		for j := range tensors[i] {
			tensors[i][j] = next()
			if s.NonNegative {
				tensors[i][j] = max(tensors[i][j], -tensors[i][j])
			}
		}
	}
	m, err := model.New(c, tensors)
	require.NoError(t, err)
	entities, relations := kg.NewVocabulary(), kg.NewVocabulary()
	for i := range c.Entities {
		entities.Add(fmt.Sprintf("entity %d", i))
	}
	for i := range c.Relations {
		relations.Add(fmt.Sprintf("relation %d", i))
	}
	return trained{m, entities, relations, map[string]string{"dataset": "toy"}}
}

// counting returns a function that returns 1, 2, 3, …
func counting() func() float32 {
	var n float32
	return func() float32 { n++; return n }
}

// drawTrained draws a small model with arbitrary finite values and labels.
func drawTrained(t *rapid.T) trained {
	c := model.Config{
		Model:     rapid.SampledFrom(model.Names()).Draw(t, "model"),
		Dim:       rapid.IntRange(1, 4).Draw(t, "dim"),
		Entities:  rapid.IntRange(1, 5).Draw(t, "entities"),
		Relations: rapid.IntRange(1, 3).Draw(t, "relations"),
	}
	if c.Model == "conve" {
		c.Dim = 12 // a smaller image may have no room for the filters
	}
	spec, err := model.Lookup(c.Model)
	require.NoError(t, err)
	for _, h := range spec.Hyper {
		var v float64
		if h.Whole {
			v = float64(rapid.IntRange(int(h.Least), int(min(h.Most, 6))).Draw(t, h.Key))
		} else {
			v = rapid.Float64Range(h.Least, h.Most).Draw(t, h.Key)
		}
		if h.Fits != nil && h.Fits(c, v) != "" {
			v = h.Initial(c)
		}
		if v == h.Default { // checkpoints omit a default value
			continue
		}
		if c.Hyper == nil {
			c.Hyper = map[string]float64{}
		}
		c.Hyper[h.Key] = v
	}
	value := rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32)
	m := newTrained(t, c, func() float32 { return value.Draw(t, "value") })
	label := rapid.StringMatching(`[^\x00\t\r\n\x{feff}\x{fffd}]{1,8}`)
	labels := func(n int) *kg.Vocabulary {
		return kg.NewVocabulary(rapid.SliceOfNDistinct(label, n, n, rapid.ID).Draw(t, "labels")...)
	}
	m.entities, m.relations = labels(c.Entities), labels(c.Relations)
	maps.Copy(m.metadata, rapid.MapOf(rapid.StringMatching(`x[a-z]{0,3}`), rapid.String()).Draw(t, "metadata"))
	return m
}
