package search

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
	"github.com/mquine/mquine/train/run"
)

const folderSpace = "dim: {choice: [4, 6]}\nbatch: 128\nepochs: 5\ndecay: cosine\n" +
	"learning_rate: {min: 1e-3, max: 1e-1, scale: log}\n"

func createFolder(t testing.TB, text string, p Plan) string {
	t.Helper()
	p.Data = traintest.FamiliesFolder(t)
	dir := filepath.Join(t.TempDir(), "search")
	require.NoError(t, Create(dir, traintest.OpenGraph(t, p.Data), space(t, text), p))
	return dir
}

func openFolder(t testing.TB, dir string, m train.Machine) *Folder {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{Machine: m})
	require.NoError(t, err)
	return s
}

// withoutTime returns trials.jsonl without the processor times.
func withoutTime(t testing.TB, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, trialsName))
	require.NoError(t, err)
	return regexp.MustCompile(`"processor_minutes":[^,}]*`).ReplaceAllString(string(data), "")
}

// A search that is interrupted at any point ends like an uninterrupted one, for any number of threads.
// Its trials have the same results as ordinary runs.
func TestFolder(t *testing.T) {
	plan := Plan{Seed: 3, Rungs: 2, Trials: 4}
	alone := createFolder(t, folderSpace, plan)
	s := openFolder(t, alone, machineOf(t, 2))
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, s.Close())
	assert.Equal(t, []int{2, 5}, s.Rungs)

	dir, shown := createFolder(t, folderSpace, plan), 0 // times that the plot shows an interrupted trial
	for stop := 3; ; stop += 4 {
		ctx, cancel := context.WithCancel(t.Context())
		m, steps := machineOf(t, 1), 0
		m.Progress = func(train.Progress) {
			if steps++; steps == stop {
				cancel()
			}
		}
		s := openFolder(t, dir, m)
		err := s.Run(ctx)
		cancel()
		require.NoError(t, s.Close())
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		if picture, err := os.ReadFile(filepath.Join(dir, trialsPlotName)); err == nil {
			shown += strings.Count(string(picture), ", interrupted: mrr/both/all 0.")
		}
	}
	assert.Positive(t, shown)
	want := withoutTime(t, alone)
	assert.Equal(t, want, withoutTime(t, dir))
	assert.Equal(t, 6, strings.Count(want, "\n"), "four trials, and two are promoted")
	assert.Regexp(t, `^\{"trial":1,"epochs":2,"options":\{"dim":[46],"learning_rate":0\.\d+\},`+
		`"metric":"mrr/both/all","value":0\.\d+,"best_epoch":[12],\}\n`, want)
	for _, file := range []string{spaceName, bestConfigName, trialsPlotName} {
		assert.Equal(t, traintest.Digest(t, alone, file), traintest.Digest(t, dir, file), file)
	}

	// Train an ordinary run with the best recipe.
	best := s.Ranked()[0]
	bestRun, err := BestRun(t.Context(), alone)
	require.NoError(t, err)
	assert.Equal(t, s.RunDir(best.Trial), bestRun)
	for _, trial := range s.trials {
		assert.LessOrEqual(t, trial.Value, best.Value)
	}
	assert.Equal(t, 5, best.Epochs)
	c := recipe.Default()
	file, err := os.Open(filepath.Join(dir, bestConfigName))
	require.NoError(t, err)
	defer file.Close()
	_, err = c.Read(file, bestConfigName)
	require.NoError(t, err)
	assert.Equal(t, s.Recipe(best.Trial), c)
	byItself := filepath.Join(t.TempDir(), "run")
	require.NoError(t, run.Create(byItself, s.Plan.Data, s.Graph, c))
	require.NoError(t, takeOn(t, byItself))
	for _, model := range []string{"last/model.safetensors", "best/model.safetensors"} {
		assert.Equal(t, traintest.Digest(t, byItself, model), traintest.Digest(t, s.RunDir(best.Trial), model))
		trial := strings.Replace(s.RunDir(best.Trial), alone, dir, 1)
		assert.Equal(t, traintest.Digest(t, byItself, model), traintest.Digest(t, trial, model))
	}

	// A finished search has no more jobs.
	s = openFolder(t, dir, machineOf(t, 1))
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, s.Close())
	assert.Equal(t, want, withoutTime(t, dir))
}

