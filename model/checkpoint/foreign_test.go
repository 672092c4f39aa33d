package checkpoint_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/model/checkpoint/formats"
)

// fixtureFolders returns the folders of all reference checkpoints that are not in the format
// mquine/1.
func fixtureFolders(t *testing.T) (folders []string) {
	root := fixture.Root(t)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), "mquine-") {
			folders = append(folders, filepath.Join(root, e.Name()))
		}
	}
	return folders
}

// Open reads a folder in the format of its tool, or returns an error that says that mquine cannot
// rank the model.
func TestForeignFormats(t *testing.T) {
	tools := map[string]string{
		"rotate": "rotate", "kbc": "kbc", "dura": "dura", "libkge": "libkge", "dglke": "dglke", "pykeen": "pykeen",
		"openke": "openke", "quate": "openke", "simple": "simple", "tucker": "tucker", "conve": "conve",
		"ote": "ote", "house": "house", "hake": "hake", "mode": "hake", "expressive": "expressive",
	}
	read := 0
	for _, dir := range fixtureFolders(t) {
		name := filepath.Base(dir)
		tool, _, _ := strings.Cut(name, "-")
		c, err := checkpoint.Open(t.Context(), dir)
		if err != nil {
			assert.ErrorContains(t, err, dir)
			if tools[tool] != "" {
				assert.ErrorContains(t, err, "which mquine cannot rank yet", name)
			}
			continue
		}
		read++
		if name != "ote-rotate-umls" {
			assert.Equal(t, tools[tool], c.Format, name)
		}
		require.NoError(t, c.Verify(t.Context()))
		require.NoError(t, c.Close())
	}
	assert.Positive(t, read)
}

// A checkpoint that was saved from a folder of another tool has the parameters, configuration and
// labels of this folder.
func TestForeignSave(t *testing.T) {
	for _, dir := range fixtureFolders(t) {
		c, err := checkpoint.Open(t.Context(), dir)
		if err != nil {
			continue // TestForeignFormats checks the error
		}
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, c.Save(t.Context(), out, map[string]string{"dataset": c.Dataset}), dir)
		requireSame(t, c, out)
		require.NoError(t, c.Close())
	}
}

// requireSame checks that the checkpoint in dir has the parameters, configuration and labels of c.
func requireSame(t *testing.T, c *checkpoint.Checkpoint, dir string) *checkpoint.Checkpoint {
	t.Helper()
	other, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	require.Len(t, other.Model.Tensors(), len(c.Model.Tensors()), c.Path)
	for i, values := range c.Model.Tensors() {
		require.True(t, slices.EqualFunc(values, other.Model.Tensors()[i],
			func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }), c.Path)
	}
	require.Equal(t, c.Model.Config(), other.Model.Config(), c.Path)
	require.Equal(t, c.Entities.Labels(), other.Entities.Labels(), c.Path)
	require.Equal(t, c.Relations.Labels(), other.Relations.Labels(), c.Path)
	require.Equal(t, c.Dataset, other.Dataset, c.Path)
	return other
}

// For every fixture that mquine reads, mquine's scores of a few triples agree with the tool's
// float32 scores.
func TestForeignScores(t *testing.T) {
	// columns names the columns with the scores of a triple as an answer to its tail query and to
	// its head query.
	columns := [2][]string{
		{"score_tail_batch", "score_rhs", "score_sp", "score_t", "score_edge_func", "predict", "score", "logit",
			"logit_float64"},
		{"score_head_batch", "score_lhs", "score_po", "score_h", "score_edge_func", "predict", "score", "logit_reverse",
			"logit_reverse_float64"},
	}
	for _, dir := range fixtureFolders(t) {
		c, err := openEvaluated(t, dir)
		if err != nil {
			continue // TestForeignFormats checks the error
		}
		text, err := os.ReadFile(filepath.Join(dir, "scores.tsv"))
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		names := strings.Split(lines[0], "\t")
		given := "side\thead\trelation\ttail\tscore\n"
		for i, side := range []string{"tail", "head"} {
			at := slices.IndexFunc(columns[i], func(name string) bool { return slices.Contains(names, name) })
			require.GreaterOrEqual(t, at, 0, "%s: no scores in %v", dir, names)
			at = slices.Index(names, columns[i][at])
			for _, line := range lines[1:] {
				f := strings.Split(line, "\t")
				given += strings.Join([]string{side, f[1], f[2], f[3], f[at]}, "\t") + "\n"
			}
		}
		path := filepath.Join(t.TempDir(), "scores.tsv")
		require.NoError(t, os.WriteFile(path, []byte(given), 0o644))
		n, largest, err := c.CompareScores(t.Context(), path)
		assert.NoError(t, err, dir)
		assert.Equal(t, 2*len(lines)-2, n)
		t.Logf("%-30s %d scores, largest difference %.2g", filepath.Base(dir), n, largest)
	}
}

