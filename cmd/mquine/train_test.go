package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train"
)

// trainingFiles lists the files in the folder of a run with validation.
var trainingFiles = []string{"config.yaml", "log.jsonl", "state.safetensors", "best", "last", "loss.svg",
	"validation.svg"}

func smallFamilies(t *testing.T) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "families")
	succeed(t, "data", "make", "families", "--out", data, "--entities", "100", "--train", "400", "--valid", "20",
		"--test", "40")
	return data
}

func TestTrain(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "run")
	o := succeed(t, "train", "--data", data, "--out", dir, "--dim", "8", "--epochs", "4", "--batch", "128",
		"--valid-every", "3", "--dropout", "0")
	assert.Contains(t, o.stdout, "all 4 epochs are done; best epoch 4, valid mrr/both/all 0.")
	assert.Regexp(t, `^training mquine, d = 8, on families in \S+
validation: MRR, side both, filter all, realistic ties, 20 triples
epoch 1/4  loss \S+  \S+ tr/s
epoch 2/4  loss \S+  \S+ tr/s
epoch 3/4  loss \S+  valid MRR 0\.\d{3} \(tail \.\d{3} head \.\d{3}\)  \S+ tr/s  best
epoch 4/4  loss `, o.stderr)
	requireFiles(t, dir, trainingFiles...)
	requireFiles(t, filepath.Join(dir, "last"), "entities.tsv", "relations.tsv", "model.safetensors")
	assert.Equal(t, 4, strings.Count(string(must1(os.ReadFile(filepath.Join(dir, "log.jsonl")))), "\n"))
	assert.Contains(t, string(must1(os.ReadFile(filepath.Join(dir, "config.yaml")))), "\nvalid_every: 3\n")
	succeed(t, "eval", filepath.Join(dir, "best"), "--data", data)

	// Resuming a finished run changes nothing.
	before := modified(t, dir)
	again := succeed(t, "train", "--resume", dir)
	assert.Contains(t, again.stdout, "is finished: all 4 epochs are done; best epoch 4")
	assert.Equal(t, before, modified(t, dir))
	mquine(t, "train", "--data", data, "--out", dir).requireSentence(t, exitFailed,
		"the folder "+dir+" already exists: continue it with --resume")

	// The configuration of a run repeats it.
	repeated := filepath.Join(t.TempDir(), "repeated")
	succeed(t, "train", "--config", filepath.Join(dir, "config.yaml"), "--out", repeated)
	for _, name := range []string{"config.yaml", filepath.Join("last", "model.safetensors")} {
		want := must1(os.ReadFile(filepath.Join(dir, name)))
		require.Equal(t, want, must1(os.ReadFile(filepath.Join(repeated, name))), name)
	}

	more := succeed(t, "train", "--resume", dir, "--epochs", "6")
	assert.Contains(t, more.stderr, "resuming at epoch 5 of 6")
	assert.Contains(t, more.stdout, "all 6 epochs are done")
}

// Without --out, the folder is named after the data set and the model.
func TestTrainNamesItsFolder(t *testing.T) {
	data := smallFamilies(t)
	t.Chdir(t.TempDir())
	succeed(t, "train", "--data", data, "--model", "mquade", "--dim", "4", "--epochs", "1")
	requireFiles(t, "families-mquade", trainingFiles...)
}

