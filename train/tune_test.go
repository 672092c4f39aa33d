package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train/recipe"
)

func space(t testing.TB, text string) *Space {
	t.Helper()
	s, err := ReadSpace(strings.NewReader(text), "x.yaml", recipe.Default())
	require.NoError(t, err)
	return s
}

// searched makes up to n jobs of a search with a fake training and lists them as trial@epochs.
func searched(t testing.TB, s *Search, n int, value func(trial, epochs int) float64) string {
	t.Helper()
	var jobs []string
	for range n {
		job, ok, err := s.Next()
		require.NoError(t, err)
		if !ok {
			return strings.Join(append(jobs, "end"), " ")
		}
		again, _, _ := s.Next()
		require.Equal(t, job, again)
		jobs = append(jobs, fmt.Sprintf("%d@%d", job.Trial, job.Epochs))
		v := value(job.Trial, job.Epochs)
		s.Report(job, v, math.IsInf(v, -1))
	}
	return strings.Join(jobs, " ")
}

func TestSearch(t *testing.T) {
	open := space(t, "dropout: {min: 0, max: 0.9}\n")
	// Values of trials 1, 2, … at any rung; the expectations are worked out by hand.
	values := []float64{0.1, 0.3, 0.2, 0.5, 0.4, 0.05, 0.05, 0.05, 0.6, 0.05}
	of := func(trial, _ int) float64 { return values[trial-1] }
	for _, test := range []struct {
		name  string
		rungs []int
		limit int
		jobs  int
		value func(trial, epochs int) float64
		want  string
	}{
		// Of 3 the best is 2; of 4 and 5 it is 4; of 6 the best two are 4 and 5. Then 2, 4 and 5 are at 3
		// epochs, and 4 is the best of them. 9 joins as the best of 9 and then the best of 4 at 3 epochs.
		{"thirds", []int{1, 3, 9}, 0, 16, of, "1@1 2@1 3@1 2@3 4@1 4@3 5@1 6@1 5@3 4@9 7@1 8@1 9@1 9@3 9@9 10@1"},
		{"no rungs", []int{9}, 3, 9, of, "1@9 2@9 3@9 end"},
		// At the end thirds are rounded up: 4 at 1 epoch are two, 2 at 3 epochs are one.
		{"limit", []int{1, 3, 9}, 4, 20, of, "1@1 2@1 3@1 2@3 4@1 4@3 4@9 end"},
		{"one trial", []int{1, 3}, 1, 20, of, "1@1 1@3 end"},
		// The value of a rung counts for that rung.
		{"overtaken", []int{1, 3, 9}, 6, 20, func(trial, epochs int) float64 {
			if epochs == 3 {
				return -values[trial-1]
			}
			return values[trial-1]
		}, "1@1 2@1 3@1 2@3 4@1 4@3 5@1 6@1 5@3 2@9 end"},
		// What failed goes no further, and counts as the last of its rung.
		{"failed", []int{1, 3}, 6, 20, func(trial, _ int) float64 {
			if trial%2 == 1 {
				return math.Inf(-1)
			}
			return values[trial-1]
		}, "1@1 2@1 3@1 2@3 4@1 4@3 5@1 6@1 end"},
		{"all failed", []int{1, 3}, 4, 20, func(int, int) float64 { return math.Inf(-1) }, "1@1 2@1 3@1 4@1 end"},
		// The earlier trial wins a tie.
		{"ties", []int{1, 3}, 3, 20, func(int, int) float64 { return 0.5 }, "1@1 2@1 3@1 1@3 end"},
	} {
		assert.Equal(t, test.want, searched(t, NewSearch(open, 1, test.rungs, test.limit), test.jobs, test.value), test.name)
	}
}

// A search makes each configuration once, ends when there is no other, and leaves out what does not fit together.
func TestSearchOfFiniteSpace(t *testing.T) {
	s := NewSearch(space(t, "dim: {min: 3, max: 5}\nloss: {choice: [softmax, bce]}\n"), 1, []int{1}, 0)
	assert.Equal(t, "1@1 2@1 3@1 4@1 5@1 6@1 end", searched(t, s, 99, func(int, int) float64 { return 0 }))
	seen := map[string]bool{}
	for _, c := range s.recipes {
		seen[fmt.Sprint(c.Dim, c.Loss)] = true
	}
	assert.Len(t, seen, 6)

	s = NewSearch(space(t, "negatives: independent\nfilter: {choice: [true, false]}\nz_samples: {choice: [0, 4]}\n"), 1, []int{1}, 0)
	assert.Equal(t, "1@1 2@1 3@1 end", searched(t, s, 99, func(int, int) float64 { return 0 }))
	for _, c := range s.recipes {
		assert.NoError(t, c.Check())
	}
	s = NewSearch(space(t, "negatives: independent\nz_samples: {choice: [3, 4]}\n"), 1, []int{1}, 0)
	_, _, err := s.Next()
	assert.ErrorContains(t, err, "no configuration of the space can be trained, in 1000 draws: z_samples: ")
}

