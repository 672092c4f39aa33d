package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// TestTrained checks that every model of the comparison trains, that the checkpoint is trained only
// once, and that the rivals in Go rank it as mquine does.
func TestTrained(t *testing.T) {
	for _, r := range rows("families", true) {
		t.Run(r.model, func(t *testing.T) {
			o := small(t, r.model, 6)
			o.trained = true
			j := open(t, o)
			require.Equal(t, row{"families", r.model, 6, true}, j.row)
			require.Contains(t, filepath.Base(j.checkpoint.Path), "families-"+r.model+"-6-trained-")
			require.Equal(t, r.model, j.checkpoint.Model.Config().Model)
			rival, err := newMatrixRival(t.Context(), j, plainLoop{j}, []int{64})
			require.NoError(t, err)
			run, err := rival.rank(t.Context(), 0)
			require.NoError(t, err)
			_, err = j.check(t.Context(), run.counts)
			require.NoError(t, err)

			again := open(t, o)
			require.Equal(t, j.checkpoint.Path, again.checkpoint.Path)
			require.Equal(t, 1, strings.Count(o.log.(*bytes.Buffer).String(), "training "))
		})
	}
}

// TestInterruptedTraining checks that an interrupted run leaves nothing behind.
func TestInterruptedTraining(t *testing.T) {
	o := small(t, "complex", 6)
	o.trained = true
	before, err := os.ReadDir(o.work)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.log = cancelOn{"epoch 2 ", cancel}
	_, err = o.openJob(ctx)
	require.ErrorIs(t, err, context.Canceled)
	after, err := os.ReadDir(o.work)
	require.NoError(t, err)
	require.Len(t, after, len(before))
}

// cancelOn calls cancel once a line that begins with prefix is written.
type cancelOn struct {
	prefix string
	cancel func()
}

func (c cancelOn) Write(line []byte) (int, error) {
	if strings.HasPrefix(string(line), c.prefix) {
		c.cancel()
	}
	return len(line), nil
}

// TestTrainedName checks that the folder depends on the recipe and on the data.
func TestTrainedName(t *testing.T) {
	o := small(t, "rotate", 6)
	g, err := kg.Open(t.Context(), o.data)
	require.NoError(t, err)
	backend, err := kernel.New()
	require.NoError(t, err)
	m := train.Machine{Backend: backend, Threads: 1}
	c, err := trainedRecipe(o.row, g)
	require.NoError(t, err)
	name := trainedName(c, g, m)
	m.Threads = 2
	require.Equal(t, name, trainedName(c, g, m))
	changed := c
	changed.LearningRate *= 2
	require.NotEqual(t, name, trainedName(changed, g, m))
	g.Splits[kg.Train] = g.Splits[kg.Train][1:]
	require.NotEqual(t, name, trainedName(c, g, m))
}

// TestTrainedRecipe checks what the recipes have in common, and that their epochs and learning
// rates follow the data and the dimension.
func TestTrainedRecipe(t *testing.T) {
	graph := func(triples int) *kg.Graph {
		return &kg.Graph{Splits: [kg.NumSplits][]kg.Triple{kg.Train: make([]kg.Triple, triples)}}
	}
	for triples, epochs := range map[int]int{272_115: 6, 86_835: 19, 100: trainedEpochs, 2_000_000: 1} {
		c, err := trainedRecipe(row{model: "complex", dim: 500}, graph(triples))
		require.NoError(t, err)
		require.Equal(t, epochs, c.Epochs)
		require.Equal(t, [2]any{500, recipe.SharedNegatives}, [2]any{c.Dim, c.Negatives})
	}
	for _, name := range []string{"mquine", "mquade", "complex", "distmult", "transe-l1", "transe-l2", "rotate"} {
		_, err := trainedRecipe(row{model: name, dim: 64}, graph(100))
		require.NoError(t, err, name)
	}
	c, err := trainedRecipe(row{model: "rotate", dim: 512}, graph(100))
	require.NoError(t, err)
	require.InDelta(t, 5e-4, c.LearningRate, 1e-12)
	_, err = trainedRecipe(row{model: "complex", dim: 6}, graph(0))
	require.ErrorContains(t, err, "no training triples")
}