// The trials are written last. A search that stops before it has written them repeats the job and
// writes the other files again.
func TestFolderWritesTrialsLast(t *testing.T) {
	dir := createFolder(t, "dim: 4\nepochs: 1\nlearning_rate: {min: 1e-3, max: 1e-1, scale: log}\n",
		Plan{Seed: 3, Rungs: 1, Trials: 1})
	obstacle := filepath.Join(dir, bestConfigName)
	require.NoError(t, os.Mkdir(obstacle, 0o700))
	s := openFolder(t, dir, machineOf(t, 1))
	require.Error(t, s.Run(t.Context()))
	require.NoError(t, s.Close())

	require.NoError(t, os.Remove(obstacle))
	s = openFolder(t, dir, machineOf(t, 1))
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, s.Close())
	assert.FileExists(t, obstacle)
	assert.Equal(t, 1, strings.Count(withoutTime(t, dir), "\n"))
}

// A trial that diverges before the first rung counts as failed, and the search continues.
func TestFolderFailures(t *testing.T) {
	dir := createFolder(t, "optimiser: sgd\ndim: 9\nbatch: 128\nepochs: 2\nlearning_rate: {choice: [0.1, 1e3]}\n",
		Plan{Seed: 1, Rungs: 2})
	s := openFolder(t, dir, machineOf(t, 2))
	require.NoError(t, s.Run(t.Context()))
	ranked := s.Ranked()
	require.Len(t, ranked, 2)
	assert.Empty(t, ranked[0].Failed)
	assert.Equal(t, 0.1, s.Recipe(ranked[0].Trial).LearningRate)
	assert.Contains(t, ranked[1].Failed, "training diverged in epoch ")
	require.NoError(t, s.Close())
}

// manyNegatives gives batches of 128 triples too many pairs, but not batches of 8.
const manyNegatives = "negatives: independent\nnegative_count: {choice: [8, 16777216]}\n" +
	"answer_weights: false\nmax_answers: 0\nepochs: 1\n"

// A search draws no recipe whose steps have too many pairs.
func TestSearchOfManyNegatives(t *testing.T) {
	dir := createFolder(t, "batch: {choice: [8, 128]}\n"+manyNegatives, Plan{Seed: 1, Rungs: 1})
	f := openFolder(t, dir, machineOf(t, 1))
	defer f.Close()
	drawn := map[[2]int]bool{}
	for {
		job, ok, err := f.scheduler.next()
		require.NoError(t, err)
		if !ok {
			break
		}
		drawn[[2]int{job.Recipe.Batch, job.Recipe.NegativeCount}] = true
		f.scheduler.report(job, 0, false)
	}
	assert.Equal(t, map[[2]int]bool{{8, 8}: true, {128, 8}: true, {8, 1 << 24}: true}, drawn)
}

// Without validation triples, a search refuses the data set, whether or not its trials would validate.
func TestCreateNeedsValidation(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	require.NoError(t, os.Remove(filepath.Join(data, "valid.txt")))
	base, err := recipe.DefaultFor("mquine")
	require.NoError(t, err)
	for _, every := range []string{"0", "1"} {
		text := "dim: {min: 2, max: 9}\nvalid_every: " + every + "\n"
		s, err := ReadSpace(strings.NewReader(text), "x.yaml", base)
		require.NoError(t, err)
		err = Create(filepath.Join(t.TempDir(), "search"), traintest.OpenGraph(t, data), s, Plan{Data: data, Rungs: 1})
		assert.EqualError(t, err, "data set "+filepath.Base(data)+" has no validation triples, but the search "+
			"compares trials on the validation split: use a data set with this split (\"mquine data split\" makes one)")
	}
}