// openEvaluated opens the checkpoint that gave a fixture's scores and ranks. HousE and OTE keep it
// in a subfolder without vocabularies.
func openEvaluated(t *testing.T, dir string) (*checkpoint.Checkpoint, error) {
	evaluated := dir
	for _, best := range []string{"best_model", "best"} {
		if _, err := os.Stat(filepath.Join(dir, best)); err == nil {
			evaluated = filepath.Join(dir, best)
		}
	}
	c, err := checkpoint.Open(t.Context(), evaluated, checkpoint.MissingVocabularies(dir))
	if err == nil {
		t.Cleanup(func() { require.NoError(t, c.Close()) })
	}
	return c, err
}

// A score that float32 arithmetic does not explain, or a line that cannot be read, gives an error
// that names the line.
func TestCompareScoresWrong(t *testing.T) {
	dir := fixture.Dir(t, "rotate-repo-transe-umls")
	c, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	const triple = "chemical_viewed_functionally\tinteracts_with\timmunologic_factor\t"
	for text, want := range map[string]string{
		triple + "0.592922688\n" + triple + "0.593\n": ":2: the score is 0.593, but the checkpoint gives " +
			"(chemical_viewed_functionally, interacts_with, immunologic_factor) the score 0.5929",
		triple + "0.592922688\n" + triple + "-0.592922688\n": ":2: the score is -0.592",
		triple: ":1: \"\" is not a score",
		strings.Replace(triple, "imm", "x", 1) + "1": `:1: entity "xunologic_factor" is not in the vocabulary of ` +
			dir + ", which has 135 entities and 46 relations",
		"a\tb\tc\n": ":1: 3 columns instead of 4", "a\n": ":1: 1 column instead of 4",
		triple + "1\n\n" + triple + "1\n": ":2: blank line: remove it", triple + "NaN": `"NaN" is not a score`,
		"head\ttail\tscore\n": ":1: the columns have names, but none is called relation",
		"head\trelation\ttail\tbetter\tequal\n": ":1: the columns have names, " +
			"but none is called score",
		"head\trelation\ttail\tscore\tscore\n":                       ":1: two columns are called score: keep one",
		"head\trelation\ttail\tscore\tside\n" + triple + "0.6\tleft": `:2: side "left" is neither tail nor head`,
		"": "has no scores", "head\trelation\ttail\tscore\n": "has no scores",
	} {
		path := filepath.Join(t.TempDir(), "scores.tsv")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, _, err := c.CompareScores(t.Context(), path)
		require.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, path)
		assert.NotContains(t, err.Error(), "\n")
	}
	_, _, err = c.CompareScores(t.Context(), filepath.Join(dir, "absent.tsv"))
	assert.ErrorIs(t, err, os.ErrNotExist)

	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	_, err = z.Write([]byte(triple + "0.592922688\n"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for name, text := range map[string]string{
		"crlf.tsv": triple + "0.592922688\r\n", "blank.tsv": triple + "0.592922688\n\n",
		"mark.tsv": "\ufeffhead\trelation\ttail\tscore\n" + triple + "0.592922688", "scores.tsv.gz": archive.String(),
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		n, largest, err := c.CompareScores(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		assert.Less(t, largest, 1e-6)
	}
}

// If a folder holds several checkpoints, the user must name one of them.
func TestForeignSeveralCheckpoints(t *testing.T) {
	root := fixture.Root(t)
	for name, file := range map[string]string{
		"libkge-transe-umls": "checkpoint_best.pt", "openke-transe-umls": "transe.ckpt", "simple-umls": "20.chkpnt",
		"tucker-umls": "tucker_state_dict.pt", "conve-umls": "umls_conve_0.1_0.1.model",
	} {
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, name))))
		whole, err := checkpoint.Open(t.Context(), filepath.Join(root, name))
		require.NoError(t, err)
		defer whole.Close()
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "model_best.pt")))
		saved, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.NoError(t, os.Remove(filepath.Join(dir, file)))
		ending := filepath.Ext(file)
		tool, _, _ := strings.Cut(name, "-")
		stem := tool
		if tool == "openke" {
			stem = "transe" // the name of the file names the model
		}
		first, second := filepath.Join(dir, stem+"_00005"+ending), filepath.Join(dir, stem+"_00010"+ending)
		require.NoError(t, os.WriteFile(first, saved, 0o644))
		requireSame(t, whole, dir)
		require.NoError(t, os.WriteFile(second, saved[:100], 0o644))
		_, err = checkpoint.Open(t.Context(), dir)
		assert.EqualError(t, err, dir+" has 2 checkpoints of "+tool+" ("+stem+"_00005"+ending+", "+stem+"_00010"+ending+
			"): name one of these files instead of the folder")
		c := requireSame(t, whole, first)
		assert.Equal(t, dir, c.VocabularyDir)
		i, err := checkpoint.Inspect(t.Context(), first)
		require.NoError(t, err)
		assert.NotEmpty(t, i.Tensors)
		_, err = checkpoint.Open(t.Context(), second)
		assert.ErrorContains(t, err, second)
	}
	_, err := checkpoint.Open(t.Context(), filepath.Join(root, "README.md"))
	assert.ErrorContains(t, err, "is not a folder: give the folder of the checkpoint")
	dir := filepath.Join(root, "kbc-complex-umls")
	_, err = checkpoint.Open(t.Context(), filepath.Join(dir, "best_valid.model"))
	assert.ErrorContains(t, err, "is not a folder: give the folder of the checkpoint, "+dir)
	path := filepath.Join(root, "expressive-umls", "state_dict.pt")
	_, err = checkpoint.Open(t.Context(), path)
	assert.EqualError(t, err, path+" is not a checkpoint of LibKGE: it has no model; give the folder of the "+
		"checkpoint, "+filepath.Dir(path))
	_, err = checkpoint.Open(t.Context(), dir, checkpoint.VocabularyFolder(filepath.Join(root, "none")))
	assert.ErrorContains(t, err, "there is no folder "+filepath.Join(root, "none"))
}

