package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/train/internal/workdir"
	"github.com/mquine/mquine/train/recipe"
)

// Extend gives the run in a folder another number of epochs, more than are done, so that Open goes on with a
// finished one. The parameters are then those of a training that had that number from the start.
// Where they would not be, it is an error: a learning rate that falls towards the last epoch, a run that
// has stopped early, or one whose patience would count the validation of an epoch that was the last. A trial
// of a search keeps its epochs too, by which trials are compared. Extend rewrites config.yaml.
func Extend(ctx context.Context, dir string, epochs int) (err error) {
	r := &Run{Dir: filepath.Clean(dir)}
	if _, err := r.read(ctx); err != nil || epochs == r.Recipe.Epochs {
		return err
	}
	if search := searchOf(r.Dir); search != "" {
		return fmt.Errorf("%s is a trial of the search in %s, all of which have %d epochs: copy it to another "+
			"folder, and give that one more epochs",
			r.Dir, search, r.Recipe.Epochs)
	}
	if err := r.checkExtension(r.Recipe.Epochs, epochs); err != nil {
		return err
	}
	if r.lock, err = workdir.Acquire(r.path(ConfigFile)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data, err := r.read(ctx) // it may have gone on before the lock
	if err != nil {
		return err
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	if err := r.checkExtension(r.Recipe.Epochs, epochs); err != nil {
		return err
	}
	r.Recipe.Epochs = epochs
	text, err := configText(data, r.Recipe)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(r.path(ConfigFile), text)
}

// checkExtension says why a run that has trained so far with a number of epochs cannot go on with another.
func (r *Run) checkExtension(from, to int) error {
	c := &r.Recipe
	outOfTurn := c.ValidEvery > 0 && from%c.ValidEvery != 0 // the validation of the last epoch
	if outOfTurn && r.progress.epoch == from-1 {
		best, err := r.checkpointMetadata(bestName)
		if err != nil {
			return err
		}
		if best["epoch"] == strconv.Itoa(from) {
			return fmt.Errorf("%s was stopped while it wrote epoch %d, its last: "+
				"finish it with mquine train --resume %[1]s, and give it more epochs then", r.Dir, from)
		}
	}
	switch {
	case c.Decay != recipe.NoDecay:
		return fmt.Errorf("the learning rate of %s falls to 0 over its %d epochs (decay: %s), and %d make another training: "+
			"start one with --epochs %d", r.Dir, from, c.Decay, to, to)
	case r.progress.stopped != "":
		return fmt.Errorf("%s has %s: it takes no more epochs", r.Dir, r.progress.stopped)
	case to <= r.progress.epoch:
		return fmt.Errorf("%s has %d epochs already: give it more than that", r.Dir, r.progress.epoch)
	case c.Patience > 0 && outOfTurn && r.progress.epoch == from:
		return fmt.Errorf("%s was validated out of turn after epoch %d, the last (valid_every: %d), "+
			"which patience would count: start another training with --epochs %d", r.Dir, from, c.ValidEvery, to)
	}
	return nil
}
