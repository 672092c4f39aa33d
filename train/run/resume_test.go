package run

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

const elsewhere = ", or start a new run in another folder"

// resume opens the run in a folder and trains it to its end.
func resume(t testing.TB, dir string) error {
	t.Helper()
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Train(t.Context(), func(Epoch) {})
}

// Resuming removes the temporary files of killed processes, but no other hidden files.
func TestResumeKeepsHiddenFiles(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	dir := trainIn(t, data, traintest.Small(1), machineOf(t, 1))
	hidden := []string{".git/HEAD", ".notes", ".ssh/id", ".last.bak/x",
		"last/.git/HEAD", "best/.keep", "best/.model.safetensors.old"}
	litter := []string{traintest.Litter, "last/" + traintest.Litter, "best/" + traintest.Litter + "/half"}
	traintest.WriteFiles(t, dir, append(hidden, litter...)...)
	require.NoError(t, extend(t, dir, machineOf(t, 1), 2))
	require.NoError(t, resume(t, dir))
	files := traintest.Contents(t, dir)
	for _, name := range hidden {
		assert.Equal(t, name, files[name])
	}
	for _, name := range litter {
		assert.NotContains(t, files, name)
	}
}

// A run with products in bfloat16 refuses to continue, or to get more epochs, on other backends, and
// stays unchanged.
func TestResumeOnOtherBackends(t *testing.T) {
	c := traintest.Small(1)
	c.Products = recipe.BF16
	if err := c.CheckBackend(traintest.Backend(t)); err != nil {
		t.Skip(err)
	}
	dir := trainIn(t, traintest.FamiliesFolder(t), c, machineOf(t, 1))
	files := traintest.Contents(t, dir)
	portable := kerneltest.Generic(t)
	const want = "products: bf16 needs AVX-512 BF16"
	require.ErrorContains(t, extend(t, dir, train.Machine{Backend: portable, Threads: 1}, 3), want)
	assert.Equal(t, files, traintest.Contents(t, dir))
	require.NoError(t, extend(t, dir, machineOf(t, 1), 3))
	files = traintest.Contents(t, dir)
	_, err := Open(t.Context(), dir, Options{Machine: train.Machine{Backend: portable, Threads: 1}})
	require.ErrorContains(t, err, want)
	assert.Equal(t, files, traintest.Contents(t, dir))
}

// A run that continues on kernels with another rounding gets a note at each change.
func TestResumeWithOtherRounding(t *testing.T) {
	fused, separate := machineOf(t, 1), train.Machine{Backend: kerneltest.Generic(t), Threads: 1}
	if fused.Backend.Tier == kernel.Generic {
		t.Skip("this machine has no kernels with fused multiply-adds")
	}
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, traintest.FamiliesFolder(t), traintest.Small(4)))
	const note = "%s was trained with %s, but the kernels of tier %v use %s, so the result may differ from the " +
		"result of an uninterrupted run"
	for i, step := range []struct {
		machine train.Machine
		notes   []string
	}{
		{separate, nil},
		{separate, nil},
		{fused, []string{fmt.Sprintf(note, dir, separateRounding, fused.Backend.Tier, fusedRounding)}},
		{separate, []string{fmt.Sprintf(note, dir, fusedRounding, "generic", separateRounding)}},
	} {
		r, err := Open(t.Context(), dir, Options{Machine: step.machine})
		require.NoError(t, err)
		assert.Equal(t, step.notes, r.Notes)
		require.NoError(t, r.TrainTo(t.Context(), i+1, nil))
		require.NoError(t, r.Close())
	}
}

// A checkpoint whose folder is a symbolic link stays where it is, and resuming does not touch other
// files there.
func TestResumeThroughLinks(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	want := trainIn(t, data, traintest.Small(3), machineOf(t, 1))
	dir := trainIn(t, data, traintest.Small(1), machineOf(t, 1))
	home := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Rename(filepath.Join(dir, lastName), home))
	require.NoError(t, os.Symlink(home, filepath.Join(dir, lastName)))
	traintest.WriteFiles(t, home, ".bashrc", ".ssh/id", "notes")
	require.NoError(t, extend(t, dir, machineOf(t, 1), 3))
	require.NoError(t, resume(t, dir))
	for _, file := range []string{".bashrc", ".ssh/id", "notes"} {
		assert.Equal(t, file, traintest.Contents(t, home)[file])
	}
	link, err := os.Readlink(filepath.Join(dir, lastName))
	require.NoError(t, err)
	assert.Equal(t, home, link)
	assert.Equal(t, traintest.Digest(t, want, outputs[0]), traintest.Digest(t, home, "model.safetensors"))
}

