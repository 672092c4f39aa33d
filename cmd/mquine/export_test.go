package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/model/checkpoint"
)

// Importing exported tables gives the same checkpoint.
func TestExport(t *testing.T) {
	w := newWorkplace(t)
	for _, to := range []string{"npy", "libkge-ids"} {
		arrays, back := w.path("arrays-"+to), w.path("back-"+to)
		o := succeed(t, "export", w.model, "--to", to, arrays)
		assert.Empty(t, o.stdout)
		assert.Contains(t, o.stderr, "wrote "+arrays+". In Python:\n")
		assert.Contains(t, o.stderr, `("`+arrays+"/") // the line of Python names the folder
		succeed(t, "import", arrays, back)
		assert.Equal(t, tensorsOf(t, w.model), tensorsOf(t, back))
	}
	requireFiles(t, w.path("arrays-npy"), "config.json", "entities.tsv", "relations.tsv", "entity.npy",
		"relation.head.npy", "relation.tail.npy", "relation.cross.npy")
	requireFiles(t, w.path("arrays-libkge-ids"), "config.json", "entity_ids.del", "relation_ids.del", "entity.npy",
		"relation.head.npy", "relation.tail.npy", "relation.cross.npy")

	vectors := w.path("vectors")
	assert.Contains(t, succeed(t, "export", w.model, "--to", "word2vec", vectors).stderr,
		`KeyedVectors.load_word2vec_format("`+vectors+`/entities.bin", binary=True)`)
	requireFiles(t, vectors, "entities.bin", "relations.bin")
	tensors := w.path("tensors")
	succeed(t, "export", w.model, "--to", "safetensors", tensors)
	assert.Equal(t, tensorsOf(t, w.model), tensorsOf(t, tensors))
	mquine(t, "import", tensors, w.path("x")).requireSentence(t, exitFailed,
		"is already a checkpoint in the format mquine/1")
}

// Models with two tables can also be imported without the folder's configuration.
func TestExportedTables(t *testing.T) {
	w := newWorkplace(t)
	trained, arrays, back := w.path("distmult"), w.path("arrays"), w.path("back")
	succeed(t, "init", "--model", "distmult", "--dim", "6", "--data", w.data, "--out", trained, "--kind", "random")
	succeed(t, "export", trained, "--to", "npy", arrays)
	succeed(t, "import", "--from", "tensors", "--model", "distmult", "--entity", filepath.Join(arrays, "entity.npy"),
		"--relation", filepath.Join(arrays, "relation.npy"), "--entities", filepath.Join(arrays, "entities.tsv"),
		"--relations", filepath.Join(arrays, "relations.tsv"), back)
	assert.Equal(t, tensorsOf(t, trained), tensorsOf(t, back))
}

// Tables do not name their data set, so no output names one, except the metadata of the format mquine/1, which
// requires a name.
func TestUnknownDataset(t *testing.T) {
	w := newWorkplace(t)
	trained, arrays, back, again := w.path("distmult"), w.path("arrays"), w.path("back"), w.path("again")
	succeed(t, "init", "--model", "distmult", "--dim", "6", "--data", w.data, "--out", trained, "--kind", "random")
	succeed(t, "export", trained, "--to", "npy", arrays)
	config := filepath.Join(arrays, "config.json")
	assert.Contains(t, string(must1(os.ReadFile(config))), `"dataset": "families"`)
	o := succeed(t, "import", "--from", "tensors", "--model", "distmult",
		"--entity", filepath.Join(arrays, "entity.npy"), "--relation", filepath.Join(arrays, "relation.npy"),
		"--entities", filepath.Join(arrays, "entities.tsv"), "--relations",
		filepath.Join(arrays, "relations.tsv"), back)
	assert.Contains(t, o.stderr, "wrote "+back+": distmult, d = 6, 60 entities, 17 relations\n")
	var info struct {
		Dataset  *string
		Metadata map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "info", back, "--json", "-").stdout), &info))
	assert.Nil(t, info.Dataset)
	assert.Equal(t, "unknown", info.Metadata["dataset"])
	assert.NotContains(t, succeed(t, "info", back).stdout, "trained on")

	succeed(t, "export", back, "--to", "npy", again)
	assert.NotContains(t, string(must1(os.ReadFile(filepath.Join(again, "config.json")))), `"dataset"`)
	o = succeed(t, "import", again, w.path("last"))
	assert.Contains(t, o.stderr, "60 entities, 17 relations\n")
}

func tensorsOf(t *testing.T, dir string) [][]float32 {
	t.Helper()
	c, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c.Model.Tensors()
}

