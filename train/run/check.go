package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// check compares the log and the checkpoints with the state. An epoch writes them before the state, so that after a
// kill they may be one epoch ahead. Any other difference means that a file was lost or restored from another time.
func (r *Run) check(ctx context.Context) error {
	if err := r.readLog(ctx); err != nil {
		return err
	}
	if err := r.checkBest(); err != nil {
		return err
	}
	return r.checkLast()
}

// checkNothingTrained says that a folder without a state has something trained. The state is there from before the
// first epoch, so it was lost, and a training that started over would replace the checkpoints.
func (r *Run) checkNothingTrained() error {
	for _, name := range []string{lastName, bestName, logName} {
		if _, err := os.Lstat(r.path(name)); err == nil {
			return fmt.Errorf("%s is missing, and %s is there: the training cannot go on without its state, and "+
				"starting over would replace what was trained; %s",
				r.path(stateName), r.path(name), lost)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkOptions says how the configuration differs from the options with which the epochs so far were trained, as a
// line records them. The number of epochs may differ where Extend allows it.
func (r *Run) checkOptions(line string) error {
	if r.progress.epoch == 0 {
		return nil
	}
	before, err := recipe.ParseLine(line)
	if err != nil {
		return fmt.Errorf("%s was trained by another version of mquine: %w", r.Dir, err)
	}
	if before.Epochs != r.Recipe.Epochs {
		if err := r.checkExtension(before.Epochs, r.Recipe.Epochs); err != nil {
			return err
		}
		before.Epochs = r.Recipe.Epochs
	}
	if d := r.Recipe.Differences(before); d != "" {
		return fmt.Errorf("%s was changed after the training began: %s; set it back, or start a new training in "+
			"another folder", r.path(ConfigFile), d)
	}
	return nil
}

// readLog reads the epochs that are done. The one that a killed process wrote beyond them is left out.
func (r *Run) readLog(ctx context.Context) error {
	r.log = nil
	path := r.path(logName)
	data, err := input.ReadFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed, it begins again with the next epoch
	}
	if err != nil {
		return err
	}
	line, last := 0, 0
	for text := range bytes.Lines(data) {
		line++
		var e train.Epoch
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("%s:%d: this is not the line of an epoch: restore the file, or remove it", path, line)
		}
		if line > 1 && e.Epoch != last+1 {
			return fmt.Errorf("%s:%d: epoch %d follows epoch %d: restore the file, or remove it",
				path, line, e.Epoch, last)
		}
		if last = e.Epoch; last <= r.progress.epoch {
			r.log = append(r.log, e)
		}
	}
	if n := r.progress.epoch; last != n && last != n+1 {
		return fmt.Errorf("%s ends with epoch %d, and %s is of epoch %d: restore both from the same backup, or start "+
			"a new training in another folder",
			path, last, r.path(stateName), n)
	}
	return nil
}

// checkBest says that the best checkpoint is missing, which cannot be made again, or that it is of another epoch.
func (r *Run) checkBest() error {
	p := &r.progress
	if r.Recipe.ValidEvery == 0 {
		return nil
	}
	metadata, err := r.checkpointMetadata(bestName)
	switch {
	case err != nil:
		return err
	case metadata == nil && p.bestEpoch > 0:
		return fmt.Errorf("%s, the checkpoint of the best epoch, %d, is missing: %s",
			r.path(bestName), p.bestEpoch, lost)
	case metadata == nil:
		return nil
	}
	return r.checkEpoch(bestName, metadata, p.bestEpoch)
}

// checkLast says that the last checkpoint is of another epoch or another training.
func (r *Run) checkLast() error {
	metadata, err := r.checkpointMetadata(lastName)
	if err != nil || metadata == nil {
		return err // one that is missing is made from the state
	}
	if err := r.checkEpoch(lastName, metadata, r.progress.epoch); err != nil {
		return err
	}
	if line := metadata["training"]; metadata["epoch"] == strconv.Itoa(r.progress.epoch) && line != "" {
		return r.checkOptions(line)
	}
	return nil
}

// checkEpoch compares the epoch of a checkpoint with the one that it should be of.
func (r *Run) checkEpoch(name string, metadata map[string]string, epoch int) error {
	if is := metadata["epoch"]; is != strconv.Itoa(epoch) && is != strconv.Itoa(r.progress.epoch+1) {
		return fmt.Errorf("%s is the checkpoint of epoch %.20q, and by %s it is of epoch %d: restore both from the "+
			"same backup, or start a new training in another folder",
			r.path(name), is, r.path(stateName), epoch)
	}
	return nil
}

// checkpointMetadata returns the metadata of the checkpoint last or best, or nil if it is missing.
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