// MissingVocabularies affects only the checkpoints without vocabularies.
func TestMissingVocabularies(t *testing.T) {
	root := fixture.Root(t)
	kbc, openke := filepath.Join(root, "kbc-complex-umls"), filepath.Join(root, "openke-transe-umls")
	bare := filepath.Join(t.TempDir(), "bare")
	require.NoError(t, os.CopyFS(bare, os.DirFS(kbc)))
	for _, name := range []string{"ent_id", "rel_id"} {
		require.NoError(t, os.Remove(filepath.Join(bare, name)))
	}
	for dir, want := range map[string]string{openke: openke, bare: kbc} {
		c, err := checkpoint.Open(t.Context(), dir, checkpoint.MissingVocabularies(kbc))
		require.NoError(t, err)
		assert.Equal(t, want, c.VocabularyDir)
		require.NoError(t, c.Close())
	}
	// The last option applies: openke's vocabularies are not the ones in kbc.
	missing, folder := checkpoint.MissingVocabularies(kbc), checkpoint.VocabularyFolder(kbc)
	_, err := checkpoint.Open(t.Context(), openke, missing, folder)
	assert.Error(t, err)
	c, err := checkpoint.Open(t.Context(), openke, folder, missing)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// A damaged folder never causes a panic. If Open refuses it, the error names the folder or a file
// in it.
func TestForeignDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dir := range fixtureFolders(t) {
		if formats.Find(dir) == nil || strings.HasPrefix(filepath.Base(dir), "house") {
			continue
		}
		copied := filepath.Join(t.TempDir(), filepath.Base(dir))
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		var files []string
		require.NoError(t, filepath.WalkDir(copied, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		}))
		for range 12 {
			path := files[rng.IntN(len(files))]
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			damaged := bytes.Clone(whole)
			if rng.IntN(4) == 0 {
				damaged = damaged[:rng.IntN(len(damaged)+1)]
			} else {
				for range 1 + rng.IntN(4) {
					// Damage the beginning or the end, where the headers are.
					at := rng.IntN(min(len(damaged), 2000))
					if rng.IntN(2) == 0 {
						at = len(damaged) - 1 - at
					}
					damaged[at] = byte(rng.IntN(256))
				}
			}
			require.NoError(t, os.WriteFile(path, damaged, 0o644))
			c, err := checkpoint.Open(t.Context(), copied)
			if err == nil {
				require.NoError(t, c.Close())
			} else {
				assert.ErrorContains(t, err, copied)
				assert.NotContains(t, err.Error(), "\n")
			}
			require.NoError(t, os.WriteFile(path, whole, 0o644))
		}
	}
}

