package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc/proctest"
)

// What does not fit into the memory is refused before anything is made.
func TestTooLittleMemory(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	data, ckpt := path("zipf"), path("ckpt")
	succeed(t, "data", "make", "zipf", "--out", data, "--entities", "20000", "--train", "20000", "--test", "2000")
	succeed(t, "init", "--model", "mquine", "--dim", "20", "--data", data, "--out", ckpt)
	run := path("run")
	succeed(t, "train", "--data", data, "--dim", "30", "--negatives", "shared", "--negative-count", "16", "--valid-every", "0", "--epochs", "1", "--out", run)
	requireFiles(t, run, "config.yaml", "last", "log.jsonl", "loss.svg", "state.safetensors")
	space := spaceFile(t, "dim: {choice: [8, 128]}\nepochs: 3\n")

	proctest.Leave(t, 40<<20)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"init", "--model", "mquine", "--dim", "64", "--data", data, "--out", path("new")}, "making mquine, d = 64, "},
		{[]string{"init", "--model", "mquine", "--dim", "64", "--data", data, "--out", path("new"), "--kind", "clustered"}, "making mquine, d = 64, "},
		{[]string{"init", "--model", "distmult", "--dim", "256", "--data", data, "--out", path("new"), "--kind", "clustered"}, "ranking with distmult, d = 256, "},
		{[]string{"train", "--data", data, "--dim", "64", "--out", path("new")}, "training mquine, d = 64, on zipf needs about "},
		{[]string{"train", "--data", data, "--dim", "1", "--negatives", "independent", "--negative-count", "16777216", "--out", path("new")}, "(negatives of a step 640 GiB)"},
		{[]string{"train", "--resume", run, "--epochs", "2"}, "training mquine, d = 30, on zipf needs about "},
		{[]string{"tune", "--data", data, "--space", space, "--trials", "2", "--out", path("new")}, "configurations that do not fit: training mquine, d = 128, "},
		{[]string{"eval", "--model", ckpt, "--data", data, "--ranks", path("new"), "--json", path("new.json")}, "ranking with mquine, d = 20, "},
		{[]string{"compare", ckpt, ckpt, "--data", data, "--json", path("new.json")}, "ranking with mquine, d = 20, "},
		{[]string{"predict", "--model", ckpt, "--data", data, "--head", "g082_e00000", "--relation", "r00", "-k", "3"}, "predicting with mquine, d = 20, "},
		{[]string{"data", "make", "zipf", "--out", path("new"), "--entities", "1000000"}, "making a graph like YAGO3-10 of 1,000,000 entities "},
		{[]string{"data", "make", "families", "--out", path("new"), "--entities", "100000"}, "making families and films of 100,000 entities "},
	} {
		o := mquine(t, c.args...)
		o.requireSentence(t, exitFailed, c.want)
		o.requireSentence(t, exitFailed, " needs about ")
		o.requireSentence(t, exitFailed, " and 40 MiB are available (a limit of the test): ")
		require.Empty(t, o.stdout, c.args)
		requireFiles(t, dir, "zipf", "ckpt", "run")
	}
	requireFiles(t, run, "config.yaml", "last", "log.jsonl", "loss.svg", "state.safetensors")

	// A little more is enough where a ranking can take smaller slices, and for what is small.
	proctest.Leave(t, 80<<20)
	succeed(t, "eval", "--model", ckpt, "--data", data, "--sides", "tail")
	succeed(t, "z", "stats", "--data", data)
	proctest.Leave(t, 1<<30)
	succeed(t, "train", "--resume", run, "--epochs", "2")
	succeed(t, "demo")
}