// Training and tuning print the notes about the data set, such as a header in each of its files.
func TestTrainNotesData(t *testing.T) {
	data, dir := smallFamilies(t), t.TempDir()
	for _, split := range []string{"train", "valid", "test"} {
		path := filepath.Join(data, split+".txt")
		rows := must1(os.ReadFile(path))
		require.NoError(t, os.WriteFile(path, append([]byte("head\trelation\ttail\n"), rows...), 0o600))
	}
	for _, vocabulary := range []string{"entities.tsv", "relations.tsv"} {
		require.NoError(t, os.Remove(filepath.Join(data, vocabulary)))
	}
	var want string
	for _, split := range []string{"train", "valid", "test"} {
		want += "note: " + split + `: the first line may be a header, because its relation is "relation", ` +
			"and no other line of the file has it: if it is one, remove it\n"
	}
	run, search := filepath.Join(dir, "run"), filepath.Join(dir, "search")
	for _, command := range [][]string{
		{"train", "--data", data, "--out", run, "--dim", "4", "--epochs", "1"},
		{"train", "--resume", run, "--epochs", "2"},
		{"eval", filepath.Join(run, "last"), "--data", data},
		{"tune", "--data", data, "--space", spaceFile(t, smallSpace), "--trials", "1", "--out", search},
	} {
		assert.Contains(t, succeed(t, command...).stderr, want, command)
	}
}

// modified returns the modification time of each file in a folder.
func modified(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	times := map[string]int64{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil {
			info, _ := d.Info()
			times[path] = info.ModTime().UnixNano()
		}
		return err
	}))
	return times
}

func TestTrainNotesUnusedFlags(t *testing.T) {
	w := newWorkplace(t)
	o := succeed(t, "train", "--data", w.data, "--out", w.path("run"), "--model", "complex", "--dim", "4",
		"--epochs", "1", "--adversarial", "1", "--negative-count", "5", "--beta1", "0.8")
	assert.Contains(t, o.stderr, "note: --negative-count has no effect with negatives kvsall\n"+
		"note: --adversarial has no effect with loss softmax\n")
	assert.NotContains(t, o.stderr, "beta1")
	o = succeed(t, "train", "--data", w.data, "--out", w.path("other"), "--model", "complex", "--dim", "4",
		"--epochs", "1", "--warmup", "5", "--decay", "cosine", "--z-samples", "3", "--lambda-z", "0", "--patience", "5")
	assert.Contains(t, o.stderr, "note: --decay has no effect with warmup 5 of 1 epoch\n"+
		"note: --patience has no effect with 1 validation\n"+
		"note: the Z-samples have weight 0 (lambda_z), so they only take time: set --z-samples 0\n")
}

// Without Z-patterns, Z-samples have no effect.
func TestTrainWithoutZPatterns(t *testing.T) {
	w := newWorkplace(t)
	const note = "note: epoch 1 has no Z-samples"
	options := []string{"train", "--dim", "2", "--epochs", "2", "--valid-every", "0", "--negatives", "shared",
		"--z-samples", "2"}
	chain := w.path("chain")
	require.NoError(t, os.Mkdir(chain, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(chain, "train.txt"), []byte("a\tr\tb\nb\ts\tc\n"), 0o644))
	o := succeed(t, append(options, "--data", chain, "--out", w.path("without"))...)
	assert.Equal(t, 1, strings.Count(o.stderr, "note: epoch "))
	assert.Contains(t, o.stderr, note)
	assert.NotContains(t, succeed(t, append(options, "--data", w.data, "--out", w.path("with"))...).stderr, note)
}

// The time left is unknown before a triple is done.
func TestTrainingProgress(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	l := &trainingLog{meter: m, log: &log, start: time.Now().Add(-time.Minute)}
	m.nextLine = 0
	l.step(train.Progress{Epoch: 1, Epochs: 2, Total: 4, Elapsed: time.Minute})
	assert.Contains(t, log.String(), "epoch 1/2, loss 0, 0 tr/s")
	log.Reset()
	m.nextLine = 0
	l.step(train.Progress{Epoch: 1, Epochs: 2, Total: 4, Done: 2, Elapsed: time.Minute})
	assert.Contains(t, log.String(), "epoch 1/2, 3m0s left, loss 0, ")
}