func TestExportRefuses(t *testing.T) {
	w := newWorkplace(t)
	out := w.path("out")
	mquine(t, "export", w.model, out).requireSentence(t, exitUsage, "--to")
	mquine(t, "export", w.model, "--to", "npy").requireSentence(t, exitUsage,
		"give the checkpoint and the folder to write")
	mquine(t, "export", w.model, out, "more", "--to", "npy").requireSentence(t, exitUsage, `unexpected argument "more"`)
	mquine(t, "export", w.model, "--to", "csv", out).requireSentence(t, exitUsage,
		`--to "csv": choose from npy, safetensors, word2vec and libkge-ids`)
	mquine(t, "export", w.model, "--to", "npy", w.data).requireSentence(t, exitFailed, "already exists")
	mquine(t, "export", w.data, "--to", "npy", out).requireSentence(t, exitFailed, "is not a checkpoint")
	assert.NoDirExists(t, out)
}

// import --verify writes a checkpoint only if its scores agree with the tool's scores.
func TestImportVerify(t *testing.T) {
	dir := fixture.Dir(t, "kbc-complex-umls")
	text, err := os.ReadFile(filepath.Join(dir, "scores.tsv"))
	require.NoError(t, err)
	scores := filepath.Join(t.TempDir(), "scores.tsv")
	right := strings.Replace(string(text), "score_rhs", "score", 1)
	require.NoError(t, os.WriteFile(scores, []byte(right), 0o644))
	out := filepath.Join(t.TempDir(), "out")
	o := succeed(t, "import", dir, out, "--verify", scores)
	assert.Regexp(t, `compared 40 scores with \S+: the largest difference is \d.*e-0[67]\n`, o.stderr)
	assert.DirExists(t, out)

	wrong := filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(scores, []byte(strings.Replace(string(text), "score_lhs", "score", 1)), 0o644))
	mquine(t, "import", dir, wrong, "--verify", scores).requireSentence(t, exitFailed,
		"that float32 arithmetic explains: mquine misreads the checkpoint, or the scores belong to another checkpoint")
	mquine(t, "import", dir, wrong, "--verify", filepath.Join(dir, "absent")).
		requireSentence(t, exitFailed, "no such file")
	assert.NoDirExists(t, wrong)

	// For tables that the user describes, --verify detects a wrong layout of complex numbers.
	tables := func(layout string) []string {
		return []string{"import", "--from", "tensors", "--model", "complex", "--reciprocal", "offset",
			"--layout", layout, "--entity", filepath.Join(dir, "best_valid.model:embeddings.0.weight"),
			"--relation", filepath.Join(dir, "best_valid.model:embeddings.1.weight"),
			"--entities", filepath.Join(dir, "ent_id"), "--relations", filepath.Join(dir, "rel_id"),
			"--verify", scores, wrong}
	}
	require.NoError(t, os.WriteFile(scores, []byte(right), 0o644))
	mquine(t, tables("interleaved")...).requireSentence(t, exitFailed, "mquine misreads the checkpoint")
	succeed(t, tables("halves")...)
}

// info and compare take the labels of a folder without labels from --vocab.
func TestVocabOfInfoAndCompare(t *testing.T) {
	data := os.Getenv("MQUINE_DATA")
	kbc, openke := fixture.Dir(t, "kbc-complex-umls"), fixture.Dir(t, "openke-complex-umls")
	if _, err := os.Stat(filepath.Join(data, "umls")); data == "" || err != nil {
		t.Skip("MQUINE_DATA does not name a folder that holds umls")
	}
	bare := filepath.Join(t.TempDir(), "bare")
	require.NoError(t, os.CopyFS(bare, os.DirFS(kbc)))
	for _, name := range []string{"ent_id", "rel_id"} {
		require.NoError(t, os.Remove(filepath.Join(bare, name)))
	}
	mquine(t, "info", bare).requireSentence(t, exitFailed, "has no vocabularies: copy ent_id and rel_id into it")
	assert.Contains(t, succeed(t, "info", bare, "--vocab", kbc).stdout, "mquine eval accepts the checkpoint")
	mquine(t, "info", "--vocab", kbc).requireSentence(t, exitUsage, "--vocab needs a checkpoint")
	mquine(t, "compare", bare, openke, "--data", "umls").requireSentence(t, exitFailed, "has no vocabularies")
	o := succeed(t, "compare", bare, openke, "--data", "umls", "--vocab", kbc, "--format", "csv")
	assert.Equal(t, succeed(t, "compare", kbc, openke, "--data", "umls", "--format", "csv").stdout,
		strings.ReplaceAll(o.stdout, "bare", "kbc-complex-umls"))
	// compare also accepts the path of a file in the folder.
	o = succeed(t, "compare", kbc, filepath.Join(openke, "complex.ckpt"), "--data", "umls", "--format", "csv")
	assert.Contains(t, o.stdout, "complex.ckpt")
}
