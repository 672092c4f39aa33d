package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// writeRotate writes a checkpoint folder as the RotatE repository does, with random parameters for
// the workplace's data set. It returns this folder and the folder with the vocabularies.
func (w workplace) writeRotate(t *testing.T, model string, d int, doubleEntity, doubleRelation bool) (dir,
	vocabulary string) {
	t.Helper()
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	dir, vocabulary = w.path(model, "rotate"), w.path(model, "vocabulary")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.MkdirAll(vocabulary, 0o755))
	require.NoError(t, kg.WriteVocabulary(filepath.Join(vocabulary, "entities.dict"), g.Entities))
	require.NoError(t, kg.WriteVocabulary(filepath.Join(vocabulary, "relations.dict"), g.Relations))
	options, err := json.Marshal(map[string]any{
		"model": model, "hidden_dim": d, "gamma": 9.0,
		"double_entity_embedding": doubleEntity, "double_relation_embedding": doubleRelation,
		"nentity": g.Entities.Len(), "nrelation": g.Relations.Len(), "data_path": "no/such/families", "regions": nil,
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), options, 0o644))
	rng := rand.New(rand.NewPCG(1, 1))
	table := func(name string, rows, columns int, double bool) {
		if double {
			columns *= 2
		}
		header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }\n", rows, columns)
		file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
		file = append(file, header...)
		for range rows * columns {
			file = binary.LittleEndian.AppendUint32(file, math.Float32bits(float32(rng.NormFloat64())))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), file, 0o644))
	}
	table("entity_embedding.npy", g.Entities.Len(), d, doubleEntity)
	table("relation_embedding.npy", g.Relations.Len(), d, doubleRelation)
	return dir, vocabulary
}

// An imported checkpoint gives the same ranks as the original folder.
func TestImport(t *testing.T) {
	w := newWorkplace(t)
	for model, c := range map[string]struct {
		name                         string
		doubleEntity, doubleRelation bool
	}{
		"TransE": {"transe-l1", false, false}, "DistMult": {"distmult", false, false}, "ComplEx": {"complex", true,
			true},
		"RotatE": {"rotate", true, false}, "pRotatE": {"protate", false, false},
	} {
		dir, vocabulary := w.writeRotate(t, model, 6, c.doubleEntity, c.doubleRelation)
		out := w.path(model, "imported")
		mquine(t, "import", "--from", "rotate", dir, out).requireSentence(t, exitFailed,
			"has no entities.dict and relations.dict")
		o := succeed(t, "import", "--from", "rotate", dir, out, "--vocab", vocabulary)
		assert.Empty(t, o.stdout)
		assert.Contains(t, o.stderr, "wrote "+out+": "+c.name+", d = 6, 60 entities, 17 relations, trained on families")
		requireFiles(t, out, "model.safetensors", "entities.tsv", "relations.tsv")

		ranks := func(name string, args ...string) string {
			file := w.path(model, name)
			succeed(t, append([]string{"eval", "--data", w.data, "--ranks", file}, args...)...)
			return string(must1(os.ReadFile(file)))
		}
		assert.Equal(t, ranks("folder.tsv", "--checkpoint", dir, "--vocab", vocabulary),
			ranks("imported.tsv", "--checkpoint", out))
		head := must1(kg.ReadVocabulary(t.Context(), filepath.Join(out, "entities.tsv"))).Label(0)
		relation := must1(kg.ReadVocabulary(t.Context(), filepath.Join(out, "relations.tsv"))).Label(0)
		predictions := func(args ...string) string {
			return succeed(t, append([]string{"predict", "--data", w.data, "--relation", relation, "--head", head},
				args...)...).stdout
		}
		assert.Equal(t, predictions("--checkpoint", dir, "--vocab", vocabulary), predictions("--checkpoint", out))

		var info checkpointInfo
		require.NoError(t, json.Unmarshal([]byte(succeed(t, "info", out, "--json", "-").stdout), &info))
		assert.Equal(t, "9", info.Metadata["gamma"])
		assert.Equal(t, "rotate", info.Metadata["imported_from"])
		var folder checkpointInfo
		described := mquine(t, "info", dir, "--json", "-")
		described.requireSentence(t, exitFailed, "mquine eval refuses the checkpoint: "+dir+" has no entities.dict")
		require.NoError(t, json.Unmarshal([]byte(described.stdout), &folder))
		assert.Equal(t, folder.SHA256, info.Metadata["imported_sha256"])
		assert.Contains(t, folder.Problem, "has no entities.dict")
	}
}

// --from selects the tool if a folder also has a file of another tool.
func TestImportFrom(t *testing.T) {
	w := newWorkplace(t)
	dir, vocabulary := w.writeRotate(t, "RotatE", 6, true, false)
	stray := filepath.Join(dir, "best_valid.model")
	require.NoError(t, os.WriteFile(stray, nil, 0o644))
	mquine(t, "import", dir, w.path("out"), "--vocab", vocabulary).requireSentence(t, exitFailed, stray)
	succeed(t, "import", "--from", "rotate", dir, w.path("out"), "--vocab", vocabulary)
}

func TestImportRefuses(t *testing.T) {
	w := newWorkplace(t)
	out := w.path("out")
	mquine(t, "import", "--from", "rotate", w.model, out).requireSentence(t, exitFailed,
		"is already a checkpoint in the format mquine/1: use it directly")
	mquine(t, "import", "--from", "rotate", w.data, out).requireSentence(t, exitFailed,
		"it has no model.safetensors and no files of npy, kbc, dura, ote, ")
	mquine(t, "import", "--from", "rotate", w.path("absent"), out).requireSentence(t, exitFailed,
		"no such file or folder")
	mquine(t, "import", "--from", "rotate", w.model, w.data).requireSentence(t, exitFailed, "already exists")
	mquine(t, "import", "--from", "ampligraph", w.model, out).requireSentence(t, exitUsage,
		`--from "ampligraph": choose from npy, kbc, dura, ote, house, hake, rotate, expressive, dglke, pykeen, `+
			"libkge, tucker, conve, simple, openke and tensors")
	mquine(t, "import", "--from", "rotate", w.model).requireSentence(t, exitUsage,
		"give the folder to read and the folder to write")
	mquine(t, "import", "--from", "rotate", w.model, out, "more").requireSentence(t, exitUsage,
		`unexpected argument "more"`)
	assert.NoFileExists(t, out)
}

// A checkpoint of pRotatE that the RotatE code wrote lacks the modulus. The scores omit the modulus,
// and a note says so.
func TestPredictWithoutModulus(t *testing.T) {
	w := newWorkplace(t)
	dir, vocabulary := w.writeRotate(t, "pRotatE", 3, false, false)
	relations, err := kg.ReadVocabulary(t.Context(), filepath.Join(vocabulary, "relations.dict"))
	require.NoError(t, err)
	entities, err := kg.ReadVocabulary(t.Context(), filepath.Join(vocabulary, "entities.dict"))
	require.NoError(t, err)
	o := succeed(t, "predict", dir, "--vocab", vocabulary, "--data", w.data,
		"--head", entities.Label(0), "--relation", relations.Label(0))
	assert.Contains(t, o.stderr, "note: the checkpoint lacks the modulus of pRotatE")
	assert.Contains(t, o.stderr, "note: the labels of "+dir+" come from "+vocabulary+"\n")
	assert.NotContains(t, mquine(t, "predict", w.model, "--data", w.data,
		"--head", entities.Label(0), "--relation", relations.Label(0)).stderr, "modulus")
}
