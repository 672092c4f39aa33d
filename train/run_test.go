package train

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// familiesFolder writes a small graph and returns its folder.
func familiesFolder(t testing.TB) string {
	t.Helper()
	g, _, err := synth.Families(t.Context(), synth.Config{Seed: 1, Entities: 120, Train: 500, Valid: 20, Test: 20})
	require.NoError(t, err)
	g.Name = "families"
	dir := filepath.Join(t.TempDir(), "families")
	require.NoError(t, kg.Write(t.Context(), dir, g))
	return dir
}

func machineOf(t testing.TB, threads int) Machine {
	t.Helper()
	backends, err := kernel.Available()
	require.NoError(t, err)
	return Machine{Backend: backends[0], Threads: threads}
}

func fileDigest(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// recipes reach every source of randomness and every kind of state.
var recipes = map[string]func(*recipe.Recipe){
	"softmax over all": func(c *recipe.Recipe) { c.Average, c.ZSamples = 0.6, 2 },
	"paper": func(c *recipe.Recipe) {
		applyPaper("codex-s", c)
		c.InitCross, c.NegativeCount, c.ZSamples = recipe.IdentityCross, 20, 6
	},
	"shared": func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.AnchorNegatives, c.Distribution = recipe.SharedNegatives, 30, true, recipe.Degree
		c.Optimiser, c.LearningRate, c.Subsampling, c.ZSamples, c.Filter, c.Clip = recipe.Adagrad, 0.05, true, 3, true, 0.5
		c.Warmup, c.Decay = 1, recipe.CosineDecay
		c.Regulariser, c.RegWarmup = model.N3, 2
	},
	"shared, fused": func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.ZSamples, c.AnchorNegatives = recipe.SharedNegatives, 30, 3, true
		c.Regulariser, c.EntityDropout = model.Dura, 0.1
	},
	"kvsall": func(c *recipe.Recipe) {
		c.Negatives, c.Loss, c.Gamma, c.Smoothing, c.ZSamples = recipe.KvsAll, recipe.BCE, 4, 0.1, 2
		c.AnswerWeights, c.EntityDropout = true, 0.1
	},
	"bernoulli": func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.Distribution, c.Loss = recipe.IndependentNegatives, 9, recipe.Bernoulli, recipe.Margin
		c.Optimiser, c.LearningRate, c.Decay, c.Model = recipe.SGD, 0.1, recipe.LinearDecay, "mquade"
	},
}

func init() {
	for _, name := range model.Names() {
		recipes[name] = func(c *recipe.Recipe) {
			c.Model, c.Negatives, c.NegativeCount, c.ZSamples = name, recipe.SharedNegatives, 30, 3
		}
	}
	backends, err := kernel.Available()
	if err == nil && backends[0].Features.Has(kernel.FeatureBF16) {
		recipes["bf16x2"] = func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Products = recipe.SharedNegatives, 30, recipe.SplitBF16
		}
	}
}

func recipeOf(change func(*recipe.Recipe)) recipe.Recipe {
	c := recipe.Default()
	change(&c)
	c.Dim, c.Batch, c.Epochs = 9, 128, 3
	return c
}

func create(t testing.TB, dir, data string, c recipe.Recipe) error {
	t.Helper()
	return Create(dir, data, openGraph(t, data), c)
}

func openGraph(t testing.TB, data string) *kg.Graph {
	t.Helper()
	g, err := kg.Open(t.Context(), data)
	require.NoError(t, err)
	return g
}

// trainIn runs a training from the start and returns its folder.
func trainIn(t testing.TB, data string, c recipe.Recipe, m Machine) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, data, c))
	r, err := OpenRun(t.Context(), dir, m)
	require.NoError(t, err)
	require.NoError(t, r.Train(t.Context(), func(Epoch) {}))
	require.NoError(t, r.Close())
	return dir
}

var outputs = []string{"last/model.safetensors", "best/model.safetensors", "state.safetensors", "config.yaml"}

func TestSameBytesForAnyThreads(t *testing.T) {
	data := familiesFolder(t)
	for name, change := range recipes {
		t.Run(name, func(t *testing.T) {
			want := trainIn(t, data, recipeOf(change), machineOf(t, 1))
			for _, threads := range []int{2, 3, 4} {
				got := trainIn(t, data, recipeOf(change), machineOf(t, threads))
				for _, file := range outputs {
					assert.Equal(t, fileDigest(t, want, file), fileDigest(t, got, file), "%d threads, %s", threads, file)
				}
			}
			c := recipeOf(change)
			c.Seed++
			other := trainIn(t, data, c, machineOf(t, 1))
			assert.NotEqual(t, fileDigest(t, want, outputs[0]), fileDigest(t, other, outputs[0]), "another seed")
		})
	}
}