func TestCheckOptions(t *testing.T) {
	for _, args := range []string{
		"--all --trained", "--all --data umls --trained", "--data umls --model rotate --dim 8 --trained", "--all",
		"--data umls --checkpoint c",
	} {
		require.NoError(t, parse(t, args), args)
	}
	for args, want := range map[string]string{
		"--data umls --checkpoint c --trained":              "leave out --steps and --checkpoint",
		"--steps --data umls --dim 8 --trained":             "leave out --steps and --checkpoint",
		"--all --data yago-shape --trained":                 "random",
		"--all --model rotate":                              "give --data",
		"--trained":                                         "give --data",
		"--data umls --model rotate --dim 8 --checkpoint c": "give --data",
		"--all --checkpoint c":                              "give --data",
		"--data umls --model unknown --dim 8 --trained":     "choose from",
		"--steps --data umls --dim 8 --threads 0":           "must be positive",
		"--steps --data umls --dim 8 --rounds 0":            "must be positive",
		"--all --rounds 0":                                  "must be positive",
	} {
		require.ErrorContains(t, parse(t, args), want, args)
	}
}

// parse returns the error of a command line that is checked but does not run.
func parse(t *testing.T, args string) error {
	t.Helper()
	cmd := newCommand()
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	cmd.SetArgs(append(strings.Fields(args), "--work", t.TempDir()))
	return cmd.Execute()
}

func TestRows(t *testing.T) {
	require.Len(t, rows("", false), 12)
	require.Len(t, rows("", true), 8)
	require.Equal(t, row{"wn18rr", "mquine", 35, true}, rows("", true)[4])
	require.Equal(t, row{"codex-s", "rotate", 500, false}, rows("codex-s", false)[3])
}

// TestMeasureAll checks that the results of every job are kept, and that the table of all jobs
// follows.
func TestMeasureAll(t *testing.T) {
	o := small(t, "", 0)
	o.rivals, o.rounds = []string{"plain"}, 1
	jobs := []row{{o.data, "complex", 6, true}, {o.data, "transe-l1", 6, false}}
	var out bytes.Buffer
	require.NoError(t, o.measureAll(t.Context(), &out, jobs))
	_, summary, found := strings.Cut(out.String(), "best rival")
	require.True(t, found)
	require.Regexp(t, "families +complex +trained +6 .* plain ", summary)
	require.Regexp(t, "families +transe-l1 +clustered +6 .* plain ", summary)
	for _, name := range []string{"families-complex-6-trained.txt", "families-transe-l1-6.txt"} {
		kept, err := os.ReadFile(filepath.Join(o.work, "results", name))
		require.NoError(t, err)
		require.Contains(t, out.String(), string(kept))
	}
}

// Kept results are used again only for the same clean commit, processor and rivals.
func TestKeptResults(t *testing.T) {
	before := commit
	t.Cleanup(func() { commit = before })
	o := small(t, "", 0)
	var log bytes.Buffer
	o.log, o.rounds, o.python = &log, 1, filepath.Join(o.work, "python")
	o.rivals = []string{"plain", "torch"}
	o.threads = 1
	measured := func(revision string) bool {
		t.Helper()
		log.Reset()
		commit = func() string { return revision }
		var out bytes.Buffer
		require.NoError(t, o.measureAll(t.Context(), &out, []row{{data: o.data, model: "complex", dim: 6}}))
		require.Contains(t, out.String(), "1 thread; medians of 1 round\n")
		return !strings.Contains(log.String(), "already measured")
	}
	require.True(t, measured("0123"))
	require.False(t, measured("0123"))
	for _, other := range []string{"4567", "unknown", "unknown", "0123+dirty", "0123+dirty", "0123"} {
		require.True(t, measured(other), other)
	}

	without, err := o.settings(t.Context())
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(without, ", rivals plain"), without)
	require.NoError(t, os.WriteFile(o.python, []byte("#!/bin/sh\n"), 0o777))
	with, err := o.settings(t.Context())
	require.NoError(t, err)
	require.Equal(t, without+",torch", with)
	backend, err := kernel.New()
	require.NoError(t, err)
	require.Contains(t, with, fmt.Sprintf("%v, features %v", backend.Tier, backend.Features))
}
