package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// stateFormat names the format of state.safetensors: the tensors of train.Trainer.State, and in the metadata the
// counts, the options, the fingerprint of the data set and a SHA-256 of the whole file.
//
// The state of a training that has not finished an epoch has no tensors. It is there so that a state that is missing
// later has been lost.
const stateFormat = "mquine-state/3"

// countsFormat is the format of earlier versions, which has neither options nor fingerprint nor SHA-256.
const countsFormat = "mquine-state/2"

// Keys of the metadata.
const (
	formatKey  = "format"
	optionsKey = "options"
	dataPrefix = "data."
	sumKey     = "sha256"
)

func (r *Run) writeState(ctx context.Context) error {
	p := &r.progress
	metadata := map[string]string{
		formatKey: stateFormat, optionsKey: r.Recipe.Line(),
		"epoch": strconv.Itoa(p.epoch), "steps": strconv.Itoa(p.steps),
		"best": strconv.FormatFloat(p.best, 'g', -1, 64), "best_epoch": strconv.Itoa(p.bestEpoch),
		"waited": strconv.Itoa(p.waited), "finished": p.stopped,
	}
	for key, value := range r.data {
		metadata[dataPrefix+key] = value
	}
	var tensors []safetensors.Float32
	if p.epoch > 0 {
		tensors = r.trainer.State()
	}
	return writeSummed(ctx, r.path(stateName), metadata, tensors)
}

// noSum stands for the SHA-256 of a file while it is computed.
var noSum = strings.Repeat("0", 2*sha256.Size)

// writeSummed writes a file of tensors with the SHA-256 of all of it in the metadata.
func writeSummed(ctx context.Context, path string, metadata map[string]string, tensors []safetensors.Float32) error {
	metadata[sumKey] = noSum
	h := sha256.New()
	if err := safetensors.Write(stoppable{ctx, h}, metadata, tensors...); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	metadata[sumKey] = hex.EncodeToString(h.Sum(nil))
	return safetensors.WriteFile(ctx, path, metadata, tensors...)
}

// stoppable is a writer that ends when the context does.
type stoppable struct {
	ctx context.Context
	w   io.Writer
}

func (s stoppable) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// isWhole tells whether a file is as writeSummed wrote it.
func isWhole(ctx context.Context, file *safetensors.File) (bool, error) {
	contents, sum := file.Bytes(), file.Metadata()[sumKey]
	before, after, found := bytes.Cut(contents, []byte(sum))
	if !found || len(sum) != len(noSum) {
		return false, nil
	}
	h := sha256.New()
	for _, part := range [][]byte{before, []byte(noSum), after} {
		for piece := range slices.Chunk(part, 1<<20) {
			if _, err := (stoppable{ctx, h}).Write(piece); err != nil {
				return false, err
			}
		}
	}
	return sum == hex.EncodeToString(h.Sum(nil)), nil
}

// lost ends the errors about a state that cannot be gone on with.
const lost = "restore it from a backup, or start a new training in another folder"

// readState reads all of the state but its tensors, if there is a state.
func (r *Run) readState(ctx context.Context) (err error) {
	defer fault.Guard().Catch(&err) // the state is mapped
	path := r.path(stateName)
	r.progress, r.data = progress{}, nil
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return r.checkNothingTrained()
	}
	file, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("%w; if it is damaged, %s", err, lost)
	}
	defer file.Close()
	metadata := file.Metadata()
	format := metadata[formatKey]
	if format != stateFormat && format != countsFormat {
		return fmt.Errorf("%s has format %.80q, and this version of mquine reads %s and %s",
			path, format, stateFormat, countsFormat)
	}
	if format == stateFormat || metadata[sumKey] != "" {
		switch whole, err := isWhole(ctx, file); {
		case err != nil:
			return err
		case !whole:
			return fmt.Errorf("%s is damaged, because its contents do not have the SHA-256 that it says: %s", path, lost)
		}
	}
	if err := r.readCounts(metadata); err != nil || metadata[formatKey] == countsFormat {
		return err
	}
	r.data = Fingerprint{}
	for key, value := range metadata {
		if part, ok := strings.CutPrefix(key, dataPrefix); ok {
			r.data[part] = value
		}
	}
	return r.checkOptions(metadata[optionsKey])
}

// readCounts reads the progress and checks that its parts fit together.
func (r *Run) readCounts(metadata map[string]string) (err error) {
	p := &r.progress
	bad := func(key, want string) error {
		return fmt.Errorf("%s: metadata %q is %.80q, and must be %s: %s",
			r.path(stateName), key, metadata[key], want, lost)
	}
	counts := map[string]*int{"epoch": &p.epoch, "steps": &p.steps, "best_epoch": &p.bestEpoch, "waited": &p.waited}
	for key, value := range counts {
		if *value, err = strconv.Atoi(metadata[key]); err != nil || *value < 0 {
			return bad(key, "a whole number from 0")
		}
	}
	p.best, err = strconv.ParseFloat(metadata["best"], 64)
	if err != nil || math.IsNaN(p.best) || math.IsInf(p.best, 0) {
		return bad("best", "a finite number")
	}
	// Earlier versions wrote here, too, that all epochs were done.
	if f := metadata["finished"]; strings.HasPrefix(f, stoppedEarly) {
		p.stopped = f
	}
	switch since := p.epoch - p.bestEpoch; {
	case p.epoch > r.Recipe.Epochs:
		return fmt.Errorf("%s has %d epochs done, and epochs in %s is %d: set it back, or to more than that",
			r.path(stateName), p.epoch, r.path(ConfigFile), r.Recipe.Epochs)
	case p.epoch == 0 && p.steps > 0:
		return bad("steps", "0 before the first epoch")
	case since < 0:
		return bad("best_epoch", fmt.Sprintf("at most %d, the epoch", p.epoch))
	case p.waited > since || p.bestEpoch == 0 && p.waited > 0:
		return bad("waited", fmt.Sprintf("at most the number of validations since epoch %d, the best", p.bestEpoch))
	}
	return nil
}

// restore puts the trainer where the state was written.
func (r *Run) restore() (err error) {
	defer fault.Guard().Catch(&err) // the state is mapped
	if r.progress.epoch == 0 {
		return nil
	}
	file, err := safetensors.Open(r.path(stateName))
	if err != nil {
		return err
	}
	defer file.Close()
	for _, t := range r.trainer.State() {
		values, err := file.Float32(t.Name)
		if err != nil {
			return fmt.Errorf("%w: it is not the state of this configuration and data set", err)
		}
		if len(values) != len(t.Values) {
			return fmt.Errorf("%s: tensor %q has %d entries, and the configuration and the data set need %d",
				r.path(stateName), t.Name, len(values), len(t.Values))
		}
		copy(t.Values, values)
	}
	if steps := r.progress.epoch * r.trainer.StepsPerEpoch(); r.progress.steps != steps {
		return fmt.Errorf("%s: metadata \"steps\" is %d, and %d epochs on this data set have %d: %s",
			r.path(stateName), r.progress.steps, r.progress.epoch, steps, lost)
	}
	r.trainer.Resume(r.progress.epoch)
	return nil
}