// A pickle that calls a function is refused, and the error names the function.
func TestForeignPickleCallsNothing(t *testing.T) {
	dir := t.TempDir()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "best_valid/data.pkl", Method: zip.Store})
	require.NoError(t, err)
	_, err = w.Write([]byte("\x80\x02cposix\nsystem\nX\x11\x00\x00\x00touch /tmp/called\x85R."))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	path := filepath.Join(dir, "best_valid.model")
	require.NoError(t, os.WriteFile(path, archive.Bytes(), 0o644))
	_, err = checkpoint.Open(t.Context(), dir)
	assert.EqualError(t, err, path+`: the pickle cannot be read: it refers to "posix.system", `+
		`which is not among the names that are safe to read (at byte 2)`)
}

// If a folder has no vocabularies, Open reads them from the given folder, which may hold the files
// of any tool.
func TestForeignVocabularies(t *testing.T) {
	var dir, other string
	for _, d := range fixtureFolders(t) {
		switch filepath.Base(d) {
		case "kbc-complex-umls":
			dir = d
		case "dura-complex-umls": // has the same numbers
			other = d
		}
	}
	copied := filepath.Join(t.TempDir(), "kbc")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	require.NoError(t, os.Remove(filepath.Join(copied, "ent_id")))
	_, err := checkpoint.Open(t.Context(), copied)
	assert.EqualError(t, err,
		copied+" has no vocabularies: copy ent_id and rel_id into it, or name their folder with --vocab")
	c, err := checkpoint.Open(t.Context(), copied, checkpoint.VocabularyFolder(other))
	require.NoError(t, err)
	defer c.Close()
	whole, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	defer whole.Close()
	assert.Equal(t, whole.Entities.Labels(), c.Entities.Labels())

	// A vocabulary with a different number of entities is an error.
	short := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.MkdirAll(short, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(short, "ent_id"), []byte("a\t0\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(short, "rel_id"), []byte("r\t0\n"), 0o644))
	_, err = checkpoint.Open(t.Context(), copied, checkpoint.VocabularyFolder(short))
	assert.ErrorContains(t, err, `tensor "embeddings.0.weight" has 135 rows, but the vocabulary in `+short+
		` has 1 entity: use the vocabulary that the model was trained with`)
}

// A folder whose vocabulary of the relations is empty is refused, even if its table of relations is
// empty, too.
func TestForeignEmptyVocabulary(t *testing.T) {
	dir := t.TempDir()
	numbers := strings.Repeat("\x00\x00\x80\x3f", 8)
	for name, contents := range map[string]string{
		"best_valid.model": string(zipOf(t, zip.Store, [2]string{"a/data.pkl", state(
			tensorPickle{"embeddings.0.weight", "0", 8, 0, []int64{2, 4}, []int64{4, 1}},
			tensorPickle{"embeddings.1.weight", "1", 0, 0, []int64{0, 4}, []int64{4, 1}},
		)}, [2]string{"a/data/0", numbers}, [2]string{"a/data/1", ""})),
		"ent_id": "a\t0\nb\t1\n", "rel_id": "", "entities.tsv": "0\ta\n1\tb\n", "relations.tsv": "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(contents), 0o644))
	}
	want := dir + ": the vocabulary in " + dir + " has no relations, but a model needs at least one"
	_, err := checkpoint.Open(t.Context(), dir)
	assert.EqualError(t, err, want)
	path := filepath.Join(dir, "best_valid.model")
	for _, inverses := range []string{"", "offset", "interleaved"} {
		_, err = checkpoint.OpenTensors(t.Context(), formats.TensorFiles{
			Model: "complex", Inverses: inverses,
			Entity: path + ":embeddings.0.weight", Relation: path + ":embeddings.1.weight",
			Entities: filepath.Join(dir, "entities.tsv"), Relations: filepath.Join(dir, "relations.tsv"),
		})
		assert.EqualError(t, err, want)
	}
}

// A tensor that repeats the elements of its storage matters only to a model that needs it.
func TestForeignExpanded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "best_valid.model")
	for name, contents := range map[string]string{"ent_id": "a\t0\nb\t1\n", "rel_id": "r\t0\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(contents), 0o644))
	}
	entities := tensorPickle{"embeddings.0.weight", "0", 8, 0, []int64{2, 4}, []int64{4, 1}}
	relations := tensorPickle{"embeddings.1.weight", "0", 8, 0, []int64{1, 4}, []int64{4, 1}}
	save := func(tensors ...tensorPickle) {
		contents := zipOf(t, zip.Store, [2]string{"a/data.pkl", state(tensors...)},
			[2]string{"a/data/0", strings.Repeat("\x00\x00\x80\x3f", 8)})
		require.NoError(t, os.WriteFile(path, contents, 0o644))
	}
	save(entities, relations, tensorPickle{"mask", "0", 8, 0, []int64{1 << 40, 8}, []int64{0, 1}})
	c, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	i, err := checkpoint.Inspect(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, i.Tensors, 3)
	assert.NotNil(t, i.Tensors[0].Values)
	assert.Nil(t, i.Tensors[2].Values)

	entities.shape, entities.stride = []int64{4, 4}, []int64{0, 1}
	save(entities, relations)
	_, err = checkpoint.Open(t.Context(), dir)
	want := ` is expanded, so it has more elements than its storage: clone it and save the file again`
	assert.EqualError(t, err, path+`: tensor "embeddings.0.weight"`+want)
	_, err = checkpoint.OpenTensors(t.Context(), formats.TensorFiles{
		Model: "distmult", Entity: path + ":embeddings.0.weight", Relation: path + ":embeddings.1.weight",
	})
	assert.EqualError(t, err, "--entity: "+path+`: tensor "embeddings.0.weight"`+want)
}

