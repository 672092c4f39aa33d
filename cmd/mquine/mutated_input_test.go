package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longMutations is the name of the environment variable that sets the number of mutations per file.
// The default is 12.
const longMutations = "MQUINE_MUTATIONS"

// After random changes to an input file, the command ends with a result or with one error line.
func TestMutatedInputs(t *testing.T) {
	w := newWorkplace(t)
	rotate, vocabulary := w.writeRotate(t, "RotatE", 4, true, false)
	run, search, queries := w.path("run"), w.path("search"), w.path("queries.tsv")
	space := w.path("space.yaml")
	require.NoError(t, os.WriteFile(space, []byte(smallSpace), 0o644))
	succeed(t, "train", "--data", w.data, "--dim", "4", "--epochs", "2", "--out", run)
	succeed(t, "tune", "--data", w.data, "--space", space, "--trials", "1", "--rungs", "1", "--out", search)
	triples := strings.Split(string(must1(os.ReadFile(filepath.Join(w.data, "test.txt")))), "\n")
	fields := strings.Split(triples[0], "\t")
	require.NoError(t, os.WriteFile(queries, []byte(fields[0]+"\t"+fields[1]+"\t?\n"), 0o644))
	gz, zst := compressedCopies(t, w)
	evaluation := w.path("evaluation.json")
	succeed(t, "eval", "--model", w.model, "--data", w.data, "--by", "relation", "--json", evaluation)

	eval := []string{"eval", w.model, "--data", w.data}
	for _, c := range []struct {
		folder, file string
		args         []string
	}{
		{w.model, "model.safetensors", eval},
		{w.model, "model.safetensors", []string{"info", w.model}},
		{w.model, "entities.tsv", eval},
		{w.model, "relations.tsv", eval},
		{w.data, "train.txt", eval},
		{w.data, "test.txt", eval},
		{w.data, "valid.txt", []string{"data", "info", w.data}},
		{gz, "train.txt.gz", []string{"data", "split", filepath.Join(gz, "train.txt.gz"), "--out", w.path("other"),
			"--valid", "0"}},
		{gz, "train.txt.gz", []string{"eval", w.model, "--data", gz}},
		{zst, "train.txt.zst", []string{"z", "stats", "--data", zst}},
		{rotate, "config.json", []string{"eval", rotate, "--data", w.data, "--vocab", vocabulary}},
		{rotate, "entity_embedding.npy", []string{"eval", rotate, "--data", w.data, "--vocab", vocabulary}},
		{vocabulary, "entities.dict", []string{"info", rotate}},
		{run, "state.safetensors", []string{"train", "--resume", run}},
		{run, "config.yaml", []string{"train", "--resume", run}},
		{run, "log.jsonl", []string{"train", "--resume", run}},
		{run, "log.jsonl", []string{"report", run, "--out", w.path("report.html")}},
		{w.dir, "evaluation.json", []string{"report", evaluation, "--out", w.path("report.html")}},
		{search, "trials.jsonl", []string{"tune", "--resume", search}},
		{search, "search.yaml", []string{"tune", "--resume", search}},
		{w.dir, "space.yaml", []string{"tune", "--data", w.data, "--space", space, "--trials", "1", "--out",
			w.path("other")}},
		{w.dir, "queries.tsv", []string{"predict", w.model, "--data", w.data, "--in", queries}},
		{w.data, "test.txt", []string{"score", w.model, "--in", filepath.Join(w.data, "test.txt")}},
	} {
		t.Run(c.args[0]+" "+c.file, func(t *testing.T) { mutate(t, w, filepath.Join(c.folder, c.file), c.args) })
	}
}

// compressedCopies writes two copies of the data set, with .gz and with .zst files, and returns
// their folders.
func compressedCopies(t *testing.T, w workplace) (gz, zst string) {
	t.Helper()
	gz, zst = w.path("gz"), w.path("zst")
	for _, dir := range []string{gz, zst} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	for _, name := range []string{"train.txt", "valid.txt", "test.txt"} {
		text := must1(os.ReadFile(filepath.Join(w.data, name)))
		var packed strings.Builder
		z := gzip.NewWriter(&packed)
		_, err := z.Write(text)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.NoError(t, os.WriteFile(filepath.Join(gz, name+".gz"), []byte(packed.String()), 0o644))
		encoder, err := zstd.NewWriter(nil)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(zst, name+".zst"), encoder.EncodeAll(text, nil), 0o644))
	}
	return gz, zst
}

// mutate runs a command on mutations of one of its files, and restores the file each time.
func mutate(t *testing.T, w workplace, path string, args []string) {
	most := 12
	if n, err := strconv.Atoi(os.Getenv(longMutations)); err == nil {
		most = n
	}
	before := must1(os.ReadFile(path))
	rng := rand.New(rand.NewPCG(uint64(len(path)), uint64(most)))
	folder := snapshot(t, filepath.Dir(path)) // the command may write to the same folder
	for range most {
		text := mutation(rng, before)
		require.NoError(t, os.WriteFile(path, text, 0o644))
		o := mquine(t, args...)
		if !assert.Contains(t, []int{exitOK, exitFailed}, o.status, "%v: %s", args, o.stderr) {
			kept := filepath.Join(os.TempDir(), "mquine-mutation-"+filepath.Base(path))
			require.NoError(t, os.WriteFile(kept, text, 0o644))
			t.Logf("the mutated file is kept as %s", kept)
		}
		if o.status == exitFailed {
			o.requireSentence(t, exitFailed, ": ")
		}
		folder.restore(t)
		require.NoError(t, os.RemoveAll(w.path("other")))
	}
}

// mutation returns the data after changing a few bytes, or after repeating, removing or overwriting
// a part.
func mutation(rng *rand.Rand, data []byte) []byte {
	data = slices.Clone(data)
	for range 1 + rng.IntN(3) {
		if len(data) == 0 {
			return data
		}
		// At least half of the changes begin within the first 400 bytes, where headers are.
		from := rng.IntN(len(data))
		if rng.IntN(2) == 0 {
			from = rng.IntN(min(len(data), 400))
		}
		to := min(len(data), from+1+rng.IntN(1+rng.IntN(64)))
		switch rng.IntN(6) {
		case 0:
			data[from] ^= 1 << rng.IntN(8)
		case 1:
			data[from] = byte(rng.Uint32())
		case 2:
			data = slices.Delete(data, from, to)
		case 3:
			data = slices.Insert(data, from, slices.Clone(data[from:to])...)
		case 4:
			special := []byte("\x00\xff\n\t\"{}[],:-9\x1b\r")
			for i := from; i < to; i++ {
				data[i] = special[rng.IntN(len(special))]
			}
		case 5:
			data = data[:from]
		}
	}
	return data
}

// folderSnapshot is a copy of a folder. Its method restore gives the folder its former contents.
type folderSnapshot struct{ dir, copied string }

func snapshot(t *testing.T, dir string) folderSnapshot {
	t.Helper()
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	return folderSnapshot{dir, copied}
}

func (f folderSnapshot) restore(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(f.dir))
	require.NoError(t, os.CopyFS(f.dir, os.DirFS(f.copied)))
}
