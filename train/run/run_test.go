package run

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

func machineOf(t testing.TB, threads int) train.Machine {
	return train.Machine{Backend: traintest.Backend(t), Threads: threads}
}

func create(t testing.TB, dir, data string, c recipe.Recipe) error {
	t.Helper()
	return Create(dir, data, traintest.OpenGraph(t, data), c)
}

// trainIn trains a new run and returns its folder.
func trainIn(t testing.TB, data string, c recipe.Recipe, m train.Machine) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, data, c))
	r, err := Open(t.Context(), dir, Options{Machine: m})
	require.NoError(t, err)
	require.NoError(t, r.Train(t.Context(), func(Epoch) {}))
	require.NoError(t, r.Close())
	return dir
}

// extend changes the number of epochs of the run in dir.
func extend(t testing.TB, dir string, m train.Machine, epochs int) error {
	t.Helper()
	r, err := Open(t.Context(), dir, Options{Machine: m, Epochs: epochs})
	if err != nil {
		return err
	}
	return r.Close()
}

// recipes returns the changes from traintest.Recipes. In short mode, it leaves out changes that
// only choose a model.
func recipes() map[string]func(*recipe.Recipe) {
	all := traintest.Recipes()
	if testing.Short() {
		for _, name := range model.Names() {
			delete(all, name)
		}
	}
	return all
}

var outputs = []string{"last/model.safetensors", "best/model.safetensors", "state.safetensors", "config.yaml"}

func TestSameBytesForAnyThreads(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	numbers := []int{4, 3, 2}
	if testing.Short() {
		numbers = numbers[:1]
	}
	for name, change := range recipes() {
		t.Run(name, func(t *testing.T) {
			want := trainIn(t, data, traintest.Recipe(change), machineOf(t, 1))
			for _, threads := range numbers {
				got := trainIn(t, data, traintest.Recipe(change), machineOf(t, threads))
				for _, file := range outputs {
					assert.Equal(t, traintest.Digest(t, want, file), traintest.Digest(t, got, file),
						"%d threads, %s", threads, file)
				}
			}
			c := traintest.Recipe(change)
			c.Seed++
			other := trainIn(t, data, c, machineOf(t, 1))
			assert.NotEqual(t, traintest.Digest(t, want, outputs[0]), traintest.Digest(t, other, outputs[0]),
				"another seed")
		})
	}
}

// A run that is interrupted anywhere in any epoch ends with the same bytes as an uninterrupted run.
func TestResume(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	for name, change := range recipes() {
		t.Run(name, func(t *testing.T) {
			want := trainIn(t, data, traintest.Recipe(change), machineOf(t, 2))
			dir := filepath.Join(t.TempDir(), "run")
			require.NoError(t, create(t, dir, data, traintest.Recipe(change)))
			for stop := 2; ; stop += 3 {
				ctx, cancel := context.WithCancel(t.Context())
				m := machineOf(t, 2)
				steps := 0
				m.Progress = func(train.Progress) {
					if steps++; steps == stop {
						cancel()
					}
				}
				r, err := Open(ctx, dir, Options{Machine: m})
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
				assert.Equal(t, traintest.Digest(t, want, file), traintest.Digest(t, dir, file), file)
			}
			r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
			require.NoError(t, err)
			assert.Equal(t, "all 3 epochs are done", r.Finished())
		})
	}
}

// A data set that is given as a folder stays the same if the run continues in another folder.
func TestDataLine(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	for data, want := range map[string]string{
		"umls": "umls", ".": here, "..": filepath.Dir(here), "./x": filepath.Join(here, "x"), "/x/y/": "/x/y",
	} {
		line, err := DataLine(data)
		require.NoError(t, err)
		assert.Contains(t, string(line), "\ndata: \""+want+"\"\n", data)
	}
}