// A plan that Open would refuse is refused before the folder exists.
func TestCreateChecksThePlan(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	dir := filepath.Join(t.TempDir(), "search")
	for want, p := range map[string]Plan{
		`data "": must be the name of a data set`:      {Rungs: 1},
		`rungs "-3": must be a whole number from 0 to`: {Data: data, Rungs: -3},
		`trials "-1": must be a whole number from`:     {Data: data, Rungs: 1, Trials: -1},
		`budget "-1s": must be a time such as`:         {Data: data, Rungs: 1, Budget: -time.Second},
	} {
		err := Create(dir, traintest.OpenGraph(t, data), space(t, resumeSpace), p)
		assert.ErrorContains(t, err, want)
		assert.NoDirExists(t, dir)
	}
}

// A search refuses a choice that no valid recipe has, and says why. It skips other invalid recipes.
func TestCreateRefusesChoices(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	base, err := recipe.DefaultFor("mquine")
	require.NoError(t, err)
	create := func(text string) error {
		s, err := ReadSpace(strings.NewReader(text), "x.yaml", base)
		require.NoError(t, err)
		return Create(filepath.Join(t.TempDir(), "search"), traintest.OpenGraph(t, data), s, Plan{Data: data, Rungs: 1})
	}
	const never = "the search would never try %s, because none of 1000 recipes drawn with it is valid (%s"
	for text, want := range map[string]string{
		"model: {choice: [mquine, transe-l1]}\n": fmt.Sprintf(never, "model: transe-l1",
			"regulariser: model transe-l1 does not support dura: "),
		"dim: {min: 2, max: 9}\nnegatives: {choice: [kvsall, 1vsall]}\n": fmt.Sprintf(never, "negatives: 1vsall",
			"answer_weights needs negatives kvsall"),
		"batch: 128\n" + manyNegatives: fmt.Sprintf(never,
			"negative_count: 16777216", "batches of 128 triples with 16777216 independent negatives have "),
		"model: transe-l1\ndim: {min: 2, max: 9}\n": "none of 1000 recipes drawn from the space is valid: " +
			"regulariser: ",
	} {
		assert.ErrorContains(t, create(text), want, text)
	}
	require.NoError(t, create("model: {choice: [mquine, transe-l1]}\nregulariser: {choice: [dura, none]}\n"))
	require.NoError(t, create("batch: {choice: [8, 128]}\n"+manyNegatives))
}

