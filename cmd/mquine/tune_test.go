package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const smallSpace = "dim: 4\nepochs: 4\nvalid_every: 2\nbatch: {choice: [64, 128]}\n" +
	"learning_rate: {min: 1e-3, max: 1e-1, scale: log}\n"

func spaceFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "space.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A trial that stops early is reported with the epochs that it has trained.
func TestTuneStopsEarly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "search")
	o := succeed(t, "tune", "--data", smallFamilies(t), "--out", dir, "--trials", "2", "--rungs", "1", "--space",
		spaceFile(t, "dim: {choice: [4, 5]}\nepochs: 9\nvalid_every: 1\npatience: 1\nlearning_rate: 1e-9\n"))
	log := string(must1(os.ReadFile(filepath.Join(dir, "trial-001", "log.jsonl"))))
	trained := strings.Count(log, "\n")
	require.Less(t, trained, 9)
	assert.Contains(t, o.stderr, fmt.Sprintf("\ntrial 1  epoch %d/9  ", trained))
	assert.Regexp(t, fmt.Sprintf(`\n +1 +%d +0\.\d{4} `, trained), o.stdout)
	assert.Regexp(t, `(?m)^\{"trial":1,"epochs":9,.*"stopped_after":`+strconv.Itoa(trained)+`\}$`,
		string(must1(os.ReadFile(filepath.Join(dir, "trials.jsonl")))))
	assert.Regexp(t, `validation split, with [2-8] of 9 epochs\n`,
		string(must1(os.ReadFile(filepath.Join(dir, "best.yaml")))))
	assert.NotContains(t, o.stdout, "To finish its run")

	// A trial that stops at a rung is finished, too, also before the search continues it.
	dir = filepath.Join(t.TempDir(), "search")
	succeed(t, "tune", "--data", smallFamilies(t), "--out", dir, "--trials", "1", "--rungs", "2", "--space",
		spaceFile(t, "dim: {choice: [4, 5]}\nepochs: 6\nvalid_every: 1\npatience: 1\nlearning_rate: 0\n"))
	trials := filepath.Join(dir, "trials.jsonl")
	first, _, _ := strings.Cut(string(must1(os.ReadFile(trials))), "\n")
	require.NotContains(t, first, "stopped_after")
	require.NoError(t, os.WriteFile(trials, []byte(first+"\n"), 0o600))
	o = succeed(t, "tune", "--resume", dir, "--budget", "1ns")
	assert.Regexp(t, `\n +1 +2 +0\.\d{4} `, o.stdout)
	assert.NotContains(t, o.stdout, "To finish its run")
}

// The first lines of a search list its rungs. A note says if valid_every costs some.
func TestTuneRungs(t *testing.T) {
	t.Chdir(t.TempDir())
	const dir = "search"
	args := []string{"tune", "--data", smallFamilies(t), "--out", dir, "--trials", "1", "--rungs", "3", "--space",
		spaceFile(t, "dim: {choice: [3, 4]}\nepochs: 9\nvalid_every: 9\n")}
	first := "searching dim on families in " + dir + "; rung at epoch 9\n"
	note := "note: valid_every 9 costs 2 rungs: lower it to compare trials earlier\n"
	assert.Contains(t, succeed(t, args...).stderr, first+note)
	o := succeed(t, "tune", "--resume", dir)
	assert.Contains(t, o.stderr, first)
	assert.NotContains(t, o.stderr, "note: valid_every")
}