// The name of a table in a PyTorch file must end at the tensor.
func TestTablesBelowTensors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.pt")
	contents := zipOf(t, zip.Store, [2]string{"a/data.pkl", state(
		tensorPickle{"weight", "0", 8, 0, []int64{2, 4}, []int64{4, 1}},
	)}, [2]string{"a/data/0", strings.Repeat("\x00\x00\x80\x3f", 8)})
	require.NoError(t, os.WriteFile(path, contents, 0o644))
	for inside, want := range map[string]string{
		"weight/typo": `"weight/typo" is not a tensor: name one, as in FILE:TENSOR or FILE:DICTIONARY/TENSOR`,
		"weight/a/b":  `"weight/a/b" is not a tensor: name one, as in FILE:TENSOR or FILE:DICTIONARY/TENSOR`,
		"weight/":     `"weight/" is not a tensor: name one, as in FILE:TENSOR or FILE:DICTIONARY/TENSOR`,
	} {
		_, err := checkpoint.OpenTensors(t.Context(), formats.TensorFiles{
			Model: "distmult", Entity: path + ":" + inside, Relation: path + ":weight",
		})
		assert.EqualError(t, err, "--entity: "+path+": "+want)
	}
}

// Open recognises a folder of any tool without its vocabularies, and reads them from the given
// folder. The packaged models of LibKGE contain labels.
func TestForeignWithoutVocabularies(t *testing.T) {
	for _, dir := range fixtureFolders(t) {
		bare := filepath.Join(t.TempDir(), filepath.Base(dir))
		require.NoError(t, os.CopyFS(bare, os.DirFS(dir)))
		for _, pattern := range []string{
			"*.dict", "entities.tsv", "relations.tsv", "*_ids.del", "*_id", "*2id.txt",
			"training_triples/*_to_id.tsv.gz",
		} {
			files, err := filepath.Glob(filepath.Join(bare, pattern))
			require.NoError(t, err)
			for _, file := range files {
				require.NoError(t, os.Remove(file))
			}
		}
		whole, err := checkpoint.Open(t.Context(), dir)
		require.NoError(t, err)
		defer whole.Close()
		if whole.Format != "libkge" {
			_, err = checkpoint.Open(t.Context(), bare)
			assert.ErrorContains(t, err, "or name their folder with --vocab")
		}
		c, err := checkpoint.Open(t.Context(), bare, checkpoint.VocabularyFolder(dir))
		require.NoError(t, err)
		defer c.Close()
		assert.Equal(t, whole.Format, c.Format)
		assert.Equal(t, whole.Entities.Labels(), c.Entities.Labels())
		assert.Equal(t, whole.Relations.Labels(), c.Relations.Labels())
	}
}

