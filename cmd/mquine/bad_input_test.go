package main

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// copyFolder copies a folder and returns the path of the copy, a temporary folder. It calls change
// with the name and the contents of each file. change returns the new contents, or nil to leave out
// the file.
func copyFolder(t *testing.T, from string, change func(name string, contents []byte) []byte) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(from))
	require.NoError(t, os.Mkdir(to, 0o755))
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		contents, err := os.ReadFile(filepath.Join(from, e.Name()))
		require.NoError(t, err)
		if contents = change(e.Name(), contents); contents != nil {
			require.NoError(t, os.WriteFile(filepath.Join(to, e.Name()), contents, 0o644))
		}
	}
	return to
}

// replacing returns a function for copyFolder that changes only the named file.
func replacing(file string, change func([]byte) []byte) func(string, []byte) []byte {
	return func(name string, contents []byte) []byte {
		if name == file {
			return change(contents)
		}
		return contents
	}
}

func without(file string) func(string, []byte) []byte {
	return replacing(file, func([]byte) []byte { return nil })
}

func TestEvalBadInput(t *testing.T) {
	w := newWorkplace(t)
	emptied := func([]byte) []byte { return []byte{} }
	truncated := func(b []byte) []byte { return b[:len(b)-1] }
	malformed := func(b []byte) []byte {
		lines := strings.SplitAfter(string(b), "\n")
		lines[2] = "one\ttwo\n"
		return []byte(strings.Join(lines, ""))
	}
	// longer adds a label for an entity that has no row in the checkpoint.
	longer := func(b []byte) []byte { return append(b, "60\textra\n"...) }
	noHashes := func(b []byte) []byte {
		return []byte(strings.NewReplacer("entities_sha256", "entities_sha000", "relations_sha256",
			"relations_sha000").Replace(string(b)))
	}
	longerVocabulary := copyFolder(t, w.model, func(name string, b []byte) []byte {
		switch name {
		case "entities.tsv":
			return longer(b)
		case "model.safetensors":
			return noHashes(b)
		}
		return b
	})

	for name, test := range map[string]struct {
		model, data string
		more        []string
		sentence    string
	}{
		"no such checkpoint": {model: w.path("none"), sentence: "there is no checkpoint " + w.path("none")},
		"a file instead of a folder": {model: filepath.Join(w.model, "entities.tsv"),
			sentence: "entities.tsv is not a folder"},
		"not a checkpoint": {model: w.data, sentence: "is not a checkpoint: it has no model.safetensors"},
		"truncated parameters": {model: copyFolder(t, w.model, replacing("model.safetensors", truncated)),
			sentence: "model.safetensors"},
		"empty parameters": {model: copyFolder(t, w.model, replacing("model.safetensors", emptied)),
			sentence: "model.safetensors"},
		"no vocabulary": {model: copyFolder(t, w.model, without("relations.tsv")),
			sentence: "relations.tsv is missing"},
		"another vocabulary": {model: copyFolder(t, w.model, replacing("entities.tsv", longer)),
			sentence: "is not the file that model.safetensors was saved with"},
		"wrong shapes": {model: longerVocabulary,
			sentence: `tensor "entity" has shape [60 21], but mquine with d = 6, 61 entities`},
		"unknown data set": {data: "no-such-set", sentence: `no data set "no-such-set" in`},
		"no such folder":   {data: w.path("none/"), sentence: "no such file"},
		"not a data set":   {data: w.model, sentence: "is not a data set"},
		"no test split": {data: copyFolder(t, w.data, without("test.txt")),
			sentence: "has no test split: put test.txt"},
		"no valid split": {data: copyFolder(t, w.data, without("valid.txt")),
			more: []string{"--split", "valid"}, sentence: "has no valid split: put valid.txt"},
		"no train split to use": {data: copyFolder(t, w.data, without("train.txt")),
			sentence: "filter train needs the train split, which data set families does not have: put train.txt into"},
		"no valid split to use": {data: copyFolder(t, w.data, without("valid.txt")),
			sentence: "filter all needs the valid split"},
		"no train for groups": {data: copyFolder(t, w.data, without("train.txt")),
			more:     []string{"--filter", "none", "--by", "category"},
			sentence: "groups by category: data set families has no train split"},
		"empty split": {data: copyFolder(t, w.data, replacing("test.txt", emptied)),
			sentence: "test.txt has no triples: remove the file if the data set has no test split"},
		"empty filter": {data: copyFolder(t, w.data, replacing("valid.txt", emptied)),
			sentence: "valid.txt has no triples"},
		"empty training": {data: copyFolder(t, w.data, replacing("train.txt", emptied)),
			sentence: "train.txt has no triples"},
		"malformed line": {data: copyFolder(t, w.data, replacing("test.txt", malformed)),
			sentence: "test.txt:3: 2 fields instead of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			args := append([]string{"eval", w.model, "--data", w.data,
				"--ranks", filepath.Join(dir, "ranks.tsv"), "--json", filepath.Join(dir, "report.json")}, test.more...)
			if test.model != "" {
				args[1] = test.model
			}
			if test.data != "" {
				args[3] = test.data
			}
			o := mquine(t, args...)
			o.requireSentence(t, exitFailed, test.sentence)
			assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			assert.Empty(t, o.stdout)
			requireFiles(t, dir)
		})
	}
}

