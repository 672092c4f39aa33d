package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// Long metadata values are shortened in the table and complete in the JSON.
func TestInfoCheckpointWithLongMetadata(t *testing.T) {
	w := newWorkplace(t)
	path := filepath.Join(w.model, "model.safetensors")
	file, err := safetensors.Open(path)
	require.NoError(t, err)
	metadata := maps.Clone(file.Metadata())
	var tensors []safetensors.Float32
	for _, tensor := range file.Tensors() {
		tensors = append(tensors, safetensors.Float32{Name: tensor.Name, Shape: tensor.Shape,
			Values: slices.Clone(must1(file.Float32(tensor.Name)))})
	}
	require.NoError(t, file.Close())
	long := strings.Repeat("é", 4<<20) // byte 1,000 is between two characters
	metadata["note"], metadata["x"+long[:2000]] = "a"+long, "short"
	metadata["words"] = strings.Repeat("word ", 40) + "end"
	require.NoError(t, safetensors.WriteFile(t.Context(), path, metadata, tensors...))

	report := w.path("info.json")
	o := succeed(t, "info", w.model, "--json", report)
	assert.Less(t, len(o.stdout), 20_000)
	assert.Regexp(t, `(?m)^note\n +"aé{499}"\n +… \(8,388,609 bytes in total\)$`, o.stdout)
	assert.Regexp(t, `(?m)^words +"word( word){6}\n( +word( word){6}\n){4} +word( word){4} end"$`, o.stdout)
	assert.Regexp(t, `(?m)^xé{499} … \(2,001 bytes in total\)\n +"short"$`, o.stdout)
	assert.Regexp(t, `(?m)^vocabularies\s+in `+regexp.QuoteMeta(w.model)+`$`, o.stdout)
	var info struct {
		Metadata      map[string]string `json:"metadata"`
		VocabularyDir string            `json:"vocabulary_dir"`
	}
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(report)), &info))
	assert.Equal(t, metadata, info.Metadata)
	assert.Equal(t, w.model, info.VocabularyDir)
}

// The options of a training run have their current names.
func TestCurrentNames(t *testing.T) {
	assert.Equal(t, "dim=7 ema=0.5 init_std=0.2 valid_metric=hits@1/both/all loss=nssa",
		currentNames("dim=7 average=0.5 init_deviation=0.2 stop_metric=hits@1/both/all loss=paper"))
	for _, line := range []string{"", "by hand", "dim=0", "dmi=7"} {
		assert.Equal(t, line, currentNames(line))
	}
}

func TestInfoCheckpoint(t *testing.T) {
	w := newWorkplace(t)
	o := succeed(t, "info", w.model)
	assert.Contains(t, o.stdout, "mquine eval accepts the checkpoint")
	assert.Regexp(t, `(?m)^model +"mquine"$`, o.stdout)
	assert.Regexp(t, `(?m)^relation\.cross +F32 +17×6×6 +0 +0 `, o.stdout)

	broken := w.path("broken")
	breakCheckpoint(t, w.model, broken)
	o = mquine(t, "info", broken)
	o.requireSentence(t, exitFailed, "mquine info: mquine eval refuses the checkpoint: ")
	assert.Regexp(t, `(?m)^relation\.tail +F32 +17×6×6 +1 +0 `, o.stdout)
	assert.True(t, strings.HasSuffix(o.stdout, "\nmquine eval refuses the checkpoint. The error message says why.\n"))

	// info describes the parameters even if a vocabulary is missing.
	require.NoError(t, os.Remove(filepath.Join(broken, "entities.tsv")))
	path := w.path("info.json")
	o = mquine(t, "info", broken, "--json", path)
	o.requireSentence(t, exitFailed, "entities.tsv is missing")
	assert.NotContains(t, o.stdout, "entities.tsv is missing", "the error has said so")
	var info struct {
		Schema  string `json:"schema"`
		SHA256  string `json:"sha256"`
		Problem string `json:"problem"`
		Tensors []struct {
			Name   string         `json:"name"`
			Values map[string]any `json:"values"`
		} `json:"tensors"`
	}
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(path)), &info))
	assert.Equal(t, "mquine.checkpoint-info/1", info.Schema)
	assert.Len(t, info.SHA256, 64)
	assert.Contains(t, info.Problem, "entities.tsv is missing")
	require.Len(t, info.Tensors, 4)
	assert.EqualValues(t, 1, info.Tensors[2].Values["nan"])
	o = mquine(t, "info", broken, "--json", "-")
	o.requireSentence(t, exitFailed, "entities.tsv is missing")
	assert.Equal(t, string(must1(os.ReadFile(path))), o.stdout, "the JSON does not depend on the exit status")

	// A wrong folder of --vocab is not a problem of the checkpoint.
	another := w.path("another")
	require.NoError(t, os.Mkdir(another, 0o755))
	for _, name := range []string{"entities.tsv", "relations.tsv"} {
		require.NoError(t, os.WriteFile(filepath.Join(another, name), []byte("0\tx\n"), 0o644))
	}
	for folder, want := range map[string]string{
		w.path("none"): "mquine info: there is no folder " + w.path("none") + ", which should hold the vocabularies",
		another: "mquine info: " + w.model + " has its own vocabularies, and the vocabularies in " + another +
			" differ from them: omit --vocab",
	} {
		o = mquine(t, "info", w.model, "--vocab", folder)
		o.requireSentence(t, exitFailed, want)
		assert.Empty(t, o.stdout)
	}

	mquine(t, "info", w.path("none")).requireSentence(t, exitFailed, "there is no checkpoint")
	mquine(t, "info", w.data).requireSentence(t, exitFailed, "is not a checkpoint")
}