func TestSearchSeeds(t *testing.T) {
	configs := func(seed uint64, text string) []recipe.Recipe {
		s := NewSearch(space(t, text), seed, []int{1}, 0)
		searched(t, s, 5, func(int, int) float64 { return 0 })
		return s.recipes
	}
	text := "dropout: {min: 0, max: 0.5}\nlearning_rate: {min: 1e-4, max: 1, scale: log}\n"
	assert.Equal(t, configs(1, text), configs(1, text))
	assert.NotEqual(t, configs(1, text)[0], configs(2, text)[0])
	turned := "learning_rate: {min: 1e-4, max: 1, scale: log}\ndropout: {min: 0, max: 0.5}\n"
	assert.Equal(t, configs(1, text), configs(1, turned), "the order of the file")
}

func TestRungs(t *testing.T) {
	for _, test := range []struct {
		epochs, every, n int
		want             []int
	}{
		{30, 1, 3, []int{4, 10, 30}},
		{30, 1, 1, []int{30}},
		{30, 1, 20, []int{1, 2, 4, 10, 30}},
		{27, 1, 4, []int{1, 3, 9, 27}},
		{30, 5, 3, []int{5, 10, 30}},
		{30, 20, 3, []int{20, 30}},
		{30, 40, 3, []int{30}},
		{1, 1, 3, []int{1}},
		{1_000_000, 1, 2, []int{333334, 1_000_000}},
	} {
		got, err := Rungs(recipe.Recipe{Epochs: test.epochs, ValidEvery: test.every}, test.n)
		require.NoError(t, err)
		assert.Equal(t, test.want, got, test)
	}
	_, err := Rungs(recipe.Recipe{Epochs: 3}, 3)
	assert.ErrorContains(t, err, "valid_every is 0")
}

// The draws of each kind of range have the distribution that the scale says, up to both ends.
func TestSpaceDraws(t *testing.T) {
	s := space(t, `
dim: {min: 3, max: 6}
batch: {min: 1, max: 1024, scale: log}
loss: {choice: [paper, softmax]}
dropout: {min: 0.1, max: 0.5}
learning_rate: {min: 1e-4, max: 1, scale: log}
`)
	assert.Equal(t, []string{"dim", "batch", "loss", "dropout", "learning_rate"}, s.Open())
	const n = 20_000
	dims, losses := map[int]int{}, map[recipe.Loss]int{}
	small, low, tenth := 0, 0, 0
	for trial := range n {
		c := s.draw(1, trial, 0)
		require.NoError(t, c.Check())
		dims[c.Dim]++
		losses[c.Loss]++
		require.True(t, c.Batch >= 1 && c.Batch <= 1024 && c.Dropout >= 0.1 && c.Dropout <= 0.5 && c.LearningRate >= 1e-4 && c.LearningRate <= 1)
		if c.Batch < 32 {
			small++
		}
		if c.Dropout < 0.2 {
			low++
		}
		if c.LearningRate < 1e-3 {
			tenth++
		}
	}
	near := func(want float64, got int) { assert.InDelta(t, want, float64(got)/n, 0.015) }
	assert.Len(t, dims, 4)
	for _, count := range dims {
		near(0.25, count)
	}
	near(0.5, losses["paper"])
	near(math.Log(32)/math.Log(1025), small)
	near(0.25, low)
	near(0.25, tenth)
	assert.Regexp(t, `^0\.\d{1,3}$`, dimension{min: 0.1, max: 0.5}.draw(rand.New(rand.NewPCG(1, 1))))
}