// replaceAll replaces the contents of a folder.
func replaceAll(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(dir))
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// If there is a log or a checkpoint, a missing state is an error, and the files stay unchanged.
// Otherwise the run starts.
func TestResumeWithoutState(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	for _, epochs := range []int{1, 3} {
		whole := trainIn(t, data, traintest.Small(epochs), machineOf(t, 1))
		all := traintest.Contents(t, whole)
		for _, left := range []string{"last/", "best/", "log.jsonl", ""} {
			dir := filepath.Join(t.TempDir(), "run")
			files := maps.Clone(all)
			maps.DeleteFunc(files, func(name, _ string) bool {
				return name != "config.yaml" && (left == "" || !strings.HasPrefix(name, left))
			})
			replaceAll(t, dir, files)
			if left == "" {
				require.NoError(t, resume(t, dir))
				assert.Equal(t, all[outputs[0]], traintest.Contents(t, dir)[outputs[0]])
				continue
			}
			want := filepath.Join(dir, stateName) + " is missing, but " + filepath.Join(dir, left) +
				" exists: the run cannot resume without its state, and a fresh start would overwrite its " +
				"checkpoints; restore it from a backup" + elsewhere
			assert.EqualError(t, resume(t, dir), want)
			assert.EqualError(t, extend(t, dir, machineOf(t, 1), 9), want)
			assert.Equal(t, files, traintest.Contents(t, dir), "nothing changes")
		}
		require.NoError(t, os.Remove(filepath.Join(whole, stateName)))
		assert.ErrorContains(t, resume(t, whole), "the run cannot resume without its state")
	}
}

// If a run is killed between any two files of any epoch, it resumes and ends with the same bytes.
func TestKilledBetweenFiles(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	c := traintest.Small(4)
	c.EMA = 0.5
	want := trainIn(t, data, c, machineOf(t, 1))
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, data, c))
	steps := []map[string]string{} // the folder after each epoch
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	steps = append(steps, traintest.Contents(t, dir))
	require.NoError(t, r.Train(t.Context(), func(Epoch) { steps = append(steps, traintest.Contents(t, dir)) }))
	require.NoError(t, r.Close())
	require.Len(t, steps, 5)

	// Run.keep writes the files in this order.
	order := []string{"last/", "best/", "log.jsonl", "loss.svg", "validation.svg"}
	for epoch := range steps[:4] {
		for written := range len(order) + 1 {
			files := maps.Clone(steps[epoch])
			for name, text := range steps[epoch+1] {
				if slices.ContainsFunc(order[:written], func(p string) bool { return strings.HasPrefix(name, p) }) {
					files[name] = text
				}
			}
			replaceAll(t, dir, files)
			require.NoError(t, resume(t, dir), "epoch %d, %d files written", epoch+1, written)
			for _, file := range outputs {
				assert.Equal(t, traintest.Digest(t, want, file), traintest.Digest(t, dir, file),
					"epoch %d, %d files written: %s", epoch+1, written, file)
			}
		}
	}
}

// A run that is killed in its first epoch, after it has written a checkpoint, does not resume with
// different options, because the repeated epoch might not replace that checkpoint.
func TestOptionsAfterKillInFirstEpoch(t *testing.T) {
	data, dir := traintest.FamiliesFolder(t), filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, data, traintest.Small(2)))
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	files := traintest.Contents(t, dir)
	require.NoError(t, r.TrainTo(t.Context(), 1, nil))
	require.NoError(t, r.Close())
	for name, text := range traintest.Contents(t, dir) {
		if name != stateName {
			files[name] = text
		}
	}
	config := filepath.Join(dir, ConfigFile)
	for _, kept := range []string{lastName, bestName} {
		for _, every := range []string{"0", "5"} {
			killed := maps.Clone(files)
			maps.DeleteFunc(killed, func(name, _ string) bool {
				return strings.Contains(name, "/") && !strings.HasPrefix(name, kept)
			})
			replaceAll(t, dir, killed)
			undo := traintest.Change(t, config, "\nvalid_every: 1\n", "\nvalid_every: "+every+"\n")
			assert.EqualError(t, resume(t, dir), config+" was changed after the run began: valid_every is "+every+
				" but was 1; restore it"+elsewhere)
			undo()
			require.NoError(t, resume(t, dir))
		}
	}
}