// info describes a checkpoint whose parameter file is cut off after the header.
func TestInfoTruncated(t *testing.T) {
	w := newWorkplace(t)
	whole := succeed(t, "info", w.model).stdout
	file := filepath.Join(w.model, "model.safetensors")
	contents := must1(os.ReadFile(file))
	require.NoError(t, os.WriteFile(file, contents[:len(contents)-1], 0o644))
	o := mquine(t, "info", w.model)
	o.requireSentence(t, exitFailed, "truncated or damaged: tensor ")
	from, to := strings.Index(whole, "\nmetadata "), strings.Index(whole, "\ntensor ")
	require.Less(t, from, to)
	assert.Contains(t, o.stdout, whole[from:to], "the metadata")
	missing := 0
	for _, row := range regexp.MustCompile(`(?m)^(\S+ +F32 +[0-9×]+) +0 .*$`).FindAllStringSubmatch(whole, -1) {
		if !strings.Contains(o.stdout, row[0]+"\n") {
			missing++
			assert.Contains(t, o.stdout, row[1]+"\n", "the tensor without statistics")
		}
	}
	assert.Equal(t, 1, missing, o.stdout)
	require.NoError(t, os.WriteFile(file, contents[:9], 0o644))
	mquine(t, "info", w.model).requireSentence(t, exitFailed, "truncated or not a safetensors file")
}

// info says which tool wrote a folder, which model and size it has, and which protocol computes the
// metrics of the tool, even if mquine eval refuses the folder.
func TestInfoForeign(t *testing.T) {
	for name, rows := range map[string][]string{
		"libkge-reciprocal-complex-umls": {
			`written by +LibKGE \(uma-pi1/kge\)`, `model +complex, d = 16, with reciprocal relations`,
			`size +135 entities, 46 relations, 7,264 parameters`, `trained on +umls`,
			`protocol +--protocol libkge: both sides, filter all, rounded ties`,
		},
		"openke-transe-umls": {
			`written by +OpenKE \(thunlp/OpenKE\)`, `model +transe-l1, d = 32`,
			`protocol +--protocol openke: both sides, filter all, optimistic ties`,
		},
		"mquine-umls": {`format +mquine/1`, `model +mquine, d = 12`},
	} {
		stdout := succeed(t, "info", fixture.Dir(t, name)).stdout
		for _, row := range rows {
			assert.Regexp(t, `(?m)^`+row+`$`, stdout, name)
		}
		assert.Equal(t, name == "openke-transe-umls", strings.Contains(strings.Join(strings.Fields(stdout), " "),
			"transe.ckpt does not name its norm"), "notes are wrapped")
	}
	o := mquine(t, "info", filepath.Join(fixture.Dir(t, "house-umls"), "best_model"))
	o.requireSentence(t, exitFailed, "has no entities.dict")
	assert.Regexp(t, `(?m)^written by +HousE`, o.stdout)
	assert.Regexp(t, `(?m)^protocol +--protocol rotate:`, o.stdout)

	var info checkpointInfo
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "info", fixture.Dir(t, "kbc-complex-umls"), "--json",
		"-").stdout), &info))
	assert.Equal(t, []any{"kbc", "kbc", "complex", 16, 135, 46, true, 2*16*135 + 2*2*16*46},
		[]any{info.Format, info.Protocol, info.Model, info.Dim, info.Entities, info.Relations, info.Reciprocal,
			info.Parameters})
}
