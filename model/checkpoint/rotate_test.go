package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// These files form a checkpoint of the RotatE repository.
const (
	rotateConfig    = "config.json"
	rotateEntities  = "entity_embedding.npy"
	rotateRelations = "relation_embedding.npy"
)

// rotateFolder is a checkpoint folder in the format of the RotatE repository. The tests write it
// using only encoding/json and encoding/binary. Files without contents are not written.
type rotateFolder struct {
	options             map[string]any
	entity, relation    []byte
	entities, relations string
}

func npyFile(rows, columns int, values ...float32) []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, columns)
	for (len(header)+11)%64 != 0 {
		header += " "
	}
	header += "\n"
	file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	file = append(file, header...)
	for _, v := range values {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(v))
	}
	return file
}

// rotateSmall returns a RotatE model with 3 entities and 1 relation, k = 2.
func rotateSmall() rotateFolder {
	return rotateFolder{
		options: map[string]any{
			"model": "RotatE", "hidden_dim": 2, "gamma": 6.0, "double_entity_embedding": true,
			"double_relation_embedding": false,
			"nentity":                   3, "nrelation": 1,
			"data_path": "data/toy", "regions": nil, "cuda": false, "learning_rate": 0.01,
		},
		entity:   npyFile(3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
		relation: npyFile(1, 2, 0.5, -0.25),
		entities: "0\tannie\n1\tbob\n2\tcarla\n", relations: "0\tlikes\n",
	}
}

func (f rotateFolder) write(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rotate")
	f.writeTo(t, dir)
	return dir
}

func (f rotateFolder) writeTo(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	var config []byte
	if f.options != nil {
		var err error
		config, err = json.Marshal(f.options)
		require.NoError(t, err)
	}
	for name, contents := range map[string][]byte{
		"config.json": config, "entity_embedding.npy": f.entity, "relation_embedding.npy": f.relation,
		"entities.dict": []byte(f.entities), "relations.dict": []byte(f.relations),
	} {
		if len(contents) > 0 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), contents, 0o644))
		}
	}
}

func TestOpenRotate(t *testing.T) {
	f := rotateSmall()
	dir := f.write(t)
	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, "rotate", c.Format)
	assert.Equal(t, model.Config{Model: "rotate", Dim: 2, Entities: 3, Relations: 1,
		Hyper: map[string]float64{"gamma": 6, "embedding_range": 4}}, c.Model.Config())
	assert.Equal(t, "toy", c.Dataset)
	assert.Equal(t, []float32{5, 6, 7, 8}, c.Model.Tensors()[0][4:8])
	assert.Equal(t, []float32{0.5, -0.25}, c.Model.Tensors()[1])
	assert.Equal(t, []string{"annie", "bob", "carla"}, c.Entities.Labels())
	assert.Equal(t, []string{"likes"}, c.Relations.Labels())
	assert.Equal(t, dir, c.VocabularyDir)
	assert.Equal(t, map[string]string{
		"model": "RotatE", "hidden_dim": "2", "gamma": "6", "double_entity_embedding": "true",
		"double_relation_embedding": "false",
		"nentity":                   "3", "nrelation": "1", "data_path": "data/toy", "cuda": "false",
		"learning_rate": "0.01",
	}, c.Metadata)
	sum := sha256Of(t, c)
	assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(slices.Concat(f.entity, f.relation))), sum)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())

	i, err := Inspect(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, dir, i.Path)
	assert.EqualValues(t, len(f.entity)+len(f.relation), i.Bytes)
	assert.Equal(t, sum, i.SHA256)
	assert.Equal(t, c.Metadata, i.Metadata)
	require.Len(t, i.Tensors, 2)
	assert.Equal(t, []int{3, 4}, i.Tensors[0].Shape)
	assert.Equal(t, 12.0, i.Tensors[0].Values.Max)
	assert.Equal(t, "relation", i.Tensors[1].Name)
}