// A training that is interrupted in any epoch, at any place, ends with the bytes of one that is not.
func TestResume(t *testing.T) {
	data := familiesFolder(t)
	for name, change := range recipes {
		t.Run(name, func(t *testing.T) {
			want := trainIn(t, data, recipeOf(change), machineOf(t, 2))
			dir := filepath.Join(t.TempDir(), "run")
			require.NoError(t, create(t, dir, data, recipeOf(change)))
			for stop := 2; ; stop += 3 {
				ctx, cancel := context.WithCancel(t.Context())
				m := machineOf(t, 2)
				steps := 0
				m.Progress = func(Progress) {
					if steps++; steps == stop {
						cancel()
					}
				}
				r, err := OpenRun(ctx, dir, m)
				require.NoError(t, err)
				err = r.Train(ctx, func(Epoch) {})
				cancel()
				require.NoError(t, r.Close())
				if err == nil {
					break
				}
				require.ErrorIs(t, err, context.Canceled)
			}
			for _, file := range outputs {
				assert.Equal(t, fileDigest(t, want, file), fileDigest(t, dir, file), file)
			}
			r, err := OpenRun(t.Context(), dir, machineOf(t, 1))
			require.NoError(t, err)
			assert.Equal(t, "all 3 epochs are done", r.Finished())
		})
	}
}

// A run that is given more epochs ends as one that had them from the start.
func TestExtend(t *testing.T) {
	data := familiesFolder(t)
	of := func(epochs int, change func(*recipe.Recipe)) recipe.Recipe {
		c := recipeOf(change)
		c.Epochs = epochs
		return c
	}
	average := func(c *recipe.Recipe) { c.Average = 0.6 }
	want := trainIn(t, data, of(4, average), machineOf(t, 1))
	dir := trainIn(t, data, of(2, average), machineOf(t, 1))
	require.NoError(t, Extend(t.Context(), dir, 4))
	require.NoError(t, Extend(t.Context(), dir, 4), "again")
	r, err := OpenRun(t.Context(), dir, machineOf(t, 1))
	require.NoError(t, err)
	require.Empty(t, r.Finished())
	other := Extend(t.Context(), dir, 5)
	assert.EqualError(t, other, "another process is at work in "+dir+": wait until it ends, or stop it")
	require.NoError(t, r.Train(t.Context(), func(Epoch) {}))
	require.NoError(t, r.Close())
	for _, file := range []string{"last/model.safetensors", "state.safetensors", "config.yaml"} {
		assert.Equal(t, fileDigest(t, want, file), fileDigest(t, dir, file), file)
	}

	require.NoError(t, Extend(t.Context(), dir, 4), "done")
	assert.EqualError(t, Extend(t.Context(), dir, 3), dir+" has 4 epochs already: give it more than that")
	falls := trainIn(t, data, of(2, func(c *recipe.Recipe) { c.Decay = recipe.CosineDecay }), machineOf(t, 1))
	assert.EqualError(t, Extend(t.Context(), falls, 4), "the learning rate of "+falls+" falls to 0 over its 2 epochs (decay: cosine), and 4 make another training: start one with --epochs 4")
	// At this rate nothing moves, and no validation is better than the first.
	early := trainIn(t, data, of(9, func(c *recipe.Recipe) { c.LearningRate, c.ValidEvery, c.Patience = 1e-30, 1, 2 }), machineOf(t, 1))
	assert.EqualError(t, Extend(t.Context(), early, 12), early+" has stopped early, after epoch 3: no better mrr/both/all in 2 validations: it takes no more epochs")
	patient := trainIn(t, data, of(3, func(c *recipe.Recipe) { c.ValidEvery, c.Patience = 2, 4 }), machineOf(t, 1))
	assert.ErrorContains(t, Extend(t.Context(), patient, 5), patient+" was validated out of turn after epoch 3, the last (valid_every: 2)")
	assert.ErrorContains(t, Extend(t.Context(), t.TempDir(), 4), "is not the folder of a training")
}

// What is held out has no influence on the parameters.
func TestHeldOutIsNotUsed(t *testing.T) {
	for name, change := range recipes {
		c := recipeOf(change)
		g, _, err := synth.Families(t.Context(), synth.Config{Seed: 1, Entities: 120, Train: 500, Valid: 20, Test: 20})
		require.NoError(t, err)
		train := func() string {
			tr, err := NewTrainer(t.Context(), c, g, machineOf(t, 2))
			require.NoError(t, err)
			_, err = tr.Epoch(t.Context())
			require.NoError(t, err)
			return fmt.Sprint(tr.Model().Tensors())
		}
		with := train()
		g.Splits[kg.Valid], g.Splits[kg.Test] = nil, nil
		assert.Equal(t, with, train(), name)
	}
}