func TestReadSpace(t *testing.T) {
	s := space(t, "dim: 7\nbatch: {choice: [64, 128]}\nlearning_rate: {min: 1e-4, max: 1e-2, scale: log}\ndropout: {min: 0, max: 0.5, scale: linear}\n")
	assert.Equal(t, 7, s.fixed.Dim)
	assert.Equal(t, s, space(t, string(s.YAML())), "it reads what it writes")

	for text, want := range map[string]string{
		"dim: 7\nlerning_rate: {min: 1, max: 2}":     `x.yaml:2: unknown option "lerning_rate": the nearest is learning_rate`,
		"dim: {min: 3, max: 5}\n\ndim: 8":            "x.yaml:3: dim is set a second time, after line 1",
		"dropout:\n  min: 0\n  mx: 1":                `x.yaml:3: dropout: unknown key "mx": the nearest is max`,
		"dropout:\n  min: 0\n  min: 1":               "x.yaml:3: min is set a second time, after line 2",
		"dropout: {min: 0, max: 2}":                  `x.yaml:1: dropout "2": must be a number from 0 to 0.99`,
		"dim: {min: 3, max: 5.5}":                    `x.yaml:1: dim "5.5": must be a whole number`,
		"dropout: {min: 0.5, max: 0.5}":              "x.yaml:1: dropout: min 0.5 must be less than max 0.5",
		"dropout: {min: 0}":                          "x.yaml:1: dropout: needs a choice, or min and max",
		"dropout: {}":                                "x.yaml:1: dropout: needs a choice, or min and max",
		"dropout: {min: 0, max: 0.5, scale: log}":    "x.yaml:1: dropout: a log scale needs a min above 0, and it is 0",
		"dropout: {min: 0, max: 0.5, scale: exp}":    `x.yaml:1: dropout: scale "exp": choose from linear and log`,
		"dropout: {min: 0, max: 0.5, choice: [0.1]}": "x.yaml:1: dropout: choice stands alone",
		"dropout: {min: [0], max: 0.5}":              "x.yaml:1: dropout: min needs a single value",
		"dropout: {choice: 0.1}":                     "x.yaml:1: dropout: choice needs a list of values",
		"dropout: {choice: []}":                      "x.yaml:1: dropout: choice needs a list of values",
		"dropout: {choice: [0.1, [0.2]]}":            "x.yaml:1: dropout: a choice is a single value",
		"dropout: {choice: [0.1, 0.10]}":             "x.yaml:1: dropout: choice 0.1 is given twice",
		"loss: {choice: [softmax, hinge]}":           `x.yaml:1: loss "hinge": choose from softmax, paper, bce and margin`,
		"filter: {min: false, max: true}":            "x.yaml:1: filter: it has no range: give a list of values",
		"batch: [64, 128]":                           "x.yaml:1: batch needs a value, {choice: [a, b]} or",
		"epochs: {choice: [3, 4]}":                   "x.yaml:1: epochs needs a single value: trials must agree in it",
		"stop_metric: {choice: [mrr/both/all]}":      "x.yaml:1: stop_metric needs a single value",
		"dim: 7":                                     "x.yaml: every option has a single value, so there is nothing to search",
		"":                                           "x.yaml: every option has a single value",
		"- dim":                                      "x.yaml:1: a configuration is a list of lines",
	} {
		_, err := ReadSpace(strings.NewReader(text), "x.yaml", recipe.Default())
		assert.ErrorContains(t, err, want, text)
	}
}

// Whatever stands in a file, reading it ends with a space or with one sentence.
func FuzzReadSpace(f *testing.F) {
	f.Add("dim: 7\nloss: {choice: [paper]}\n")
	f.Add("dropout: {min: 0, max: 0.5, scale: log}\n")
	f.Add("clip: {choice: [inf, 1]}\na: &a {min: 1, max: 2}\ndim: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadSpace(strings.NewReader(text), "x.yaml", recipe.Default())
		if err != nil {
			if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "x.yaml") {
				t.Errorf("%q", err)
			}
			return
		}
		again, err := ReadSpace(strings.NewReader(string(s.YAML())), "y.yaml", recipe.Default())
		if err != nil {
			t.Fatalf("%v, of %s", err, s.YAML())
		}
		if s.draw(1, 1, 0) != again.draw(1, 1, 0) {
			t.Errorf("%q draws otherwise when it is read again", text)
		}
	})
}

const tuningSpace = "dim: {choice: [4, 6]}\nbatch: 128\nepochs: 5\ndecay: cosine\nlearning_rate: {min: 1e-3, max: 1e-1, scale: log}\n"

func createTuning(t testing.TB, text string, p Plan) string {
	t.Helper()
	p.Data = familiesFolder(t)
	dir := filepath.Join(t.TempDir(), "search")
	require.NoError(t, CreateTuning(dir, openGraph(t, p.Data), space(t, text), p))
	return dir
}

func openTuning(t testing.TB, dir string, m Machine) *Tuning {
	t.Helper()
	s, err := OpenTuning(t.Context(), dir, m)
	require.NoError(t, err)
	return s
}

// withoutTime returns a file of trials without the processor time.
func withoutTime(t testing.TB, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, trialsName))
	require.NoError(t, err)
	return regexp.MustCompile(`"processor_minutes":[^,}]*`).ReplaceAllString(string(data), "")
}

