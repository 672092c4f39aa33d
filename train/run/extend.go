package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/workdir"
	"github.com/mquine/mquine/train/recipe"
)

// changeEpochs changes the number of epochs of the run in dir and rewrites ConfigFile. It returns the data set
// for Open, because it reads it to check that the run can continue. If the run has this number of epochs
// already, changeEpochs does not read the data set.
func changeEpochs(ctx context.Context, dir string, o Options) (*kg.Graph, error) {
	r := &Run{Dir: filepath.Clean(dir), Graph: o.Graph}
	if err := r.changeEpochs(ctx, o); err != nil {
		return nil, err
	}
	return r.Graph, nil
}

func (r *Run) changeEpochs(ctx context.Context, o Options) (err error) {
	if _, err := r.read(ctx); err != nil || o.Epochs == r.Recipe.Epochs {
		return err
	}
	if err := r.Recipe.CheckBackend(o.Backend); err != nil {
		return err
	}
	if search := searchOf(r.Dir); search != "" {
		return fmt.Errorf("%s is a trial of the search in %s, whose trials all have %d epochs: "+
			"copy it to another folder, and extend the copy",
			r.Dir, search, r.Recipe.Epochs)
	}
	if err := r.checkExtension(r.Recipe.Epochs, o.Epochs); err != nil {
		return err
	}
	if r.lock, err = workdir.Acquire(r.path(ConfigFile)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data, err := r.read(ctx) // again, because the file may have changed before the folder was locked
	if err != nil {
		return err
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	if err := r.checkExtension(r.Recipe.Epochs, o.Epochs); err != nil {
		return err
	}
	r.Recipe.Epochs = o.Epochs
	if err := r.openData(ctx, data, o); err != nil {
		return err
	}
	if err := train.CheckMemory(ctx, r.Graph, o.Machine, r.Recipe); err != nil {
		return err
	}
	text, err := configText(data, r.Recipe)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(r.path(ConfigFile), text)
}

// checkExtension returns an error if the number of epochs cannot change between the given values.
func (r *Run) checkExtension(from, to int) error {
	c := &r.Recipe
	outOfTurn := c.ValidEvery > 0 && from%c.ValidEvery != 0 // validated only because it was the last
	if outOfTurn && r.progress.epoch == from-1 {
		best, err := r.checkpointMetadata(bestName)
		if err != nil {
			return err
		}
		if best["epoch"] == strconv.Itoa(from) {
			return fmt.Errorf("%s was stopped while it wrote epoch %d, its last: "+
				"finish it with mquine train --resume %[1]s, and then extend it", r.Dir, from)
		}
	}
	if r.progress.epoch == 0 { // the run has done nothing that depends on the number
		return nil
	}
	switch {
	case c.Decay != recipe.NoDecay:
		return fmt.Errorf("%s cannot be extended, because its learning rate depends on the number of epochs "+
			"(decay: %s): start a new run with --epochs %d", r.Dir, c.Decay, to)
	case r.progress.stopped != "":
		return fmt.Errorf("%s cannot be extended, because it has %s", r.Dir, r.progress.stopped)
	case to <= r.progress.epoch:
		return fmt.Errorf("%s already has %s: set epochs (--epochs) to a larger number", r.Dir,
			text.Plural(r.progress.epoch, "epoch"))
	case c.Patience > 0 && outOfTurn && r.progress.epoch == from:
		return fmt.Errorf("%s cannot be extended, because patience would count the validation after epoch %d, "+
			"which was the last (valid_every: %d): start a new run with --epochs %d", r.Dir, from, c.ValidEvery, to)
	case r.patienceSpent():
		return fmt.Errorf("%s cannot be extended, because patience would have stopped it after epoch %d: "+
			"start a new run with --epochs %d", r.Dir, r.progress.epoch, to)
	}
	return nil
}