func TestTrainOptions(t *testing.T) {
	data := smallFamilies(t)
	out := filepath.Join(t.TempDir(), "run")
	file := filepath.Join(t.TempDir(), "x.yaml")
	require.NoError(t, os.WriteFile(file, []byte("dim: 5\nepochs: 2\nbatch: 100\n"), 0o600))

	// Flags override the file, which overrides the preset.
	o := succeed(t, "train", "--preset", "paper:wn18", "--config", file, "--epochs", "3", "--filter=false",
		"--z-samples", "0", "--print-config")
	for _, line := range []string{"dim: 5", "epochs: 3", "batch: 100", "gamma: 9", "filter: false", "z_samples: 0",
		"negatives: independent"} {
		assert.Contains(t, o.stdout, "\n"+line+"\n")
	}
	// The printed options are a valid configuration.
	require.NoError(t, os.WriteFile(file, []byte(o.stdout), 0o600))
	assert.Equal(t, o.stdout, succeed(t, "train", "--config", file, "--print-config").stdout)

	mquine(t, "train", "--config", file, "--out", out).requireSentence(t, exitFailed,
		"x.yaml names no data set: give --data")

	require.NoError(t, os.WriteFile(file, []byte("dim: 5\nepoch: 2\n"), 0o600))
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"--out", out}, exitUsage, "give --data to start a run, or --resume to continue one"},
		{[]string{"--data", data, "--out", out, "--loss", "hinge"}, exitUsage,
			`--loss "hinge": choose from softmax, nssa, bce and margin`},
		{[]string{"--data", data, "--out", out, "--dim", "0"}, exitUsage,
			`--dim "0": must be a whole number from 1 to 32768`},
		{[]string{"--data", data, "--out", out, "--config", file}, exitFailed,
			`x.yaml:2: unknown option "epoch": the nearest is epochs`},
		{[]string{"--data", data, "--out", out, "--config", "none.yaml"}, exitFailed, "none.yaml"},
		{[]string{"--data", data, "--out", out, "--preset", "paper"}, exitFailed,
			"its data sets are codex-l, codex-m,"},
		{[]string{"--data", data, "--out", out, "--preset", "worst"}, exitUsage,
			`--preset "worst": choose from paper, best, paper:codex-l,`},
		{[]string{"--data", data, "--out", out, "--z-samples", "4", "--negatives", "independent"}, exitFailed,
			"set filter to true"},
		{[]string{"--data", data, "--out", out, "--beta2", "0.5"}, exitFailed, "lower beta1, or raise beta2"},
		{[]string{"--data", data, "--out", out, "--anchor-negatives"}, exitFailed,
			"anchor_negatives needs shared negatives, but negatives is kvsall"},
		{[]string{"--data", data, "--out", out, "--model", "tucker", "--batch", "1"}, exitFailed,
			"batch: model tucker normalises each step, and so needs at least two queries in it: set batch"},
		{[]string{"--data", data, "--out", out, "--products", "bf16x2", "--backend", "generic"}, exitFailed,
			"products: bf16x2 needs AMX for bfloat16"},
		{[]string{"--data", data, "--out", out, "--products", "bf16-amx", "--backend", "generic"}, exitFailed,
			"products: bf16-amx needs AMX for bfloat16 (feature amxbf16: Intel Xeon from Sapphire Rapids on) and " +
				"AVX-512 BF16 (feature avx512bf16), but"},
		{[]string{"--data", data, "--out", out, "--products", "bf16", "--backend", "avx2"}, exitFailed,
			"products: bf16 needs AVX-512 BF16"},
		{[]string{"--data", "nowhere/at/all", "--out", out}, exitFailed, "nowhere/at/all"},
		{[]string{"--resume", out}, exitFailed, "run folder " + out + " does not exist"},
		{[]string{"--resume", data}, exitFailed, data + " is not a run folder: it has no config.yaml"},
		{[]string{"--data", data, "--out", out, "--preset", "best:wn18", "--model", "rotate"}, exitFailed,
			"--preset best:wn18 is a recipe for mquine, and some of its options do not suit rotate: "},
		{[]string{"--data", data, "--out", out, "--preset", "best:wn18", "--model", "rotate", "--regulariser", "none",
			"--loss", "margin", "--negatives", "kvsall"}, exitFailed, "mquine train: anchor_negatives needs shared"},
		{[]string{"--resume", out, "--dim", "4"}, exitUsage, "--dim cannot be given with --resume"},
		{[]string{"--resume", out, "--data", data}, exitUsage, "--data cannot be given with --resume"},
	} {
		mquine(t, append([]string{"train"}, c.args...)...).requireSentence(t, c.status, c.text)
		_, err := os.Stat(out)
		assert.ErrorIs(t, err, os.ErrNotExist, c.args)
	}
}

