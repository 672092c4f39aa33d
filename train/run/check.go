package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
	"github.com/mquine/mquine/train/recipe"
)

// check compares the log and the checkpoints with the state. An epoch writes the log and the
// checkpoints before the state, so after a kill they may be one epoch ahead. Any other difference
// means that a file was lost or restored from a different epoch.
func (r *Run) check(ctx context.Context) error {
	if err := r.readLog(ctx); err != nil {
		return err
	}
	if err := r.checkLast(ctx); err != nil { // first, because it tells whether config.yaml was changed
		return err
	}
	return r.checkBest(ctx)
}

// checkNothingTrained returns an error if a folder without a state contains a log or a checkpoint.
// A run writes its state before the first epoch, so the state was lost, and a fresh start would
// overwrite the checkpoints.
func (r *Run) checkNothingTrained() error {
	for _, name := range []string{lastName, bestName, logName} {
		if _, err := os.Lstat(r.path(name)); err == nil {
			return fmt.Errorf("%s is missing, but %s exists: the run cannot resume without its state, and a fresh "+
				"start would overwrite its checkpoints; %s",
				r.path(stateName), r.path(name), lost)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkOptions returns an error if config.yaml differs from line, the options of the epochs so far
// in the format of Recipe.Line. The number of epochs may differ if Extend allows it.
func (r *Run) checkOptions(line string) error {
	before, err := r.parseOptions(line)
	if err != nil {
		return err
	}
	if before.Epochs != r.Recipe.Epochs {
		if err := r.checkExtension(before.Epochs, r.Recipe.Epochs); err != nil {
			return fmt.Errorf("epochs: %d in %s: %w", r.Recipe.Epochs, r.path(ConfigFile), err)
		}
	}
	if d := r.differences(before); d != "" {
		return fmt.Errorf("%s was changed after the run began: %s; restore it, or start a new run in another folder",
			r.path(ConfigFile), d)
	}
	return nil
}

// parseOptions returns the options in line, which has the format of Recipe.Line.
func (r *Run) parseOptions(line string) (c recipe.Recipe, err error) {
	if c, err = recipe.ParseLine(line); err != nil {
		err = fmt.Errorf("%s was trained by another version of mquine: %w", r.Dir, err)
	}
	return c, err
}

// differences lists the differences between config.yaml and the given options, except for the number of epochs.
func (r *Run) differences(before recipe.Recipe) string {
	before.Epochs = r.Recipe.Epochs
	return r.Recipe.Differences(before)
}

// readLog reads the log up to the epoch of the state.
func (r *Run) readLog(ctx context.Context) error {
	r.log, r.logText = nil, nil
	path := r.path(logName)
	epochs, err := readEpochs(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a new log begins with the next epoch
	}
	if err != nil {
		return err
	}
	last := 0
	for _, e := range epochs {
		if last = e.Epoch; last > r.progress.epoch {
			continue
		}
		if err := r.appendLog(e); err != nil {
			return err
		}
	}
	if n := r.progress.epoch; last != n && last != n+1 {
		return fmt.Errorf("%s ends with epoch %d, but %s has epoch %d: restore both from the same backup, or start a "+
			"new run in another folder",
			path, last, r.path(stateName), n)
	}
	return nil
}

// checkBest returns an error if the best checkpoint is missing or damaged, or belongs to a different epoch or
// run.
func (r *Run) checkBest(ctx context.Context) error {
	p := &r.progress
	if r.Recipe.ValidEvery == 0 && p.epoch > 0 {
		return nil
	}
	metadata, err := r.readCheckpoint(ctx, bestName, "restore "+r.path(bestName)+" from a backup")
	switch {
	case err != nil:
		return err
	case metadata == nil && p.bestEpoch > 0:
		return fmt.Errorf("%s, the checkpoint of the best epoch, %d, is missing: %s",
			r.path(bestName), p.bestEpoch, lost)
	case metadata == nil:
		return nil
	}
	if err := r.checkEpoch(bestName, metadata, p.bestEpoch); err != nil {
		return err
	}
	line := metadata["training"]
	if metadata["epoch"] != strconv.Itoa(p.bestEpoch) || line == "" {
		return nil
	}
	before, err := r.parseOptions(line)
	if err != nil {
		return err
	}
	if d := r.differences(before); d != "" {
		return fmt.Errorf("%s is the checkpoint of another run: %s; %s", r.path(bestName), d, lost)
	}
	return nil
}

// checkLast returns an error if the last checkpoint is damaged, or belongs to a different epoch or run.
func (r *Run) checkLast(ctx context.Context) error {
	metadata, err := r.readCheckpoint(ctx, lastName, "delete "+r.path(lastName)+", and the run writes it again")
	if err != nil || metadata == nil {
		return err // open writes a missing checkpoint from the state
	}
	if err := r.checkEpoch(lastName, metadata, r.progress.epoch); err != nil {
		return err
	}
	if line := metadata["training"]; metadata["epoch"] == strconv.Itoa(r.progress.epoch) && line != "" {
		return r.checkOptions(line)
	}
	return nil
}

// checkEpoch returns an error unless a checkpoint belongs to the given epoch or to the epoch after
// the state's. The first epoch, if interrupted, must be repeated with the same options, or it might not
// replace its checkpoints.
func (r *Run) checkEpoch(name string, metadata map[string]string, epoch int) error {
	if is := metadata["epoch"]; is != strconv.Itoa(epoch) && is != strconv.Itoa(r.progress.epoch+1) {
		return fmt.Errorf("%s is the checkpoint of epoch %.20q, but %s expects epoch %d: restore both from the same "+
			"backup, or start a new run in another folder",
			r.path(name), is, r.path(stateName), epoch)
	}
	if line := metadata["training"]; line != "" && r.progress.epoch == 0 {
		return r.checkOptions(line)
	}
	return nil
}

// checkpointMetadata returns the metadata of the checkpoint with the given name, last or best. It
// returns nil if the checkpoint is missing.
func (r *Run) checkpointMetadata(name string) (map[string]string, error) {
	file, err := safetensors.Open(r.path(name, parametersName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Metadata(), nil
}

// readCheckpoint is like checkpointMetadata, but returns an error with advice if the checkpoint is damaged. If
// it lacks a vocabulary, which writeVocabularies will write, the parameters are not checked.
func (r *Run) readCheckpoint(ctx context.Context, name, advice string) (map[string]string, error) {
	metadata, err := r.checkpointMetadata(name)
	if err == nil && metadata != nil && r.has(name, entitiesName) && r.has(name, relationsName) {
		var c *checkpoint.Checkpoint
		if c, err = checkpoint.Open(ctx, r.path(name)); err == nil {
			err = c.Close()
		}
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w; to continue, %s", err, advice)
	}
	return metadata, err
}