// TestCancelledValidation checks that a run does not count an epoch that it lost because its validation
// was cancelled.
func TestCancelledValidation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	data := traintest.FamiliesFolder(t)
	require.NoError(t, create(t, dir, data, traintest.Recipe(func(c *recipe.Recipe) { c.ValidEvery = 1 })))
	ctx, cancel := context.WithCancel(t.Context())
	m := machineOf(t, 1)
	m.Progress = func(p train.Progress) {
		if p.Epoch == 2 && p.Done == p.Total {
			cancel()
		}
	}
	r, err := Open(ctx, dir, Options{Machine: m})
	require.NoError(t, err)
	require.ErrorIs(t, r.Train(ctx, func(Epoch) {}), context.Canceled)
	assert.Equal(t, 1, r.Epoch())
	assert.Len(t, r.Log(), 1)
	best, _ := r.Best()
	assert.Equal(t, 1, best)
	again := r.Train(t.Context(), func(Epoch) {})
	require.ErrorIs(t, again, context.Canceled)
	assert.ErrorContains(t, again, dir+" cannot continue after an error: open the run again (")
	assert.Equal(t, 1, r.Epoch())
	require.NoError(t, r.Close())
}

// A closed run does not train, but a finished one has nothing left to train.
func TestClosedRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, traintest.FamiliesFolder(t), traintest.Small(2)))
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	require.NoError(t, r.TrainTo(t.Context(), 1, nil))
	require.NoError(t, r.Close())
	require.EqualError(t, r.Train(t.Context(), nil), "run "+dir+" is closed: open it again")
	assert.Equal(t, 1, r.Epoch())
	require.NoError(t, r.Close())
	r, err = Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	require.NoError(t, r.Train(t.Context(), nil))
	require.NoError(t, r.Close())
	assert.NoError(t, r.Train(t.Context(), nil))
}

// An epoch fails if one of its files cannot be written, here because a folder has taken its place.
func TestUnwritableFiles(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	for _, name := range []string{stateName, logName, filepath.Join(lastName, parametersName)} {
		dir := filepath.Join(t.TempDir(), "run")
		require.NoError(t, create(t, dir, data, traintest.Small(2)))
		r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
		require.NoError(t, err)
		require.NoError(t, r.TrainTo(t.Context(), 1, nil))
		path := filepath.Join(dir, name)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.MkdirAll(filepath.Join(path, "inside"), 0o755))
		assert.ErrorContains(t, r.Train(t.Context(), nil), path)
		assert.Equal(t, 1, r.Epoch(), name)
		require.NoError(t, r.Close())
	}
}

// A run whose folder is moved away while it writes the files of an epoch leaves no log or state in a new folder at the
// same place, and says what happened.
func TestReplacedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, traintest.FamiliesFolder(t), traintest.Small(2)))
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	moved := false
	ctx := traintest.HookedContext{Context: t.Context(), Hook: func() {
		if !moved && r.has(lastName, parametersName) {
			moved = true
			require.NoError(t, os.Rename(dir, dir+"-moved"))
			require.NoError(t, os.Mkdir(dir, 0o777))
		}
	}}
	assert.ErrorContains(t, r.Train(ctx, nil), "was removed or replaced while the folder was in use")
	require.NoError(t, r.Close())
	assert.True(t, moved)
	for _, name := range []string{logName, lossPlotName, metricPlotName, stateName} {
		assert.NoFileExists(t, filepath.Join(dir, name))
	}
	continued, err := Open(t.Context(), dir+"-moved", Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	require.NoError(t, continued.Train(t.Context(), nil))
	require.NoError(t, continued.Close())
}

// TrainTo trains at most the epochs of the recipe, also on a finished run, and needs no callback.
func TestTrainToBeyondTheEnd(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	want := trainIn(t, data, traintest.Small(2), machineOf(t, 1))
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, data, traintest.Small(2)))
	for range 2 {
		r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
		require.NoError(t, err)
		require.NoError(t, r.TrainTo(t.Context(), 5, nil))
		assert.Equal(t, 2, r.Epoch())
		require.NoError(t, r.Close())
	}
	for _, file := range outputs {
		assert.Equal(t, traintest.Digest(t, want, file), traintest.Digest(t, dir, file), file)
	}
}

// A run without its log gets a new one, and a note says so.
func TestExtendWithoutLog(t *testing.T) {
	c := traintest.Recipe(func(*recipe.Recipe) {})
	c.Epochs = 2
	dir := trainIn(t, traintest.FamiliesFolder(t), c, machineOf(t, 1))
	log := filepath.Join(dir, logName)
	require.NoError(t, os.Remove(log))
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	assert.Equal(t, "both epochs are done", r.Finished())
	assert.Empty(t, r.Notes)
	require.NoError(t, r.Close())
	require.NoError(t, extend(t, dir, machineOf(t, 1), 3))
	r, err = Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	assert.Equal(t, []string{log + " is missing, so a new log begins with epoch 3"}, r.Notes)
	require.NoError(t, r.Train(t.Context(), func(Epoch) {}))
	require.NoError(t, r.Close())
}