// writeOldState writes the state of a run in the format of earlier versions.
func writeOldState(t testing.TB, dir string, changes map[string]string) {
	t.Helper()
	path := filepath.Join(dir, stateName)
	file, err := safetensors.Open(path)
	require.NoError(t, err)
	defer file.Close()
	metadata := map[string]string{"format": "mquine-state/2"}
	for _, key := range []string{"epoch", "steps", "best", "best_epoch", "waited", "finished"} {
		metadata[key] = file.Metadata()[key]
	}
	maps.Copy(metadata, changes)
	var tensors []safetensors.Float32
	for _, tensor := range file.Tensors() {
		values, err := file.Float32(tensor.Name)
		require.NoError(t, err)
		values = slices.Clone(values) // the originals are in the mapped file that is replaced
		tensors = append(tensors, safetensors.Float32{Name: tensor.Name, Shape: tensor.Shape, Values: values})
	}
	require.NoError(t, safetensors.WriteFile(t.Context(), path, metadata, tensors...))
}

// Runs from earlier versions resume and end with the same bytes, with notes about the checks that
// are not possible. After the next epoch there are no notes.
func TestResumeOldState(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	want := trainIn(t, data, traintest.Small(4), machineOf(t, 1))
	dir := trainIn(t, data, traintest.Small(2), machineOf(t, 1))
	writeOldState(t, dir, nil)
	require.NoError(t, extend(t, dir, machineOf(t, 1), 4))
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	require.Len(t, r.Notes, 1)
	assert.Contains(t, r.Notes[0], "is from an earlier version and does not identify its data set")
	require.NoError(t, r.TrainTo(t.Context(), 3, func(Epoch) {}))
	require.NoError(t, r.Close())
	r, err = Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	assert.Empty(t, r.Notes)
	require.NoError(t, r.Train(t.Context(), func(Epoch) {}))
	require.NoError(t, r.Close())
	for _, file := range outputs {
		assert.Equal(t, traintest.Digest(t, want, file), traintest.Digest(t, dir, file), file)
	}

	// Without options in the state, Open compares config.yaml with the options in the checkpoint.
	require.NoError(t, extend(t, dir, machineOf(t, 1), 5))
	writeOldState(t, dir, nil)
	traintest.Change(t, filepath.Join(dir, ConfigFile), "seed: 1", "seed: 2")
	assert.ErrorContains(t, resume(t, dir),
		"config.yaml was changed after the run began: seed is 2 but was 1; restore it")
}

// A run from an earlier version, whose config.yaml contains former names of options, resumes and
// ends with the same bytes.
func TestResumeFormerNames(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	of := func(epochs int) recipe.Recipe {
		c := traintest.Small(epochs)
		c.EMA, c.InitStd, c.Loss, c.ValidMetric.Name = 0.5, 0.2, recipe.NSSA, "hits@10"
		return c
	}
	want := trainIn(t, data, of(3), machineOf(t, 1))
	dir := trainIn(t, data, of(2), machineOf(t, 1))
	config := filepath.Join(dir, ConfigFile)
	for _, names := range [][2]string{
		{"\nema: 0.5\n", "\naverage: 0.5\n"},
		{"\ninit_std: 0.2\n", "\ninit_deviation: 0.2\n"},
		{"\nvalid_metric: hits@10/both/all\n", "\nstop_metric: hits@10/both/all\n"},
		{"\nloss: nssa\n", "\nloss: paper\n"},
		{"\nnegatives: 1vsall\n", "\nnegatives: all\n"},
		{"\nepochs: 2\n", "\nepochs: 3\n"},
	} {
		traintest.Change(t, config, names[0], names[1])
	}
	require.NoError(t, resume(t, dir))
	for _, file := range []string{"last/model.safetensors", "state.safetensors"} {
		assert.Equal(t, traintest.Digest(t, want, file), traintest.Digest(t, dir, file), file)
	}
	metadata, err := (&Run{Dir: dir}).checkpointMetadata(lastName)
	require.NoError(t, err)
	for _, part := range []string{
		" negatives=all ", " loss=paper ", " init_deviation=0.2 ", " stop_metric=hits@10/both/all ", " average=0.5",
	} {
		assert.Contains(t, metadata["training"], part, "as in earlier versions")
	}
	require.NoError(t, extend(t, dir, machineOf(t, 1), 4))
	assert.Contains(t, traintest.Contents(t, dir)[ConfigFile], "\nema: 0.5\n", "rewritten with the current names")
	require.NoError(t, resume(t, dir))
}