// A new search refuses a range in which all draws have the same value. A search from an earlier version
// may have such a range.
func TestCreateRefusesRanges(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	for text, want := range map[string]string{
		"beta2: {min: 0.9991, max: 0.9994}\n": "beta2: a search rounds draws to three significant digits, so it " +
			"would only try 0.9991 between min 0.9991 and max 0.9994: widen the range, or list values, as in " +
			"{choice: [0.9991, 0.9994]}",
		"learning_rate: {min: 0.0123401, max: 0.0123402, scale: log}\n": "so it would only try 0.0123401 between",
		"beta2: {min: 0.9991, max: 0.9996}\n":                           "",
		"batch: {min: 12345, max: 12346}\n":                             "",
	} {
		s := space(t, "dim: {choice: [3, 4]}\n"+text)
		err := Create(filepath.Join(t.TempDir(), "search"), traintest.OpenGraph(t, data), s, Plan{Data: data, Rungs: 1})
		if want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := createFolder(t, folderSpace, Plan{Seed: 3, Rungs: 2, Trials: 2})
	open := func() error {
		s, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
		if err != nil {
			return err
		}
		return s.Close()
	}
	require.NoError(t, open())
	change := func(name, text string) func() {
		path := filepath.Join(dir, name)
		before, err := os.ReadFile(path)
		if err != nil {
			before = nil
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return func() { require.NoError(t, os.WriteFile(path, before, 0o600)) }
	}
	for _, test := range []struct{ file, text, want string }{
		{trialsName, "{", "trials.jsonl:1: this line does not describe a trial: restore the file"},
		{trialsName, `{"trial":7,"epochs":2}`,
			"trials.jsonl:1: trial 7 with 2 epochs is not the next job of this search"},
		{spaceName, "dim: 3\n", "nothing to search"},
		{run.SearchFile, "data: x\nsed: 3\n", `search.yaml:2: unknown option "sed": the nearest is seed`},
	} {
		restore := change(test.file, test.text)
		err := open()
		assert.ErrorContains(t, err, test.want)
		restore()
	}
	s := openFolder(t, dir, machineOf(t, 1))
	require.EqualError(t, open(), "another process is using "+dir+": wait until it ends, or stop it")
	s.Begin = func(_ Job, r *run.Run) {
		_, err := run.Open(t.Context(), r.Dir, run.Options{Machine: machineOf(t, 1)})
		assert.EqualError(t, err, "another process is using "+r.Dir+": wait until it ends, or stop it")
	}
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, s.Close())
	require.NoError(t, open())
	dir = t.TempDir()
	require.ErrorContains(t, open(), "is not the folder of a search: it has no search.yaml")
}

func machineOf(t testing.TB, threads int) train.Machine {
	return train.Machine{Backend: traintest.Backend(t), Threads: threads}
}

// takeOn opens the run of a trial and trains it to its end.
func takeOn(t testing.TB, dir string) error {
	t.Helper()
	r, err := run.Open(t.Context(), dir, run.Options{Machine: machineOf(t, 1)})
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Train(t.Context(), func(run.Epoch) {})
}

// Opening a search removes the temporary files of killed processes and nothing else.
func TestOpenKeepsHiddenFiles(t *testing.T) {
	dir := createFolder(t, folderSpace, Plan{Seed: 3, Rungs: 1, Trials: 1})
	traintest.WriteFiles(t, dir, ".git/HEAD", ".gitignore", traintest.Litter)
	require.NoError(t, openFolder(t, dir, machineOf(t, 1)).Close())
	files := traintest.Contents(t, dir)
	assert.Contains(t, files, ".git/HEAD")
	assert.Contains(t, files, ".gitignore")
	assert.NotContains(t, files, traintest.Litter)
}

// A trial that diverges after a rung keeps its result at the rung, and can be the best trial.
func TestFolderFailureAfterRung(t *testing.T) {
	const text = "optimiser: sgd\nwarmup: 6\ndim: 9\nbatch: 128\nepochs: 6\nlearning_rate: {choice: [%s]}\n"
	for _, rates := range []string{"30", "3, 30"} {
		dir := createFolder(t, fmt.Sprintf(text, rates), Plan{Seed: 1, Rungs: 2})
		s := openFolder(t, dir, machineOf(t, 2))
		require.NoError(t, s.Run(t.Context()))
		assert.NoError(t, s.Err())
		best := s.Ranked()[0]
		assert.Equal(t, 30., s.Recipe(best.Trial).LearningRate)
		assert.Equal(t, 2, best.Epochs)
		assert.Empty(t, best.Failed)
		assert.Positive(t, best.Value)
		assert.Contains(t, s.Failure(best.Trial), "training diverged in epoch ")
		require.NoError(t, s.Close())

		bestRun, err := BestRun(t.Context(), dir)
		require.NoError(t, err)
		assert.Equal(t, s.RunDir(best.Trial), bestRun)
		assert.DirExists(t, filepath.Join(bestRun, "best"))
		file, err := os.ReadFile(filepath.Join(dir, bestConfigName))
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(file), "\n")
		assert.Equal(t, fmt.Sprintf("# trial %d of a search on families: mrr/both/all %.4f on the validation split, "+
			"with 2 of 6 epochs, before it diverged", best.Trial, best.Value), first)
	}
}
