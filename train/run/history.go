package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/train/recipe"
)

// History is the record of a run: its options and its epochs so far.
type History struct {
	// Data is the name or the folder of the data set.
	Data   string
	Recipe recipe.Recipe
	Epochs []Epoch
}

// ReadHistory reads the history of the run in a folder. It needs neither the data set nor the lock,
// so it can read a run that is being trained.
func ReadHistory(ctx context.Context, dir string) (h History, err error) {
	if h.Recipe, h.Data, err = ReadRecipe(ctx, dir); err != nil {
		return h, err
	}
	if h.Epochs, err = readEpochs(ctx, filepath.Join(dir, logName)); errors.Is(err, fs.ErrNotExist) {
		err = nil // no epoch is finished
	}
	return h, err
}

// Best returns the best validated epoch, or false if there is none.
func (h History) Best() (best Epoch, ok bool) {
	for _, e := range h.Epochs {
		if e.Best {
			best, ok = e, true
		}
	}
	return best, ok
}

// readEpochs reads a log.
func readEpochs(ctx context.Context, path string) ([]Epoch, error) {
	data, err := input.ReadFile(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, text.Cause(err))
	}
	var epochs []Epoch
	for line := range bytes.Lines(data) {
		number := len(epochs) + 1
		var e Epoch
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s:%d: this line does not describe an epoch: restore the file, or delete it",
				path, number)
		}
		if number > 1 && e.Epoch != epochs[number-2].Epoch+1 {
			return nil, fmt.Errorf("%s:%d: epoch %d follows epoch %d: restore the file, or delete it",
				path, number, e.Epoch, epochs[number-2].Epoch)
		}
		epochs = append(epochs, e)
	}
	return epochs, nil
}