// An extended run ends with the same bytes as a run that had all epochs from the start.
func TestExtend(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	of := func(epochs int, change func(*recipe.Recipe)) recipe.Recipe {
		c := traintest.Recipe(change)
		c.Epochs = epochs
		return c
	}
	average := func(c *recipe.Recipe) { c.EMA = 0.6 }
	want := trainIn(t, data, of(4, average), machineOf(t, 1))
	dir := trainIn(t, data, of(2, average), machineOf(t, 1))
	require.NoError(t, extend(t, dir, machineOf(t, 1), 4))
	require.NoError(t, extend(t, dir, machineOf(t, 1), 4), "again")
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	require.Empty(t, r.Finished())
	other := extend(t, dir, machineOf(t, 1), 5)
	assert.EqualError(t, other, "another process is using "+dir+": wait until it ends, or stop it")
	require.NoError(t, r.Train(t.Context(), func(Epoch) {}))
	require.NoError(t, r.Close())
	for _, file := range outputs {
		assert.Equal(t, traintest.Digest(t, want, file), traintest.Digest(t, dir, file), file)
	}

	extend := func(dir string, epochs int) error { return extend(t, dir, machineOf(t, 1), epochs) }
	require.NoError(t, extend(dir, 4), "done")

	// If the data set is missing or another one, the run does not change.
	config, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	require.NoError(t, err)
	unchanged := func(want string) {
		require.ErrorContains(t, extend(dir, 5), want)
		now, err := os.ReadFile(filepath.Join(dir, ConfigFile))
		require.NoError(t, err)
		require.Equal(t, string(config), string(now))
	}
	path := filepath.Join(data, "train.txt")
	triples, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, triples[bytes.IndexByte(triples, '\n')+1:], 0o644))
	unchanged("has changed since")
	require.NoError(t, os.Rename(data, data+".away"))
	unchanged("no such file or directory")
	require.NoError(t, os.Rename(data+".away", data))
	require.NoError(t, os.WriteFile(path, triples, 0o644))

	assert.EqualError(t, extend(dir, 3), dir+" already has 4 epochs: set epochs (--epochs) to a larger number")
	falls := trainIn(t, data, of(2, func(c *recipe.Recipe) { c.Decay = recipe.CosineDecay }), machineOf(t, 1))
	assert.EqualError(t, extend(falls, 4), falls+" cannot be extended, because its "+
		"learning rate depends on the number of epochs (decay: cosine): start a new run with --epochs 4")
	fresh := filepath.Join(t.TempDir(), "fresh")
	require.NoError(t, create(t, fresh, data, of(2, func(c *recipe.Recipe) { c.Decay = recipe.CosineDecay })))
	assert.NoError(t, extend(fresh, 4), "before the first epoch")
	// At this learning rate nothing changes, and no validation is better than the first.
	still := func(c *recipe.Recipe) { c.LearningRate, c.ValidEvery, c.Patience = 1e-30, 1, 2 }
	early := trainIn(t, data, of(9, still), machineOf(t, 1))
	assert.EqualError(t, extend(early, 12), early+" cannot be extended, because it has stopped early, "+
		"after epoch 3: no better mrr/both/all in 2 validations")
	// Patience ends with the last epoch, so the run has all its epochs but cannot have more.
	spent := trainIn(t, data, of(3, still), machineOf(t, 1))
	r, err = Open(t.Context(), spent, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	assert.Equal(t, "all 3 epochs are done", r.Finished())
	require.NoError(t, r.Close())
	refused := " cannot be extended, because patience would have stopped it after epoch 3: start a new run with " +
		"--epochs 4"
	assert.EqualError(t, extend(spent, 4), spent+refused)
	undo := traintest.Change(t, filepath.Join(spent, ConfigFile), "\nepochs: 3\n", "\nepochs: 4\n")
	assert.ErrorContains(t, resume(t, spent), spent+refused)
	undo()
	patient := trainIn(t, data, of(3, func(c *recipe.Recipe) { c.ValidEvery, c.Patience = 2, 4 }), machineOf(t, 1))
	assert.ErrorContains(t, extend(patient, 5), patient+" cannot be extended, because patience "+
		"would count the validation after epoch 3, which was the last (valid_every: 2): "+
		"start a new run with --epochs 5")
	assert.ErrorContains(t, extend(t.TempDir(), 4), "is not a run folder")
}