// A search that is interrupted at any place ends like one that is not, for any number of threads. Its
// trials are the trainings that they would be by themselves.
func TestTuning(t *testing.T) {
	plan := Plan{Seed: 3, Rungs: 2, Trials: 4}
	alone := createTuning(t, tuningSpace, plan)
	s := openTuning(t, alone, machineOf(t, 2))
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, s.Close())
	assert.Equal(t, []int{2, 5}, s.Rungs)

	dir := createTuning(t, tuningSpace, plan)
	for stop := 3; ; stop += 4 {
		ctx, cancel := context.WithCancel(t.Context())
		m, steps := machineOf(t, 1), 0
		m.Progress = func(Progress) {
			if steps++; steps == stop {
				cancel()
			}
		}
		s := openTuning(t, dir, m)
		err := s.Run(ctx)
		cancel()
		require.NoError(t, s.Close())
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	want := withoutTime(t, alone)
	assert.Equal(t, want, withoutTime(t, dir))
	assert.Equal(t, 6, strings.Count(want, "\n"), "four trials, of which two go on")
	assert.Regexp(t, `^\{"trial":1,"epochs":2,"options":\{"dim":[46],"learning_rate":0\.\d+\},"metric":"mrr/both/all","value":0\.\d+,"best_epoch":[12],\}\n`, want)
	for _, file := range []string{spaceName, bestConfigName} {
		assert.Equal(t, fileDigest(t, alone, file), fileDigest(t, dir, file), file)
	}

	// The best configuration by itself.
	best := s.Ranked()[0]
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
	run := trainIn(t, s.Plan.Data, c, machineOf(t, 2))
	for _, model := range outputs[:2] {
		assert.Equal(t, fileDigest(t, run, model), fileDigest(t, s.RunDir(best.Trial), model))
		assert.Equal(t, fileDigest(t, run, model), fileDigest(t, strings.Replace(s.RunDir(best.Trial), alone, dir, 1), model))
	}

	// A finished search does nothing more.
	s = openTuning(t, dir, machineOf(t, 1))
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, s.Close())
	assert.Equal(t, want, withoutTime(t, dir))
}

// The trials are written last: a search that ends before that does the job again, with what follows from it.
func TestTuningWritesTrialsLast(t *testing.T) {
	dir := createTuning(t, "dim: 4\nepochs: 1\nlearning_rate: {min: 1e-3, max: 1e-1, scale: log}\n", Plan{Seed: 3, Rungs: 1, Trials: 1})
	obstacle := filepath.Join(dir, bestConfigName)
	require.NoError(t, os.Mkdir(obstacle, 0o700))
	s := openTuning(t, dir, machineOf(t, 1))
	require.Error(t, s.Run(t.Context()))
	require.NoError(t, s.Close())

	require.NoError(t, os.Remove(obstacle))
	s = openTuning(t, dir, machineOf(t, 1))
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, s.Close())
	assert.FileExists(t, obstacle)
	assert.Equal(t, 1, strings.Count(withoutTime(t, dir), "\n"))
}

// A trial that blows up is a failed one, and the search goes on.
func TestTuningFailures(t *testing.T) {
	dir := createTuning(t, "optimiser: sgd\ndim: 9\nbatch: 128\nepochs: 2\nlearning_rate: {choice: [0.1, 1e3]}\n", Plan{Seed: 1, Rungs: 2})
	s := openTuning(t, dir, machineOf(t, 2))
	require.NoError(t, s.Run(t.Context()))
	ranked := s.Ranked()
	require.Len(t, ranked, 2)
	assert.Empty(t, ranked[0].Failed)
	assert.Equal(t, 0.1, s.Recipe(ranked[0].Trial).LearningRate)
	assert.Contains(t, ranked[1].Failed, "training blew up in epoch ")
	require.NoError(t, s.Close())
}

func TestOpenTuningRefuses(t *testing.T) {
	dir := createTuning(t, tuningSpace, Plan{Seed: 3, Rungs: 2, Trials: 2})
	open := func() error {
		s, err := OpenTuning(t.Context(), dir, machineOf(t, 1))
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
		{trialsName, "{", "trials.jsonl:1: this is not the line of a trial: restore the file"},
		{trialsName, `{"trial":7,"epochs":2}`, "trials.jsonl:1: trial 7 with 2 epochs is not what this search does next"},
		{spaceName, "dim: 3\n", "nothing to search"},
		{searchName, "data: x\nsed: 3\n", `search.yaml:2: unknown option "sed": the nearest is seed`},
	} {
		restore := change(test.file, test.text)
		err := open()
		assert.ErrorContains(t, err, test.want)
		restore()
	}
	s := openTuning(t, dir, machineOf(t, 1))
	require.EqualError(t, open(), "another process is at work in "+dir+": wait until it ends, or stop it")
	s.Begin = func(_ Job, r *Run) {
		_, err := OpenRun(t.Context(), r.Dir, machineOf(t, 1))
		assert.EqualError(t, err, "another process is at work in "+r.Dir+": wait until it ends, or stop it")
	}
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, s.Close())
	require.NoError(t, open())
	dir = t.TempDir()
	require.ErrorContains(t, open(), "is not the folder of a search: it has no search.yaml")
}