func TestEvalOtherVocabulary(t *testing.T) {
	w := newWorkplace(t)
	larger := w.path("larger")
	succeed(t, "data", "make", "families", "--out", larger, "--entities", "80")
	o := mquine(t, "eval", w.model, "--data", larger)
	o.requireSentence(t, exitFailed, "data set larger: the checkpoint lacks")
	assert.Regexp(t, `lacks \d+ entities of the data \(.+, .+, .+, .+, .+, …\)`, o.stderr)
	assert.Empty(t, o.stdout)
}

func TestEvalNotFinite(t *testing.T) {
	w := newWorkplace(t)
	broken := w.path("broken")
	breakCheckpoint(t, w.model, broken)
	o := mquine(t, "eval", broken, "--data", w.data)
	o.requireSentence(t, exitFailed, `"relation.tail"`)
	assert.Contains(t, o.stderr, "row 2")
	assert.Contains(t, o.stderr, "NaN")
	assert.Empty(t, o.stdout)
}

// breakCheckpoint copies a checkpoint and puts a NaN into row 2 of relation.tail.
func breakCheckpoint(t *testing.T, from, to string) {
	t.Helper()
	rewriteCheckpoint(t, from, to, func(tensor string, values []float32) {
		if tensor == "relation.tail" {
			values[2*6*6] = float32(math.NaN())
		}
	})
}

// rewriteCheckpoint copies a checkpoint. change modifies the values of each tensor in place.
func rewriteCheckpoint(t *testing.T, from, to string, change func(tensor string, values []float32)) {
	t.Helper()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	file, err := safetensors.Open(filepath.Join(from, "model.safetensors"))
	require.NoError(t, err)
	defer file.Close()
	var tensors []safetensors.Float32
	for _, tensor := range file.Tensors() {
		values, err := file.Float32(tensor.Name)
		require.NoError(t, err)
		values = slices.Clone(values)
		change(tensor.Name, values)
		tensors = append(tensors, safetensors.Float32{Name: tensor.Name, Shape: tensor.Shape, Values: values})
	}
	metadata := maps.Clone(file.Metadata())
	delete(metadata, "parameters_sha256")
	require.NoError(t, safetensors.WriteFile(t.Context(), filepath.Join(to, "model.safetensors"), metadata, tensors...))
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can read every file")
	}
	w := newWorkplace(t)
	for _, path := range []string{filepath.Join(w.model, "model.safetensors"), filepath.Join(w.data, "train.txt")} {
		require.NoError(t, os.Chmod(path, 0))
		mquine(t, "eval", w.model, "--data", w.data).requireSentence(t, exitFailed, "permission denied")
		require.NoError(t, os.Chmod(path, 0o644))
	}
}