// A run does not resume with a different data set, and the error names the part that differs.
func TestResumeWithOtherData(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	dir := trainIn(t, data, traintest.Small(1), machineOf(t, 1))
	require.NoError(t, extend(t, dir, machineOf(t, 1), 2))
	before := traintest.Contents(t, data)
	lines := func(name string) []string { return strings.SplitAfter(strings.TrimSuffix(before[name], "\n"), "\n") }
	labels := slices.Clone(traintest.OpenGraph(t, data).Entities.Labels())
	slices.Reverse(labels)
	for _, test := range []struct{ name, text, want string }{
		{"train.txt", strings.Join(lines("train.txt")[:250], ""), "the train split has 250 triples but had 500"},
		{"train.txt", lines("train.txt")[1] + before["train.txt"][len(lines("train.txt")[0]):],
			"the train split has 500 triples, but not the same ones in the same order"},
		{"valid.txt", strings.Join(lines("valid.txt")[:19], ""), "the valid split has 19 triples but had 20"},
		{"test.txt", "", "the test split is missing"},
		{"entities.txt", strings.Join(labels, "\n") + "\n",
			"the entity vocabulary has 120 labels, but not the same ones in the same order"},
	} {
		files := maps.Clone(before)
		delete(files, "entities.tsv") // if it exists, it is read instead of entities.txt
		if files[test.name] = test.text; test.text == "" {
			delete(files, test.name)
		}
		replaceAll(t, data, files)
		assert.EqualError(t, resume(t, dir), "the data set in "+data+" has changed since "+dir+" began: "+
			test.want+"; restore it, or start again in another folder")
		replaceAll(t, data, before)
	}
	// A data set that was moved counts as unchanged.
	other := filepath.Join(t.TempDir(), "families")
	require.NoError(t, os.Rename(data, other))
	traintest.Change(t, filepath.Join(dir, ConfigFile), data, other)
	require.NoError(t, resume(t, dir))
}

// A run does not resume with different options, and the error names them.
func TestResumeWithOtherOptions(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	dir := trainIn(t, data, traintest.Small(2), machineOf(t, 1))
	config := filepath.Join(dir, ConfigFile)
	require.NoError(t, extend(t, dir, machineOf(t, 1), 3))
	for _, test := range []struct{ old, text, want string }{
		{"\nseed: 1\n", "\nseed: 7\n", "seed is 7 but was 1"},
		{"\nlearning_rate: 0.003\n", "\nlearning_rate: 0.01\n", "learning_rate is 0.01 but was 0.003"},
		{"\noptimiser: adam\n", "\noptimiser: sgd\n", "optimiser is sgd but was adam"},
		{"\nvalid_every: 1\n", "\nvalid_every: 2\n", "valid_every is 2 but was 1"},
	} {
		undo := traintest.Change(t, config, test.old, test.text)
		assert.EqualError(t, resume(t, dir), config+" was changed after the run began: "+test.want+
			"; restore it"+elsewhere)
		undo()
	}
	undo := traintest.Change(t, config, "\nepochs: 3\n", "\nepochs: 1\n")
	assert.ErrorContains(t, resume(t, dir), "has 2 epochs, but epochs in "+config+" is 1")
	undo()
	traintest.Change(t, config, "\nepochs: 3\n", "\nepochs: 4\n")
	require.NoError(t, resume(t, dir))
	want := trainIn(t, data, traintest.Small(4), machineOf(t, 1))
	assert.Equal(t, traintest.Digest(t, want, outputs[0]), traintest.Digest(t, dir, outputs[0]))

	c := traintest.Small(2)
	c.Decay = recipe.CosineDecay
	falls := trainIn(t, data, c, machineOf(t, 1))
	traintest.Change(t, filepath.Join(falls, ConfigFile), "\nepochs: 2\n", "\nepochs: 3\n")
	assert.ErrorContains(t, resume(t, falls),
		falls+" cannot be extended, because its learning rate depends on the number of epochs (decay: cosine)")

	// Before the first epoch writes a checkpoint, the user may change options.
	fresh := filepath.Join(t.TempDir(), "fresh")
	require.NoError(t, create(t, fresh, data, traintest.Small(1)))
	r, err := Open(t.Context(), fresh, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	require.NoError(t, r.Close())
	traintest.Change(t, filepath.Join(fresh, ConfigFile), "\nseed: 1\n", "\nseed: 7\n")
	require.NoError(t, resume(t, fresh))
}

// config.yaml of an interrupted run asks for the epochs that are done already. The error names the
// file, also where --epochs asks for more.
func TestEpochsEditedToThoseDone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, traintest.FamiliesFolder(t), traintest.Small(3)))
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, r.Train(ctx, func(e Epoch) {
		if e.Epoch == 2 {
			cancel()
		}
	}), context.Canceled)
	require.NoError(t, r.Close())

	config := filepath.Join(dir, ConfigFile)
	undo := traintest.Change(t, config, "\nepochs: 3\n", "\nepochs: 2\n")
	want := "epochs: 2 in " + config + ": " + dir + " already has 2 epochs: set epochs (--epochs) to a larger number"
	assert.EqualError(t, resume(t, dir), want)
	assert.EqualError(t, extend(t, dir, machineOf(t, 1), 5), want)
	undo()
	require.NoError(t, resume(t, dir))
}