func TestEarlyStop(t *testing.T) {
	for patience, want := range map[int]string{
		1: "stopped early, after epoch 2: no better mrr/both/all in 1 validation",
		2: "stopped early, after epoch 3: no better mrr/both/all in 2 validations",
	} {
		c := traintest.Recipe(func(c *recipe.Recipe) {})
		c.Epochs, c.Patience, c.LearningRate = 50, patience, 0 // nothing changes, so the first epoch is the best
		dir := trainIn(t, traintest.FamiliesFolder(t), c, machineOf(t, 2))
		r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 2)})
		require.NoError(t, err)
		assert.Equal(t, want, r.Finished())
		read, err := ReadFinished(t.Context(), dir)
		require.NoError(t, err)
		assert.Equal(t, want, read)
		epoch, best := r.Best()
		assert.Equal(t, 1, epoch)
		assert.Positive(t, best)
	}
}

func TestDiverged(t *testing.T) {
	for _, change := range []func(*recipe.Recipe){
		func(c *recipe.Recipe) { c.Optimiser, c.LearningRate = recipe.SGD, 1000 },
		func(c *recipe.Recipe) { c.Optimiser, c.LearningRate, c.Regulariser = recipe.SGD, 1000, model.N3 },
	} {
		c := traintest.Recipe(change)
		dir := filepath.Join(t.TempDir(), "run")
		require.NoError(t, create(t, dir, traintest.FamiliesFolder(t), c))
		r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 2)})
		require.NoError(t, err)
		err = r.Train(t.Context(), func(Epoch) {})
		require.ErrorContains(t, err, "training diverged in epoch ")
		assert.ErrorContains(t, err, "lower learning_rate")
		assert.NotContains(t, err.Error(), "\n")
		if r.Epoch() > 0 {
			assert.ErrorContains(t, err, "is the checkpoint of epoch")
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	dir, g := t.TempDir(), traintest.RandomGraph(5, 1, 20, 1)
	require.ErrorContains(t, Create(dir, "x", g, recipe.Default()), "already exists")
	c := recipe.Default()
	c.ZSamples, c.Negatives = 3, recipe.IndependentNegatives
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, c), "z_samples")
	for want, change := range map[string]func(*recipe.Recipe){
		"loss: margin has one target":     func(c *recipe.Recipe) { c.Loss = recipe.Margin },
		"distribution: bernoulli chooses": func(c *recipe.Recipe) { c.Distribution = recipe.Bernoulli },
		"subsampling weights single":      func(c *recipe.Recipe) { c.Subsampling = true },
		"degree_weights weights single":   func(c *recipe.Recipe) { c.DegreeWeights = true },
		"max_answers: bce would label":    func(c *recipe.Recipe) { c.MaxAnswers, c.Loss = 8, recipe.BCE },
		"max_answers needs negatives kvsall, but negatives is shared": func(c *recipe.Recipe) {
			c.MaxAnswers, c.Negatives = 8, recipe.SharedNegatives
		},
	} {
		c := recipe.Default()
		c.Negatives = recipe.KvsAll
		require.NoError(t, c.Check())
		change(&c)
		require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, c), want)
	}
	c = recipe.Default()
	c.Negatives, c.Distribution, c.Regulariser = recipe.IndependentNegatives, recipe.Bernoulli, model.Dura
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, c), "dura needs both queries of a triple")
	g.Splits[kg.Train] = slices.Repeat(g.Splits[kg.Train], 64/len(g.Splits[kg.Train])+1)
	c = recipe.Default()
	c.Negatives, c.NegativeCount, c.AnswerWeights, c.MaxAnswers = recipe.IndependentNegatives, 1<<24, false, 0
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, c), "lower batch or negative_count")
	g.Splits[kg.Valid] = nil
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, recipe.Default()),
		"has no validation triples: set valid_every (--valid-every) to 0")
	g.Splits[kg.Train] = nil
	require.ErrorContains(t, Create(filepath.Join(dir, "a"), "x", g, recipe.Default()), "has no train split")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
	_, err = Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.ErrorContains(t, err, "it has no config.yaml")
}