// Each model has its own defaults. A file and flags change them, and a preset replaces them.
func TestTrainDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	print := func(args ...string) string {
		return "\n" + succeed(t, append([]string{"train", "--print-config"}, args...)...).stdout
	}
	require.Contains(t, print(), "\ndropout: 0.5\n")
	rotate := print("--model", "rotate")
	require.Contains(t, rotate, "\ndropout: 0\n")
	require.Contains(t, print("--model", "rotate", "--dropout", "0.5"), "\ndropout: 0.5\n")
	require.Equal(t, rotate, print("--model", "RotatE"), "names may have any case")
	require.NoError(t, os.WriteFile(file, []byte("model: RotatE\n"), 0o600))
	require.Equal(t, rotate, print("--config", file))

	require.NoError(t, os.WriteFile(file, []byte("model: rotate\nepochs: 3\n"), 0o600))
	ofFile := print("--config", file)
	require.Contains(t, ofFile, "\nepochs: 3\n")
	require.Equal(t, rotate, print("--config", file, "--epochs", "60"))
	require.Contains(t, print("--config", file, "--model", "protate"), "\ngamma: 40\n")
	require.Contains(t, print("--preset", "best:codex-s", "--model", "mquade"), "\ndropout: 0.5\n")

	// Other negatives or losses drop defaults that they rule out, but not what the user gives.
	require.Contains(t, print(), "\nanswer_weights: true\n")
	require.Contains(t, print(), "\nmax_answers: 8\n")
	require.Contains(t, print("--negatives", "shared"), "\nanswer_weights: false\n")
	require.Contains(t, print("--negatives", "shared"), "\nmax_answers: 0\n")
	require.Contains(t, print("--loss", "bce"), "\nanswer_weights: true\n")
	require.Contains(t, print("--loss", "bce"), "\nmax_answers: 0\n")
	for text, args := range map[string]string{
		"set answer_weights to false, or negatives to kvsall":                "--negatives shared --answer-weights",
		"set max_answers to 0, or negatives to kvsall":                       "--negatives shared --max-answers 8",
		"set max_answers to 0, or loss to softmax":                           "--loss bce --max-answers 8",
		"set negatives to 1vsall, shared or independent, or loss to softmax": "--loss margin",
	} {
		mquine(t, append([]string{"train", "--print-config"}, strings.Fields(args)...)...).
			requireSentence(t, exitFailed, text)
	}
}

// Flags and words of earlier versions still work, and each gives a note.
func TestTrainFormerNames(t *testing.T) {
	former := succeed(t, "train", "--print-config", "--loss", "paper", "--negatives=all", "--average", "0.5",
		"--average=0.6", "--init-deviation", "0.2", "--stop-metric", "hits@1/tail/all")
	current := succeed(t, "train", "--print-config", "--loss", "nssa", "--negatives=1vsall", "--ema", "0.6",
		"--init-std", "0.2", "--valid-metric", "hits@1/tail/all")
	assert.Equal(t, current.stdout, former.stdout)
	assert.Equal(t, `note: --average is now --ema
note: --init-deviation is now --init-std
note: --stop-metric is now --valid-metric
note: --loss paper is now --loss nssa
note: --negatives all is now --negatives 1vsall
`, former.stderr)
	assert.Empty(t, current.stderr)
	help := succeed(t, "train", "--help").stdout
	for _, name := range []string{"--average", "--init-deviation", "--stop-metric"} {
		assert.NotContains(t, help, name)
	}
	mquine(t, "train", "--resume", "x", "--average", "0.5").
		requireSentence(t, exitUsage, "--ema cannot be given with --resume")
	mquine(t, "train", "--average").requireSentence(t, exitUsage, "needs a value")
}