// The log and the checkpoints must belong to the epoch of the state.
func TestResumeComparesFiles(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	c := traintest.Small(3)
	c.LearningRate = 0 // the first epoch is the best
	dir := trainIn(t, data, c, machineOf(t, 1))
	first := traintest.Contents(t, trainIn(t, data, traintest.Small(1), machineOf(t, 1)))
	c.Seed++
	seed := traintest.Contents(t, trainIn(t, data, c, machineOf(t, 1)))
	files := traintest.Contents(t, dir)
	flipped := func(name string) string {
		b := []byte(files[name])
		b[len(b)-3] ^= 64
		return string(b)
	}
	reversed := strings.Split(strings.TrimSuffix(files[bestName+"/entities.tsv"], "\n"), "\n")
	slices.Reverse(reversed)
	swapped := strings.Join(reversed, "\n") + "\n"
	lines := strings.SplitAfter(files[logName], "\n")
	model, state := "/model.safetensors", filepath.Join(dir, stateName)
	for _, test := range []struct{ name, text, want string }{
		{logName, lines[0] + lines[1], "log.jsonl ends with epoch 2, but " + state + " has epoch 3: restore both"},
		{logName, lines[0] + lines[2], "log.jsonl:2: epoch 3 follows epoch 1: restore the file, or delete it"},
		{logName, lines[0] + "{", "log.jsonl:2: this line does not describe an epoch"},
		{logName, "", "log.jsonl ends with epoch 0"},
		{lastName + model, first[outputs[0]], "last is the checkpoint of epoch \"1\", but " + state +
			" expects epoch 3: restore both"},
		{bestName + model, files[lastName+model], "best is the checkpoint of epoch \"3\", but " + state +
			" expects epoch 1: restore both"},
		{bestName + model, seed[bestName+model], "best is the checkpoint of another run: seed is 1 but was 2"},
		{lastName + model, seed[lastName+model], "config.yaml was changed after the run began: seed is 1 but was 2"},
		{bestName + model, flipped(bestName + model), "to continue, restore " + filepath.Join(dir, bestName)},
		{lastName + model, flipped(lastName + model), "to continue, delete " + filepath.Join(dir, lastName)},
		{lastName + model, files[lastName+model][:50], "to continue, delete " + filepath.Join(dir, lastName)},
		{bestName + "/entities.tsv", swapped, "to continue, restore " + filepath.Join(dir, bestName)},
		{lastName + "/entities.tsv", swapped, "to continue, delete " + filepath.Join(dir, lastName)},
	} {
		changed := maps.Clone(files)
		changed[test.name] = test.text
		replaceAll(t, dir, changed)
		assert.ErrorContains(t, resume(t, dir), test.want)
		assert.ErrorContains(t, extend(t, dir, machineOf(t, 1), 9), test.want)
		assert.Equal(t, changed, traintest.Contents(t, dir))
	}
	replaceAll(t, dir, files)

	require.NoError(t, os.RemoveAll(filepath.Join(dir, bestName)))
	assert.EqualError(t, resume(t, dir), filepath.Join(dir, bestName)+
		", the checkpoint of the best epoch, 1, is missing: restore it from a backup"+elsewhere)
	replaceAll(t, dir, files)

	// Opening the run writes a missing last checkpoint from the state. If the log is missing, a new
	// log begins with the next epoch.
	for _, name := range []string{lastName, logName} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	require.NoError(t, resume(t, dir))
	assert.Equal(t, files[outputs[0]], traintest.Contents(t, dir)[outputs[0]])
	require.NoError(t, extend(t, dir, machineOf(t, 1), 5))
	require.NoError(t, resume(t, dir))
	require.NoError(t, resume(t, dir))
	assert.Equal(t, 2, strings.Count(traintest.Contents(t, dir)[logName], "\n"))
}