func TestTune(t *testing.T) {
	t.Chdir(t.TempDir())
	data, dir := smallFamilies(t), "search"
	o := succeed(t, "tune", "--data", data, "--space", spaceFile(t, smallSpace), "--trials", "3", "--rungs", "2",
		"--out", dir)
	assert.Contains(t, o.stderr, "searching batch, learning_rate on families in "+dir+"; rungs at epochs 2, 4\n")
	assert.Regexp(t, `\ntrial 3  epoch 2/4  mrr/both/all 0\.\d{4}  best( 0\.\d{4} \(trial \d\))?\n`, o.stderr)
	complete := "\nthe search is complete with 3 trials; a larger --trials continues it\n"
	assert.Contains(t, o.stderr, complete)
	assert.Equal(t, 6, strings.Count(o.stderr, "\n"), "two lines for the search and one for each result: %s", o.stderr)
	assert.Regexp(t, `^trial  epochs  mrr/both/all  CPU s  batch  learning_rate\n`+
		` +\d +4 +0\.\d{4} +\S+ +\d+ +0\.\d+\n`, o.stdout)
	assert.Contains(t, o.stdout, "best.\nTo retrain it from the start:\n"+
		"  mquine train --data "+data+" --config "+filepath.Join(dir, "best.yaml")+"\n")
	assert.NotContains(t, o.stdout, "--resume")
	requireFiles(t, dir, "search.yaml", "space.yaml", "trials.jsonl", "trials.svg", "best.yaml", "trial-001",
		"trial-002", "trial-003")
	assert.Equal(t, 4, strings.Count(string(must1(os.ReadFile(filepath.Join(dir, "trials.jsonl")))), "\n"))

	// The commands that tune prints work.
	run := filepath.Join(t.TempDir(), "run")
	succeed(t, "train", "--data", data, "--config", filepath.Join(dir, "best.yaml"), "--out", run)
	requireFiles(t, run, trainingFiles...)
	for _, trial := range []string{"trial-001", "trial-002", "trial-003"} {
		assert.Contains(t, succeed(t, "train", "--resume", filepath.Join(dir, trial)).stdout, "all 4 epochs are done")
	}
	// Resuming a finished search only prints its table.
	again := succeed(t, "tune", "--resume", dir, "--budget", "1h")
	assert.Equal(t, o.stdout, again.stdout)
	assert.Contains(t, again.stderr, complete)

	// The output does not name a checkpoint that was removed.
	best := regexp.MustCompile(`trial-\d+`).FindString(o.stdout)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, best)))
	again = succeed(t, "tune", "--resume", dir, "--budget", "1h")
	assert.Contains(t, again.stdout, "Its checkpoint "+filepath.Join(dir, best, "best")+" was removed.\n")
	mquine(t, "tune", "--data", data, "--space", spaceFile(t, smallSpace), "--trials", "3", "--out",
		dir).requireSentence(t, exitFailed, "already exists")

	// A larger number of trials continues the search.
	mquine(t, "tune", "--resume", dir, "--trials", "2").requireSentence(t, exitFailed,
		"the search in "+dir+" has up to 3 trials: give a larger number (--trials)")
	again = succeed(t, "tune", "--resume", dir, "--trials", "4", "--budget", "1h")
	assert.Contains(t, again.stderr, "\nthe search is complete with 4 trials; ")
	assert.DirExists(t, filepath.Join(dir, "trial-004"))
}

// Options that a space leaves out have the default of the model, or the value of the preset.
func TestTuneDefaults(t *testing.T) {
	data := smallFamilies(t)
	options := func(args ...string) string {
		dir := filepath.Join(t.TempDir(), "search")
		space := spaceFile(t,
			"model: rotate\nepochs: 1\nvalid_every: 1\ndim: {choice: [2, 3]}\ninit_cross: zero\nregulariser: none\n")
		succeed(t, append([]string{"tune", "--data", data, "--space", space, "--trials", "1", "--rungs", "1", "--out",
			dir}, args...)...)
		return "\n" + string(must1(os.ReadFile(filepath.Join(dir, "best.yaml"))))
	}
	assert.Contains(t, options(), "\ndropout: 0\n")
	assert.Contains(t, options("--preset", "best:codex-s"), "\ndropout: 0.5\n")
}

// A search in which every trial diverges fails, and so does a command that needs its best trial.
func TestTuneWithoutSuccess(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "search")
	space := spaceFile(t, "model: rescal\noptimiser: sgd\ndim: 16\nepochs: 40\nbatch: 32\n"+
		"learning_rate: {min: 900, max: 1000}\n")
	o := mquine(t, "tune", "--data", data, "--space", space, "--trials", "2", "--rungs", "1", "--out", dir)
	sentence := "the search in " + dir + " has no result, because no trial so far succeeded: search a different " +
		"space in a new folder"
	assert.Equal(t, exitFailed, o.status)
	assert.Equal(t, "No trial has succeeded: 2 trials failed.\n", o.stdout)
	assert.Contains(t, o.stderr, sentence+", or continue it with a larger --trials (trial ")
	mquine(t, "eval", dir, "--data", data).requireSentence(t, exitFailed, sentence)
}

// A note names open options without effect, and values of such options do not make different trials.
func TestTuneNotesUnusedOptions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "search")
	space := spaceFile(t, "dim: 4\nepochs: 1\nvalid_every: 1\nnegatives: 1vsall\n"+
		"negative_count: {choice: [16, 64, 256]}\n")
	o := succeed(t, "tune", "--data", smallFamilies(t), "--space", space, "--trials", "3", "--rungs", "1", "--out", dir)
	assert.Contains(t, o.stderr, "note: negative_count has no effect on any trial of this space\n")
	assert.Contains(t, o.stderr, "\nthe search is complete: 1000 draws gave no new valid recipe\n")
	assert.Equal(t, 1, strings.Count(string(must1(os.ReadFile(filepath.Join(dir, "trials.jsonl")))), "\n"))
}

// If the best trial diverged later, tune gives no command that would diverge again.
func TestTuneWithDivergedBest(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "search")
	space := spaceFile(t, "optimiser: sgd\nwarmup: 6\ndim: 9\nbatch: 128\nepochs: 6\nvalid_every: 1\n"+
		"dropout: 0.2\nlearning_rate: {choice: [30]}\n")
	o := succeed(t, "tune", "--data", data, "--space", space, "--rungs", "2", "--trials", "1", "--out", dir)
	assert.Contains(t, o.stderr, "\ntrial 1 failed: training diverged in epoch ")
	assert.Regexp(t, `\n +1 +2 +0\.\d{4} `, o.stdout)
	assert.Contains(t, o.stdout, "Best trial: 1. Its checkpoint is "+filepath.Join(dir, "trial-001", "best")+".\n"+
		"It diverged after this rung, so neither its run nor a new run with its options\ncan be completed.\n")
	assert.NotContains(t, o.stdout, "mquine train")
}