// Every model of the repository opens, with all possible options.
func TestOpenRotateModels(t *testing.T) {
	for _, c := range []struct {
		model                         string
		doubleEntity, doubleRelation  bool
		entityColumns, relationColumn int
		want                          model.Config
	}{
		{"TransE", false, false, 3, 3, model.Config{Model: "transe-l1", Dim: 3}},
		{"TransE", true, true, 6, 6, model.Config{Model: "transe-l1", Dim: 6}},
		{"DistMult", false, false, 3, 3, model.Config{Model: "distmult", Dim: 3}},
		{"ComplEx", true, true, 6, 6, model.Config{Model: "complex", Dim: 3}},
		{"RotatE", true, false, 6, 3, model.Config{Model: "rotate", Dim: 3}},
		{"pRotatE", false, false, 3, 3, model.Config{Model: "protate", Dim: 3}},
		{"pRotatE", true, true, 6, 6, model.Config{Model: "protate", Dim: 6}},
	} {
		f := rotateSmall()
		maps.Copy(f.options, map[string]any{"model": c.model, "hidden_dim": 3, "gamma": 12,
			"double_entity_embedding": c.doubleEntity, "double_relation_embedding": c.doubleRelation})
		f.entity = npyFile(3, c.entityColumns, make([]float32, 3*c.entityColumns)...)
		f.relation = npyFile(1, c.relationColumn, make([]float32, c.relationColumn)...)
		ckpt, err := Open(t.Context(), f.write(t))
		require.NoError(t, err, c.model)
		c.want.Entities, c.want.Relations = 3, 1
		c.want.Hyper = map[string]float64{"gamma": 12, "embedding_range": 14.0 / 3}
		assert.Equal(t, c.want, ckpt.Model.Config(), "the range follows from hidden_dim")
		require.NoError(t, ckpt.Close())
	}
}

