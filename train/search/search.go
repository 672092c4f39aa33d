// Package search searches a space of training options for the options with the best results on the
// validation split.
//
// A Space defines the open options. A Folder runs the trials, and can resume after any interruption.
// Begin with ReadSpace, Create and Open.
package search

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mquine/mquine/train/recipe"
)

// scheduler decides which trial trains next, one at a time. The next job depends only on the space, the
// seed and the results so far, so a search with a larger budget begins with the same jobs as one with a
// smaller budget.
type scheduler struct {
	space *Space
	seed  uint64
	rungs []int // epochs, ascending
	limit int   // largest number of trials; 0 for no limit
	rule  int   // Plan.SameTrial

	recipes []recipe.Recipe        // recipe of trial i+1
	drawn   map[recipe.Recipe]bool // keys of the trials
	reached []map[int]*outcome     // outcomes of trial i+1, by epochs
}

// outcome is the result of a trial at a rung.
type outcome struct {
	value  float64
	failed bool
}

// Job is a request to train a new or promoted trial up to an epoch.
type Job struct {
	Trial  int // from 1
	Epochs int
	Recipe recipe.Recipe
}

// halving is the reduction factor: one in three trials is promoted, to three times as many epochs.
const halving = 3

// rungsOf returns the epochs of at most n rungs, in ascending order. The last rung is at the last
// epoch. Each earlier rung is at a third of the epochs of the next rung, rounded up to a validated
// epoch.
func rungsOf(c recipe.Recipe, n int) ([]int, error) {
	if c.ValidEvery == 0 {
		return nil, errors.New("valid_every is 0, but the search compares trials on the validation split: " +
			"set it to 1 or more")
	}
	rungs := []int{c.Epochs}
	for divisor := halving; len(rungs) < n && divisor <= halving*c.Epochs; divisor *= halving {
		epochs := (c.Epochs + divisor - 1) / divisor
		epochs = (epochs + c.ValidEvery - 1) / c.ValidEvery * c.ValidEvery
		if epochs < rungs[0] {
			rungs = slices.Insert(rungs, 0, epochs)
		}
	}
	return rungs, nil
}

// newScheduler returns a scheduler of the trials of a plan.
func newScheduler(space *Space, p *Plan, rungs []int) *scheduler {
	return &scheduler{
		space: space, seed: p.Seed, rungs: rungs, limit: p.Trials, rule: p.SameTrial, drawn: map[recipe.Recipe]bool{},
	}
}

// key returns a recipe that is the same for all recipes that are the same trial.
func (s *scheduler) key(c recipe.Recipe) recipe.Recipe {
	key := c.Effective()
	if s.rule == 0 {
		key.Decay, key.Patience, key.EMA = c.Decay, c.Patience, c.EMA
	}
	return key
}

// next returns the next job, or false if the search is complete. It returns the same job until
// report records it.
func (s *scheduler) next() (Job, bool, error) {
	if job, ok := s.promotion(false); ok {
		return job, true, nil
	}
	if s.limit == 0 || len(s.recipes) < s.limit {
		c, ok, err := s.draw()
		if ok || err != nil {
			return Job{len(s.recipes) + 1, s.rungs[0], c}, ok, err
		}
	}
	// There are no new trials: round the third up so that at least one trial reaches the last rung.
	job, ok := s.promotion(true)
	return job, ok, nil
}

// Draws is the number of recipes that a search draws before it gives up looking for a new valid
// one.
const Draws = 1000

// draw returns the recipe of the next trial, or false if it finds no new one. A recipe that differs
// from an earlier one only in options without effect is not new.
func (s *scheduler) draw() (recipe.Recipe, bool, error) {
	for try := range Draws {
		c := s.space.draw(s.seed, len(s.recipes)+1, try)
		if s.space.check(&c) == nil && !s.drawn[s.key(c)] {
			return c, true, nil
		}
	}
	if len(s.recipes) == 0 {
		return recipe.Recipe{}, false,
			fmt.Errorf("none of %d recipes drawn from the space is valid: %w", Draws, s.space.invalid(s.seed))
	}
	return recipe.Recipe{}, false, nil
}

// promotion returns the next promotion, or false if there is none. It considers the highest rung
// first. Of the n trials at a rung, n/3 are promoted, rounded down or up.
func (s *scheduler) promotion(roundUp bool) (Job, bool) {
	for k := len(s.rungs) - 2; k >= 0; k-- {
		here, next := s.rungs[k], s.rungs[k+1]
		trials := s.ranked(here)
		n := len(trials)
		if roundUp {
			n += halving - 1
		}
		for _, i := range trials[:n/halving] {
			if s.reached[i][next] == nil && !s.reached[i][here].failed {
				return Job{i + 1, next, s.recipes[i]}, true
			}
		}
	}
	return Job{}, false
}

// ranked returns the indices of the trials that have reached a rung, best first and failed trials
// last.
func (s *scheduler) ranked(rung int) []int {
	var trials []int
	for i := range s.reached {
		if s.reached[i][rung] != nil {
			trials = append(trials, i)
		}
	}
	slices.SortStableFunc(trials, func(i, j int) int {
		switch a, b := s.reached[i][rung], s.reached[j][rung]; {
		case a.failed == b.failed:
			return cmp.Compare(b.value, a.value)
		case a.failed:
			return 1
		default:
			return -1
		}
	})
	return trials
}

// report records the result of the job that next returned: the value of the validation metric,
// where larger is better, or that the run failed. A failed trial is not promoted.
func (s *scheduler) report(job Job, value float64, failed bool) {
	if job.Trial > len(s.recipes) {
		s.recipes = append(s.recipes, job.Recipe)
		s.drawn[s.key(job.Recipe)] = true
		s.reached = append(s.reached, map[int]*outcome{})
	}
	s.reached[job.Trial-1][job.Epochs] = &outcome{value, failed}
}