// On any machine, a search ends soon after its budget is spent, and continues with the next budget.
func TestTuneBudget(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "search")
	space := strings.Replace(smallSpace, "epochs: 4", "epochs: 100000", 1)
	o := succeed(t, "tune", "--data", data, "--space", spaceFile(t, space), "--budget", "1s", "--rungs", "1", "--out",
		dir)
	assert.Equal(t,
		"No trial has reached the first rung, 100,000 epochs.\n"+
			"To continue the search:\n  mquine tune --resume "+dir+"\n", o.stdout)
	o = succeed(t, "tune", "--resume", dir, "-v")
	assert.Regexp(t, `\ntrial 1  stopped after epoch \d+ of 100000\n`, o.stderr)
	assert.Regexp(t, `\ntrial 1 (after epoch \d+ )?to epoch 100000: `, o.stderr)
	o = succeed(t, "tune", "--resume", dir, "--budget", "1ns")
	assert.Contains(t, o.stdout, "To continue the search:")
	requireFiles(t, dir, "search.yaml", "space.yaml", "trial-001")
}

// An error counts even if the budget is spent.
func TestTuneBudgetKeepsErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "search")
	succeed(t, "tune", "--data", smallFamilies(t), "--space", spaceFile(t, smallSpace), "--budget", "1ns", "--out", dir)
	path := filepath.Join(dir, "space.yaml")
	space := string(must1(os.ReadFile(path)))
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(space, "\nbeta2: ", "\nbeta2: 0.5 # ", 1)), 0o600))
	mquine(t, "tune", "--resume", dir).requireSentence(t, exitFailed,
		"none of 1000 recipes drawn from the space is valid: beta1 is 0.9 and must be less than")
}

func TestTuneUsage(t *testing.T) {
	data := smallFamilies(t)
	out := filepath.Join(t.TempDir(), "search")
	space := spaceFile(t, smallSpace)
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"--space", space, "--budget", "1h"}, exitUsage,
			"give --data to start a search, or --resume to continue one"},
		{[]string{"--data", data, "--budget", "1h"}, exitUsage, "--space is missing"},
		{[]string{"--data", data, "--space", space}, exitUsage,
			"give --budget, such as 2h, or --trials, to limit the search"},
		{[]string{"--data", data, "--space", space, "--budget", "2"}, exitUsage,
			`--budget "2": must be a time above 0, such as 90m, 2h or 1h30m`},
		{[]string{"--data", data, "--space", space, "--budget", "-1h"}, exitUsage, "must be a time above 0"},
		{[]string{"--data", data, "--space", space, "--trials", "0"}, exitUsage,
			"must be a whole number of at least 1"},
		{[]string{"--data", data, "--space", space, "--trials", "3", "--preset", "best"}, exitFailed,
			"as in best:codex-m"},
		{[]string{"--data", data, "--space", "none.yaml", "--budget", "1h"}, exitFailed,
			"cannot read none.yaml: no such file"},
		{[]string{"--data", "nowhere/at/all", "--space", space, "--budget", "1h"}, exitFailed, "nowhere/at/all"},
		{[]string{"--data", data, "--space", spaceFile(t, "dim: 3\n\ndropuot: {min: 0, max: 0.5}\n"), "--budget",
			"1h"}, exitFailed, `space.yaml:3: unknown option "dropuot": the nearest is dropout`},
		{[]string{"--data", data, "--budget", "1h", "--space",
			spaceFile(t, strings.Replace(smallSpace, "every: 2", "every: 0", 1))}, exitFailed, "valid_every is 0"},
		{[]string{"--data", data, "--space", spaceFile(t, smallSpace+"products: bf16x2\n"), "--trials", "3",
			"--backend", "generic"}, exitFailed, "products: bf16x2 needs AMX for bfloat16"},
		{[]string{"--data", data, "--space", spaceFile(t, smallSpace+"products: bf16\n"), "--trials", "3",
			"--backend", "generic"}, exitFailed, "products: bf16 needs AVX-512 BF16"},
		{[]string{"--resume", out}, exitFailed, "is not the folder of a search"},
		{[]string{"--resume", out, "--seed", "3"}, exitUsage, "--seed cannot be given with --resume"},
	} {
		args := append([]string{"tune"}, c.args...)
		if c.args[0] != "--resume" {
			args = append(args, "--out", out)
		}
		mquine(t, args...).requireSentence(t, c.status, c.text)
		_, err := os.Stat(out)
		assert.ErrorIs(t, err, os.ErrNotExist, c.args)
	}
}
