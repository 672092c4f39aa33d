package checkpoint_test

import (
	"archive/zip"
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/model/checkpoint/formats"
)

// fixtureFolders returns the folders of the reference checkpoints, without the format mquine/1.
func fixtureFolders(t *testing.T) (folders []string) {
	root := os.Getenv("MQUINE_FIXTURES")
	if root == "" {
		t.Skip("MQUINE_FIXTURES does not name the folder of the reference checkpoints")
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), "mquine-") {
			folders = append(folders, filepath.Join(root, e.Name()))
		}
	}
	return folders
}

// A folder is read by the format of its tool, or refused with the name of its model.
func TestForeignFormats(t *testing.T) {
	tools := map[string]string{
		"rotate": "rotate", "kbc": "kbc", "dura": "dura", "libkge": "libkge", "dglke": "dglke", "pykeen": "pykeen",
		"openke": "openke", "tucker": "tucker", "conve": "conve",
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

// A converted checkpoint has the same parameters as the folder.
func TestForeignSave(t *testing.T) {
	for _, dir := range fixtureFolders(t) {
		c, err := checkpoint.Open(t.Context(), dir)
		if err != nil {
			continue // TestForeignFormats checks the error
		}
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, c.Save(t.Context(), out, map[string]string{"dataset": c.Dataset}), dir)
		saved, err := checkpoint.Open(t.Context(), out)
		require.NoError(t, err)
		assert.Equal(t, c.Model.Tensors(), saved.Model.Tensors(), dir)
		assert.Equal(t, c.Model.Config(), saved.Model.Config(), dir)
		assert.Equal(t, c.Entities.Labels(), saved.Entities.Labels(), dir)
		assert.Equal(t, c.Relations.Labels(), saved.Relations.Labels(), dir)
		require.NoError(t, saved.Close())
		require.NoError(t, c.Close())
	}
}

// Damaged folders give errors that name a file of the folder, and never cause a panic.
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
		for range 20 {
			path := files[rng.IntN(len(files))]
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			damaged := bytes.Clone(whole)
			if rng.IntN(4) == 0 {
				damaged = damaged[:rng.IntN(len(damaged)+1)]
			} else {
				for range 1 + rng.IntN(4) {
					// The headers are at the beginning and at the end.
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

// A folder without a vocabulary takes it from the given folder, in the form of any tool.
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

	// A vocabulary of another graph does not fit.
	short := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.MkdirAll(short, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(short, "ent_id"), []byte("a\t0\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(short, "rel_id"), []byte("r\t0\n"), 0o644))
	_, err = checkpoint.Open(t.Context(), copied, checkpoint.VocabularyFolder(short))
	assert.ErrorContains(t, err, `tensor "embeddings.0.weight" has 135 rows, but the vocabulary in `+short+
		` has 1 entities: use the vocabulary that the model was trained with`)
}

// The given folder must hold the vocabulary of the checkpoint. It may hold the files of several
// tools only if one of them is the checkpoint's tool.
func TestForeignVocabulariesGiven(t *testing.T) {
	root := filepath.Dir(fixtureFolders(t)[0])
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
}

// OpenKE's files do not name the model, so the file's name must.
func TestForeignOpenKE(t *testing.T) {
	root := filepath.Dir(fixtureFolders(t)[0])
	dir := filepath.Join(t.TempDir(), "openke")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "openke-transe-umls"))))
	file := filepath.Join(dir, "transe.ckpt")
	for name, want := range map[string]string{
		"model.ckpt": "may be TransE, DistMult or HolE", "distmult.ckpt": "distmult", "TransE_umls.ckpt": "transe-l1",
	} {
		renamed := filepath.Join(dir, name)
		require.NoError(t, os.Rename(file, renamed))
		file = renamed
		c, err := checkpoint.Open(t.Context(), dir)
		if err != nil {
			assert.ErrorContains(t, err, want)
			continue
		}
		assert.Equal(t, want, c.Model.Config().Model)
		require.NoError(t, c.Close())
	}
}

// A stray file does not change the tool of a folder.
func TestForeignStrayFile(t *testing.T) {
	root := filepath.Dir(fixtureFolders(t)[0])
	dir := filepath.Join(t.TempDir(), "rotate")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "rotate-repo-rotate-umls"))))
	for _, name := range []string{"best.pt", "old.ckpt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	c, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	assert.Equal(t, "rotate", c.Format)
}
