package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A weight of the inverse triple gives the weighted mean of the scores of the two sides, whether it is
// a flag or stored in the checkpoint.
func TestInverseWeight(t *testing.T) {
	w := newWorkplace(t)
	plain, weighted := w.path("plain"), w.path("weighted")
	for _, run := range [][]string{{plain}, {weighted, "--inverse-weight", "0.25"}} {
		succeed(t, append([]string{"train", "--data", w.data, "--model", "complex", "--dim", "4", "--epochs", "2",
			"--reciprocal", "--out"}, run...)...)
	}
	assert.Equal(t, tensorsOf(t, filepath.Join(plain, "last")), tensorsOf(t, filepath.Join(weighted, "last")),
		"the weight must not change the training")

	plain, weighted = filepath.Join(plain, "last"), filepath.Join(weighted, "last")
	exported, back := w.path("exported"), w.path("back")
	succeed(t, "export", weighted, "--to", "npy", exported)
	succeed(t, "import", exported, back)
	scores := func(side, dir string, flags ...string) (list []float64) {
		args := []string{"score", dir, "--in", filepath.Join(w.data, "test.txt"), "--side", side, "--format", "csv"}
		for i, line := range strings.Split(strings.TrimSpace(succeed(t, append(args, flags...)...).stdout), "\n") {
			if i > 0 {
				list = append(list, must1(strconv.ParseFloat(strings.Split(line, ",")[3], 64)))
			}
		}
		require.NotEmpty(t, list)
		return list
	}
	direct, inverse := scores("tail", plain), scores("head", plain)
	for _, c := range []struct {
		weight float64
		dir    string
		flags  []string
	}{
		{0.25, weighted, nil},
		{0.25, exported, nil},
		{0.25, back, nil},
		{0.25, plain, []string{"--inverse-weight", "0.25"}},
		{0.5, weighted, []string{"--inverse-weight", "0.5"}},
		{0, weighted, []string{"--inverse-weight", "0"}},
	} {
		tails, heads := scores("tail", c.dir, c.flags...), scores("head", c.dir, c.flags...)
		for i := range direct {
			assert.InDelta(t, (1-c.weight)*direct[i]+c.weight*inverse[i], tails[i], 1e-6, c)
			assert.InDelta(t, (1-c.weight)*inverse[i]+c.weight*direct[i], heads[i], 1e-6, c)
		}
	}
	assert.NotEqual(t, direct, inverse)

	// The printed formula includes the weight.
	triple := strings.Fields(string(must1(os.ReadFile(filepath.Join(w.data, "test.txt")))))[:3]
	score := []string{"score", weighted, "--head", triple[0], "--relation", triple[1], "--tail", triple[2]}
	o := succeed(t, score...)
	assert.Contains(t, o.stdout, "\nHere: 0.75 s(h, r, t) + 0.25 s(t, r⁻¹, h), where s is this score.\n")
	assert.Contains(t, succeed(t, append(score, "--json", "-")...).stdout,
		`"formula": "0.75 s(h, r, t) + 0.25 s(t, r⁻¹, h) with s = Re `)
	assert.Contains(t, succeed(t, append(score, "--side", "head")...).stdout, " 0.25 s(h, r, t) + 0.75 s(t, r⁻¹, h)")
	for side, want := range map[string]string{
		"tail": "Score of complex: Re Σ h_i r_i conj(t_i).\nHigher",
		"head": "\nHere: s(t, r⁻¹, h), where s is this score.\n",
		"both": "\nHere: 0.5 s(h, r, t) + 0.5 s(t, r⁻¹, h), where s is this score.\n",
	} {
		o := succeed(t, append(score, "--inverse-weight", "0", "--side", side)...)
		assert.Contains(t, o.stdout, want, side)
	}
	o = succeed(t, append(score, w.model, "--ensemble", "1,2")...)
	assert.Contains(t, o.stdout, "\nWeight 1: complex (d = 4, reciprocal, inverse weight 0.25).\n"+
		"Weight 2: mquine (d = 6).\n")

	assert.Contains(t, succeed(t, "info", weighted).stdout, "with reciprocal relations and inverse_weight 0.25")
	o = succeed(t, "eval", plain, "--data", w.data, "--inverse-weight", "0.5")
	assert.Contains(t, strings.ReplaceAll(o.stdout, "\n", " "), "complex (d = 4, reciprocal, inverse weight 0.5)")
	// In an ensemble, a checkpoint without reciprocal relations keeps its scores.
	o = succeed(t, "eval", plain, w.model, "--ensemble", "equal", "--data", w.data, "--inverse-weight", "0.5")
	assert.Contains(t, strings.ReplaceAll(o.stdout, "\n", " "),
		"1 complex (d = 4, reciprocal, inverse weight 0.5) + 1 mquine (d = 6)")
}

func TestInverseWeightErrors(t *testing.T) {
	w := newWorkplace(t)
	mquine(t, "eval", w.model, "--data", w.data, "--inverse-weight", "0.5").requireSentence(t, exitFailed,
		"--inverse-weight: the mquine model in "+w.model)
	mquine(t, "eval", w.model, w.model, "--ensemble", "equal", "--data", w.data, "--inverse-weight", "0.5").
		requireSentence(t, exitFailed, "--inverse-weight: no member of the ensemble has reciprocal relations")
	mquine(t, "eval", w.model, "--data", w.data, "--inverse-weight", "1.5").requireSentence(t, exitUsage,
		"must be a number from 0 to 1")
	train := []string{"train", "--data", w.data, "--out", w.path("run"), "--inverse-weight", "0.5"}
	mquine(t, train...).requireSentence(t, exitFailed, "but the model has no reciprocal relations")
	mquine(t, append(train, "--model", "cp", "--reciprocal")...).requireSentence(t, exitFailed,
		"model cp: inverse_weight needs candidates with the same features on both sides")
	mquine(t, append(train, "--model", "rotate", "--reciprocal")...).requireSentence(t, exitFailed,
		"model rotate: inverse_weight needs scores that are dot products")

	damaged := w.path("damaged")
	reciprocal := w.path("reciprocal")
	succeed(t, "train", "--data", w.data, "--model", "distmult", "--dim", "2", "--epochs", "1", "--reciprocal",
		"--inverse-weight", "0.5", "--out", reciprocal)
	require.NoError(t, os.CopyFS(damaged, os.DirFS(filepath.Join(reciprocal, "last"))))
	file := filepath.Join(damaged, "model.safetensors")
	contents := must1(os.ReadFile(file))
	changed := strings.Replace(string(contents), `"inverse_weight":"0.5"`, `"inverse_weight":"2.5"`, 1)
	require.NotEqual(t, string(contents), changed)
	require.NoError(t, os.WriteFile(file, []byte(changed), 0o666))
	mquine(t, "eval", damaged, "--data", w.data).requireSentence(t, exitFailed,
		"inverse_weight is 2.5: it must be from 0 to 1")
}