// The given folder must hold the vocabulary of the checkpoint. It may hold the files of several
// tools only if one of them is the checkpoint's tool.
func TestForeignVocabulariesGiven(t *testing.T) {
	root := fixture.Root(t)
	kbc, rotate := filepath.Join(root, "kbc-complex-umls"), filepath.Join(root, "rotate-repo-rotate-umls")
	_, err := checkpoint.Open(t.Context(), kbc, checkpoint.VocabularyFolder(rotate))
	assert.EqualError(t, err, kbc+" has its own vocabularies, and the vocabularies in "+rotate+
		" differ from them: omit --vocab")

	bare, mixed := filepath.Join(t.TempDir(), "bare"), filepath.Join(t.TempDir(), "mixed")
	require.NoError(t, os.CopyFS(bare, os.DirFS(kbc)))
	require.NoError(t, os.CopyFS(mixed, os.DirFS(rotate)))
	for _, name := range []string{"ent_id", "rel_id"} {
		require.NoError(t, os.Rename(filepath.Join(bare, name), filepath.Join(mixed, name)))
	}
	c, err := checkpoint.Open(t.Context(), bare, checkpoint.VocabularyFolder(mixed))
	require.NoError(t, err)
	defer c.Close()
	whole, err := checkpoint.Open(t.Context(), kbc)
	require.NoError(t, err)
	defer whole.Close()
	assert.Equal(t, whole.Entities.Labels(), c.Entities.Labels(), "the files of kbc, not of the RotatE repository")

	for from, to := range map[string]string{"entities.dict": "entities.tsv", "relations.dict": "relations.tsv"} {
		text, err := os.ReadFile(filepath.Join(rotate, from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(mixed, to), text, 0o644))
	}
	for _, name := range []string{"ent_id", "rel_id"} {
		require.NoError(t, os.Remove(filepath.Join(mixed, name)))
	}
	_, err = checkpoint.Open(t.Context(), bare, checkpoint.VocabularyFolder(mixed))
	assert.ErrorContains(t, err, "has both entities.dict and entities.tsv, which may number the entities differently")

	file := filepath.Join(rotate, "entities.dict")
	_, err = checkpoint.Open(t.Context(), bare, checkpoint.VocabularyFolder(file))
	assert.EqualError(t, err, file+" is not a folder: give --vocab the folder of the vocabularies, "+rotate)
}

// OpenKE's files of TransE, DistMult and HolE do not say which of these models they hold, so the
// file name must contain the name of the model.
func TestForeignOpenKE(t *testing.T) {
	root := fixture.Root(t)
	dir := filepath.Join(t.TempDir(), "openke")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "openke-transe-umls"))))
	file := filepath.Join(dir, "transe.ckpt")
	for name, want := range map[string]string{
		"model.ckpt": "", "distmult.ckpt": "distmult", "TransE_umls.ckpt": "transe-l1",
	} {
		renamed := filepath.Join(dir, name)
		require.NoError(t, os.Rename(file, renamed))
		file = renamed
		c, err := checkpoint.Open(t.Context(), dir)
		if want == "" {
			assert.ErrorContains(t, err, "may be TransE, DistMult or HolE")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, want, c.Model.Config().Model)
		require.NoError(t, c.Close())
	}
}