func TestOpenRotateRefuses(t *testing.T) {
	set := func(key string, value any) func(*rotateFolder) {
		return func(f *rotateFolder) { f.options[key] = value }
	}
	for name, c := range map[string]struct {
		change  func(*rotateFolder)
		file    string // the file that the message names
		message string
	}{
		"no config": {func(f *rotateFolder) { f.options = nil }, rotateConfig,
			"is missing: without the training options"},
		"no relations": {func(f *rotateFolder) { f.relation = nil }, rotateRelations,
			"is missing: a checkpoint that the RotatE code wrote consists of"},
		"no model": {func(f *rotateFolder) { delete(f.options, "model") }, rotateConfig,
			`model "" is unknown`},
		"other model": {set("model", "RotPro"), rotateConfig,
			`model "RotPro" is unknown: the RotatE repository has TransE, DistMult, ComplEx, RotatE and pRotatE`},
		"model a number": {set("model", 7), rotateConfig, `option "model" is 7, not a string`},
		"no γ": {func(f *rotateFolder) { delete(f.options, "gamma") }, rotateConfig,
			`option "gamma" is missing`},
		"γ a text":         {set("gamma", "6\n"), rotateConfig, `option "gamma" is the text "6\n", not a number`},
		"γ makes no range": {set("gamma", -2), rotateConfig, "embedding_range is 0: it must be from"},
		"no dimension": {set("hidden_dim", nil), rotateConfig,
			`option "hidden_dim" is null, not a positive integer`},
		"dimension 0":   {set("hidden_dim", 0), rotateConfig, "not a positive integer"},
		"dimension 1.5": {set("hidden_dim", 1.5), rotateConfig, "not a positive integer"},
		"another dimension": {set("hidden_dim", 3), rotateEntities,
			`tensor "entity" has shape [3 4], but the options in config.json (nentity, hidden_dim, doubled embeddings) need [3 6]`},
		"entities":  {set("nentity", 4), rotateEntities, "need [4 4]"},
		"relations": {set("nrelation", 2), rotateRelations, "need [2 2]"},
		"not doubled": {set("double_entity_embedding", false), rotateConfig,
			"RotatE needs double_entity_embedding to be true"},
		"doubled": {set("double_relation_embedding", true), rotateConfig,
			"RotatE needs double_relation_embedding to be false"},
		"no flag": {set("double_relation_embedding", nil), rotateConfig, "not true or false"},
		"unequal": {set("model", "TransE"), rotateConfig,
			"TransE needs double_entity_embedding and double_relation_embedding to be equal"},
		"data_path": {set("data_path", 3), rotateConfig, `option "data_path" is 3, not a string`},
		"NaN": {func(f *rotateFolder) { f.relation = npyFile(1, 2, 0, float32(math.NaN())) },
			rotateRelations, `tensor "relation" has NaN in row 0, column 1`},
		"infinity": {func(f *rotateFolder) { copy(f.entity[len(f.entity)-4:], []byte{0, 0, 0x80, 0xff}) },
			rotateEntities, `tensor "entity" has -Inf in row 2, column 3`},
		"truncated": {func(f *rotateFolder) { f.entity = f.entity[:len(f.entity)-1] }, rotateEntities,
			"needs 48 bytes, but 47 follow the header"},
		"float64": {func(f *rotateFolder) {
			f.entity = bytes.Replace(f.entity, []byte("<f4"), []byte("<f8"), 1)
		}, rotateEntities, "float64 of shape [3 4] needs 96 bytes, but 48 follow the header"},
		"integers": {func(f *rotateFolder) {
			f.entity = bytes.Replace(f.entity, []byte("<f4"), []byte("<i4"), 1)
		}, rotateEntities, `its elements have type "<i4"`},
		"few labels": {func(f *rotateFolder) { f.entities = "0\ta\n1\tb\n" }, rotateEntities,
			"2 entities and 1 relation (in "},
		"one vocabulary": {func(f *rotateFolder) { f.relations = "" }, "relations.dict",
			"is missing: the vocabularies are the files entities.dict and relations.dict"},
		"no vocabulary": {func(f *rotateFolder) { f.entities, f.relations = "", "" }, "",
			`has no entities.dict and relations.dict, and neither does the data_path in its config.json ("data/toy"): copy them into it`},
		"label twice": {func(f *rotateFolder) { f.entities = "0\ta\n1\ta\n2\tc\n" }, "entities.dict:2",
			`duplicate label "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := rotateSmall()
			c.change(&f)
			dir := f.write(t)
			got, err := Open(t.Context(), dir)
			require.ErrorContains(t, err, c.message)
			assert.Nil(t, got)
			assert.NotContains(t, err.Error(), "\n")
			if c.file == rotateConfig && c.message == "embedding_range is 0: it must be from" {
				c.file = "" // the model's error names the folder
			}
			assert.Contains(t, err.Error(), filepath.Join(dir, c.file))
		})
	}
	for _, config := range []string{"", "[]", "null", "{", `{"model": NaN}`, `{} {}`} {
		dir := rotateSmall().write(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, rotateConfig), []byte(config), 0o644))
		_, err := Open(t.Context(), dir)
		assert.ErrorContains(t, err, "JSON object", config)
		assert.NotContains(t, err.Error(), "rotateOptions", config)
		_, err = Inspect(t.Context(), dir)
		assert.NoError(t, err)
	}
}

// Open looks for vocabularies in the folder of the checkpoint. If it has none, Open looks in the
// named folder or, if none is named, in the data path.
func TestRotateVocabularies(t *testing.T) {
	with := func(entities, relations string) string {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "entities.dict"), []byte(entities), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "relations.dict"), []byte(relations), 0o644))
		return dir
	}
	given, data := with("0\tx\n1\ty\n2\tz\n", "0\tg\n"), with("0\tu\n1\tv\n2\tw\n", "0\td\n")
	first := func(f rotateFolder, with ...Option) string {
		c, err := Open(t.Context(), f.write(t), with...)
		require.NoError(t, err)
		defer c.Close()
		return c.Entities.Label(0) + c.Relations.Label(0)
	}
	f := rotateSmall()
	f.options["data_path"] = data
	assert.Equal(t, "annielikes", first(f))
	_, err := Open(t.Context(), f.write(t), VocabularyFolder(given))
	assert.ErrorContains(t, err,
		"has its own vocabularies, and the vocabularies in "+given+" differ from them: omit --vocab")
	same := with(f.entities, f.relations)
	assert.Equal(t, "annielikes", first(f, VocabularyFolder(same)))

	f.entities, f.relations = "", ""
	assert.Equal(t, "xg", first(f, VocabularyFolder(given)))
	assert.Equal(t, "ud", first(f))
	c, err := Open(t.Context(), f.write(t))
	require.NoError(t, err)
	assert.Equal(t, data, c.VocabularyDir)
	require.NoError(t, c.Close())
	empty := t.TempDir()
	_, err = Open(t.Context(), f.write(t), VocabularyFolder(empty))
	assert.EqualError(t, err, empty+" has no vocabularies: it needs entities.dict and relations.dict")

	delete(f.options, "data_path")
	c, err = Open(t.Context(), f.write(t), VocabularyFolder(given))
	require.NoError(t, err)
	assert.Equal(t, given, c.VocabularyDir)
	assert.Equal(t, filepath.Base(given), c.Dataset, "named after the vocabularies, if the options name none")
	require.NoError(t, c.Close())

	dir := small().write(t)
	c, err = Open(t.Context(), dir, VocabularyFolder(dir))
	require.NoError(t, err, "the same again")
	require.NoError(t, c.Close())
	_, err = Open(t.Context(), dir, VocabularyFolder(given))
	assert.ErrorContains(t, err, "differ from them: omit --vocab")
}

// Tables in float16 are converted, and a note says so.
func TestRotateConverted(t *testing.T) {
	f := rotateSmall()
	f.relation = append(bytes.Replace(npyFile(1, 2), []byte("<f4"), []byte("<f2"), 1), 0, 0x38, 0, 0xb4)
	c, err := Open(t.Context(), f.write(t))
	require.NoError(t, err)
	defer c.Close()
	assert.Equal(t, []float32{0.5, -0.25}, c.Model.Tensors()[1])
	assert.Equal(t, []string{"tensor relation was converted from float16 to float32"}, c.Notes)
}

// A float64 number that float32 cannot represent is not infinite in the file, and the error says so.
func TestRotateTooLarge(t *testing.T) {
	for value, want := range map[float64]string{
		1e38: "", 1e39: "is infinite or too large for float32", math.Inf(-1): "is infinite or too large for float32",
		math.NaN(): "has NaN in row 0, column 1",
	} {
		f := rotateSmall()
		f.relation = bytes.Replace(npyFile(1, 2), []byte("<f4"), []byte("<f8"), 1)
		f.relation = binary.LittleEndian.AppendUint64(f.relation, math.Float64bits(0.5))
		f.relation = binary.LittleEndian.AppendUint64(f.relation, math.Float64bits(value))
		c, err := Open(t.Context(), f.write(t))
		if want == "" {
			require.NoError(t, err)
			require.NoError(t, c.Close())
			continue
		}
		require.ErrorContains(t, err, want)
		if !math.IsNaN(value) {
			require.ErrorContains(t, err,
				`tensor "relation" has a number of type float64 in row 0, column 1 (counted from 0), that `)
		}
	}
}

// Saving a folder as mquine/1 does not change the model.
func TestRotateSaved(t *testing.T) {
	c, err := Open(t.Context(), rotateSmall().write(t))
	require.NoError(t, err)
	defer c.Close()
	dir := filepath.Join(t.TempDir(), "saved")
	metadata := maps.Clone(c.Metadata)
	metadata["dataset"] = c.Dataset
	require.NoError(t, Save(t.Context(), dir, c.Model, c.Entities, c.Relations, metadata))
	saved, err := Open(t.Context(), dir)
	require.NoError(t, err)
	defer saved.Close()
	assert.Equal(t, c.Model.Config(), saved.Model.Config())
	assert.Equal(t, c.Model.Tensors(), saved.Model.Tensors())
	assert.Equal(t, "0.01", saved.Metadata["learning_rate"])
	assert.Equal(t, "rotate", saved.Metadata["model"])
	assert.Equal(t, "6", saved.Metadata["gamma"])
	assert.NotContains(t, saved.Metadata, "modulus")
}

// TestRotateFixtures opens folders that the repository's code wrote and compares the scores with
// the scores that the code printed, which are float32 sums.
func TestRotateFixtures(t *testing.T) {
	for name, want := range map[string]model.Config{
		"transe":   {Model: "transe-l1", Dim: 32, Hyper: map[string]float64{"gamma": 6, "embedding_range": 0.25}},
		"distmult": {Model: "distmult", Dim: 32, Hyper: map[string]float64{"gamma": 20, "embedding_range": 0.6875}},
		"complex":  {Model: "complex", Dim: 32, Hyper: map[string]float64{"gamma": 20, "embedding_range": 0.6875}},
		"rotate":   {Model: "rotate", Dim: 32, Hyper: map[string]float64{"gamma": 6, "embedding_range": 0.25}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fixture.Dir(t, "rotate-repo-"+name+"-umls")
			c, err := Open(t.Context(), dir)
			require.NoError(t, err)
			defer c.Close()
			want.Entities, want.Relations = 135, 46
			assert.Equal(t, want, c.Model.Config())
			assert.Equal(t, "umls", c.Dataset)
			assert.Equal(t, "acquired_abnormality", c.Entities.Label(0))

			scores := readScores(t, filepath.Join(dir, "scores.tsv"), c)
			require.Len(t, scores, 40)
			w := c.Model.NewWorker(kerneltest.Best(t))
			for _, s := range scores {
				for _, side := range []kg.Side{kg.Tail, kg.Head} {
					q, answer := s.triple.Query(side)
					got := c.Model.Score(w.Reference(q, answer))
					for _, printed := range s.printed {
						assert.InDelta(t, printed, got, 4e-6, "%v", s.triple) // 32 terms, the sum below 30
					}
				}
			}
		})
	}
}

// printedScore is a line of scores.tsv: a triple and the scores that the tool's three code paths
// printed.
type printedScore struct {
	triple  kg.Triple
	printed [3]float64
}

func readScores(t *testing.T, path string, c *Checkpoint) []printedScore {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var scores []printedScore
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if fields[0] == "kind" {
			continue
		}
		require.Len(t, fields, 7)
		var s printedScore
		ids := make([]int32, 3)
		for i, v := range []*kg.Vocabulary{c.Entities, c.Relations, c.Entities} {
			var known bool
			ids[i], known = v.ID(fields[1+i])
			require.True(t, known, fields[1+i])
		}
		s.triple = kg.Triple{Head: ids[0], Relation: ids[1], Tail: ids[2]}
		for i := range s.printed {
			s.printed[i], err = strconv.ParseFloat(fields[4+i], 64)
			require.NoError(t, err)
		}
		scores = append(scores, s)
	}
	return scores
}

// FuzzOpenRotate checks that Open, given any files, returns an error or a valid checkpoint.
func FuzzOpenRotate(f *testing.F) {
	s := rotateSmall()
	config, err := json.Marshal(s.options)
	require.NoError(f, err)
	f.Add(config, s.entity, s.relation)
	f.Add([]byte(`{"model":"TransE","hidden_dim":1,"gamma":1e3,"double_entity_embedding":false,"double_relation_embedding":false,"nentity":3,"nrelation":1}`),
		npyFile(3, 1, 1, 2, 3), npyFile(1, 1, 4))
	dir := filepath.Join(f.TempDir(), "rotate")
	f.Fuzz(func(t *testing.T, config, entity, relation []byte) {
		require.NoError(t, os.RemoveAll(dir))
		s := rotateSmall()
		s.options, s.entity, s.relation = nil, entity, relation
		s.writeTo(t, dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, rotateConfig), config, 0o644))
		c, err := Open(t.Context(), dir)
		if err != nil {
			require.Nil(t, c)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		defer c.Close()
		parameters, err := model.Parameters(c.Model.Config())
		require.NoError(t, err)
		for i, values := range c.Model.Tensors() {
			require.Len(t, values, parameters[i].Len())
			for _, v := range values {
				require.True(t, finite(v))
			}
		}
	})
}