func TestEvalCannotWrite(t *testing.T) {
	w := newWorkplace(t)
	eval := []string{"eval", w.model, "--data", w.data}
	for _, flag := range []string{"--ranks", "--json"} {
		// The command reports these errors before it ranks.
		for path, reason := range map[string]string{
			w.path("none", "file"):              "no such file or directory",
			w.dir:                               "it is a folder",
			filepath.Join(w.data, "test.txt/a"): "not a directory",
		} {
			o := mquine(t, append(eval, flag, path)...)
			o.requireSentence(t, exitFailed, "cannot write "+path+": "+reason)
			assert.Empty(t, o.stdout)
			assert.NotContains(t, o.stderr, "ranking")
		}
		// The command reports this error after it ranks, and still prints the table.
		if _, err := os.Stat("/dev/full"); err == nil {
			o := mquine(t, append(eval, flag, "/dev/full")...)
			o.requireSentence(t, exitFailed, "cannot write /dev/full: no space left on device")
			assert.Contains(t, o.stdout, "MRR")
		}
	}
	requireFiles(t, w.dir, "families", "checkpoint")
	requireFiles(t, w.data, "test.txt", "train.txt", "valid.txt", "entities.tsv", "relations.tsv")
}

// TestFullStandardOutput runs the command as a process whose standard output is a full device. The
// command must report this, and must not replace the device.
func TestFullStandardOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	w := newWorkplace(t)
	for _, args := range [][]string{
		{"eval", w.model, "--data", w.data},
		{"eval", w.model, "--data", w.data, "--json", "-"},
		{"predict", w.model, "--data", w.data, "--head", "person_00", "--relation", "lives_in"},
		{"info", "--json", "-"},
		{"info", "--json", "/dev/full"},
		{"eval", "--help"},
		{"help", "eval"},
		{"z"},
		{"--version"},
		{"completion", "bash"},
	} {
		var stderr strings.Builder
		cmd := command(t, args...)
		cmd.Stdout, cmd.Stderr = full, &stderr
		require.Error(t, cmd.Run())
		outcome{cmd.ProcessState.ExitCode(), "", stderr.String()}.requireSentence(t, exitFailed,
			"no space left on device")
	}
	info, err := os.Stat("/dev/full")
	require.NoError(t, err)
	assert.False(t, info.Mode().IsRegular(), "/dev/full is still a device")
}

func TestTierCap(t *testing.T) {
	w := newWorkplace(t)
	eval := []string{"eval", w.model, "--data", w.data}
	t.Setenv("MQUINE_TIER", "generic")
	mquine(t, append(eval, "--backend", "avx2")...).requireSentence(t, exitFailed, "backend avx2: ")
	assert.Contains(t, succeed(t, append(eval, "-v")...).stderr, "on generic with")
	assert.Contains(t, succeed(t, "info").stdout, "generic (the best that MQUINE_TIER=generic allows)")
	t.Setenv("MQUINE_TIER", "sse")
	mquine(t, eval...).requireSentence(t, exitFailed, `environment variable MQUINE_TIER: unknown tier "sse"`)
	doctor := mquine(t, "doctor")
	doctor.requireSentence(t, exitFailed, "found 1 problem")
	assert.Contains(t, strings.Join(strings.Fields(doctor.stdout), " "), `MQUINE_TIER: unknown tier "sse"`)
	t.Setenv("MQUINE_TIER", "")
	t.Setenv("MQUINE_CPU", "-avx2")
	mquine(t, append(eval, "--backend", "avx2")...).requireSentence(t, exitFailed, "backend avx2: ")
	info := succeed(t, "info").stdout
	assert.Contains(t, info, "generic (the best that MQUINE_CPU=-avx2 allows)")
	t.Setenv("MQUINE_CPU", "-sse")
	mquine(t, eval...).requireSentence(t, exitFailed,
		`environment variable MQUINE_CPU: unknown feature "sse": the features are avx2, avx512, vnni, amx, `+
			`amxbf16, avx512bf16, avxvnni, vbmi`)
}