// A missing or changed file stops --resume with an error before the command changes anything.
func TestTrainResumeRefuses(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "run")
	succeed(t, "train", "--data", data, "--out", dir, "--dim", "8", "--epochs", "2", "--batch", "128")
	state, best := filepath.Join(dir, "state.safetensors"), filepath.Join(dir, "best")
	aside := filepath.Join(t.TempDir(), "aside")
	for path, text := range map[string]string{
		state: state + " is missing, but " + filepath.Join(dir, "last") + " exists",
		best:  best + ", the checkpoint of the best epoch, 2, is missing",
	} {
		require.NoError(t, os.Rename(path, aside))
		before := modified(t, dir)
		for _, args := range [][]string{nil, {"--epochs", "6"}} {
			mquine(t, append([]string{"train", "--resume", dir}, args...)...).requireSentence(t, exitFailed, text)
		}
		assert.Equal(t, before, modified(t, dir))
		require.NoError(t, os.Rename(aside, path))
	}

	train := filepath.Join(data, "train.txt")
	lines := strings.SplitAfter(string(must1(os.ReadFile(train))), "\n")
	require.NoError(t, os.WriteFile(train, []byte(strings.Join(lines[:200], "")), 0o600))
	o := mquine(t, "train", "--resume", dir, "--epochs", "6")
	o.requireSentence(t, exitFailed, "the train split has 200 triples but had 400")
}

// The folder of a run or of a search stands for its best checkpoint.
func TestRunAsCheckpoint(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "run")
	small := []string{"--dim", "4", "--epochs", "1", "--batch", "128"}
	succeed(t, append([]string{"train", "--data", data, "--out", dir}, small...)...)
	best := filepath.Join(dir, "best")
	note := "note: " + dir + " is the folder of a training run: using its best checkpoint, " + best + "\n"
	for _, command := range [][]string{
		{"eval", "--data", data}, {"info"}, {"compare", best, "--data", data},
		{"predict", "--data", data, "--head", "person_00", "--relation", "lives_in"},
	} {
		of := func(checkpoint string) outcome { return succeed(t, append(command, checkpoint)...) }
		run := of(dir)
		assert.Contains(t, run.stderr, note)
		if command[0] != "compare" { // compare also prints the name of the checkpoint
			assert.Equal(t, of(best).stdout, run.stdout)
		}
	}
	mquine(t, "eval", dir, "--data", data, "--ranks", filepath.Join(best, "entities.tsv")).
		requireSentence(t, exitFailed, "which the command reads")

	search := filepath.Join(t.TempDir(), "search")
	tune := []string{"tune", "--data", data, "--space", spaceFile(t, smallSpace), "--rungs", "1", "--out", search}
	succeed(t, append(tune, "--budget", "1ns")...)
	mquine(t, "eval", search, "--data", data).requireSentence(t, exitFailed, "no trial of the search in "+search+
		" has reached the first rung: continue it with mquine tune --resume "+search)
	require.NoError(t, os.RemoveAll(search))
	succeed(t, append(tune, "--trials", "2")...)
	assert.Regexp(t, "is the folder of a search: using its best checkpoint, "+search+"/trial-00./best\n",
		succeed(t, "eval", search, "--data", data).stderr)

	require.NoError(t, os.RemoveAll(best))
	mquine(t, "eval", dir, "--data", data).requireSentence(t, exitFailed, dir+" is the folder of a training run, "+
		"but there is no "+best+": use the checkpoint of the last epoch, "+filepath.Join(dir, "last"))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "last")))
	mquine(t, "info", dir).requireSentence(t, exitFailed, "mquine train --resume "+dir+" continues the run")
}
