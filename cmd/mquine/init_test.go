package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
)

func parameters(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	return b
}

func TestInit(t *testing.T) {
	w := newWorkplace(t)
	for _, model := range []string{"mquine", "mquade"} {
		for _, kind := range []string{"random", "clustered"} {
			init := func(name, seed string, more ...string) string {
				out := w.path(model, kind, name)
				o := succeed(t, append([]string{"init", "--model", model, "--dim", "6", "--data", w.data, "--out", out,
					"--kind", kind, "--seed", seed}, more...)...)
				assert.Contains(t, o.stderr, "wrote "+out+": "+model+", d = 6, 60 entities, 17 relations, "+kind)
				if kind == "random" {
					assert.Empty(t, o.stdout)
				} else {
					assert.Regexp(t,
						`median rank\s+[\d.]+ of 60 candidates `+
							`\(test split, both sides, filter all, realistic ties\)`, o.stdout)
					assert.Regexp(t,
						`undecided +(1 pair|(0|[2-9]|\d\d+) pairs) after (float32|int8|int16), `+
							`(\d+ after fine codes, )?\d+ after float64 \(80 queries\)`, o.stdout)
					assert.Contains(t, o.stderr, "fitted to all splits, including test")
				}
				return out
			}
			first := init("first", "7")
			succeed(t, "eval", first, "--data", w.data)
			assert.NotEqual(t, parameters(t, w.model), parameters(t, first), "the seeds differ")
			if kind == "random" { // TestInitMedian fits a clustered checkpoint again
				assert.Equal(t, parameters(t, first), parameters(t, init("again", "7", "--threads", "3")))
				assert.NotEqual(t, parameters(t, first), parameters(t, init("other", "8")))
			}
		}
	}
}

// init creates checkpoints of every model, and stores the hyper-parameters in them.
func TestInitEveryModel(t *testing.T) {
	w := newWorkplace(t)
	for _, name := range model.Names() {
		out := w.path(name)
		succeed(t, "init", "--model", name, "--dim", "4", "--data", w.data, "--out", out)
		c, err := checkpoint.Open(t.Context(), out)
		require.NoError(t, err)
		config := c.Model.Config()
		assert.Equal(t, name, config.Model)
		spec, err := model.Lookup(name)
		require.NoError(t, err)
		initial := spec.Initial(model.Config{Model: name, Dim: 4})
		for _, h := range spec.Hyper {
			assert.Equal(t, h.Of(initial), h.Of(config), "%s of %s", h.Key, name)
		}
		if name == "rotate" {
			assert.Equal(t, map[string]float64{"gamma": 12, "embedding_range": 14.0 / 4}, config.Hyper)
		}
		require.NoError(t, c.Close())
	}
}

// Each hyper-parameter has a flag. A model without the hyper-parameter refuses the flag.
func TestInitHyperParameters(t *testing.T) {
	w := newWorkplace(t)
	out := w.path("rotate")
	succeed(t, "init", "--model", "rotate", "--dim", "4", "--data", w.data, "--out", out, "--gamma", "6",
		"--embedding-range", "0.5")
	c, err := checkpoint.Open(t.Context(), out)
	require.NoError(t, err)
	defer c.Close()
	assert.Equal(t, map[string]float64{"gamma": 6, "embedding_range": 0.5}, c.Model.Config().Hyper)

	for message, args := range map[string][]string{
		"model mquine has no hyper-parameter gamma: it has blocks":        {"mquine", "--gamma", "6"},
		"model rotate: embedding_range is 0: it must be from 1e-30 to 1e": {"rotate", "--embedding-range", "0"},
		"model rotate: gamma is NaN: it must be from":                     {"rotate", "--gamma", "NaN"},
	} {
		args = append([]string{"init", "--dim", "4", "--data", w.data, "--out", w.path("refused"), "--model"}, args...)
		mquine(t, args...).requireSentence(t, 1, message)
	}
}

// TestInitMedian fits the checkpoint of the workplace again, with another number of threads, and
// compares the medians that init and eval report.
func TestInitMedian(t *testing.T) {
	w := newWorkplace(t)
	out := w.path("again")
	o := succeed(t, "init", "--model", "mquine", "--dim", "6", "--data", w.data, "--out", out, "--kind", "clustered",
		"--threads", "3")
	require.Equal(t, parameters(t, w.model), parameters(t, out))
	report := w.path("report.json")
	succeed(t, "eval", out, "--data", w.data, "--json", report)
	text := string(must1(os.ReadFile(report)))
	median := strings.Fields(o.stdout)[2]
	assert.Regexp(t, `(?s)"side": "both",\s+"filter": "all",\s+"ties": "realistic",.{0,300}?"median": `+median+`,`,
		text)
}

func TestInitRefuses(t *testing.T) {
	w := newWorkplace(t)
	init := func(data, out, dim, kind string) outcome {
		return mquine(t, "init", "--model", "mquine", "--dim", dim, "--data", data, "--out", out, "--kind", kind)
	}
	before := parameters(t, w.model)
	init(w.data, w.model, "4", "random").requireSentence(t, exitFailed,
		w.model+" already exists: remove it or choose another folder")
	assert.Equal(t, before, parameters(t, w.model))
	init("no-such-set", w.path("out"), "4", "random").requireSentence(t, exitFailed, `no data set "no-such-set"`)
	init(w.data, w.path("out"), "100000", "random").requireSentence(t, exitFailed, "dimension 100000")
	untested := copyFolder(t, w.data, without("test.txt"))
	init(untested, w.path("out"), "4", "clustered").requireSentence(t, exitFailed, "has no test split")
	untrained := copyFolder(t, w.data, without("train.txt"))
	o := init(untrained, w.path("out"), "4", "clustered")
	o.requireSentence(t, exitFailed, "has no train split: choose a data set that has them, or --kind random")
	assert.NotContains(t, o.stderr, "filter", "init has no filters")
	init(w.data, filepath.Join(w.data, "test.txt", "out"), "4", "random").requireSentence(t, exitFailed,
		"not a directory")
	requireFiles(t, w.dir, "families", "checkpoint")
	require.Zero(t, init(untested, w.path("out"), "4", "random").status, "a random checkpoint needs no test split")
}

// init refuses a data set without triples.
func TestInitWithoutTriples(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "train.txt"), nil, 0o644))
	out := filepath.Join(t.TempDir(), "checkpoint")
	for _, model := range []string{"mquine", "rotate"} {
		mquine(t, "init", "--model", model, "--dim", "4", "--data", dir, "--out", out).
			requireSentence(t, exitFailed, "train.txt has no triples")
		assert.NoFileExists(t, out)
	}
}