// OpenKE's RESCAL and SimplE have the scores of OpenKE's methods predict: hᵀRt, row by row, and −Σ h r t.
func TestForeignOpenKEProducts(t *testing.T) {
	const d, entities, relations = 2, 3, 2
	number := func(i int) float64 { return float64(i%7) - 2.5 }
	table := func(name, key string, rows, width int) (tensorPickle, [2]string) {
		var values []byte
		for i := range rows * width {
			values = binary.LittleEndian.AppendUint32(values, math.Float32bits(float32(number(i))))
		}
		n, w := int64(rows), int64(width)
		described := tensorPickle{name, key, n * w, 0, []int64{n, w}, []int64{w, 1}}
		return described, [2]string{"a/data/" + key, string(values)}
	}
	entity, entityData := table("ent_embeddings.weight", "0", entities, d)
	matrix, matrixData := table("rel_matrices.weight", "1", relations, d*d)
	vector, vectorData := table("rel_embeddings.weight", "1", relations, d)
	inverse, inverseData := table("rel_inv_embeddings.weight", "2", relations, d)
	for _, c := range []struct {
		model   string
		tensors []tensorPickle
		data    [][2]string
		predict func(h, r, tail int) float64
	}{
		{"rescal", []tensorPickle{entity, matrix}, [][2]string{entityData, matrixData},
			func(h, r, tail int) (sum float64) {
				for i := range d {
					for j := range d {
						sum += number(h*d+i) * number(r*d*d+i*d+j) * number(tail*d+j)
					}
				}
				return sum
			}},
		{"distmult", []tensorPickle{entity, vector, inverse}, [][2]string{entityData, vectorData, inverseData},
			func(h, r, tail int) (sum float64) {
				for i := range d {
					sum -= number(h*d+i) * number(r*d+i) * number(tail*d+i)
				}
				return sum
			}},
	} {
		dir := t.TempDir()
		var scores strings.Builder
		for h := range entities {
			for r := range relations {
				for tail := range entities {
					fmt.Fprintf(&scores, "e%d\tr%d\te%d\t%v\n", h, r, tail, c.predict(h, r, tail))
				}
			}
		}
		for name, contents := range map[string]string{
			"model.ckpt": string(zipOf(t, zip.Store,
				append([][2]string{{"a/data.pkl", state(c.tensors...)}}, c.data...)...)),
			"entity2id.txt": "3\ne0\t0\ne1\t1\ne2\t2\n", "relation2id.txt": "2\nr0\t0\nr1\t1\n",
			"scores.tsv": scores.String(),
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(contents), 0o644))
		}
		opened, err := checkpoint.Open(t.Context(), dir)
		require.NoError(t, err)
		assert.Equal(t, c.model, opened.Model.Config().Model)
		_, largest, err := opened.CompareScores(t.Context(), filepath.Join(dir, "scores.tsv"))
		assert.NoError(t, err)
		assert.Zero(t, largest, "the sums are exact")
		require.NoError(t, opened.Close())
	}
}

// A folder of DGL-KE has one table of entities and one table of relations.
func TestForeignDGLKETables(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dglke")
	require.NoError(t, os.CopyFS(dir, os.DirFS(fixture.Dir(t, "dglke-rotate-umls"))))
	for _, name := range []string{"relation", "entity"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "other_"+name+".npy"), nil, 0o644))
		_, err := checkpoint.Open(t.Context(), dir)
		assert.EqualError(t, err, dir+" has 2 files *_"+name+".npy, but a folder of DGL-KE must have exactly one: "+
			"leave only the tables of one model in it")
	}
}

// The first releases of DGL-KE wrote the names model and emb_size into config.json.
func TestForeignEarlyDGLKE(t *testing.T) {
	whole := fixture.Dir(t, "dglke-rotate-umls")
	dir := filepath.Join(t.TempDir(), "dglke")
	require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	early := strings.NewReplacer(`"model_name"`, `"model"`, `"hidden_dim"`, `"emb_size"`).Replace(string(text))
	require.Contains(t, early, `"model"`)
	require.Contains(t, early, `"emb_size"`)
	require.NoError(t, os.WriteFile(path, []byte(early), 0o644))
	c, err := checkpoint.Open(t.Context(), whole)
	require.NoError(t, err)
	defer c.Close()
	requireSame(t, c, dir)

	nameless := strings.Replace(early, `"model"`, `"name"`, 1)
	require.NoError(t, os.WriteFile(path, []byte(nameless), 0o644))
	_, err = checkpoint.Open(t.Context(), dir)
	assert.EqualError(t, err, path+` lacks model_name: add it, as in "model_name": "RotatE"`)
}

