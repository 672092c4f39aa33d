package search

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train/recipe"
)

// searched runs up to n jobs of a search with made-up results, and lists the jobs as trial@epochs.
func searched(t testing.TB, s *scheduler, n int, value func(trial, epochs int) float64) string {
	t.Helper()
	var jobs []string
	for range n {
		job, ok, err := s.next()
		require.NoError(t, err)
		if !ok {
			return strings.Join(append(jobs, "end"), " ")
		}
		again, _, _ := s.next()
		require.Equal(t, job, again)
		jobs = append(jobs, fmt.Sprintf("%d@%d", job.Trial, job.Epochs))
		v := value(job.Trial, job.Epochs)
		s.report(job, v, math.IsInf(v, -1))
	}
	return strings.Join(jobs, " ")
}

func TestSearch(t *testing.T) {
	open := space(t, "dropout: {min: 0, max: 0.9}\n")
	// values holds the values of trials 1, 2, … at any rung. The expectations are computed by hand.
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
		// The best of 3 trials is trial 2, the best of 4 and of 5 trials is trial 4, and the best
		// two of 6 are trials 4 and 5. Then trials 2, 4 and 5 are at 3 epochs, and trial 4 is the
		// best of them. Trial 9 is promoted as the best of 9 trials, and then as the best of 4 at 3
		// epochs.
		{"thirds", []int{1, 3, 9}, 0, 16, of, "1@1 2@1 3@1 2@3 4@1 4@3 5@1 6@1 5@3 4@9 7@1 8@1 9@1 9@3 9@9 10@1"},
		{"no rungs", []int{9}, 3, 9, of, "1@9 2@9 3@9 end"},
		// At the end, thirds are rounded up: two of 4 at 1 epoch, one of 2 at 3 epochs.
		{"limit", []int{1, 3, 9}, 4, 20, of, "1@1 2@1 3@1 2@3 4@1 4@3 4@9 end"},
		{"one trial", []int{1, 3}, 1, 20, of, "1@1 1@3 end"},
		// Each rung has its own values.
		{"overtaken", []int{1, 3, 9}, 6, 20, func(trial, epochs int) float64 {
			if epochs == 3 {
				return -values[trial-1]
			}
			return values[trial-1]
		}, "1@1 2@1 3@1 2@3 4@1 4@3 5@1 6@1 5@3 2@9 end"},
		// A failed trial ranks last at its rung and is not promoted.
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
		s := newScheduler(open, &Plan{Seed: 1, Trials: test.limit}, test.rungs)
		assert.Equal(t, test.want, searched(t, s, test.jobs, test.value), test.name)
	}
}

// A search draws each recipe once, skips invalid recipes, and ends when there are no more.
func TestSearchOfFiniteSpace(t *testing.T) {
	plan := &Plan{Seed: 1, SameTrial: sameTrial}
	s := newScheduler(space(t, "dim: {min: 3, max: 5}\nloss: {choice: [softmax, bce]}\n"), plan, []int{1})
	assert.Equal(t, "1@1 2@1 3@1 4@1 5@1 6@1 end", searched(t, s, 99, func(int, int) float64 { return 0 }))
	seen := map[string]bool{}
	for _, c := range s.recipes {
		seen[fmt.Sprint(c.Dim, c.Loss)] = true
	}
	assert.Len(t, seen, 6)

	some := space(t, "negatives: independent\nfilter: {choice: [true, false]}\nz_samples: {choice: [0, 4]}\n")
	s = newScheduler(some, plan, []int{1})
	assert.Equal(t, "1@1 2@1 3@1 end", searched(t, s, 99, func(int, int) float64 { return 0 }))
	for _, c := range s.recipes {
		assert.NoError(t, c.Check())
	}
	// Recipes that differ only in options without effect are the same: 1vsall ignores negative_count.
	text := "negatives: {choice: [1vsall, shared]}\nnegative_count: {choice: [16, 64, 256]}\n"
	s = newScheduler(space(t, text), plan, []int{1})
	assert.Equal(t, "1@1 2@1 3@1 4@1 end", searched(t, s, 99, func(int, int) float64 { return 0 }))

	// A search from an earlier version keeps the trials that no rule called the same.
	text = "epochs: 2\nwarmup: 3\ndecay: {choice: [none, linear]}\nema: {choice: [0.4, 0.8, 0.9]}\n"
	for rule, want := range []string{"1@1 2@1 3@1 4@1 5@1 6@1 end", "1@1 2@1 end"} {
		s = newScheduler(space(t, text), &Plan{Seed: 1, SameTrial: rule}, []int{1})
		assert.Equal(t, want, searched(t, s, 99, func(int, int) float64 { return 0 }))
	}

	s = newScheduler(space(t, "negatives: independent\nz_samples: {choice: [3, 4]}\n"), plan, []int{1})
	_, _, err := s.next()
	assert.ErrorContains(t, err, "none of 1000 recipes drawn from the space is valid: z_samples: ")
}

func TestSearchSeeds(t *testing.T) {
	configs := func(seed uint64, text string) []recipe.Recipe {
		s := newScheduler(space(t, text), &Plan{Seed: seed, SameTrial: sameTrial}, []int{1})
		searched(t, s, 5, func(int, int) float64 { return 0 })
		return s.recipes
	}
	text := "dropout: {min: 0, max: 0.5}\nlearning_rate: {min: 1e-4, max: 1, scale: log}\n"
	assert.Equal(t, configs(1, text), configs(1, text))
	assert.NotEqual(t, configs(1, text)[0], configs(2, text)[0])
	turned := "learning_rate: {min: 1e-4, max: 1, scale: log}\ndropout: {min: 0, max: 0.5}\n"
	assert.Equal(t, configs(1, text), configs(1, turned), "the order in the file does not matter")
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
		got, err := rungsOf(recipe.Recipe{Epochs: test.epochs, ValidEvery: test.every}, test.n)
		require.NoError(t, err)
		assert.Equal(t, test.want, got, test)
	}
	_, err := rungsOf(recipe.Recipe{Epochs: 3}, 3)
	assert.ErrorContains(t, err, "valid_every is 0")
}
