// Package search looks for the best options of a training among those that a space leaves open, by the validation split
// alone.
package search

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mquine/mquine/train/recipe"
)

// Search looks for the best configuration of a space by random search with asynchronous successive
// halving (ASHA, Li et al. 2020), one trial after another: every trial trains to the first rung, and
// the best third of those that have come to a rung go on to the next. What is next depends
// on the space, the seed and the results so far and on nothing else, so that a search with a larger budget
// begins like one with a smaller.
type Search struct {
	space *Space
	seed  uint64
	rungs []int // epochs, ascending
	limit int   // of trials; 0 for none

	recipes []recipe.Recipe    // of trial i+1
	reached []map[int]*outcome // by epochs, of trial i+1
}

// outcome is how a trial did at a rung.
type outcome struct {
	value  float64
	failed bool
}

// Job is what a search wants next: a trial, new or going on, up to an epoch.
type Job struct {
	Trial  int // from 1
	Epochs int
	Recipe recipe.Recipe
}

// halving is how many trials of a rung there are for one of the next, and how many times as many epochs.
const halving = 3

// Rungs returns the epochs of at most n rungs: the last has all epochs, each other a third of the next,
// rounded up to a validated epoch.
func Rungs(c recipe.Recipe, n int) ([]int, error) {
	if c.ValidEvery == 0 {
		return nil, errors.New("valid_every is 0: trials are compared by the validation split, so set it to 1 or more")
	}
	rungs := []int{c.Epochs}
	for share := halving; len(rungs) < n && share <= halving*c.Epochs; share *= halving {
		epochs := (c.Epochs + share - 1) / share
		epochs = (epochs + c.ValidEvery - 1) / c.ValidEvery * c.ValidEvery
		if epochs < rungs[0] {
			rungs = slices.Insert(rungs, 0, epochs)
		}
	}
	return rungs, nil
}

// NewSearch begins a search of at most limit trials, or of any number if limit is 0.
func NewSearch(space *Space, seed uint64, rungs []int, limit int) *Search {
	return &Search{space: space, seed: seed, rungs: rungs, limit: limit}
}

// Next returns the next job, or false if there is none: all trials that may be are, and none is
// left to go on. It returns the same job until that is reported.
func (s *Search) Next() (Job, bool, error) {
	if job, ok := s.promotion(false); ok {
		return job, true, nil
	}
	if s.limit == 0 || len(s.recipes) < s.limit {
		c, ok, err := s.draw()
		if ok || err != nil {
			return Job{len(s.recipes) + 1, s.rungs[0], c}, ok, err
		}
	}
	// With no trial to come, a third is rounded up, so that one goes all the way.
	job, ok := s.promotion(true)
	return job, ok, nil
}

// draws is how often a configuration is drawn that fits together and is new.
const draws = 1000

func (s *Search) draw() (recipe.Recipe, bool, error) {
	var reason error
	for try := range draws {
		c := s.space.draw(s.seed, len(s.recipes)+1, try)
		if err := c.Check(); err != nil {
			reason = err
			continue
		}
		if !slices.Contains(s.recipes, c) {
			return c, true, nil
		}
	}
	if len(s.recipes) == 0 {
		return recipe.Recipe{}, false, fmt.Errorf("no configuration of the space can be trained, in %d draws: %w",
			draws, reason)
	}
	return recipe.Recipe{}, false, nil
}

// promotion looks for a trial that is to go on, from the highest rung down.
func (s *Search) promotion(roundUp bool) (Job, bool) {
	for k := len(s.rungs) - 2; k >= 0; k-- {
		here, next := s.rungs[k], s.rungs[k+1]
		var trials []int
		for i := range s.reached {
			if s.reached[i][here] != nil {
				trials = append(trials, i)
			}
		}
		slices.SortStableFunc(trials, func(i, j int) int {
			a, b := s.reached[i][here], s.reached[j][here]
			if a.failed != b.failed {
				return map[bool]int{true: 1, false: -1}[a.failed]
			}
			return cmp.Compare(b.value, a.value)
		})
		best := len(trials)
		if roundUp {
			best += halving - 1
		}
		for _, i := range trials[:best/halving] {
			if s.reached[i][next] == nil && !s.reached[i][here].failed {
				return Job{i + 1, next, s.recipes[i]}, true
			}
		}
	}
	return Job{}, false
}

// Report records how the job that Next returned ended: the validation metric, of which more is better, or
// that the training failed, after which it goes no further.
func (s *Search) Report(job Job, value float64, failed bool) {
	if job.Trial > len(s.recipes) {
		s.recipes = append(s.recipes, job.Recipe)
		s.reached = append(s.reached, map[int]*outcome{})
	}
	s.reached[job.Trial-1][job.Epochs] = &outcome{value, failed}
}