// Opening a run writes the vocabularies that its checkpoints lack.
func TestResumeWithoutVocabularies(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	c := traintest.Small(2)
	dir := trainIn(t, data, c, machineOf(t, 1))
	files := traintest.Contents(t, dir)
	for _, missing := range []string{"last/entities.tsv", "last/relations.tsv", "best/entities.tsv", "last/"} {
		left := maps.Clone(files)
		maps.DeleteFunc(left, func(name, _ string) bool { return strings.HasPrefix(name, missing) })
		replaceAll(t, dir, left)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, lastName), 0o755))
		require.NoError(t, resume(t, dir), missing)
		assert.Equal(t, files, traintest.Contents(t, dir), missing)

		replaceAll(t, dir, left)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, lastName), 0o755))
		require.NoError(t, extend(t, dir, machineOf(t, 1), 3))
		require.NoError(t, resume(t, dir), missing)
		assert.Equal(t, files["last/entities.tsv"], traintest.Contents(t, dir)["last/entities.tsv"])
	}
}

// If a run folder is removed while in use, no part of it reappears.
func TestFolderRemovedDuringTraining(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	for _, put := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "run")
		require.NoError(t, create(t, dir, data, traintest.Small(5)))
		r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
		require.NoError(t, err)
		err = r.Train(t.Context(), func(e Epoch) {
			if e.Epoch == 2 {
				require.NoError(t, os.RemoveAll(dir))
				if put {
					require.NoError(t, create(t, dir, data, traintest.Small(5)))
				}
			}
		})
		assert.EqualError(t, err, filepath.Join(dir, ConfigFile)+traintest.Gone)
		require.NoError(t, r.Close())
		if put {
			assert.Equal(t, []string{ConfigFile}, slices.Collect(maps.Keys(traintest.Contents(t, dir))))
		} else {
			assert.NoDirExists(t, dir)
		}
	}
}

// A run validates an epoch only because the epoch is the last, and is killed while it writes that
// epoch. It cannot be extended before the epoch is done: the repeated epoch would not be validated,
// and best/ would belong to an epoch without a validation.
func TestExtendAfterKillInLastEpoch(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	c := traintest.Small(3)
	c.ValidEvery, c.Patience = 2, 0
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, create(t, dir, data, c))
	var steps []map[string]string
	var last Epoch
	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	require.NoError(t, r.Train(t.Context(), func(e Epoch) {
		steps = append(steps, traintest.Contents(t, dir))
		last = e
	}))
	require.NoError(t, r.Close())
	require.True(t, last.Best, "the last epoch is the best, so it is in best/")

	killed := maps.Clone(steps[1])
	for name, text := range steps[2] {
		if strings.HasPrefix(name, "last/") || strings.HasPrefix(name, "best/") {
			killed[name] = text
		}
	}
	replaceAll(t, dir, killed)
	assert.ErrorContains(t, extend(t, dir, machineOf(t, 1), 6),
		dir+" was stopped while it wrote epoch 3, its last: finish it with")
	require.NoError(t, resume(t, dir))
	require.NoError(t, extend(t, dir, machineOf(t, 1), 6))
	require.NoError(t, resume(t, dir))
}