// The model is the mean of the first epochs, and then w ← a w + (1 − a) θ, while the training goes on as
// it does without an average.
func TestAverage(t *testing.T) {
	g := openGraph(t, familiesFolder(t))
	trainer := func(average float64) *Trainer {
		c := recipeOf(func(c *recipe.Recipe) { c.Average = average })
		tr, err := NewTrainer(t.Context(), c, g, machineOf(t, 2))
		require.NoError(t, err)
		return tr
	}
	plain, averaged := trainer(0), trainer(0.6)
	// With a = 0.6 the mean is that of two epochs; the third counts 1 − a, then a(1 − a).
	weights := [][]float64{{1}, {0.5, 0.5}, {0.3, 0.3, 0.4}, {0.18, 0.18, 0.24, 0.4}}
	var epochs [][][]float32 // parameters after each
	for n := range weights {
		for _, tr := range []*Trainer{plain, averaged} {
			_, err := tr.Epoch(t.Context())
			require.NoError(t, err)
		}
		var copies [][]float32
		for _, tensor := range plain.Model().Tensors() {
			copies = append(copies, slices.Clone(tensor))
		}
		epochs = append(epochs, copies)
		for i, tensor := range averaged.Model().Tensors() {
			for k, got := range tensor {
				want := 0.0
				for e, w := range weights[n] {
					want += w * float64(epochs[e][i][k])
				}
				if math.Abs(float64(got)-want) > 1e-6*(1+math.Abs(want)) {
					t.Fatalf("after epoch %d, tensor %d, entry %d is %v, not %v", n+1, i, k, got, want)
				}
			}
		}
	}
}

func TestEarlyStop(t *testing.T) {
	c := recipeOf(func(c *recipe.Recipe) {})
	c.Epochs, c.Patience, c.LearningRate = 50, 2, 0 // nothing changes, so the first epoch is the best
	dir := trainIn(t, familiesFolder(t), c, machineOf(t, 2))
	r, err := OpenRun(t.Context(), dir, machineOf(t, 2))
	require.NoError(t, err)
	assert.Equal(t, "stopped early, after epoch 3: no better mrr/both/all in 2 validations", r.Finished())
	epoch, best := r.Best()
	assert.Equal(t, 1, epoch)
	assert.Positive(t, best)
}

func TestBlowUp(t *testing.T) {
	for _, change := range []func(*recipe.Recipe){
		func(c *recipe.Recipe) { c.Optimiser, c.LearningRate = recipe.SGD, 1000 },
		func(c *recipe.Recipe) { c.Optimiser, c.LearningRate, c.Regulariser = recipe.SGD, 1000, model.N3 },
	} {
		c := recipeOf(change)
		dir := filepath.Join(t.TempDir(), "run")
		require.NoError(t, create(t, dir, familiesFolder(t), c))
		r, err := OpenRun(t.Context(), dir, machineOf(t, 2))
		require.NoError(t, err)
		err = r.Train(t.Context(), func(Epoch) {})
		require.ErrorContains(t, err, "training blew up in epoch ")
		assert.ErrorContains(t, err, "lower learning_rate")
		assert.NotContains(t, err.Error(), "\n")
		if r.Epoch() > 0 {
			assert.ErrorContains(t, err, "is the checkpoint of epoch")
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	dir, g := t.TempDir(), randomGraph(5, 1, 20, 1)
	require.ErrorContains(t, Create(dir, "x", g, recipe.Default()), "exists already")
	c := recipe.Default()
	c.ZSamples, c.Negatives = 3, recipe.IndependentNegatives
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, c), "z_samples")
	for want, change := range map[string]func(*recipe.Recipe){
		"loss: margin takes one answer": func(c *recipe.Recipe) { c.Loss = recipe.Margin },
		"distribution: bernoulli draws": func(c *recipe.Recipe) { c.Distribution = recipe.Bernoulli },
		"set subsampling to false":      func(c *recipe.Recipe) { c.Subsampling = true },
	} {
		c := recipe.Default()
		c.Negatives = recipe.KvsAll
		require.NoError(t, c.Check())
		change(&c)
		require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, c), want)
	}
	c = recipe.Default()
	c.Negatives, c.Distribution, c.Regulariser = recipe.IndependentNegatives, recipe.Bernoulli, model.Dura
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, c), "dura takes both queries of a positive")
	g.Splits[kg.Valid] = nil
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, recipe.Default()), "has no validation triples: set valid_every to 0")
	g.Splits[kg.Train] = nil
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, recipe.Default()), "has no train split")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
	_, err = OpenRun(t.Context(), dir, machineOf(t, 1))
	require.ErrorContains(t, err, "it has no config.yaml")
}