// Without the file checkpoint, which also holds the state of the optimiser, a folder of HousE has its
// best validated parameters in best_model/checkpoint. A folder of HousE or HAKE without either is
// refused, because the other files lack parameters.
func TestForeignWithoutLastCheckpoint(t *testing.T) {
	root := fixture.Root(t)
	whole, err := checkpoint.Open(t.Context(), filepath.Join(root, "house-umls"))
	require.NoError(t, err)
	defer whole.Close()
	for _, name := range []string{"house-umls", "hake-umls"} {
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, name))))
		require.NoError(t, os.Remove(filepath.Join(dir, "checkpoint")))
		if name == "house-umls" {
			requireSame(t, whole, dir)
			require.NoError(t, os.Remove(filepath.Join(dir, "best_model", "checkpoint")))
		}
		_, err := checkpoint.Open(t.Context(), dir)
		assert.EqualError(t, err, filepath.Join(dir, "checkpoint")+" is missing: only that file holds all parameters")
	}
}

// A stray file of another tool does not change the format of a folder.
func TestForeignStrayFile(t *testing.T) {
	root := fixture.Root(t)
	for folder, want := range map[string]string{
		"rotate-repo-rotate-umls": "rotate", "pykeen-complex-umls": "pykeen", "dglke-complex-umls": "dglke",
		"simple-umls": "simple", "tucker-umls": "tucker", "conve-umls": "conve", "kbc-cp-umls": "kbc",
		"libkge-complex-umls": "libkge",
	} {
		dir := filepath.Join(t.TempDir(), folder)
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, folder))))
		for _, name := range []string{"best.pt", "old.ckpt"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
		c, err := checkpoint.Open(t.Context(), dir)
		require.NoError(t, err)
		assert.Equal(t, want, c.Format)
		require.NoError(t, c.Close())
	}
}

// Files with the endings of two tools are ambiguous without a vocabulary of one of them. InFormat
// selects a tool, and a user may name the file.
func TestForeignAmbiguous(t *testing.T) {
	root := fixture.Root(t)
	openke := filepath.Join(root, "openke-transe-umls")
	dir := filepath.Join(t.TempDir(), "openke")
	require.NoError(t, os.CopyFS(dir, os.DirFS(openke)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "best.pt"), nil, 0o644))
	c, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, "openke", c.Format)
	require.NoError(t, c.Close())

	for _, name := range []string{"entity2id.txt", "relation2id.txt"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	labels := checkpoint.VocabularyFolder(openke)
	_, err = checkpoint.Open(t.Context(), dir, labels)
	assert.EqualError(t, err, dir+" has files of libkge and of openke: name the file of the checkpoint instead of the "+
		"folder, or convert the folder with mquine import --from libkge or --from openke")
	_, err = checkpoint.Open(t.Context(), dir, labels, checkpoint.InFormat("libkge"))
	assert.ErrorContains(t, err, "best.pt")
	for _, path := range []string{dir, filepath.Join(dir, "transe.ckpt")} {
		c, err = checkpoint.Open(t.Context(), path, labels, checkpoint.InFormat("openke"))
		require.NoError(t, err)
		assert.Equal(t, "openke", c.Format)
		require.NoError(t, c.Close())
	}
	// The names of LibKGE's best checkpoints are not ambiguous.
	dir = filepath.Join(t.TempDir(), "libkge")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "libkge-complex-umls"))))
	for _, name := range []string{"entity_ids.del", "relation_ids.del"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old.ckpt"), nil, 0o644))
	labels = checkpoint.VocabularyFolder(filepath.Join(root, "libkge-complex-umls"))
	c, err = checkpoint.Open(t.Context(), dir, labels)
	require.NoError(t, err)
	assert.Equal(t, "libkge", c.Format)
	require.NoError(t, c.Close())

	// The folder has no file of the given format.
	c, err = checkpoint.Open(t.Context(), openke, checkpoint.InFormat("pykeen"))
	require.NoError(t, err)
	assert.Equal(t, "openke", c.Format)
	require.NoError(t, c.Close())
}
